"""Elements of 4 bits as f16, exactly, two with an instruction or four.

Integers: 1024 + n, for n of 0 to 15, is f16 with n in its lowest bits, and 1024 + 16 n with n above these. So n, the
integer, plus 8 where it has a sign, is put there, of a byte's two one in either half of a register, and taken back by
a packed multiply-add, whose product and sum have at most 11 bits (1024 as in public kernels for 4-bit weights; Kim et
al., 2022, "Who Says Elephants Can't Run"). fp4: the lower byte of every number of e2m1 is 0 in f16, and the upper one
comes from a table of eight, from which v_perm_b32 takes four at a time (CDNA3 ISA, VOP3).
"""

from __future__ import annotations

from collections.abc import Sequence

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_integer, constant_value, intrinsic, value
from ckmlir.dialect.packing import Packing
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.storage import bitcast
from ckmlir.mlir import ir
from ckmlir.passes import vectors

A_WORD = 8
"""Elements."""
SIGNS = 0x88888888
"""The highest bits of all."""
MAGNITUDES = 0x3E3C3800, 0x46444240
"""Upper bytes of 0, 0.5, 1, 1.5 and of 2, 3, 4, 6."""
ZERO = 0x0C
"""As a byte of v_perm_b32's selector; 0 to 3 are the second operand's bytes, 4 to 7 the first one's."""


def halves(packing: Packing, words: Sequence[ir.Value], count: int) -> ir.Value:
    """So many elements of the words, as a vector of f16."""
    found = [_pairs_of_integers(packing, word) if packing.is_integer else pairs_of_fp4(word) for word in words]
    pairs = [pair for of_word in found for pair in of_word]
    f16s = bitcast(vectors.from_elements(pairs), vectors.vector_type(2 * len(pairs), ir.F16Type.get()))
    return vectors.part(f16s, 0, count)


def _pairs_of_integers(packing: Packing, word: ir.Value) -> list[ir.Value]:
    """Of each byte its two, in both halves of a register: one in the lowest bits, one above them. Two's complement with
    the sign turned around is 8 more.
    """
    found = []
    for place in range(A_WORD // 2):
        twice = permuted(word, word, number(ZERO << 24 | place << 16 | ZERO << 8 | place))
        code = codes(packing, twice, 0x00F0000F, beside=0x64006400)
        offsets = [-1024.0 + packing.least, -64.0 + packing.least]
        raised = bitcast(vectors.from_elements([code]), _pair())
        pair = value("math.fma", _pair(), [raised, _two(1.0, 1 / 16), _two(*offsets)])
        found.append(vectors.element(bitcast(pair, vectors.vector_type(1, _i32())), 0))
    return found


def codes(packing: Packing, word: ir.Value, mask: int, beside: int = 0) -> ir.Value:
    """The integers of a mask, those with a sign as what they are and 8 more, and `beside` them bits that are set.

    v_bfi_b32 takes each bit of one of two constants, as the word says (CDNA3 ISA, VOP3): where a sign is turned around,
    or bits are set, that is one instruction. LLVM would take it for an exclusive or and a mask, or two masks.
    """
    if not packing.signed and not beside:
        return arith.andi(word, number(mask))
    turned = mask & SIGNS if packing.signed else 0
    ones, zeros = beside | mask & ~turned, beside | turned
    return assembly(_i32(), [word, number(ones), number(zeros)], "v_bfi_b32 $0, $1, $2, $3", "=v,v,s,v")


def pairs_of_fp4(word: ir.Value) -> list[ir.Value]:
    """The fp4 of a word as f16, two in each: upper bytes of elements 0, 2, 4, 6 and of the others, then two of each in
    order.
    """
    shifted, upper = arith.shrui(word, number(4)), []
    for source, sign in ((word, arith.shli(word, number(4))), (shifted, word)):
        low, high = map(number, MAGNITUDES)
        sizes = permuted(high, low, arith.andi(source, number(0x07070707)))
        upper.append(arith.ori(sizes, arith.andi(sign, number(0x80808080))))
    even, odd = upper
    found = []
    for place in range(A_WORD // 2):
        found.append(permuted(odd, even, number((4 + place) << 24 | ZERO << 16 | place << 8 | ZERO)))
    return found


def permuted(upper: ir.Value, lower: ir.Value, selector: ir.Value) -> ir.Value:
    """v_perm_b32: bytes of two words."""
    return intrinsic("llvm.amdgcn.perm", _i32(), [upper, lower, selector])


def _i32() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def _pair() -> ir.Type:
    return vectors.vector_type(2, ir.F16Type.get())


def number(bits: int) -> ir.Value:
    """A word of these bits."""
    signed = bits - (1 << 32) if bits >= 1 << 31 else bits
    return constant_integer(signed, _i32())


def _two(first: float, second: float) -> ir.Value:
    f16 = ir.F16Type.get()
    attribute = ir.DenseElementsAttr.get([ir.FloatAttr.get(f16, one) for one in (first, second)], _pair())
    return constant_value(attribute)
