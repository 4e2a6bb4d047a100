"""fp4 times one scale, as bf16: the products of the eight magnitudes are made once, and looked up by codes.

A product has two bytes that differ, so there are two tables of eight bytes, from which v_perm_b32 takes four at a time
(CDNA3 ISA, VOP3). Codes are put into bytes in order before, so that what is looked up only has to be joined: 17
instructions for eight elements, and twelve for the tables where nothing is rounded. Rounding knows no signs: those of
elements are put beside the upper bytes, after that of the scale has turned them around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_value, value
from ckmlir.lowering.halves import SIGNS, number, permuted
from ckmlir.lowering.storage import bitcast
from ckmlir.mlir import ir
from ckmlir.passes import vectors

MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Of e2m1, by their codes."""
FEWEST = 16
"""Elements for which tables take fewer instructions than one product for each."""
LOWER, UPPER = 0x05010400, 0x07030602
"""Bytes of v_perm_b32 that interleave the lower halves of two words, and the upper ones; the second operand's first."""
EVEN, ODD = 0x06040200, 0x07050301
"""Every second byte of two words, from the first on and from the second."""


def products_of_fp4(
    words: Sequence[ir.Value],
    count: int,
    scale: ir.Value,
    narrowed: Callable[[ir.Value], ir.Value],
    *,
    signed: bool,
) -> ir.Value:
    """So many elements of the words times a scale (f32); `narrowed` makes bf16 of a vector of f32. Scales that have a
    sign are `signed`.
    """
    if signed:
        turned = arith.andi(arith.shrsi(bitcast(scale, _i32()), number(31)), number(SIGNS))
        words, scale = [arith.xori(word, turned) for word in words], value("math.absf", scale.type, [scale])
    tables = _tables(scale, narrowed)
    pairs = [pair for word in words for pair in _pairs(word, *tables)]
    bf16s = bitcast(vectors.from_elements(pairs), vectors.vector_type(2 * len(pairs), ir.BF16Type.get()))
    return vectors.part(bf16s, 0, count)


def _tables(scale: ir.Value, narrowed: Callable[[ir.Value], ir.Value]) -> list[list[ir.Value]]:
    """Lower bytes of the eight products, and upper ones, of 0, 0.5, 1, 1.5 before 2, 3, 4, 6."""
    f32, count = ir.F32Type.get(), len(MAGNITUDES)
    type_ = vectors.vector_type(count, f32)
    attribute = ir.DenseElementsAttr.get([ir.FloatAttr.get(f32, one) for one in MAGNITUDES], type_)
    products = value("arith.mulf", type_, [constant_value(attribute), vectors.splat(scale, count)])
    pairs = bitcast(narrowed(products), vectors.vector_type(count // 2, _i32()))
    words = [vectors.element(pairs, place) for place in range(count // 2)]
    return [[permuted(words[at + 1], words[at], number(bytes_)) for at in (0, 2)] for bytes_ in (EVEN, ODD)]


def _pairs(word: ir.Value, lower: Sequence[ir.Value], upper: Sequence[ir.Value]) -> list[ir.Value]:
    """The eight elements of a word, two in each."""
    found, shifted = [], arith.shrui(word, number(4))
    for half in (LOWER, UPPER):
        codes = permuted(shifted, word, number(half))
        magnitudes = arith.andi(codes, number(0x07070707))
        low, size = (permuted(table[1], table[0], magnitudes) for table in (lower, upper))
        high = arith.ori(size, arith.andi(arith.shli(codes, number(4)), number(0x80808080)))
        found += [permuted(high, low, number(one)) for one in (LOWER, UPPER)]
    return found


def _i32() -> ir.Type:
    return ir.IntegerType.get_signless(32)
