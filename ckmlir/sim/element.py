"""Element types of the values that instruction semantics compute with."""

from __future__ import annotations

from msgspec import Struct


class ElementType(Struct, frozen=True):
    """A scalar type: kind "u" (unsigned), "i" (two's complement), "f" (IEEE 754) or "mask" (one truth value per
    lane)."""

    kind: str
    bits: int

    @property
    def name(self) -> str:
        return "mask" if self.kind == "mask" else f"{self.kind}{self.bits}"

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_signed(self) -> bool:
        return self.kind == "i"

    @property
    def registers(self) -> int:
        """32-bit registers that one value occupies (a lane mask lives in a pair of scalar registers)."""
        return 2 if self.kind == "mask" else max(1, self.bits // 32)

    def __str__(self) -> str:
        return self.name


MASK = ElementType("mask", 1)
U4, U8, U16, U32, U64 = (ElementType("u", bits) for bits in (4, 8, 16, 32, 64))
I4, I8, I16, I32, I64 = (ElementType("i", bits) for bits in (4, 8, 16, 32, 64))
F16, F32, F64 = (ElementType("f", bits) for bits in (16, 32, 64))

TYPES = {t.name: t for t in (MASK, U4, U8, U16, U32, U64, I4, I8, I16, I32, I64, F16, F32, F64)}


class FloatFormat(Struct, frozen=True):
    """The bit layout of an IEEE 754 binary format."""

    exponent_bits: int
    mantissa_bits: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def exponent_mask(self) -> int:
        """The exponent field in place; also the bit pattern of +infinity."""
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @property
    def mantissa_mask(self) -> int:
        return (1 << self.mantissa_bits) - 1

    @property
    def sign_mask(self) -> int:
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def quiet_bit(self) -> int:
        """The mantissa bit that tells a quiet NaN from a signalling one."""
        return 1 << (self.mantissa_bits - 1)


FORMATS = {F16: FloatFormat(5, 10), F32: FloatFormat(8, 23), F64: FloatFormat(11, 52)}
