"""Vector floating-point arithmetic (f16, f32, f64): AMD CDNA3 ISA, chapter 12; NaN and clamp rules from its pseudo
code."""

from __future__ import annotations

from ckmlir.sim.builder import BITS_TYPE, Builder, Value
from ckmlir.sim.element import F16, F32, F64, FORMATS, I16, I32, U32, ElementType
from ckmlir.sim.operation import define

IEEE_MODE = 9  # bit of MODE: signalling NaNs are quieted by minimum, maximum and comparisons

# -- building blocks on the bit patterns -----------------------------------------------------------------------------


def magnitude_bits(x: Value) -> Value:
    return x.bits() & (FORMATS[x.type].sign_mask - 1)


def sign_bits(x: Value) -> Value:
    return x.bits() & FORMATS[x.type].sign_mask


def with_sign_of(magnitude: Value, sign: Value) -> Value:
    return (magnitude_bits(magnitude) | sign_bits(sign)).bits(magnitude.type)


def exponent_field(x: Value) -> Value:
    """The biased exponent as a small unsigned integer of the type's width."""
    return magnitude_bits(x) >> FORMATS[x.type].mantissa_bits


def is_signalling(b: Builder, x: Value) -> Value:
    return b.is_nan(x) & (x.bits() & FORMATS[x.type].quiet_bit).eq(0)


def quieted(x: Value) -> Value:
    return (x.bits() | FORMATS[x.type].quiet_bit).bits(x.type)


def is_infinite(x: Value) -> Value:
    return magnitude_bits(x).eq(FORMATS[x.type].exponent_mask)


def is_zero(x: Value) -> Value:
    return magnitude_bits(x).eq(0)


def is_denormal(x: Value) -> Value:
    magnitude = magnitude_bits(x)
    return magnitude.ne(0) & (magnitude < (1 << FORMATS[x.type].mantissa_bits))


def flushed(b: Builder, x: Value) -> Value:
    """Denormals become zero of the same sign."""
    return b.select(exponent_field(x).eq(0), sign_bits(x), x.bits()).bits(x.type)


def pattern(b: Builder, type: ElementType, bits: int) -> Value:
    return b.constant(BITS_TYPE[type], bits).bits(type)


def not_a_number(b: Builder, type: ElementType) -> Value:
    return pattern(b, type, FORMATS[type].exponent_mask | FORMATS[type].quiet_bit)


def power_of_two(b: Builder, exponent: Value, type: ElementType) -> Value:
    """2**exponent, for exponents of normal numbers."""
    format, bits = FORMATS[type], BITS_TYPE[type]
    return ((exponent.to(ElementType("i", type.bits)).bits(bits) + format.bias) << format.mantissa_bits).bits(type)


# -- sums and products -----------------------------------------------------------------------------------------------
# Of two NaNs the host's instruction keeps that which the compiler happened to put first, and the C library's another.
# Here the first operand that is a NaN makes the result, quieted: what stands behind it is replaced by it.


def add(b: Builder, x: Value, y: Value) -> Value:
    return x + b.select(b.is_nan(x), x, y)


def subtract(b: Builder, x: Value, y: Value) -> Value:
    return x - b.select(b.is_nan(x), x, y)


def multiply(b: Builder, x: Value, y: Value) -> Value:
    return x * b.select(b.is_nan(x), x, y)


