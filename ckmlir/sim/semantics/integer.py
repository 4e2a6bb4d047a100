"""Vector integer and bit instructions (VOP1, VOP2, VOP3): AMD CDNA3 ISA, chapter 12 "Vector ALU"."""

from __future__ import annotations

from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.element import I32, I64, U8, U32, U64, ElementType
from ckmlir.sim.operation import define


def shift_amount(amount: Value, bits: int) -> Value:
    """Shifts use the low 4, 5 or 6 bits of the amount, by the width of what is shifted."""
    type = ElementType("u", bits)
    return amount.bits(ElementType("u", amount.type.bits)).to(type) & (bits - 1)


def left(x: Value, amount: Value) -> Value:
    return x << shift_amount(amount, x.type.bits)


def right(x: Value, amount: Value) -> Value:
    return x >> shift_amount(amount, x.type.bits)


# -- add, subtract ---------------------------------------------------------------------------------------------------


def add_saturated(b: Builder, x: Value, y: Value) -> Value:
    total = x + y
    if not x.type.is_signed:
        return b.select(total < x, b.constant(x.type, -1), total)
    overflow = ((total ^ x) & (total ^ y)) < 0
    bound = (x >> (x.type.bits - 1)) ^ b.constant(x.type, (1 << (x.type.bits - 1)) - 1)
    return b.select(overflow, bound, total)


def subtract_saturated(b: Builder, x: Value, y: Value) -> Value:
    difference = x - y
    if not x.type.is_signed:
        return b.select(x < y, b.constant(x.type, 0), difference)
    overflow = ((x ^ y) & (x ^ difference)) < 0
    bound = (x >> (x.type.bits - 1)) ^ b.constant(x.type, (1 << (x.type.bits - 1)) - 1)
    return b.select(overflow, bound, difference)


for bits in (16, 32):
    for kind in "ui":
        signature = f"{kind}{bits} <- {kind}{bits} {kind}{bits}"
        define(f"v_add_{kind}{bits}", signature, lambda b, x, y: x + y, saturated=add_saturated)
        define(f"v_sub_{kind}{bits}", signature, lambda b, x, y: x - y, saturated=subtract_saturated)
    define(
        f"v_subrev_u{bits}", f"u{bits} <- u{bits} u{bits}", lambda b, x, y: y - x,
        saturated=lambda b, x, y: subtract_saturated(b, y, x),
    )  # fmt: skip


def carry(b: Builder, mask: Value) -> Value:
    return b.select(mask, b.u32(1), b.u32(0))


def add_with_carry(b: Builder, x: Value, y: Value, carry_in: Value) -> tuple[Value, Value]:
    total = x + y
    result = total + carry(b, carry_in)
    return result, (total < x) | (result < total)


def subtract_with_borrow(b: Builder, x: Value, y: Value, borrow_in: Value) -> tuple[Value, Value]:
    difference = x - y
    return difference - carry(b, borrow_in), (x < y) | (x.eq(y) & borrow_in)


define("v_add_co_u32", "u32 mask <- u32 u32", lambda b, x, y: (x + y, (x + y) < x))
define("v_sub_co_u32", "u32 mask <- u32 u32", lambda b, x, y: (x - y, x < y))
define("v_subrev_co_u32", "u32 mask <- u32 u32", lambda b, x, y: (y - x, y < x))
define("v_addc_co_u32", "u32 mask <- u32 u32 mask", add_with_carry)
define("v_subb_co_u32", "u32 mask <- u32 u32 mask", subtract_with_borrow)
define("v_subbrev_co_u32", "u32 mask <- u32 u32 mask", lambda b, x, y, c: subtract_with_borrow(b, y, x, c))

define("v_add3_u32", "u32 <- u32 u32 u32", lambda b, x, y, z: x + y + z)
define("v_lshl_add_u32", "u32 <- u32 u32 u32", lambda b, x, y, z: left(x, y) + z)
define("v_add_lshl_u32", "u32 <- u32 u32 u32", lambda b, x, y, z: left(x + y, z))
define("v_lshl_or_b32", "u32 <- u32 u32 u32", lambda b, x, y, z: left(x, y) | z)
define("v_and_or_b32", "u32 <- u32 u32 u32", lambda b, x, y, z: (x & y) | z)
define("v_or3_b32", "u32 <- u32 u32 u32", lambda b, x, y, z: x | y | z)
define("v_xad_u32", "u32 <- u32 u32 u32", lambda b, x, y, z: (x ^ y) + z)
# The shift is 0..4 by the ISA; LLVM never emits more.
define("v_lshl_add_u64", "u64 <- u64 u32 u64", lambda b, x, y, z: (x << (y & 7).to(U64)) + z)

