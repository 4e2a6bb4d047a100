"""Integers of 4 bits as elements of 8 bits, exactly, four with an instruction.

Of every word the elements of even and of odd number are taken apart, a byte for each, and put in order at the end. As
i8: n + 8, which is the code with its sign turned around, plus 120 has no carry into the byte above, and with its
highest bit turned around is n; without a sign the code is n. As 8-bit floats: v_perm_b32 takes four bytes of a table of
eight (CDNA3 ISA, VOP3), and what it makes of selectors from 8 to 15 is known: signs of four of these bytes, zeros, or
ones. So one table is looked up by whole codes and another by their lower three bits, and the exclusive or of both is
the element, since the second table makes up for what the first look-up is off by (`_tables`).

Powers of two times the integers take less. As i8, 16 times: where a word has the element in the upper half of a byte,
that half alone is. As denormals of fp8, whose lowest bits are their magnitude: that of all eight is computed at once
(`_denormals`), each in its four bits, which hold 8, the largest; a sign and bits that are set otherwise never meet.
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_value
from ckmlir.dialect.packing import Packing
from ckmlir.dialect.scalars import name_of
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.halves import SIGNS, codes, number, permuted
from ckmlir.lowering.storage import as_fragment, bitcast, integers_of
from ckmlir.mlir import ir
from ckmlir.passes import vectors

Words = tuple[int, int]

FLOATS = {
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip
IN_ORDER = 0x05010400, 0x07030602
"""Selectors: bytes of the word of even elements, 0 to 3, and of that of odd ones, 4 to 7, in turns."""
CODES = 16
LOW, HIGH, LOWEST = 0x0F0F0F0F, 0xF0F0F0F0, 0x07070707
"""The lower and the upper half of every byte, and the lower three bits of it."""
ONES = 0xFF
SIGNED = (1, 3, 5, 7)
"""Bytes of a table whose signs selectors from 8 to 11 repeat."""
BEYOND = (0, 0, 0, 0, 0, ONES, ONES, ONES)
"""What selectors from 8 to 15 make, the first four where these bytes have no signs."""


def octets(
    packing: Packing,
    words: Sequence[ir.Value],
    count: int,
    fragment: ir.VectorType,
    zeros: ir.Value | None = None,
    exponent: int = 0,
) -> ir.Value:
    """So many elements of the words, as a vector of i8 or of 8-bit floats; of i8 less their zero points, a vector of
    i8 with numbers that elements have too. With an exponent, `packing.light_exponent`, elements are times 2^exponent.
    """
    found, name = [], name_of(fragment.element_type)
    for place, word in enumerate(words):
        if exponent:
            apart = _upper_halves(word) if name == "i8" else _denormals(packing, word)
        else:
            apart = []
            for odd, half in enumerate((word, _shifted(word, 4))):
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


def _upper_halves(word: ir.Value) -> list[ir.Value]:
    """Elements of even and of odd number as bytes of 16 times what they are."""
    left = arith.shli(word, number(4))
    return [arith.andi(half, number(HIGH)) for half in (left, word)]


def _denormals(packing: Packing, word: ir.Value) -> list[ir.Value]:
    """Elements of even and of odd number as bytes with a sign and a magnitude.

    Where there is a sign, the magnitude is 1 and the four bits turned around, at most 8: no sum has a carry.
    """
    if not packing.signed:
        return [codes(packing, half, LOW) for half in (word, _shifted(word, 4))]
    signs = arith.andi(word, number(SIGNS))
    ones = arith.shrui(signs, number(3))
    sizes = _assembled("v_xad_u32", [word, _fifteenfold(ones), ones])
    return [
        _assembled("v_bfi_b32", [number(LOW), size, sign], "s")
        for size, sign in ((sizes, arith.shli(signs, number(4))), (_shifted(sizes, 4), signs))
    ]


def _fifteenfold(ones: ir.Value) -> ir.Value:
    """All four bits where the lowest of four is set, by one packed multiplication of halves."""
    halves = vectors.vector_type(2, ir.IntegerType.get_signless(16))
    pair = bitcast(vectors.from_elements([ones]), halves)
    many = ir.DenseElementsAttr.get_splat(halves, ir.IntegerAttr.get(halves.element_type, 15))
    found = arith.muli(pair, constant_value(many))
    return vectors.element(bitcast(found, vectors.vector_type(1, ones.type)), 0)


def _assembled(name: str, operands: list[ir.Value], first: str = "v") -> ir.Value:
    """An instruction that LLVM does not make of what it computes (CDNA3 ISA, VOP3: (a ^ b) + c; bits of b where those
    of a are set, and of c); `first`: the kind of register of a.
    """
    return assembly(operands[0].type, operands, f"{name} $0, $1, $2, $3", f"=v,{first},v,v")


def _integers(packing: Packing, half: ir.Value) -> ir.Value:
    """The lower half of every byte as two's complement of the whole byte."""
    low = codes(packing, half, LOW)
    return arith.xori(arith.addi(low, number(0x78787878)), number(0x80808080)) if packing.signed else low


def _differences(packing: Packing, half: ir.Value, zeros: ir.Value) -> ir.Value:
    """The same less a zero point each. 128 and more than it takes, of zero points with a sign 128 more, keeps borrows
    out of the bytes above; the sum, turned around, is 128 less.
    """
    if packing.signed:
        rest = arith.subi(number(0xF8F8F8F8), arith.xori(zeros, number(0x80808080)))
    else:
        rest = arith.subi(number(0x80808080), zeros)
    return arith.xori(arith.addi(codes(packing, half, LOW), rest), number(0x80808080))


def _every_other(zeros: ir.Value, start: int) -> ir.Value:
    """Four bytes as a word: the one at `start` and every second behind it; there may be fewer."""
    last = vectors.length_of(zeros) - 1
    four = [vectors.element(zeros, min(start + 2 * step, last)) for step in range(4)]
    word = bitcast(vectors.from_elements(four), vectors.vector_type(1, ir.IntegerType.get_signless(32)))
    return vectors.element(word, 0)


def _floats(packing: Packing, half: ir.Value, name: str) -> ir.Value:
    """The lower half of every byte, looked up."""
    by_code = np.arange(CODES) - CODES * (packing.signed & (np.arange(CODES) >= CODES // 2))
    by_whole, by_low = _tables(by_code.astype(FLOATS[name]).view(np.uint8).tolist())
    found = [
        permuted(number(table[1]), number(table[0]), arith.andi(half, number(mask)))
        for table, mask in ((by_whole, LOW), (by_low, LOWEST))
    ]
    return arith.xori(found[0], found[1])


def _tables(wanted: Sequence[int]) -> tuple[Words, Words]:
    """Bytes of 16 codes as two tables of eight, each as two words: what v_perm_b32 takes of the first by a code and of
    the second by its lower three bits has these bytes as its exclusive or.
    """
    half, beyond = CODES // 2, list(BEYOND)
    for place, signed in reversed(tuple(enumerate(SIGNED))):  # each follows from one that is behind it
        beyond[place] = ONES * ((wanted[signed] ^ wanted[half + signed] ^ beyond[signed]) >> 7)
    low = [wanted[half + place] ^ beyond[place] for place in range(half)]
    return _words([wanted[place] ^ low[place] for place in range(half)]), _words(low)


def _words(table: Sequence[int]) -> Words:
    first, second = np.asarray(table, np.uint8).view("<u4").tolist()
    return first, second


def _shifted(word: ir.Value, places: int) -> ir.Value:
    return arith.shrui(word, number(places))
