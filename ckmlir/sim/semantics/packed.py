"""Packed instructions (VOP3P): two 16-bit or 32-bit elements a lane, mixed-precision multiply-adds and dot products.

The signature of a packed instruction is that of one element. Which half of a source each half of the result reads, and
with which sign, is decided by op_sel, op_sel_hi, neg_lo and neg_hi before the function sees it.
"""

from __future__ import annotations

from collections.abc import Callable

from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.element import F16, F32, I32, I64, U16, U32, U64
from ckmlir.sim.operation import define
from ckmlir.sim.semantics.floating import add, maximum, minimum, multiply, multiply_add, propagating
from ckmlir.sim.semantics.integer import add_saturated, left, mad_saturated, right, subtract_saturated
from ckmlir.sim.semantics.small_floats import bf16_to_f32

# -- the same operation on both elements -----------------------------------------------------------------------------

for kind in "ui":
    type = f"{kind}16"
    binary = f"{type} <- {type} {type}"
    define(f"v_pk_add_{type}", binary, lambda b, x, y: x + y, saturated=add_saturated, packed=True)
    define(f"v_pk_sub_{type}", binary, lambda b, x, y: x - y, saturated=subtract_saturated, packed=True)
    define(f"v_pk_min_{type}", binary, lambda b, x, y: x.minimum(y), packed=True)
    define(f"v_pk_max_{type}", binary, lambda b, x, y: x.maximum(y), packed=True)
    define(
        f"v_pk_mad_{type}",
        f"{type} <- {type} {type} {type}",
        lambda b, x, y, z: x * y + z,
        saturated=mad_saturated,
        packed=True,
    )
define("v_pk_mul_lo_u16", "u16 <- u16 u16", lambda b, x, y: x * y, packed=True)
define("v_pk_lshlrev_b16", "u16 <- u16 u16", lambda b, n, x: left(x, n), packed=True)
define("v_pk_lshrrev_b16", "u16 <- u16 u16", lambda b, n, x: right(x, n), packed=True)
define("v_pk_ashrrev_i16", "i16 <- u16 i16", lambda b, n, x: right(x, n), packed=True)

for type in ("f16", "f32"):
    binary, ternary = f"{type} <- {type} {type}", f"{type} <- {type} {type} {type}"
    define(f"v_pk_add_{type}", binary, add, packed=True)
    define(f"v_pk_mul_{type}", binary, multiply, packed=True)
    define(f"v_pk_fma_{type}", ternary, multiply_add, packed=True)
define("v_pk_min_f16", "f16 <- f16 f16", minimum, packed=True)
define("v_pk_max_f16", "f16 <- f16 f16", maximum, packed=True)


def three_way(largest: bool) -> Callable[[Builder, Value, Value, Value], Value]:
    return lambda b, x, y, z: propagating(b, propagating(b, x, y, largest), z, largest)


define("v_pk_minimum3_f16", "f16 <- f16 f16 f16", three_way(False), packed=True)
define("v_pk_maximum3_f16", "f16 <- f16 f16 f16", three_way(True), packed=True)


def halves(x: Value) -> tuple[Value, Value]:
    return x.to(U16), (x >> 16).to(U16)


