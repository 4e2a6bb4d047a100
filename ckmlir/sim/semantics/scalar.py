"""Scalar ALU instructions (SOP1, SOP2, SOPC, SOPK): AMD CDNA3 ISA, section 12.1 to 12.5. SCC is a mask of one bit."""

from __future__ import annotations

from collections.abc import Callable

from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.element import U32, U64
from ckmlir.sim.operation import define
from ckmlir.sim.semantics.integer import first_bit, high_word, left, right, sign_change

Pair = tuple[Value, Value]


def with_nonzero(result: Value) -> Pair:
    """A result, and SCC = result is not zero."""
    return result, result.ne(0)


# -- arithmetic ------------------------------------------------------------------------------------------------------


def add_signed(b: Builder, x: Value, y: Value) -> Pair:
    total = x + y
    return total, ((total ^ x) & (total ^ y)) < 0


def subtract_signed(b: Builder, x: Value, y: Value) -> Pair:
    difference = x - y
    return difference, ((x ^ y) & (x ^ difference)) < 0


def carried(b: Builder, scc: Value) -> Value:
    return b.select(scc, b.u32(1), b.u32(0))


def add_carry(b: Builder, x: Value, y: Value, scc: Value) -> Pair:
    partial = x + y
    total = partial + carried(b, scc)
    return total, (partial < x) | (total < partial)


define("s_add_u32", "u32 scc <- u32 u32", lambda b, x, y: (x + y, (x + y) < x))
define("s_sub_u32", "u32 scc <- u32 u32", lambda b, x, y: (x - y, x < y))
define("s_add_i32", "i32 scc <- i32 i32", add_signed)
define("s_sub_i32", "i32 scc <- i32 i32", subtract_signed)
define("s_addc_u32", "u32 scc <- u32 u32 scc", add_carry)
define("s_subb_u32", "u32 scc <- u32 u32 scc", lambda b, x, y, c: (x - y - carried(b, c), (x < y) | (x.eq(y) & c)))
define("s_addk_i32", "i32 scc <- old:i32 i32", add_signed)
define("s_mul_i32", "u32 <- u32 u32", lambda b, x, y: x * y)
define("s_mulk_i32", "i32 <- old:i32 i32", lambda b, x, y: x * y)
define("s_mul_hi_u32", "u32 <- u32 u32", lambda b, x, y: high_word(b.product64(x, y, signed=False)))
define("s_mul_hi_i32", "u32 <- u32 u32", lambda b, x, y: high_word(b.product64(x, y, signed=True)))
define("s_absdiff_i32", "u32 scc <- i32 i32", lambda b, x, y: with_nonzero(b.absolute(x - y).bits(U32)))
define("s_abs_i32", "u32 scc <- i32", lambda b, x: with_nonzero(b.absolute(x).bits(U32)))
for kind in "ui":
    type = f"{kind}32"
    define(f"s_min_{type}", f"{type} scc <- {type} {type}", lambda b, x, y: (x.minimum(y), x < y))
    define(f"s_max_{type}", f"{type} scc <- {type} {type}", lambda b, x, y: (x.maximum(y), x > y))


def shift_add(b: Builder, x: Value, y: Value, amount: int) -> Pair:
    total = (x.to(U64) << amount) + y.to(U64)
    return total.to(U32), (total >> 32).ne(0)


for amount in range(1, 5):
    define(f"s_lshl{amount}_add_u32", "u32 scc <- u32 u32", lambda b, x, y, amount=amount: shift_add(b, x, y, amount))

# -- bitwise ---------------------------------------------------------------------------------------------------------

_LOGIC: dict[str, Callable[[Value, Value], Value]] = {
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "andn2": lambda x, y: x & ~y,
    "orn2": lambda x, y: x | ~y,
    "nand": lambda x, y: ~(x & y),
    "nor": lambda x, y: ~(x | y),
    "xnor": lambda x, y: ~(x ^ y),
    "andn1": lambda x, y: ~x & y,
    "orn1": lambda x, y: ~x | y,
}
for name, logic in _LOGIC.items():
    if not name.endswith("1"):
        for bits in (32, 64):
            type = f"u{bits}"
            define(f"s_{name}_b{bits}", f"{type} scc <- {type} {type}", lambda b, x, y, f=logic: with_nonzero(f(x, y)))


