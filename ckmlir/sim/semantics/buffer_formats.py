"""Data formats of typed buffers: what a component of an element in memory is in a register, and back.

AMD CDNA3 ISA, section 9.1.6 and table "Buffer data formats". A data format says which bits the components X, Y, Z, W
occupy; its name lists them from the highest bit down, so that 10_11_11 has X in bits 10:0. A number format says what
the bits mean. Formats may be run-time values (MUBUF takes them from the resource) or constants (MTBUF), hence the
look-ups by selection, which fold away for constants.

Not published, chosen here: stores of integers saturate, as do those of scaled numbers; 8-bit components have no float
format and are read as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.element import F16, F32, I32, U16, U32
from ckmlir.sim.semantics.small_floats import SmallFormat, encode

COMPONENT_BITS: dict[int, tuple[int, ...]] = {
    1: (8,), 2: (16,), 3: (8, 8), 4: (32,), 5: (16, 16), 6: (11, 11, 10), 7: (10, 11, 11), 8: (2, 10, 10, 10),
    9: (10, 10, 10, 2), 10: (8, 8, 8, 8), 11: (32, 32), 12: (16, 16, 16, 16), 13: (32, 32, 32), 14: (32, 32, 32, 32),
}  # fmt: skip
"""Widths of X, Y, Z, W by data format. Others are invalid: nothing is loaded or stored."""

UNORM, SNORM, USCALED, SSCALED, UINT, SINT, _RESERVED, FLOAT = range(8)
_F11 = SmallFormat("f11", 5, 6, 15, 0x7BF, nan=0x7E0, infinity=0x7C0)
_F10 = SmallFormat("f10", 5, 5, 15, 0x3DF, nan=0x3F0, infinity=0x3E0)


def look_up(b: Builder, data_format: Value, table: Callable[[tuple[int, ...]], int]) -> Value:
    """A property of a data format, 0 if it is invalid."""
    result = b.u32(0)
    for number, widths in COMPONENT_BITS.items():
        result = b.select(data_format.eq(number), b.u32(table(widths)), result)
    return result


def element_bytes(b: Builder, data_format: Value) -> Value:
    return look_up(b, data_format, lambda widths: sum(widths) // 8)


def _place(b: Builder, data_format: Value, component: int) -> tuple[Value, Value]:
    """(first bit, width) of a component; width 0 where the format does not have it."""
    first = look_up(b, data_format, lambda widths: sum(widths[:component]) if component < len(widths) else 0)
    return first, look_up(b, data_format, lambda widths: widths[component] if component < len(widths) else 0)


def is_integer(number_format: Value) -> Value:
    return number_format.eq(UINT) | number_format.eq(SINT)


def _choose(b: Builder, number_format: Value, cases: dict[int, Value]) -> Value:
    result = b.u32(0)
    for number, value in cases.items():
        result = b.select(number_format.eq(number), value.bits(U32), result)
    return result


def loaded_component(
    b: Builder, words: Sequence[Value], component: int, data_format: Value, number_format: Value
) -> Value:
    """A component of the element in four u32 words, as a 32-bit pattern. What the format lacks is 0, or 1 for W."""
    first, width = _place(b, data_format, component)
    word = words[0]
    for position in range(1, 4):
        word = b.select((first >> 5).eq(position), words[position], word)
    space = (b.u32(32) - width) & 31
    shifted = (word >> (first & 31)) << space
    raw, signed = shifted >> space, shifted.bits(I32) >> space.bits(I32)
    one = (b.u32(1) << ((width - 1) & 31)).to(F32)  # half of the range, as a float
    half_float = b.select(width.eq(11), raw << 4, b.select(width.eq(10), raw << 5, raw)).to(U16).bits(F16).to(F32)
    number = raw.to(F32)
    signed_number = signed.to(F32)
    normalised = signed_number / (one - 1.0)
    value = _choose(
        b,
        number_format,
        {
            UNORM: number / (one * 2.0 - 1.0),
            SNORM: b.select(normalised < -1.0, b.f32(-1.0), normalised),
            USCALED: number,
            SSCALED: signed_number,
            UINT: raw,
            SINT: signed,
            FLOAT: b.select(width.eq(32), raw, b.select(width.eq(8), b.u32(0), half_float.bits())),
        },
    )
    return b.select(width.eq(0), one_of(b, number_format) if component == 3 else b.u32(0), value)


def one_of(b: Builder, number_format: Value) -> Value:
    """1 in the number format, as a 32-bit pattern."""
    return b.select(is_integer(number_format), b.u32(1), b.f32(1.0).bits())


def _limited(b: Builder, x: Value, low: float) -> Value:
    limited = b.select(x > 1.0, b.f32(1.0), b.select(x > low, x, b.f32(low)))
    return b.select(b.is_nan(x), b.f32(0.0), limited)


def _unsigned_float(b: Builder, x: Value, format: SmallFormat) -> Value:
    """A float without sign; negative numbers become 0."""
    code = encode(b, x, format) & (format.sign - 1)
    return b.select(b.is_nan(x), b.u32(format.nan or 0), b.select(x < 0.0, b.u32(0), code))


def stored_element(b: Builder, values: Sequence[Value], data_format: Value, number_format: Value) -> list[Value]:
    """The four u32 words of the element whose components are 32-bit patterns; components that are not given are 0."""
    words = [b.u32(0)] * 4
    for component, value in enumerate(values):
        first, width = _place(b, data_format, component)
        placed = _stored_component(b, value, width, number_format) << (first & 31)
        for number in range(4):
            here = (first >> 5).eq(number) & width.ne(0)
            words[number] = words[number] | b.select(here, placed, b.u32(0))
    return words


def _stored_component(b: Builder, value: Value, width: Value, number_format: Value) -> Value:
    """The bits of a component, the upper ones zero."""
    mask = b.u32(0xFFFFFFFF) >> ((b.u32(32) - width) & 31)
    top = mask >> 1
    bottom = (~top).bits(I32)
    x = value.bits(F32)
    fraction = _limited(b, x, 0.0) * mask.to(F32)
    signed_fraction = _limited(b, x, -1.0) * top.to(F32)
    signed = value.bits(I32)
    small = b.select(
        width.eq(11), _unsigned_float(b, x, _F11),
        b.select(width.eq(10), _unsigned_float(b, x, _F10), x.to(F16).bits().to(U32)),
    )  # fmt: skip
    code = _choose(
        b,
        number_format,
        {
            UNORM: b.unary("round_even", fraction).to(U32),
            SNORM: b.unary("round_even", signed_fraction).to(I32),
            USCALED: x.to(U32).minimum(mask),
            SSCALED: x.to(I32).maximum(bottom).minimum(top.bits(I32)),
            UINT: value.minimum(mask),
            SINT: signed.maximum(bottom).minimum(top.bits(I32)),
            FLOAT: b.select(width.eq(32), value, b.select(width.eq(8), b.u32(0), small)),
        },
    )
    return code & mask


def narrowed_component(b: Builder, value: Value, number_format: Value) -> Value:
    """A loaded component as the 16-bit pattern (u32) of the d16 forms: f16, or the low half of an integer."""
    half = value.bits(F32).to(F16).bits().to(U32)
    return b.select(is_integer(number_format), value & 0xFFFF, half)


def widened_component(b: Builder, half: Value, number_format: Value) -> Value:
    """The 32-bit pattern of a 16-bit component to be stored (the low bits of a u32)."""
    number = half.to(U16).bits(F16).to(F32).bits()
    integer = b.select(number_format.eq(SINT), b.sign_extend(half & 0xFFFF, 16), half & 0xFFFF)
    return b.select(is_integer(number_format), integer, number)
