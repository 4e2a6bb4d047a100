"""Python's operators for traced values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ckmlir.lang.arithmetic import emit_binary, emit_compare, negate
from ckmlir.mlir import arith, ir


class Operators(ABC):
    """Python's operators for scalars and tiles; subclasses say how a binary function is applied."""

    @abstractmethod
    def _apply(self, function: Callable[..., ir.Value], *others: Any) -> Any:
        """The function of this value and others."""

    def _binary(self, symbol: str, other: Any, *, swapped: bool = False) -> Any:
        def function(left: ir.Value, right: ir.Value) -> ir.Value:
            return emit_binary(symbol, right, left) if swapped else emit_binary(symbol, left, right)

        return self._apply(function, other)

    def __add__(self, other: Any) -> Any:
        return self._binary("+", other)

    def __radd__(self, other: Any) -> Any:
        return self._binary("+", other, swapped=True)

    def __sub__(self, other: Any) -> Any:
        return self._binary("-", other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary("-", other, swapped=True)

    def __mul__(self, other: Any) -> Any:
        return self._binary("*", other)

    def __rmul__(self, other: Any) -> Any:
        return self._binary("*", other, swapped=True)

    def __truediv__(self, other: Any) -> Any:
        return self._binary("/", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary("/", other, swapped=True)

    def __floordiv__(self, other: Any) -> Any:
        return self._binary("//", other)

    def __mod__(self, other: Any) -> Any:
        return self._binary("%", other)

    def __and__(self, other: Any) -> Any:
        return self._binary("&", other)

    def __or__(self, other: Any) -> Any:
        return self._binary("|", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary("//", other, swapped=True)

    def __rmod__(self, other: Any) -> Any:
        return self._binary("%", other, swapped=True)

    def __xor__(self, other: Any) -> Any:
        return self._binary("^", other)

    def __lshift__(self, other: Any) -> Any:
        return self._binary("<<", other)

    def __rshift__(self, other: Any) -> Any:
        return self._binary(">>", other)

    def __neg__(self) -> Any:
        return self._apply(negate)

    def __lt__(self, other: Any) -> Any:
        return self._apply(lambda left, right: emit_compare("<", left, right), other)

    def __le__(self, other: Any) -> Any:
        return self._apply(lambda left, right: emit_compare("<=", left, right), other)

    def __gt__(self, other: Any) -> Any:
        return self._apply(lambda left, right: emit_compare(">", left, right), other)

    def __ge__(self, other: Any) -> Any:
        return self._apply(lambda left, right: emit_compare(">=", left, right), other)

    def maximum(self, other: Any) -> Any:
        """The larger of two; a number beats NaN."""
        return self._binary("maximum", other)

    def minimum(self, other: Any) -> Any:
        """The smaller of two; a number beats NaN."""
        return self._binary("minimum", other)

    def below(self, other: Any) -> Any:
        """0 <= self < other in one comparison: both taken as unsigned, so that what is negative is not below."""
        return self._apply(lambda left, right: arith.cmpi(arith.CmpIPredicate.ult, left, right), other)

    def equals(self, other: Any) -> Any:
        """Element-wise equality (`==` keeps its Python meaning)."""
        return self._apply(lambda left, right: emit_compare("==", left, right), other)

    def differs(self, other: Any) -> Any:
        """Element-wise inequality; NaN differs from everything, also from itself."""
        return self._apply(lambda left, right: emit_compare("!=", left, right), other)

    def __bool__(self) -> bool:
        raise TypeError("a traced value has no truth at tracing time; use where(condition, a, b)")
