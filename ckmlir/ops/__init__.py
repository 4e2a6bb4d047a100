"""The operators, by name. An operator's module is imported when it is first asked for.

from ckmlir.ops import find_operator
gemm = find_operator("gemm")
problem = gemm.problem(m=128, n=128, k=64, dtype="bf16")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ckmlir.errors import suggest
from ckmlir.ops.registry import OPERATORS

if TYPE_CHECKING:
    from ckmlir.ops.operator import Operator

__all__ = ["OPERATORS", "find_operator"]


def find_operator(name: str) -> Operator[Any, Any]:
    """The operator called `name`. Raises RequestError when there is none."""
    if not isinstance(name, str) or name not in OPERATORS:
        from ckmlir.ops.request import RequestError

        if not isinstance(name, str):
            raise RequestError(f"an operator is named by text such as 'gemm', not by {type(name).__name__}")
        raise RequestError(f"unknown operator {name!r}; {suggest(name, OPERATORS)}")
    found: Operator[Any, Any] = importlib.import_module(f"{__name__}.{OPERATORS[name].module}").OPERATOR
    return found
