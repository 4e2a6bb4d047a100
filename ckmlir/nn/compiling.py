"""Functions within `torch.compile`: its tracer stops in front of them, and they run as they are.

They look at addresses, strides and bytes of tensors, which the tracer has none of. Operators (`ckmlir.nn.pytorch`) stay
in the graph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def untraced(function: Callable[P, R], module: str) -> Callable[P, R]:
    """A function that `torch.compile` calls instead of looking into it; `module` is where it is found."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        torch: Any = sys.modules.get("torch")
        if torch is not None and torch.compiler.is_compiling():
            as_it_is: Callable[P, R] = torch.compiler.disable(function)
            return as_it_is(*args, **kwargs)
        return function(*args, **kwargs)

    call.__module__ = module
    return call