def multiply_add(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """x * y + z with one rounding."""
    y = b.select(b.is_nan(x), x, y)
    return b.fma(x, y, b.select(b.is_nan(y), y, z))


def unfused(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """x * y + z with two roundings."""
    return add(b, multiply(b, x, y), z)


def same_nan(b: Builder, x: Value) -> Value:
    """Any NaN becomes the same, for long sums."""
    return b.select(b.is_nan(x), not_a_number(b, x.type), x)


# -- minimum, maximum, median ----------------------------------------------------------------------------------------


def extremum(b: Builder, x: Value, y: Value, largest: bool) -> Value:
    """v_max / v_min: a NaN gives way to a number, -0 is below +0, and in IEEE mode a signalling NaN wins, quieted."""
    result = b.select(x > y if largest else x < y, x, y)
    equal = x.bits() & y.bits() if largest else x.bits() | y.bits()
    result = b.select(x.eq(y), equal.bits(x.type), result)

    def of_nans() -> Value:
        ieee = b.mode_flag(IEEE_MODE)
        chosen = b.select(b.is_nan(y), x, y)
        chosen = b.select(is_signalling(b, y) & ieee & ~b.is_nan(x), quieted(y), chosen)
        return b.select(is_signalling(b, x) & ieee, quieted(x), chosen)

    return b.rarely(b.compare("unordered", x, y), of_nans, result)


def maximum(b: Builder, x: Value, y: Value) -> Value:
    return extremum(b, x, y, largest=True)


def minimum(b: Builder, x: Value, y: Value) -> Value:
    return extremum(b, x, y, largest=False)


def median(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """The middle of three; with a NaN among them, the minimum (pseudo code of V_MED3_F32)."""
    middle = maximum(b, minimum(b, x, y), minimum(b, maximum(b, x, y), z))
    any_nan = b.is_nan(x) | b.is_nan(y) | b.is_nan(z)
    return b.select(any_nan, minimum(b, minimum(b, x, y), z), middle)


def propagating(b: Builder, x: Value, y: Value, largest: bool) -> Value:
    """gfx950 minimum3 / maximum3: IEEE 754-2019 minimum and maximum, where any NaN gives NaN."""
    result = b.select(x > y if largest else x < y, x, y)
    equal = x.bits() & y.bits() if largest else x.bits() | y.bits()
    result = b.select(x.eq(y), equal.bits(x.type), result)
    return b.select(b.is_nan(x), quieted(x), b.select(b.is_nan(y), quieted(y), result))


# -- exponents and mantissas -----------------------------------------------------------------------------------------


def normalised(b: Builder, x: Value) -> tuple[Value, Value]:
    """(mantissa field with the leading bit removed, unbiased exponent of the form 0.1xxx) of a finite non-zero
    number."""
    format = FORMATS[x.type]
    magnitude = magnitude_bits(x)
    shift = b.unary("leading_zeros", magnitude) - format.exponent_bits  # > 0 for denormals only
    denormal = exponent_field(x).eq(0)
    zero = b.constant(magnitude.type, 0)
    shift = b.select(denormal, shift, zero)
    mantissa = (magnitude << shift) & format.mantissa_mask
    exponent = b.select(denormal, b.constant(magnitude.type, 1) - shift, exponent_field(x))
    return mantissa, exponent - (format.bias - 1)


def is_special(x: Value) -> Value:
    """Zero, infinity or NaN."""
    return is_zero(x) | exponent_field(x).eq((1 << FORMATS[x.type].exponent_bits) - 1)


def fraction_exponent(b: Builder, x: Value) -> Value:
    _, exponent = normalised(b, x)
    exponent = b.select(is_special(x), b.constant(exponent.type, 0), exponent)
    return exponent.bits(I16) if x.type is F16 else exponent.to(U32).bits(I32)


def fraction_mantissa(b: Builder, x: Value) -> Value:
    mantissa, _ = normalised(b, x)
    half = (FORMATS[x.type].bias - 1) << FORMATS[x.type].mantissa_bits
    return b.select(is_special(x), x, (mantissa | half | sign_bits(x)).bits(x.type))


def scale_by_power(b: Builder, x: Value, exponent: Value) -> Value:
    """x * 2**exponent with one rounding."""
    if x.type is not F64:
        limited = exponent.to(I32).maximum(-400).minimum(400)
        return (x.to(F64) * power_of_two(b, limited, F64)).to(x.type)
    # Three steps stay within normal powers; stepping down by 969 (= 1022 - 53) keeps every intermediate exact that
    # matters.
    limited = exponent.to(I32).maximum(-3000).minimum(3000)
    for _ in range(2):
        step = b.select(limited > 1023, b.constant(I32, 1023), b.constant(I32, 0))
        step = b.select(limited < -1022, b.constant(I32, -969), step)
        x = x * power_of_two(b, step, F64)
        limited = limited - step
    return x * power_of_two(b, limited.maximum(-1022).minimum(1023), F64)


def fraction(b: Builder, x: Value) -> Value:
    """x - floor(x), kept below 1."""
    below_one = pattern(
        b, x.type, ((FORMATS[x.type].bias - 1) << FORMATS[x.type].mantissa_bits) | FORMATS[x.type].mantissa_mask
    )
    rest = x - b.unary("floor", x)
    return b.select(rest > below_one, below_one, rest)


# -- the division helpers --------------------------------------------------------------------------------------------

# By type: the difference of exponents from which only the denominator is scaled, the power of the scaling, the exponent
# field of a tiny numerator, and the difference of exponents below which the quotient underflows.
_DIVISION = {F32: (96, 64, 23, -150), F64: (768, 128, 53, -1075)}


def difference_of_exponents(x: Value, y: Value) -> Value:
    return exponent_field(x).to(U32).bits(I32) - exponent_field(y).to(U32).bits(I32)


def division_scale(b: Builder, scaled: Value, denominator: Value, numerator: Value) -> tuple[Value, Value]:
    """v_div_scale: scales the operands of a division away from overflow and denormals, in the order of its pseudo code.
    The mask asks v_div_fmas to undo a scaling of the quotient. A quotient that is denormal over a denominator whose
    reciprocal is denormal takes the denominator down: up, as printed in the ISA document, it would overflow."""
    type = scaled.type
    near_overflow, power, tiny, _ = _DIVISION[type]
    up = scale_by_power(b, scaled, b.constant(I32, power))
    down = scale_by_power(b, scaled, b.constant(I32, -power))
    is_denominator = scaled.bits().eq(denominator.bits())
    is_numerator = scaled.bits().eq(numerator.bits())
    reciprocal_denormal = is_denormal(1.0 / denominator)
    quotient_denormal = is_denormal(numerator / denominator)
    cases = [  # (condition, result, mask), the first that holds wins
        (is_zero(numerator) | is_zero(denominator), not_a_number(b, type), False),
        (difference_of_exponents(numerator, denominator) >= near_overflow, b.select(is_denominator, up, scaled), True),
        (is_denormal(denominator), up, False),
        (reciprocal_denormal & quotient_denormal, b.select(is_denominator, down, scaled), True),
        (reciprocal_denormal, down, False),
        (quotient_denormal, b.select(is_numerator, up, scaled), True),
        (exponent_field(numerator) <= tiny, up, False),
    ]
    result, mask = scaled, b.false()
    for condition, value, undo in reversed(cases):
        result = b.select(condition, value, result)
        mask = condition | mask if undo else ~condition & mask
    return result, mask


def division_fma(b: Builder, x: Value, y: Value, z: Value, scale: Value) -> Value:
    """v_div_fmas: a fused multiply-add that undoes what v_div_scale did to the quotient: z, the quotient's estimate, is
    large where the denominator was scaled up and small where the numerator was. In f32 a denormal result is rounded
    once; in f64 it is rounded twice, which may be off by one unit in the last place of a denormal."""
    type = x.type
    power = _DIVISION[type][1]
    exponent = b.select(exponent_field(z) > FORMATS[type].bias, b.constant(I32, power), b.constant(I32, -power))
    result = multiply_add(b, x, y, z)
    if type is F32:
        wide = multiply_add(b, x.to(F64), y.to(F64), z.to(F64)) * power_of_two(b, exponent, F64)
        return b.select(scale, wide.to(F32), result)
    return b.select(scale, scale_by_power(b, result, exponent), result)


def division_fixup(b: Builder, quotient: Value, denominator: Value, numerator: Value) -> Value:
    """v_div_fixup: the special cases of a division. A NaN quotient of ordinary operands is one whose estimate
    overflowed (its correction subtracts infinities), so the division did."""
    type = quotient.type
    format = FORMATS[type]
    sign = sign_bits(denominator) ^ sign_bits(numerator)
    infinity = (sign | format.exponent_mask).bits(type)
    zero = sign.bits(type)
    result = b.select(b.is_nan(quotient), infinity, (magnitude_bits(quotient) | sign).bits(type))
    if type is not F16:
        underflow = _DIVISION[type][3]
        result = b.select(exponent_field(denominator).eq((1 << format.exponent_bits) - 1), infinity, result)
        result = b.select(difference_of_exponents(numerator, denominator) < underflow, zero, result)
    invalid = pattern(b, type, format.sign_mask | format.exponent_mask | format.quiet_bit)
    result = b.select(is_infinite(denominator) | is_zero(numerator), zero, result)
    result = b.select(is_zero(denominator) | is_infinite(numerator), infinity, result)
    result = b.select(is_infinite(denominator) & is_infinite(numerator), invalid, result)
    result = b.select(is_zero(denominator) & is_zero(numerator), invalid, result)
    result = b.select(b.is_nan(denominator), quieted(denominator), result)
    return b.select(b.is_nan(numerator), quieted(numerator), result)


# -- the table -------------------------------------------------------------------------------------------------------

for name in ("f16", "f32", "f64"):
    unary, binary, ternary = f"{name} <- {name}", f"{name} <- {name} {name}", f"{name} <- {name} {name} {name}"
    define(f"v_add_{name}", binary, add)
    define(f"v_mul_{name}", binary, multiply)
    define(f"v_fma_{name}", ternary, multiply_add)
    define(f"v_min_{name}", binary, minimum)
    define(f"v_max_{name}", binary, maximum)
    define(f"v_trunc_{name}", unary, lambda b, x: b.unary("truncate", x))
    define(f"v_ceil_{name}", unary, lambda b, x: b.unary("ceil", x))
    define(f"v_floor_{name}", unary, lambda b, x: b.unary("floor", x))
    define(f"v_rndne_{name}", unary, lambda b, x: b.unary("round_even", x))
    define(f"v_fract_{name}", unary, fraction)
    define(f"v_frexp_mant_{name}", unary, fraction_mantissa)
    define(f"v_div_fixup_{name}", ternary, division_fixup)

for name in ("f16", "f32"):
    binary, ternary = f"{name} <- {name} {name}", f"{name} <- {name} {name} {name}"
    define(f"v_sub_{name}", binary, subtract)
    define(f"v_subrev_{name}", binary, lambda b, x, y: subtract(b, y, x))
    define(f"v_min3_{name}", ternary, lambda b, x, y, z: minimum(b, minimum(b, x, y), z))
    define(f"v_max3_{name}", ternary, lambda b, x, y, z: maximum(b, maximum(b, x, y), z))
    define(f"v_med3_{name}", ternary, median)
    keeps_high = name == "f16"
    define(f"v_mac_{name}", f"{name} <- {name} {name} old:{name}", unfused, keeps_high=keeps_high)
    define(f"v_madmk_{name}", ternary, unfused, keeps_high=keeps_high)
    define(f"v_madak_{name}", ternary, unfused, keeps_high=keeps_high)
    define(f"v_mad_{name} v_mad_legacy_{name}", ternary, unfused)

define("v_fma_legacy_f16", "f16 <- f16 f16 f16", multiply_add)
define("v_div_fixup_legacy_f16", "f16 <- f16 f16 f16", division_fixup)
define("v_fmamk_f32", "f32 <- f32 f32 f32", multiply_add)
define("v_fmaak_f32", "f32 <- f32 f32 f32", multiply_add)
define("v_fmac_f32", "f32 <- f32 f32 old:f32", multiply_add)
define("v_fmac_f64", "f64 <- f64 f64 old:f64", multiply_add)
define("v_frexp_exp_i16_f16", "i16 <- f16", fraction_exponent)
define("v_frexp_exp_i32_f32", "i32 <- f32", fraction_exponent)
define("v_frexp_exp_i32_f64", "i32 <- f64", fraction_exponent)
define("v_ldexp_f16", "f16 <- f16 i16", scale_by_power)
define("v_ldexp_f32", "f32 <- f32 i32", scale_by_power)
define("v_ldexp_f64", "f64 <- f64 i32", scale_by_power)
define("v_div_scale_f32", "f32 mask <- f32 f32 f32", division_scale)
define("v_div_scale_f64", "f64 mask <- f64 f64 f64", division_scale)
define("v_div_fmas_f32", "f32 <- f32 f32 f32 vcc", division_fma)
define("v_div_fmas_f64", "f64 <- f64 f64 f64 vcc", division_fma)


def legacy_multiply(b: Builder, x: Value, y: Value) -> Value:
    """Zero times anything is zero."""
    return b.select(is_zero(x) | is_zero(y), b.constant(x.type, 0.0), multiply(b, x, y))


define("v_mul_legacy_f32", "f32 <- f32 f32", legacy_multiply)

define("v_minimum3_f32", "f32 <- f32 f32 f32", lambda b, x, y, z: propagating(b, propagating(b, x, y, False), z, False))
define("v_maximum3_f32", "f32 <- f32 f32 f32", lambda b, x, y, z: propagating(b, propagating(b, x, y, True), z, True))