# -- multiply --------------------------------------------------------------------------------------------------------


def low24(b: Builder, x: Value) -> Value:
    return b.sign_extend(x, 24) if x.type.is_signed else x & 0xFFFFFF


def high_word(product: Value) -> Value:
    return (product.bits(U64) >> 32).to(U32)


define("v_mul_lo_u32", "u32 <- u32 u32", lambda b, x, y: x * y)
define("v_mul_hi_u32", "u32 <- u32 u32", lambda b, x, y: high_word(b.product64(x, y, signed=False)))
define("v_mul_hi_i32", "u32 <- u32 u32", lambda b, x, y: high_word(b.product64(x, y, signed=True)))
define("v_mul_lo_u16", "u16 <- u16 u16", lambda b, x, y: x * y)
define("v_mul_u32_u24", "u32 <- u32 u32", lambda b, x, y: low24(b, x) * low24(b, y))
define("v_mul_i32_i24", "i32 <- i32 i32", lambda b, x, y: low24(b, x) * low24(b, y))
define(
    "v_mul_hi_u32_u24", "u32 <- u32 u32", lambda b, x, y: high_word(b.product64(low24(b, x), low24(b, y), signed=False))
)
define(
    "v_mul_hi_i32_i24", "i32 <- i32 i32", lambda b, x, y: high_word(b.product64(low24(b, x), low24(b, y), signed=True))
)


