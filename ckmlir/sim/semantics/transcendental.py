"""Reciprocals, roots, exponentials, logarithms and circular functions of the vector unit.

Hardware promises 1 ulp for f32; here f32 results are within 1 ulp and the f16 and f64 ones correctly rounded or nearly
so. The f32 instructions flush denormal inputs and results whatever the mode: LLVM's AMDGPU back end scales their
operands whenever f32 denormals are enabled (AMDGPUISelLowering, lowerFEXP2 and lowerFLOG2; SIISelLowering,
lowerFSQRTF32).
"""

from __future__ import annotations

import math

from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.element import F32, F64, I32, I64, U32, U64
from ckmlir.sim.operation import define
from ckmlir.sim.semantics.floating import (
    flushed,
    is_infinite,
    is_zero,
    not_a_number,
    with_sign_of,
)  # fmt: skip

# (2**f - 1) / f on [-1/2, 1/2], interpolated at the Chebyshev nodes: relative error of 2**f below 2**-26.
_EXP2 = (
    0.6931471824645996, 0.24022650718688965, 0.055503569543361664, 0.009618083015084267, 0.0013390863314270973,
    0.00015453163359779865,
)  # fmt: skip


def polynomial(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    """Horner's rule with fused multiply-adds; coefficients from the constant term up."""
    result = b.constant(x.type, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = b.fma(result, x, b.constant(x.type, coefficient))
    return result


def exp2(b: Builder, x: Value) -> Value:
    nearest = b.unary("round_even", x)
    rest = x - nearest
    mantissa = b.fma(rest, polynomial(b, rest, _EXP2), b.f32(1.0))
    scaled = (mantissa.bits() + (nearest.to(I32).bits(U32) << 23)).bits(F32)
    result = b.select(x < -126.0, b.f32(0.0), scaled)
    result = b.select(x >= 128.0, b.f32(math.inf), result)
    return b.select(b.is_nan(x), x, result)


def log2(b: Builder, x: Value) -> Value:
    """In f64: 2 / ln 2 * atanh((m - 1) / (m + 1)) + exponent, with m in [sqrt(1/2), sqrt(2))."""
    x = flushed(b, x)
    wide = x.to(F64)
    exponent = ((wide.bits() - 0x3FE6A09E667F3BCD).bits(I64) >> 52).bits(U64)  # the threshold is sqrt(1/2)
    mantissa = (wide.bits() - (exponent << 52)).bits(F64)
    t = (mantissa - 1.0) / (mantissa + 1.0)
    series = polynomial(b, t * t, tuple(2.0 / (math.log(2.0) * k) for k in range(1, 15, 2)))
    result = b.fma(t, series, exponent.to(U32).bits(I32).to(F64)).to(F32)
    result = b.select(is_zero(x), b.f32(-math.inf), result)
    result = b.select(x.eq(math.inf), x, result)
    return b.select((x < 0.0) | b.is_nan(x), not_a_number(b, F32), result)


def sine_of_turns(b: Builder, turns: Value) -> Value:
    """sin(2 pi turns) in f64: folded into a quarter turn, then the Taylor series."""
    rest = turns - b.unary("round_even", turns)
    half = with_sign_of(b.constant(F64, 0.5), rest)
    folded = b.select(b.absolute(rest) > 0.25, half - rest, rest)
    angle = folded * (2.0 * math.pi)
    series = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(10))
    return angle * polynomial(b, angle * angle, series)


def circular(b: Builder, x: Value, phase: float) -> Value:
    """Sine (phase 0) or cosine (phase 1/4) of x turns; beyond +-256 turns the ISA document gives the value at zero."""
    result = sine_of_turns(b, x.to(F64) + phase).to(x.type)
    inside = b.absolute(x) <= 256.0
    if phase == 0.0:
        result = b.select(is_zero(x), x, result)
    result = b.select(inside, result, b.constant(x.type, 1.0 if phase else 0.0))
    return b.select(is_infinite(x) | b.is_nan(x), not_a_number(b, x.type), result)


def reciprocal(b: Builder, x: Value) -> Value:
    if x.type is not F32:
        return 1.0 / x
    return flushed(b, 1.0 / flushed(b, x))


def square_root(b: Builder, x: Value) -> Value:
    return b.unary("sqrt", flushed(b, x) if x.type is F32 else x)


def reciprocal_root(b: Builder, x: Value) -> Value:
    if x.type is F64:
        return 1.0 / b.unary("sqrt", x)
    wide = F64 if x.type is F32 else F32
    x = flushed(b, x) if x.type is F32 else x
    return (1.0 / b.unary("sqrt", x.to(wide))).to(x.type)


define("v_exp_f32 v_exp_legacy_f32", "f32 <- f32", exp2)
define("v_log_f32 v_log_legacy_f32", "f32 <- f32", log2)
define("v_sin_f32", "f32 <- f32", lambda b, x: circular(b, x, 0.0))
define("v_cos_f32", "f32 <- f32", lambda b, x: circular(b, x, 0.25))
define("v_exp_f16", "f16 <- f16", lambda b, x: exp2(b, x.to(F32)).to(x.type))
define("v_log_f16", "f16 <- f16", lambda b, x: log2(b, x.to(F32)).to(x.type))
define("v_sin_f16", "f16 <- f16", lambda b, x: circular(b, x, 0.0))
define("v_cos_f16", "f16 <- f16", lambda b, x: circular(b, x, 0.25))
define("v_rcp_f32 v_rcp_iflag_f32", "f32 <- f32", reciprocal)
for name in ("f16", "f64"):
    define(f"v_rcp_{name}", f"{name} <- {name}", reciprocal)
for name in ("f16", "f32", "f64"):
    define(f"v_sqrt_{name}", f"{name} <- {name}", square_root)
    define(f"v_rsq_{name}", f"{name} <- {name}", reciprocal_root)
