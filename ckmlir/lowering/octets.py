"""Integers of 4 bits as elements of 8 bits, exactly, four with an instruction.

Of every word the elements of even and of odd number are taken apart, a byte for each, and put in order at the end. As
i8: n + 8, which is the code with its sign turned around, plus 120 has no carry into the byte above, and with its
highest bit turned around is n; without a sign the code is n. As 8-bit floats: v_perm_b32 takes four bytes of a table of
eight (CDNA3 ISA, VOP3), one table for codes of 0 to 7 and one for the others. Its selectors from 8 on repeat a sign: so
the highest bit of each code becomes a mask of its byte, by which v_bfi_b32 takes from one or the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from ckmlir.dialect import arith
from ckmlir.dialect.packing import Packing
from ckmlir.dialect.scalars import name_of
from ckmlir.lowering.halves import SIGNS, number, permuted
from ckmlir.lowering.storage import as_fragment, bitcast, integers_of
from ckmlir.mlir import ir
from ckmlir.passes import vectors

FLOATS = {
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip
IN_ORDER = 0x05010400, 0x07030602
"""Selectors: bytes of the word of even elements, 0 to 3, and of that of odd ones, 4 to 7, in turns."""
CODES = 16
A_SIGN = 0x00008000
"""As a selector's bytes 0 takes a byte of zeros from this, and 8 repeats the sign of the one above it."""


def octets(
    packing: Packing, words: Sequence[ir.Value], count: int, fragment: ir.VectorType, zeros: ir.Value | None = None
) -> ir.Value:
    """So many elements of the words, as a vector of i8 or of 8-bit floats; of i8 less their zero points, a vector of
    i8 with numbers that elements have too.
    """
    found, name = [], name_of(fragment.element_type)
    for place, word in enumerate(words):
        codes = arith.xori(word, number(SIGNS)) if name == "i8" and packing.signed else word
        apart = []
        for odd, half in enumerate((codes, _shifted(codes, 4))):
            if name != "i8":
                apart.append(_floats(packing, half, name))
            elif zeros is None:
                apart.append(_integers(packing, half))
            else:
                apart.append(_differences(packing, half, _every_other(zeros, 8 * place + odd)))
        found += [permuted(apart[1], apart[0], number(selector)) for selector in IN_ORDER]
    i8 = ir.IntegerType.get_signless(8)
    bytes_ = bitcast(vectors.from_elements(found), vectors.vector_type(4 * len(found), i8))
    return as_fragment(bitcast(vectors.part(bytes_, 0, count), integers_of(fragment)), fragment)


def _integers(packing: Packing, codes: ir.Value) -> ir.Value:
    """The lower half of every byte, whose sign is turned around, as two's complement of the whole byte."""
    low = arith.andi(codes, number(0x0F0F0F0F))
    return arith.xori(arith.addi(low, number(0x78787878)), number(0x80808080)) if packing.signed else low


def _differences(packing: Packing, codes: ir.Value, zeros: ir.Value) -> ir.Value:
    """The same less a zero point each. 128 and more than it takes, of zero points with a sign 128 more, keeps borrows
    out of the bytes above; the sum, turned around, is 128 less.
    """
    if packing.signed:
        rest = arith.subi(number(0xF8F8F8F8), arith.xori(zeros, number(0x80808080)))
    else:
        rest = arith.subi(number(0x80808080), zeros)
    return arith.xori(arith.addi(arith.andi(codes, number(0x0F0F0F0F)), rest), number(0x80808080))


def _every_other(zeros: ir.Value, start: int) -> ir.Value:
    """Four bytes as a word: the one at `start` and every second behind it; there may be fewer."""
    last = vectors.length_of(zeros) - 1
    four = [vectors.element(zeros, min(start + 2 * step, last)) for step in range(4)]
    word = bitcast(vectors.from_elements(four), vectors.vector_type(1, ir.IntegerType.get_signless(32)))
    return vectors.element(word, 0)


def _floats(packing: Packing, codes: ir.Value, name: str) -> ir.Value:
    """The lower half of every byte, looked up."""
    by_code = np.arange(CODES) - CODES * (packing.signed & (np.arange(CODES) >= CODES // 2))
    table = by_code.astype(FLOATS[name]).view("<u4").tolist()
    place = arith.andi(codes, number(0x07070707))
    lower, upper = (permuted(number(table[at + 1]), number(table[at]), place) for at in (0, 2))
    mask = permuted(number(0), number(A_SIGN), arith.andi(codes, number(0x08080808)))
    return arith.ori(arith.andi(upper, mask), arith.andi(lower, arith.xori(mask, number(0xFFFFFFFF))))


def _shifted(word: ir.Value, places: int) -> ir.Value:
    return arith.shrui(word, number(places))
