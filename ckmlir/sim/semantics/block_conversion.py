"""Conversions of gfx950 with a block scale that work on 32 elements, or round stochastically: AMD CDNA4 ISA, chapter 12
(V_CVT_SCALEF32_*PK32*, *2XPK16*, *SR*).

Elements of six bits fill six registers. Stochastic conversions of several elements draw the next random number with
V_PRNG_B32 after each. How many random bits the hardware adds is not published; `encode` adds all that lie below the
last place.
"""

from __future__ import annotations

from collections.abc import Sequence

from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.element import F32, F64, U32
from ckmlir.sim.operation import define
from ckmlir.sim.semantics.bit_fields import bit_field, packed_fields
from ckmlir.sim.semantics.conversion import block_scale, narrowed, widened
from ckmlir.sim.semantics.integer import pseudo_random
from ckmlir.sim.semantics.small_floats import BF6, BF8_OCP, FP4, FP6, FP8_OCP, SmallFormat, decode, encode

ELEMENTS = 32


def scaled_down(b: Builder, x: Value, scale: Value) -> Value:
    """An f32 divided by the block scale. Exact in f64; the second rounding only touches what every small format rounds
    to zero."""
    return (x.to(F64) / block_scale(b, scale).to(F64)).to(F32)


def encoded_block(
    b: Builder, elements: Sequence[Value], scale: Value, format: SmallFormat, random: Value | None
) -> list[Value]:
    """Codes of f32 elements, saturated; with `random`, stochastically rounded, a new number for each element."""
    codes = []
    for element in elements:
        codes.append(encode(b, scaled_down(b, element, scale), format, random, saturate=True))
        random = pseudo_random(b, random) if random is not None else None
    return codes


def elements_of(b: Builder, words: Sequence[Value], wide: str) -> list[Value]:
    """The elements in u32 words, as f32: one (f32) or two (f16, bf16) a word."""
    bits = 32 if wide == "f32" else 16
    return [widened(b, bit_field(words, element, bits), wide) for element in range(len(words) * 32 // bits)]


def block_down(
    b: Builder, words: list[Value], scale: Value, random: Value | None, wide: str, format: SmallFormat
) -> list[Value]:
    """32 wide elements to 32 small ones."""
    codes = encoded_block(b, elements_of(b, words, wide), scale, format, random)
    return packed_fields(b, codes, format.bits)


def interleaved_down(b: Builder, x: list[Value], y: list[Value], scale: Value, format: SmallFormat) -> list[Value]:
    """2xpk16: 16 elements of each source; those of the second come between those of the first."""
    words = [word for pair in zip(x, y) for word in pair]
    return block_down(b, words, scale, None, "f32", format)


def block_up(b: Builder, words: list[Value], scale: Value, wide: str, format: SmallFormat) -> list[Value]:
    """32 small elements to 32 wide ones, times the scale."""
    factor = block_scale(b, scale)
    elements = [decode(b, bit_field(words, e, format.bits), format) * factor for e in range(ELEMENTS)]
    return packed_fields(b, [narrowed(b, element, wide).to(U32) for element in elements], 32 if wide == "f32" else 16)


def insert_codes(b: Builder, codes: Sequence[Value], old: Value, op_sel: int, bits: int) -> Value:
    """Put the codes in the byte of `old` that the upper two op_sel bits choose."""
    packed = b.u32(0)
    for number, code in enumerate(codes):
        packed = packed | (code << (bits * number) if number else code)
    shift = 8 * (op_sel >> 2)
    return (old & ~(0xFF << shift) & 0xFFFFFFFF) | (packed << shift)


def stochastic_byte(
    b: Builder, words: list[Value], random: Value, scale: Value, old: Value, op_sel: int, wide: str, format: SmallFormat
) -> Value:
    """One fp8 or bf8 element, or two fp4 elements, into a byte of the destination."""
    elements = elements_of(b, words, wide)[: 8 // format.bits]
    return insert_codes(b, encoded_block(b, elements, scale, format, random), old, op_sel, format.bits)


def split(b: Builder, x: Value) -> list[Value]:
    return [b.low(x), b.high(x)] if x.type.bits == 64 else [x]


_WORDS = {"f32": 32, "f16": 16, "bf16": 16}
for small in (FP6, BF6):
    for wide, count in _WORDS.items():
        define(
            f"v_cvt_scalef32_pk32_{wide}_{small.name}", f"u32*{count} <- u32*6 f32",
            lambda b, x, s, small=small, wide=wide: block_up(b, x, s, wide, small), raw=True,
        )  # fmt: skip
        define(
            f"v_cvt_scalef32_sr_pk32_{small.name}_{wide}", f"u32*6 <- u32*{count} u32 f32",
            lambda b, x, r, s, small=small, wide=wide: block_down(b, x, s, r, wide, small), raw=True,
        )  # fmt: skip
        if wide != "f32":
            define(
                f"v_cvt_scalef32_pk32_{small.name}_{wide}", f"u32*6 <- u32*{count} f32",
                lambda b, x, s, small=small, wide=wide: block_down(b, x, s, None, wide, small), raw=True,
            )  # fmt: skip
    define(
        f"v_cvt_scalef32_2xpk16_{small.name}_f32", "u32*6 <- u32*16 u32*16 f32",
        lambda b, x, y, s, small=small: interleaved_down(b, x, y, s, small), raw=True,
    )  # fmt: skip
for small in (FP8_OCP, BF8_OCP, FP4):
    for wide in _WORDS:
        packed = "pk_" if small is FP4 else ""
        source = "u64" if packed and wide == "f32" else "u32"
        define(
            f"v_cvt_scalef32_sr_{packed}{small.name}_{wide}", f"u32 <- {source} u32 f32 old:u32",
            lambda b, x, r, s, old, op_sel, small=small, wide=wide: stochastic_byte(
                b, split(b, x), r, s, old, op_sel, wide, small
            ),
            modifiers=("op_sel",), raw=True,
        )  # fmt: skip