def mad_saturated(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """Multiply-add whose sum saturates in the addend's width."""
    wide = ElementType(z.type.kind, 64)
    total = x.to(wide) * y.to(wide) + z.to(wide)
    top = (1 << (z.type.bits - z.type.is_signed)) - 1
    bottom = -(1 << (z.type.bits - 1)) if z.type.is_signed else 0
    return total.maximum(bottom).minimum(top).to(z.type)


def mad24_saturated(b: Builder, x: Value, y: Value, z: Value) -> Value:
    return mad_saturated(b, low24(b, x), low24(b, y), z)


for kind in "ui":
    signature = f"{kind}32 <- {kind}32 {kind}32 {kind}32"
    define(
        f"v_mad_{kind}32_{kind}24",
        signature,
        lambda b, x, y, z: low24(b, x) * low24(b, y) + z,
        saturated=mad24_saturated,
    )
    signature = f"{kind}16 <- {kind}16 {kind}16 {kind}16"
    define(f"v_mad_{kind}16 v_mad_legacy_{kind}16", signature, lambda b, x, y, z: x * y + z, saturated=mad_saturated)
    wide = ElementType(kind, 32)
    define(
        f"v_mad_{kind}32_{kind}16", f"{kind}32 <- {kind}16 {kind}16 {kind}32",
        lambda b, x, y, z, wide=wide: x.to(wide) * y.to(wide) + z, saturated=mad_saturated,
    )  # fmt: skip


def mad64_unsigned(b: Builder, x: Value, y: Value, z: Value) -> tuple[Value, Value]:
    total = b.product64(x, y, signed=False) + z
    return total, total < z


def mad64_signed(b: Builder, x: Value, y: Value, z: Value) -> tuple[Value, Value]:
    product = b.product64(x, y, signed=True).bits(I64)
    total = product + z
    return total, ((total ^ product) & (total ^ z)) < 0


define("v_mad_u64_u32", "u64 mask <- u32 u32 u64", mad64_unsigned)
define("v_mad_i64_i32", "i64 mask <- u32 u32 i64", mad64_signed)

# -- bitwise, shifts, fields -----------------------------------------------------------------------------------------

define("v_mov_b32 v_accvgpr_read_b32 v_accvgpr_write_b32 v_accvgpr_mov_b32", "u32 <- u32", lambda b, x: x)
define("v_mov_b64", "u64 <- u64", lambda b, x: x)
define("v_swap_b32", "u32 u32 <- u32 u32", lambda b, x, y: (x, y))
define("v_not_b32", "u32 <- u32", lambda b, x: ~x)
define("v_and_b32", "u32 <- u32 u32", lambda b, x, y: x & y)
define("v_or_b32", "u32 <- u32 u32", lambda b, x, y: x | y)
define("v_xor_b32", "u32 <- u32 u32", lambda b, x, y: x ^ y)
define("v_xnor_b32", "u32 <- u32 u32", lambda b, x, y: ~(x ^ y))
for bits in (16, 32, 64):
    define(f"v_lshlrev_b{bits}", f"u{bits} <- u32 u{bits}", lambda b, n, x: left(x, n))
    define(f"v_lshrrev_b{bits}", f"u{bits} <- u32 u{bits}", lambda b, n, x: right(x, n))
    define(f"v_ashrrev_i{bits}", f"i{bits} <- u32 i{bits}", lambda b, n, x: right(x, n))

define("v_cndmask_b32", "u32 <- u32 u32 mask", lambda b, x, y, mask: b.select(mask, y, x), raw=True)
define("v_bfrev_b32", "u32 <- u32", lambda b, x: b.unary("reverse_bits", x))
define("v_bcnt_u32_b32", "u32 <- u32 u32", lambda b, x, y: b.unary("count_ones", x) + y)


def first_bit(b: Builder, count: Value, x: Value) -> Value:
    """Bit searches give all ones when there is nothing to find."""
    return b.select(x.eq(0), b.constant(count.type, -1), count)


def sign_change(b: Builder, x: Value) -> Value:
    """Leading bits equal to the sign bit, or all ones when every bit is."""
    differing = x.bits(ElementType("u", x.type.bits)) ^ (x >> (x.type.bits - 1)).bits(ElementType("u", x.type.bits))
    return first_bit(b, b.unary("leading_zeros", differing), differing)


define("v_ffbh_u32", "u32 <- u32", lambda b, x: first_bit(b, b.unary("leading_zeros", x), x))
define("v_ffbl_b32", "u32 <- u32", lambda b, x: first_bit(b, b.unary("trailing_zeros", x), x))
define("v_ffbh_i32", "u32 <- i32", sign_change)


def extract_field(b: Builder, x: Value, offset: Value, width: Value) -> Value:
    """A bit field of 0..31 bits; one that reaches past bit 31 is cut there (and sign extended from bit 31 if
    signed)."""
    shifted = x >> (offset & 31)
    width = width & 31
    if not x.type.is_signed:
        return shifted & ((b.u32(1) << width) - 1)
    space = (b.u32(32) - width) & 31
    field = (shifted << space.bits(I32)) >> space.bits(I32)
    return b.select(width.eq(0), b.constant(I32, 0), field)


define("v_bfe_u32", "u32 <- u32 u32 u32", extract_field)
define("v_bfe_i32", "i32 <- i32 u32 u32", extract_field)
define("v_bfi_b32", "u32 <- u32 u32 u32", lambda b, mask, x, y: (mask & x) | (~mask & y))
define("v_bfm_b32", "u32 <- u32 u32", lambda b, width, offset: left((b.u32(1) << (width & 31)) - 1, offset))
define("v_alignbit_b32", "u32 <- u32 u32 u32", lambda b, x, y, n: (b.join(y, x) >> (n & 31).to(U64)).to(U32))
define("v_alignbyte_b32", "u32 <- u32 u32 u32", lambda b, x, y, n: (b.join(y, x) >> ((n & 3) << 3).to(U64)).to(U32))


def permute_bytes(b: Builder, x: Value, y: Value, selectors: Value) -> Value:
    """v_perm_b32: selector 0..7 picks a byte of {x, y}; 8..11 replicate the sign of a half; 12 gives 0x00; more gives
    0xff."""
    pool = b.join(y, x)
    result = b.u32(0)
    for position in range(4):
        selector = (selectors >> (8 * position)) & 0xFF
        byte = (pool >> ((selector & 7) << 3).to(U64)).to(U32) & 0xFF
        sign = (pool >> (((selector & 3) << 4) + 15).to(U64)).to(U32) & 1
        wide = b.select(selector.eq(12), b.u32(0), b.u32(0xFF))
        byte = b.select(selector < 8, byte, b.select(selector < 12, sign * 0xFF, wide))
        result = result | (byte << (8 * position))
    return result


define("v_perm_b32", "u32 <- u32 u32 u32", permute_bytes)

# -- minimum, maximum, median ----------------------------------------------------------------------------------------


def median(b: Builder, x: Value, y: Value, z: Value) -> Value:
    return x.minimum(y).maximum(x.maximum(y).minimum(z))


for bits in (16, 32):
    for kind in "ui":
        type = f"{kind}{bits}"
        define(f"v_min_{type}", f"{type} <- {type} {type}", lambda b, x, y: x.minimum(y))
        define(f"v_max_{type}", f"{type} <- {type} {type}", lambda b, x, y: x.maximum(y))
        define(f"v_min3_{type}", f"{type} <- {type} {type} {type}", lambda b, x, y, z: x.minimum(y).minimum(z))
        define(f"v_max3_{type}", f"{type} <- {type} {type} {type}", lambda b, x, y, z: x.maximum(y).maximum(z))
        define(f"v_med3_{type}", f"{type} <- {type} {type} {type}", median)

# -- sums of absolute differences ------------------------------------------------------------------------------------


def field(x: Value, position: int, bits: int) -> Value:
    return (x >> (bits * position)) & ((1 << bits) - 1)


def absolute_differences(b: Builder, x: Value, y: Value, bits: int, masked: bool = False) -> Value:
    total = b.u32(0)
    for position in range(32 // bits):
        p, q = field(x, position, bits), field(y, position, bits)
        difference = p.maximum(q) - p.minimum(q)
        total = total + (b.select(q.eq(0), b.u32(0), difference) if masked else difference)
    return total


define("v_sad_u8", "u32 <- u32 u32 u32", lambda b, x, y, z: absolute_differences(b, x, y, 8) + z)
define("v_sad_hi_u8", "u32 <- u32 u32 u32", lambda b, x, y, z: (absolute_differences(b, x, y, 8) << 16) + z)
define("v_sad_u16", "u32 <- u32 u32 u32", lambda b, x, y, z: absolute_differences(b, x, y, 16) + z)
define("v_sad_u32", "u32 <- u32 u32 u32", lambda b, x, y, z: x.maximum(y) - x.minimum(y) + z)
define("v_msad_u8", "u32 <- u32 u32 u32", lambda b, x, y, z: absolute_differences(b, x, y, 8, masked=True) + z)


def sliding_differences(
    b: Builder, x: Value, y: Value, sums: list[Value], masked: bool, top: int | None = None
) -> list[Value]:
    """v_qsad, v_mqsad: the four bytes of y against the four byte windows of x that start at bytes 0 to 3, each added to
    a sum of its own (u32), limited to `top` under the clamp modifier."""
    results = []
    for start, total in enumerate(sums):
        window = (x >> (8 * start)).to(U32)
        wide = absolute_differences(b, window, y, 8, masked).to(U64) + total.to(U64)
        results.append((wide if top is None else wide.minimum(top)).to(U32))
    return results


def quad_sad(b: Builder, x: Value, y: Value, sums: Value, masked: bool = False, top: int | None = None) -> Value:
    """Four 16-bit sums in 64 bits."""
    parts = [(sums >> (16 * k)).to(U32) & 0xFFFF for k in range(4)]
    low0, high0, low1, high1 = (part & 0xFFFF for part in sliding_differences(b, x, y, parts, masked, top))
    return b.join(low0 | (high0 << 16), low1 | (high1 << 16))


for name, masked in (("qsad", False), ("mqsad", True)):
    define(
        f"v_{name}_pk_u16_u8", "u64 <- u64 u32 u64",
        lambda b, x, y, z, m=masked: quad_sad(b, x, y, z, m),
        saturated=lambda b, x, y, z, m=masked: quad_sad(b, x, y, z, m, 0xFFFF),
    )  # fmt: skip
define(
    "v_mqsad_u32_u8", "u32*4 <- u64 u32 u32*4", lambda b, x, y, z: sliding_differences(b, x, y, z, True),
    saturated=lambda b, x, y, z: sliding_differences(b, x, y, z, True, 0xFFFFFFFF),
)  # fmt: skip


def average_bytes(b: Builder, x: Value, y: Value, round_up: Value) -> Value:
    """v_lerp_u8: the mean of each pair of bytes, rounded up where the byte of the third operand is odd."""
    result = b.u32(0)
    for position in range(4):
        total = field(x, position, 8) + field(y, position, 8) + (field(round_up, position, 8) & 1)
        result = result | ((total >> 1) << (8 * position))
    return result


define("v_lerp_u8", "u32 <- u32 u32 u32", average_bytes)

# -- three-input boolean functions, packing, lane counting -----------------------------------------------------------


def lanes_below(b: Builder, word: int) -> Value:
    """The bits of lanes below this one, within the low (0) or high (1) half of the wave."""
    lane = b.lane()
    if word == 0:
        return b.select(lane < 32, (b.u32(1) << (lane & 31)) - 1, b.u32(0xFFFFFFFF))
    return b.select(lane < 32, b.u32(0), (b.u32(1) << (lane & 31)) - 1)


define("v_mbcnt_lo_u32_b32", "u32 <- u32 u32", lambda b, x, y: b.unary("count_ones", x & lanes_below(b, 0)) + y)
define("v_mbcnt_hi_u32_b32", "u32 <- u32 u32", lambda b, x, y: b.unary("count_ones", x & lanes_below(b, 1)) + y)


def saturate_to_byte(b: Builder, half: Value) -> Value:
    return half.maximum(0).minimum(255).to(U8).to(U32)


def saturate_pair(b: Builder, x: Value) -> Value:
    low = saturate_to_byte(b, b.sign_extend(x & 0xFFFF, 16).bits(I32))
    high = saturate_to_byte(b, (x.bits(I32) >> 16))
    return low | (high << 8)


define("v_sat_pk_u8_i16", "u32 <- u32", saturate_pair)
define("v_cvt_pk_u16_u32", "u32 <- u32 u32", lambda b, x, y: x.minimum(0xFFFF) | (y.minimum(0xFFFF) << 16))


def clamp_signed(x: Value, bits: int) -> Value:
    return x.maximum(-(1 << (bits - 1))).minimum((1 << (bits - 1)) - 1)


define(
    "v_cvt_pk_i16_i32", "u32 <- i32 i32",
    lambda b, x, y: (clamp_signed(x, 16).bits(U32) & 0xFFFF) | (clamp_signed(y, 16).bits(U32) << 16),
)  # fmt: skip


def shifted_bytes(b: Builder, x: Value, y: Value, amount: Value, signed: bool) -> Value:
    """gfx950 v_ashr_pk_i8_i32 / u8: arithmetic shifts of two words, saturated to a byte each."""
    pieces = []
    for word in (x, y):
        shifted = word >> (amount & 31).bits(I32)
        limited = clamp_signed(shifted, 8) if signed else shifted.maximum(0).minimum(255)
        pieces.append(limited.bits(U32) & 0xFF)
    return pieces[0] | (pieces[1] << 8)


define("v_ashr_pk_i8_i32", "u32 <- i32 i32 u32", lambda b, x, y, n: shifted_bytes(b, x, y, n, signed=True))
define("v_ashr_pk_u8_i32", "u32 <- i32 i32 u32", lambda b, x, y, n: shifted_bytes(b, x, y, n, signed=False))

define("v_pack_b32_f16", "u32 <- u16 u16", lambda b, x, y: x.to(U32) | (y.to(U32) << 16))


def pseudo_random(b: Builder, x: Value) -> Value:
    """gfx950 v_prng_b32: one step of a 32-bit linear feedback shift register with taps 0xc5."""
    return (x << 1) ^ b.select((x & 0x80000000).ne(0), b.u32(0xC5), b.u32(0))


define("v_prng_b32", "u32 <- u32", pseudo_random)


def boolean3(b: Builder, x: Value, y: Value, z: Value, bitop3: int) -> Value:
    """gfx950 v_bitop3: any function of three bits, given by its truth table (bit 4 * x + 2 * y + z of `bitop3`)."""
    result = b.constant(x.type, 0)
    for row in range(8):
        if bitop3 >> row & 1:
            result = result | ((x if row & 4 else ~x) & (y if row & 2 else ~y) & (z if row & 1 else ~z))
    return result


define("v_bitop3_b32", "u32 <- u32 u32 u32", boolean3, modifiers=("bitop3",))
define("v_bitop3_b16", "u16 <- u16 u16 u16", boolean3, modifiers=("bitop3",))
