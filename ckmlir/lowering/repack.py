"""Packed elements that share bytes along one dimension, sharing them along another: within a thread, without a table.

Of 4 bits two vectors become those of the lower and of the upper halves of their bytes, by a mask and a shift for each
(v_bfi_b32). Of 6 bits four elements are cut out of four vectors and put behind each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from ckmlir.dialect import arith
from ckmlir.dialect.build import text_of
from ckmlir.dialect.packing import PACKED, Packing
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.halves import number
from ckmlir.lowering.packed import field, joined, words_of
from ckmlir.lowering.storage import bitcast
from ckmlir.mlir import ir
from ckmlir.passes import vectors

LOW, HIGH = 0x0F0F0F0F, 0xF0F0F0F0
"""The halves of every byte."""


def lower_repack(_: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.repack_fragment: see its description."""
    packing, source = PACKED[text_of(op, "format")], op.operands[0]
    length = vectors.length_of(source) // packing.elements
    rows = [words_of(vectors.part(source, place * length, length)) for place in range(packing.elements)]
    if packing.bits == 4:
        return [_in_turns(*[_octets(one, length) for one in _halves(*rows)])]
    found = [
        _octets(_together(packing, rows, element), packing.bytes)
        for element in range(packing.count(length))
    ]  # fmt: skip
    singles = [vectors.element(one, place) for one in found for place in range(packing.bytes)]
    return [vectors.from_elements(singles)]


def _halves(first: Sequence[ir.Value], second: Sequence[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
    """The lower halves of bytes of both, and the upper ones; those of the second above those of the first."""
    four = number(4)
    lower = [
        arith.ori(arith.andi(a, number(LOW)), arith.andi(arith.shli(b, four), number(HIGH)))
        for a, b in zip(first, second, strict=True)
    ]
    upper = [
        arith.ori(arith.andi(arith.shrui(a, four), number(LOW)), arith.andi(b, number(HIGH)))
        for a, b in zip(first, second, strict=True)
    ]
    return lower, upper


def _together(packing: Packing, rows: Sequence[Sequence[ir.Value]], element: int) -> list[ir.Value]:
    """One element of each row, behind each other in a word."""
    mask = number((1 << packing.bits) - 1)
    codes = [arith.andi(field(row, packing.bits * element, packing.bits), mask) for row in rows]
    return joined(packing, codes)


def _octets(words: Sequence[ir.Value], count: int) -> ir.Value:
    whole = bitcast(
        vectors.from_elements(words), vectors.vector_type(4 * len(words), ir.IntegerType.get_signless(8))
    )
    return vectors.part(whole, 0, count)


def _in_turns(first: ir.Value, second: ir.Value) -> ir.Value:
    length = vectors.length_of(first)
    return vectors.shuffle(first, second, [place + half * length for place in range(length) for half in (0, 1)])