def fmac_both(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """v_pk_fmac_f16 (VOP2): without selection modifiers."""
    results = [
        multiply_add(b, *(half.bits(F16) for half in group)).bits().to(U32)
        for group in zip(halves(x), halves(y), halves(z))
    ]
    return results[0] | (results[1] << 16)


define("v_pk_fmac_f16", "u32 <- u32 u32 old:u32", fmac_both)


def move_pair(b: Builder, x: Value, y: Value, op_sel: int) -> Value:
    """The low result is a word of the first source, the high result a word of the second."""
    low = b.high(x) if op_sel & 1 else b.low(x)
    high = b.high(y) if op_sel & 2 else b.low(y)
    return b.join(low, high)


define("v_pk_mov_b32", "u64 <- u64 u64", move_pair, modifiers=("op_sel",))

# -- mixed precision -------------------------------------------------------------------------------------------------


def mixed(b: Builder, x: Value, position: int, op_sel: int, op_sel_hi: int, neg_lo: int, neg_hi: int) -> Value:
    """An operand of fma_mix: f32, or with its op_sel_hi bit an f16 half chosen by op_sel; neg_hi means absolute
    value."""
    if op_sel_hi >> position & 1:
        number = halves(x)[op_sel >> position & 1].bits(F16).to(F32)
    else:
        number = x.bits(F32)
    number = b.absolute(number) if neg_hi >> position & 1 else number
    return -number if neg_lo >> position & 1 else number


def mixed_fma(b: Builder, *operands: Value, **modifiers: int) -> Value:
    return multiply_add(b, *(mixed(b, x, position, **modifiers) for position, x in enumerate(operands)))


def mixed_fma_high(b: Builder, x: Value, y: Value, z: Value, old: Value, **modifiers: int) -> Value:
    return (old & 0xFFFF) | (mixed_fma(b, x, y, z, **modifiers).to(F16).bits().to(U32) << 16)


_SELECTION = ("op_sel", "op_sel_hi", "neg_lo", "neg_hi")
define("v_fma_mix_f32", "f32 <- u32 u32 u32", mixed_fma, modifiers=_SELECTION)
define(
    "v_fma_mixlo_f16", "f16 <- u32 u32 u32",
    lambda b, *operands, **modifiers: mixed_fma(b, *operands, **modifiers).to(F16),
    modifiers=_SELECTION, keeps_high=True,
)  # fmt: skip
define("v_fma_mixhi_f16", "u32 <- u32 u32 u32 old:u32", mixed_fma_high, modifiers=_SELECTION)

# -- dot products ----------------------------------------------------------------------------------------------------


def selected_halves(
    b: Builder, x: Value, position: int, op_sel: int, op_sel_hi: int, neg_lo: int, neg_hi: int
) -> list[Value]:
    parts = halves(x)
    chosen = [parts[op_sel >> position & 1], parts[op_sel_hi >> position & 1]]
    negated = [neg_lo >> position & 1, neg_hi >> position & 1]
    return [part ^ 0x8000 if negate else part for part, negate in zip(chosen, negated)]


_PLAIN = {"op_sel": 0, "op_sel_hi": 7, "neg_lo": 0, "neg_hi": 0}


def dot2_float(
    b: Builder, x: Value, y: Value, z: Value, widen: Callable[[Builder, Value], Value], **modifiers: int
) -> Value:
    selection = modifiers or _PLAIN
    for p, q in zip(selected_halves(b, x, 0, **selection), selected_halves(b, y, 1, **selection)):
        z = multiply_add(b, widen(b, p), widen(b, q), z)
    return z


def f16_to_f32(b: Builder, x: Value) -> Value:
    return x.bits(F16).to(F32)


def dot_integer(b: Builder, x: Value, y: Value, z: Value, bits: int, signed: bool) -> Value:
    """The exact sum of products of all fields and the addend, as 64 bits."""
    total = z.to(I64) if signed else z.to(U64)
    for position in range(32 // bits):
        fields = [(word >> (bits * position)) & ((1 << bits) - 1) for word in (x, y)]
        if signed:
            fields = [b.sign_extend(field, bits).bits(I32) for field in fields]
        total = total + (fields[0] * fields[1]).to(total.type)
    return total


def define_dot(mnemonics: str, bits: int, signed: bool, accumulates: bool = False) -> None:
    type = I32 if signed else U32
    low, high = (-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1)

    def wrapped(b: Builder, x: Value, y: Value, z: Value) -> Value:
        return dot_integer(b, x, y, z, bits, signed).to(type)

    def saturated(b: Builder, x: Value, y: Value, z: Value) -> Value:
        return dot_integer(b, x, y, z, bits, signed).maximum(low).minimum(high).to(type)

    addend = f"old:{type}" if accumulates else f"{type}"
    define(mnemonics, f"{type} <- u32 u32 {addend}", wrapped, saturated=saturated)


for name, widen in (("f16", f16_to_f32), ("bf16", bf16_to_f32)):
    define(
        f"v_dot2_f32_{name}",
        "f32 <- u32 u32 f32",
        lambda b, x, y, z, w=widen, **m: dot2_float(b, x, y, z, w, **m),
        modifiers=_SELECTION,
    )
    define(f"v_dot2c_f32_{name}", "f32 <- u32 u32 old:f32", lambda b, x, y, z, w=widen: dot2_float(b, x, y, z, w))
for bits, count in ((16, 2), (8, 4), (4, 8)):
    define_dot(f"v_dot{count}_i32_i{bits}", bits, signed=True)
    define_dot(f"v_dot{count}_u32_u{bits}", bits, signed=False)
    define_dot(f"v_dot{count}c_i32_i{bits}", bits, signed=True, accumulates=True)
