"""Integers of 4 bits as elements of 8 bits, exactly, four with an instruction.

Of every word the elements of even and of odd number are taken apart, a byte for each, and put in order at the end. As
i8: n + 8, which is the code with its sign turned around, plus 120 has no carry into the byte above, and with its
highest bit turned around is n. As 8-bit floats: v_perm_b32 takes four bytes of a table of eight (CDNA3 ISA, VOP3), one
table for n of 0 to 7 and one for -8 to -1, and another takes each byte from one or the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from ckmlir.lowering.halves import number, permuted
from ckmlir.lowering.storage import as_fragment, bitcast, integers_of
from ckmlir.mlir import arith, ir
from ckmlir.passes import vectors

FLOATS = {
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip
IN_ORDER = 0x05010400, 0x07030602
"""Selectors: bytes of the word of even elements, 0 to 3, and of that of odd ones, 4 to 7, in turns."""
EITHER = 0x03020100
"""Selector: each byte of the first word; with 4 more, of the second."""


def octets(words: Sequence[ir.Value], count: int, fragment: ir.VectorType) -> ir.Value:
    """So many elements of the words, as a vector of i8 or of 8-bit floats."""
    found, name = [], str(fragment.element_type)
    for word in words:
        codes = arith.xori(word, number(0x88888888)) if name == "i8" else word
        apart = [_integers(one) if name == "i8" else _floats(one, name) for one in (codes, _shifted(codes, 4))]
        found += [permuted(apart[1], apart[0], number(selector)) for selector in IN_ORDER]
    i8 = ir.IntegerType.get_signless(8)
    bytes_ = bitcast(vectors.from_elements(found), vectors.vector_type(4 * len(found), i8))
    return as_fragment(bitcast(vectors.part(bytes_, 0, count), integers_of(fragment)), fragment)


def _integers(codes: ir.Value) -> ir.Value:
    """The lower half of every byte, whose sign is turned around, as two's complement of the whole byte."""
    above = arith.addi(arith.andi(codes, number(0x0F0F0F0F)), number(0x78787878))
    return arith.xori(above, number(0x80808080))


def _floats(codes: ir.Value, name: str) -> ir.Value:
    """The lower half of every byte, looked up."""
    table = np.arange(-8, 8).astype(FLOATS[name]).view("<u4").tolist()
    place = arith.andi(codes, number(0x07070707))
    negative, positive = (permuted(number(table[at + 1]), number(table[at]), place) for at in (0, 2))
    sign = arith.andi(_shifted(codes, 1), number(0x04040404))
    return permuted(negative, positive, arith.ori(sign, number(EITHER)))


def _shifted(word: ir.Value, places: int) -> ir.Value:
    return arith.shrui(word, number(places))
