"""Python's operators for traced values.

They mean what they mean for numbers of the element type, element by element, comparisons too: `a == b` is a condition,
not whether both are one object. (They are hashed by identity all the same, so that they can be keys.) On integers `//`
and `%` are the chip's: a quotient is rounded towards zero and a remainder has the dividend's sign, which is Python's
result where neither operand is negative; `>>` keeps the sign. A condition has `&`, `|`, `^`, `~`, `==` and `!=`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

from ckmlir.lang.arithmetic import check_constant, emit_below, emit_binary, emit_compare, invert, magnitude, negate
from ckmlir.lang.power import power, power_by_number, power_of_number, written_number
from ckmlir.lang.trace import TracingError
from ckmlir.mlir import ir


class Operators(ABC):
    """Python's operators for scalars and tiles; subclasses say how a binary function is applied."""

    __array_ufunc__ = None  # numbers and arrays of NumPy leave their operators to ours

    @abstractmethod
    def _apply(self, function: Callable[..., ir.Value], *others: Any) -> Any:
        """The function of this value and others."""

    def _binary(self, symbol: str, other: Any, *, swapped: bool = False) -> Any:
        def function(left: ir.Value, right: ir.Value) -> ir.Value:
            check_constant(symbol, other, left.type, divides=not swapped)
            return emit_binary(symbol, right, left) if swapped else emit_binary(symbol, left, right)

        return self._apply(function, other)

    def _compare(self, symbol: str, other: Any) -> Any:
        def function(left: ir.Value, right: ir.Value) -> ir.Value:
            check_constant(symbol, other, left.type)
            return emit_compare(symbol, left, right)

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

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary("//", other, swapped=True)

    def __mod__(self, other: Any) -> Any:
        return self._binary("%", other)

    def __rmod__(self, other: Any) -> Any:
        return self._binary("%", other, swapped=True)

    def __and__(self, other: Any) -> Any:
        return self._binary("&", other)

    def __rand__(self, other: Any) -> Any:
        return self._binary("&", other, swapped=True)

    def __or__(self, other: Any) -> Any:
        return self._binary("|", other)

    def __ror__(self, other: Any) -> Any:
        return self._binary("|", other, swapped=True)

    def __xor__(self, other: Any) -> Any:
        return self._binary("^", other)

    def __rxor__(self, other: Any) -> Any:
        return self._binary("^", other, swapped=True)

    def __lshift__(self, other: Any) -> Any:
        return self._binary("<<", other)

    def __rlshift__(self, other: Any) -> Any:
        return self._binary("<<", other, swapped=True)

    def __rshift__(self, other: Any) -> Any:
        return self._binary(">>", other)

    def __rrshift__(self, other: Any) -> Any:
        return self._binary(">>", other, swapped=True)

    def __pow__(self, exponent: Any) -> Any:
        """See `ckmlir.lang.power`."""
        if isinstance(exponent, Operators):
            return self._apply(power, exponent)
        number = written_number(exponent)
        return self._apply(lambda base: power_by_number(base, number))

    def __rpow__(self, base: Any) -> Any:
        number = written_number(base)
        return self._apply(lambda exponent: power_of_number(number, exponent))

    def __neg__(self) -> Any:
        return self._apply(negate)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self._apply(magnitude)

    def __invert__(self) -> Any:
        return self._apply(invert)

    def __lt__(self, other: Any) -> Any:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare(">=", other)

    def __eq__(self, other: Any) -> Any:
        return self._compare("==", other)

    def __ne__(self, other: Any) -> Any:
        return self._compare("!=", other)

    def __hash__(self) -> int:
        return id(self)

    def maximum(self, other: Any) -> Any:
        """The larger of two; a number beats NaN."""
        return self._binary("maximum", other)

    def minimum(self, other: Any) -> Any:
        """The smaller of two; a number beats NaN."""
        return self._binary("minimum", other)

    def minus(self, other: Any) -> Any:
        """The difference, never fused with a product among its operands: 0 where both are the same number, while
        `x * c - y` may keep what rounding took from the product.
        """
        return self._binary("minus", other)

    def below(self, other: Any) -> Any:
        """0 <= self < other in one comparison of integers: both taken as unsigned, so what is negative is not below."""
        return self._apply(emit_below, other)

    def equals(self, other: Any) -> Any:
        """`self == other`."""
        return self._compare("==", other)

    def differs(self, other: Any) -> Any:
        """`self != other`; NaN differs from everything, also from itself."""
        return self._compare("!=", other)

    def __bool__(self) -> bool:
        raise TracingError(
            "a traced value has no truth at tracing time, so if, and, or, not, min, max and a < b < c cannot ask for "
            "it: choose with where(condition, a, b), branch with when(condition), join conditions by & | ~"
        )

    def _unknown(self) -> NoReturn:
        raise TracingError("a traced value is not a number yet: it is known when the kernel runs, not while tracing")

    def __index__(self) -> int:
        self._unknown()

    def __int__(self) -> int:
        self._unknown()

    def __float__(self) -> float:
        self._unknown()

    def __len__(self) -> int:
        raise TracingError("a traced value has no len() and is not iterated; tiles have .lengths")

    def __iter__(self) -> NoReturn:
        raise TracingError("a traced value has no len() and is not iterated; tiles have .lengths")