def save_exec(b: Builder, x: Value, exec: Value, logic: Callable[[Value, Value], Value]) -> tuple[Value, Value, Value]:
    updated = logic(x, exec)
    return exec, updated, updated.ne(0)


def write_exec(b: Builder, x: Value, exec: Value, logic: Callable[[Value, Value], Value]) -> tuple[Value, Value, Value]:
    updated = logic(x, exec)
    return updated, updated, updated.ne(0)


for name, logic in _LOGIC.items():
    define(f"s_{name}_saveexec_b64", "u64 exec scc <- u64 exec", lambda b, x, e, f=logic: save_exec(b, x, e, f))
for name in ("andn1", "andn2"):
    define(f"s_{name}_wrexec_b64", "u64 exec scc <- u64 exec", lambda b, x, e, f=_LOGIC[name]: write_exec(b, x, e, f))

for bits in (32, 64):
    type, signed = f"u{bits}", f"i{bits}"
    define(f"s_mov_b{bits}", f"{type} <- {type}", lambda b, x: x)
    define(f"s_not_b{bits}", f"{type} scc <- {type}", lambda b, x: with_nonzero(~x))
    define(f"s_brev_b{bits}", f"{type} <- {type}", lambda b, x: b.unary("reverse_bits", x))
    define(f"s_cmov_b{bits}", f"{type} <- {type} scc old:{type}", lambda b, x, scc, old: b.select(scc, x, old))
    define(f"s_cselect_b{bits}", f"{type} <- {type} {type} scc", lambda b, x, y, scc: b.select(scc, x, y))
    define(f"s_lshl_b{bits}", f"{type} scc <- {type} u32", lambda b, x, n: with_nonzero(left(x, n)))
    define(f"s_lshr_b{bits}", f"{type} scc <- {type} u32", lambda b, x, n: with_nonzero(right(x, n)))
    define(f"s_ashr_i{bits}", f"{signed} scc <- {signed} u32", lambda b, x, n: with_nonzero(right(x, n)))
    define(f"s_bcnt1_i32_b{bits}", f"u32 scc <- {type}", lambda b, x: with_nonzero(b.unary("count_ones", x).to(U32)))
    define(f"s_bcnt0_i32_b{bits}", f"u32 scc <- {type}", lambda b, x: with_nonzero(b.unary("count_ones", ~x).to(U32)))
    define(f"s_ff1_i32_b{bits}", f"u32 <- {type}", lambda b, x: first_bit(b, b.unary("trailing_zeros", x), x).to(U32))
    define(f"s_ff0_i32_b{bits}", f"u32 <- {type}", lambda b, x: first_bit(b, b.unary("trailing_zeros", ~x), ~x).to(U32))
    define(f"s_flbit_i32_b{bits}", f"u32 <- {type}", lambda b, x: first_bit(b, b.unary("leading_zeros", x), x).to(U32))
    define(f"s_bitset0_b{bits}", f"{type} <- u32 old:{type}", lambda b, n, old: old & ~left(b.constant(old.type, 1), n))
    define(f"s_bitset1_b{bits}", f"{type} <- u32 old:{type}", lambda b, n, old: old | left(b.constant(old.type, 1), n))
    define(f"s_bitcmp0_b{bits}", f"scc <- {type} u32", lambda b, x, n: (right(x, n) & 1).eq(0))
    define(f"s_bitcmp1_b{bits}", f"scc <- {type} u32", lambda b, x, n: (right(x, n) & 1).ne(0))
