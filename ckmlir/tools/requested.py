"""What a command line asks for."""

from __future__ import annotations

from typing import Any, NamedTuple

from ckmlir.ops.operator import Operator
from ckmlir.targets import Target


class Request(NamedTuple):
    """An operator, a problem and a chip."""

    operator: Operator[Any, Any]
    problem: Any
    target: Target
