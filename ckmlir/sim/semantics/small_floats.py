"""Formats below 16 bits, and bf16: decoding to f32 and encoding from f32.

fp8 is e4m3 and bf8 is e5m2. gfx942 uses the FNUZ variants (bias one higher, no infinity, no negative zero, NaN is
0x80); gfx950 uses the OCP ones. fp6 (e2m3), bf6 (e3m2) and fp4 (e2m1) of gfx950 have neither NaN nor infinity (OCP
Microscaling Formats 1.0).
"""

from __future__ import annotations

from msgspec import Struct

from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.element import F16, F32, I32, U16, U32
from ckmlir.sim.semantics.floating import with_sign_of

FP16_OVERFLOW = 23  # bit of MODE: conversions clamp to the largest finite value


class SmallFormat(Struct, frozen=True):
    """A sign, exponent and mantissa in a few bits. `largest` is the encoding of the greatest finite magnitude; `nan`
    and `infinity` are encodings of magnitudes, or None where the format has none; `fnuz` NaN is the sign bit alone."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest: int
    nan: int | None = None
    infinity: int | None = None
    fnuz: bool = False

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)


FP8_FNUZ = SmallFormat("fp8_fnuz", 4, 3, 8, 0x7F, fnuz=True)
BF8_FNUZ = SmallFormat("bf8_fnuz", 5, 2, 16, 0x7F, fnuz=True)
FP8_OCP = SmallFormat("fp8", 4, 3, 7, 0x7E, nan=0x7F)
BF8_OCP = SmallFormat("bf8", 5, 2, 15, 0x7B, nan=0x7F, infinity=0x7C)
FP6 = SmallFormat("fp6", 2, 3, 1, 0x1F)
BF6 = SmallFormat("bf6", 3, 2, 3, 0x1F)
FP4 = SmallFormat("fp4", 2, 1, 1, 0x7)


def fp8_format(fnuz: int) -> SmallFormat:
    return FP8_FNUZ if fnuz else FP8_OCP


def bf8_format(fnuz: int) -> SmallFormat:
    return BF8_FNUZ if fnuz else BF8_OCP


def decode(b: Builder, x: Value, format: SmallFormat) -> Value:
    """The f32 value of the low bits of a u32. The fields are placed in an f16, whose denormals make the small format's,
    and the difference of the biases is multiplied in."""
    magnitude = x & (format.sign - 1)
    sign = (x & format.sign) << (32 - format.bits)
    if format.exponent_bits == 5 and format.infinity is None:  # its largest exponent would be f16's infinity
        number = (magnitude << (23 - format.mantissa_bits)).bits(F32) * 2.0 ** (127 - format.bias)
    else:
        half = (magnitude << (10 - format.mantissa_bits)).to(U16).bits(F16)
        number = half.to(F32) * 2.0 ** (15 - format.bias)
    special = b.constant(U32, 0x7FC00000).bits(F32)
    if format.infinity is not None:  # bf8 of OCP has the exponent range of f16, so f16 decodes its infinity and NaN
        assert format.exponent_bits == 5 and format.bias == 15
    elif format.nan is not None:
        number = b.select(magnitude.eq(format.nan), special, number)
    number = (number.bits() | sign).bits(F32)
    return b.select((x & (2 * format.sign - 1)).eq(format.sign), special, number) if format.fnuz else number


def _round_magnitude(b: Builder, magnitude: Value, format: SmallFormat, random: Value | None) -> Value:
    """Encode the bits of a non-negative finite f32: nearest even, or stochastically with 32 random bits."""
    dropped = 23 - format.mantissa_bits
    smallest_normal = (128 - format.bias) << 23
    if random is None:
        odd = (magnitude >> dropped) & 1
        normal = (magnitude + odd + ((1 << (dropped - 1)) - 1)) >> dropped
        denormal = b.unary("round_even", magnitude.bits(F32) * 2.0 ** (format.mantissa_bits + format.bias - 1)).to(U32)
    else:
        normal = (magnitude + (random >> (32 - dropped))) >> dropped
        significand = (magnitude & 0x7FFFFF) | 0x800000
        shift = (b.u32(128 - format.bias) - (magnitude >> 23) + dropped).minimum(31)  # bits below the last place
        noise = (random >> 1) >> (b.u32(31) - shift)
        denormal = b.select(shift < 31, (significand + noise) >> shift, b.u32(0))
    normal = normal - ((127 - format.bias) << format.mantissa_bits)
    return b.select(magnitude < smallest_normal, denormal, normal)


def encode(b: Builder, x: Value, format: SmallFormat, random: Value | None = None, saturate: bool = False) -> Value:
    """An f32 in a small format, as u32. Beyond the largest finite value: infinity where there is one, else NaN, or the
    largest with `saturate`, with MODE.FP16_OVFL, or where the format has neither."""
    bits = x.bits()
    magnitude = bits & 0x7FFFFFFF
    encoded = _round_magnitude(b, magnitude.minimum(0x7F7FFFFF), format, random)
    sign = (bits >> 31) << (format.bits - 1)
    nan = b.u32(format.sign if format.fnuz else format.nan if format.nan is not None else format.largest)
    largest = b.u32(format.largest)
    overflowed = nan if format.infinity is None else b.u32(format.infinity)
    if saturate:
        overflowed = largest
    overflowed = b.select(b.mode_flag(FP16_OVERFLOW), largest, overflowed)
    encoded = b.select((encoded > format.largest) | (magnitude > 0x7F7FFFFF), overflowed, encoded)
    encoded = b.select(b.is_nan(x), nan, encoded)
    if format.fnuz:  # zero has no sign, and the sign bit alone is NaN
        return b.select(encoded.eq(0) | encoded.eq(format.sign), encoded, encoded | sign)
    return encoded | sign


def bf16_to_f32(b: Builder, x: Value) -> Value:
    """From the low half of a u32, or a u16."""
    return (x.to(U32) << 16).bits(F32)


def f32_to_bf16(b: Builder, x: Value, random: Value | None = None) -> Value:
    """Nearest even (or stochastic), as u16; NaN stays NaN, quieted."""
    bits = x.bits()
    increment = ((bits >> 16) & 1) + 0x7FFF if random is None else random >> 16
    rounded = (bits + increment) >> 16
    finite = (bits & 0x7F800000).ne(0x7F800000)
    special = b.select(b.is_nan(x), (bits >> 16) | 0x40, bits >> 16)
    return b.select(finite, rounded, special).to(U16)


def f32_to_f16_toward_zero(b: Builder, x: Value) -> Value:
    nearest = x.to(F16)
    away = b.absolute(nearest.to(F32)) > b.absolute(x)
    return (nearest.bits() - b.select(away, b.constant(U16, 1), b.constant(U16, 0))).bits(F16)


def f32_to_f16_stochastic(b: Builder, x: Value, random: Value) -> Value:
    """Adds 13 random bits below the last place, then truncates; denormal results align the noise with their last
    place."""
    magnitude = x.bits() & 0x7FFFFFFF
    normal = ((magnitude + (random >> 19)) & 0xFFFFE000).bits(F32)
    significand = (magnitude & 0x7FFFFF) | 0x800000
    shift = (b.u32(126) - (magnitude >> 23)).minimum(31)
    denormal = ((significand + ((random >> 1) >> (b.u32(31) - shift))) >> shift).bits(I32).to(F32) * 2.0**-24
    denormal = b.select(shift < 31, denormal, b.f32(0.0))
    rounded = b.select(magnitude < 0x38800000, denormal, normal)
    result = f32_to_f16_toward_zero(b, with_sign_of(rounded, x))
    return b.select((x.bits() & 0x7F800000).eq(0x7F800000), x.to(F16), result)