define("s_flbit_i32", "u32 <- i32", sign_change)
define("s_flbit_i32_i64", "u32 <- i64", lambda b, x: sign_change(b, x).to(U32))
define("s_movk_i32", "i32 <- i32", lambda b, x: x)
define("s_cmovk_i32", "i32 <- i32 scc old:i32", lambda b, x, scc, old: b.select(scc, x, old))
define("s_sext_i32_i8", "u32 <- u32", lambda b, x: b.sign_extend(x, 8))
define("s_sext_i32_i16", "u32 <- u32", lambda b, x: b.sign_extend(x, 16))


def quad_bits(b: Builder, x: Value) -> Value:
    """Bit i of the result is whether any of bits 4i..4i+3 is set."""
    any_of = x | (x >> 1)
    any_of = (any_of | (any_of >> 2)) & 0x1111111111111111
    result = b.constant(x.type, 0)
    for quad in range(x.type.bits // 4):
        result = result | ((any_of >> (3 * quad)) & (1 << quad))
    return result


def whole_quads(b: Builder, x: Value) -> Value:
    any_of = x | (x >> 1)
    return ((any_of | (any_of >> 2)) & 0x1111111111111111) * 15


def replicate_bits(b: Builder, x: Value) -> Value:
    result = b.u64(0)
    for bit in range(32):
        result = result | (((x >> bit) & 1).to(U64) * (3 << (2 * bit)))
    return result


for bits in (32, 64):
    define(f"s_quadmask_b{bits}", f"u{bits} scc <- u{bits}", lambda b, x: with_nonzero(quad_bits(b, x)))
    define(f"s_wqm_b{bits}", f"u{bits} scc <- u{bits}", lambda b, x: with_nonzero(whole_quads(b, x)))
define("s_bitreplicate_b64_b32", "u64 <- u32", replicate_bits)

# -- fields and packing ----------------------------------------------------------------------------------------------


def extract(b: Builder, x: Value, control: Value) -> Pair:
    """control: offset in bits 4:0 (5:0 for 64 bits), width in bits 22:16."""
    bits = x.type.bits
    offset = right_amount(x, control & (bits - 1))
    width = (control >> 16) & 0x7F
    shifted = x >> offset
    space = right_amount(x, (b.u32(bits) - width.minimum(bits)) & (bits - 1))
    if x.type.is_signed:
        field = (shifted << space) >> space
    else:
        ones = b.constant(x.type, -1) >> space
        field = shifted & ones
    field = b.select(width.eq(0), b.constant(x.type, 0), field)
    return with_nonzero(field)


def right_amount(x: Value, amount: Value) -> Value:
    return amount if x.type.bits == 32 else amount.to(U64)


for bits in (32, 64):
    define(f"s_bfe_u{bits}", f"u{bits} scc <- u{bits} u32", extract)
    define(f"s_bfe_i{bits}", f"i{bits} scc <- i{bits} u32", extract)
    define(
        f"s_bfm_b{bits}", f"u{bits} <- u32 u32",
        lambda b, width, offset, type={32: U32, 64: U64}[bits]: left(left(b.constant(type, 1), width) - 1, offset),
    )  # fmt: skip
define("s_pack_ll_b32_b16", "u32 <- u32 u32", lambda b, x, y: (x & 0xFFFF) | (y << 16))
define("s_pack_lh_b32_b16", "u32 <- u32 u32", lambda b, x, y: (x & 0xFFFF) | (y & 0xFFFF0000))
define("s_pack_hh_b32_b16", "u32 <- u32 u32", lambda b, x, y: (x >> 16) | (y & 0xFFFF0000))

# -- comparisons -----------------------------------------------------------------------------------------------------

_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "eq": lambda x, y: x.eq(y),
    "lg": lambda x, y: x.ne(y),
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
}
for name, compare in _COMPARE.items():
    for kind in "ui":
        type = f"{kind}32"
        define(f"s_cmp_{name}_{type}", f"scc <- {type} {type}", lambda b, x, y, f=compare: f(x, y))
        define(f"s_cmpk_{name}_{type}", f"scc <- {type} {type}", lambda b, x, y, f=compare: f(x, y))
for name in ("eq", "lg"):
    define(f"s_cmp_{name}_u64", "scc <- u64 u64", lambda b, x, y, f=_COMPARE[name]: f(x, y))
