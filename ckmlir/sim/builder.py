"""The abstract lane-vector builder: instruction semantics are written once, against `Value` and `Builder`.

A builder decides what a value is: `LLVMBuilder` emits LLVM IR over 64 lanes (or one scalar), `NumPyBuilder` computes
with arrays and is the second opinion of the tests. A semantic function never knows which one runs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ckmlir.sim.element import F16, F32, F64, I64, MASK, U16, U32, U64, ElementType

BITS_TYPE = {F16: U16, F32: U32, F64: U64}


class Value:
    """One element per lane, or one scalar, of an `ElementType`. Operators follow the type: `>>` and `<` are arithmetic
    on "i", logical on "u". Python numbers on the right are taken as constants of the left operand's type."""

    __slots__ = ("builder", "handle", "type")

    def __init__(self, builder: Builder, type: ElementType, handle: Any) -> None:
        self.builder = builder
        self.type = type
        self.handle = handle

    def _operand(self, other: Value | int | float) -> Value:
        if isinstance(other, Value):
            assert other.type.bits == self.type.bits, f"operands of {self.type} and {other.type}"
            return other
        return self.builder.constant(self.type, other)

    def _binary(self, operation: str, other: Value | int | float) -> Value:
        return self.builder.binary(operation, self, self._operand(other))

    def __add__(self, other: Value | int | float) -> Value:
        return self._binary("add", other)

    def __sub__(self, other: Value | int | float) -> Value:
        return self._binary("sub", other)

    def __rsub__(self, other: int | float) -> Value:
        return self.builder.constant(self.type, other) - self

    def __mul__(self, other: Value | int | float) -> Value:
        return self._binary("mul", other)

    def __truediv__(self, other: Value | int | float) -> Value:
        assert self.type.is_float
        return self._binary("div", other)

    def __rtruediv__(self, other: int | float) -> Value:
        return self.builder.constant(self.type, other) / self

    def __and__(self, other: Value | int) -> Value:
        return self._binary("and", other)

    def __or__(self, other: Value | int) -> Value:
        return self._binary("or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._binary("xor", other)

    def __lshift__(self, other: Value | int) -> Value:
        return self._binary("shl", other)

    def __rshift__(self, other: Value | int) -> Value:
        return self._binary("shr", other)

    def __invert__(self) -> Value:
        return self ^ (1 if self.type is MASK else (1 << self.type.bits) - 1)

    def __neg__(self) -> Value:
        return self.builder.unary("negate", self) if self.type.is_float else self.builder.constant(self.type, 0) - self

    def __lt__(self, other: Value | int | float) -> Value:
        return self.builder.compare("lt", self, self._operand(other))

    def __le__(self, other: Value | int | float) -> Value:
        return self.builder.compare("le", self, self._operand(other))

    def __gt__(self, other: Value | int | float) -> Value:
        return self.builder.compare("gt", self, self._operand(other))

    def __ge__(self, other: Value | int | float) -> Value:
        return self.builder.compare("ge", self, self._operand(other))

    def eq(self, other: Value | int | float) -> Value:
        return self.builder.compare("eq", self, self._operand(other))

    def ne(self, other: Value | int | float) -> Value:
        """Not equal; true when either float operand is NaN."""
        return self.builder.compare("ne", self, self._operand(other))

    def minimum(self, other: Value | int) -> Value:
        return self._binary("min", other)

    def maximum(self, other: Value | int) -> Value:
        return self._binary("max", other)

    def to(self, type: ElementType) -> Value:
        """Convert the number: integers extend by the signedness of the source or truncate; float to integer truncates
        toward zero and saturates (NaN gives 0); float to float and integer to float round to nearest even (or by the
        mode)."""
        return self if type == self.type else self.builder.convert(self, type)

    def bits(self, type: ElementType | None = None) -> Value:
        """Reinterpret the bit pattern as a type of the same width (default: the unsigned type of that width)."""
        type = type or BITS_TYPE.get(self.type, ElementType("u", self.type.bits))
        assert type.bits == self.type.bits, f"{self.type} reinterpreted as {type}"
        return self if type == self.type else self.builder.bitcast(self, type)


class Builder(ABC):
    """What a semantic function may ask for. Subclasses implement the primitives; the rest is derived."""

    @abstractmethod
    def constant(self, type: ElementType, number: int | float) -> Value:
        """A constant; integers are reduced modulo the width."""

    @abstractmethod
    def binary(self, operation: str, x: Value, y: Value) -> Value:
        """add, sub, mul, div (floats), and, or, xor, shl, shr (amount below the width), min, max (integers)."""

    @abstractmethod
    def unary(self, operation: str, x: Value) -> Value:
        """negate, absolute, floor, ceil, truncate, round_even, sqrt (floats); count_ones, leading_zeros,
        trailing_zeros, reverse_bits (integers; the counts of zero are the width)."""

    @abstractmethod
    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x * y + z with one rounding."""

    @abstractmethod
    def compare(self, predicate: str, x: Value, y: Value) -> Value:
        """eq, ne, lt, le, gt, ge as a mask; on floats all but ne are false for NaN; "unordered" is true for NaN."""

    @abstractmethod
    def select(self, mask: Value, x: Value, y: Value) -> Value:
        """x where the mask is true, y elsewhere."""

    def rarely(self, mask: Value, rare: Callable[[], Value], usual: Value) -> Value:
        """As `select`, for masks that hardly ever have a lane: `rare` is computed only where one has."""
        return self.select(mask, rare(), usual)

    @abstractmethod
    def convert(self, x: Value, type: ElementType) -> Value: ...

    @abstractmethod
    def bitcast(self, x: Value, type: ElementType) -> Value: ...

    @abstractmethod
    def lane(self) -> Value:
        """The lane number 0..63 as u32."""

    @abstractmethod
    def mode_flag(self, bit: int) -> Value:
        """Bit of the MODE register as a mask (in the default mode: IEEE and DX10_CLAMP on, FP16_OVFL off)."""

    @abstractmethod
    def shuffle(self, x: Value, lanes: tuple[int, ...]) -> Value:
        """Lane i of the result is lane lanes[i] of x."""

    def value(self, type: ElementType, handle: Any) -> Value:
        return Value(self, type, handle)

    def u32(self, number: int) -> Value:
        return self.constant(U32, number)

    def u64(self, number: int) -> Value:
        return self.constant(U64, number)

    def f32(self, number: float) -> Value:
        return self.constant(F32, number)

    def true(self) -> Value:
        return self.constant(MASK, 1)

    def false(self) -> Value:
        return self.constant(MASK, 0)

    def is_nan(self, x: Value) -> Value:
        return self.compare("unordered", x, x)

    def absolute(self, x: Value) -> Value:
        if x.type.is_float:
            return self.unary("absolute", x)
        return x.maximum(-x)

    def join(self, low: Value, high: Value) -> Value:
        """A u64 of two u32."""
        return low.to(U64) | (high.to(U64) << 32)

    def low(self, x: Value) -> Value:
        return x.to(U32)

    def high(self, x: Value) -> Value:
        return (x.bits(U64) >> 32).to(U32)

    def sign_extend(self, x: Value, bits: int) -> Value:
        """The low `bits` of an integer, sign extended within its own width."""
        signed = ElementType("i", x.type.bits)
        shift = x.type.bits - bits
        return ((x.bits(signed) << shift) >> shift).bits(x.type)

    def product64(self, x: Value, y: Value, signed: bool) -> Value:
        """The full 64-bit product of two 32-bit integers."""
        if signed:
            return (x.bits(ElementType("i", 32)).to(I64) * y.bits(ElementType("i", 32)).to(I64)).bits(U64)
        return x.to(U64) * y.to(U64)
