"""Integers of 4 bits as the numbers that they stand for: less a zero point, times a scale.

f16 is rounded by mixed multiply-adds, which read f32 or either half of a register as f16 and write either half, so
that elements get into order (CDNA3 ISA, VOP3P, v_fma_mixlo_f16). Without zero points these read the integer itself:
four bits alone in an f16 are a denormal, 2^-24 times the integer, or 2^-20 times where they are the next lowest.
Of integers whose sign is turned around 8 scales are taken away, exactly, as scales of 16 bits have at most 11. Else
integers with a sign become f32, divided by 16, by the instruction for offsets, from any byte (VOP1, v_cvt_off_f32_i4;
SDWA), others by v_cvt_f32_ubyte, and are scaled in pairs. i8 has arithmetic on four bytes (`octets`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ckmlir.dialect import arith
from ckmlir.dialect.build import text_of, value
from ckmlir.dialect.dequantize import operands_of
from ckmlir.dialect.packing import PACKED, Packing
from ckmlir.dialect.scalars import bits
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.convert import bounded_to_bf16, convert, to_eight_bit, unlimited, upper_halves
from ckmlir.lowering.halves import A_WORD, SIGNS, number
from ckmlir.lowering.octets import octets
from ckmlir.lowering.packed import words_of
from ckmlir.lowering.storage import bitcast
from ckmlir.mlir import ir
from ckmlir.passes import vectors

LOW = 0x0F0F0F0F
"""The lower half of every byte."""
FIELDS = ((0x000F000F, 2.0**24), (0x00F000F0, 2.0**20))
"""Four bits of each half of a word, and what the f16 there is multiplied by to become their number."""


class _Product(NamedTuple):
    """factor * times + plus, in f32; `half` is the half of a register where the factor is f16, None where it is f32."""

    factor: ir.Value
    half: int | None
    times: ir.Value
    plus: ir.Value


def lower_dequantize(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.dequantize_fragment: see its description."""
    packing, parts, result = PACKED[text_of(op, "format")], operands_of(op), op.results[0].type
    words, count = words_of(parts.octets), packing.count(vectors.length_of(parts.octets))
    element = result.element_type
    if str(element) == "i8":
        return [octets(packing, words, count, result, parts.zeros)]
    scales, zeros = (None if one is None else convert(state, op, one, ir.F32Type.get()) for one in parts[:0:-1])
    narrow = parts.scales is not None and bits(parts.scales.type.element_type) == 16
    if str(element) == "f16" and zeros is None and narrow:
        return [_denormals(packing, words, scales)]
    integers, unit = _apart(packing, words, count)
    plain = zeros is None and str(element) == "bf16" and not state.target.has("packed_bf16_convert")
    if plain and str(parts.scales.type.element_type) == "bf16":
        return [_rounded_products(integers, scales, unit)]
    factors, times, plus = _terms(integers, unit, zeros, scales, exact=narrow)
    if str(element) == "f16":
        each = zip(*([vectors.element(one, at) for at in range(count)] for one in (factors, times, plus)), strict=True)
        return [_rounded([_Product(factor, None, *rest) for factor, *rest in each])]
    found = value("math.fma", factors.type, [factors, times, plus])
    if scales is None:
        return [to_eight_bit(state, found, element, limited=unlimited)]
    return [bounded_to_bf16(state, found) if str(element) == "bf16" else convert(state, op, found, element)]


def _denormals(packing: Packing, words: Sequence[ir.Value], scales: ir.Value) -> ir.Value:
    """The f16 of integers times scales."""
    count, found = vectors.length_of(scales), []
    for place, word in enumerate(words):
        flipped = arith.xori(word, number(SIGNS)) if packing.signed else word
        sources = [arith.andi(one, number(mask)) for one in (flipped, arith.shrui(flipped, number(8)))
                   for mask, _ in FIELDS]  # fmt: skip
        for element in range(min(A_WORD, count - A_WORD * place)):
            half, first = divmod(element, len(sources))
            scale = vectors.element(scales, A_WORD * place + element)
            times, plus = (_times(scale, one) for one in (FIELDS[first % len(FIELDS)][1], packing.least))
            found.append(_Product(sources[first], half, times, plus))
    return _rounded(found)


def _rounded(products: Sequence[_Product]) -> ir.Value:
    """f16, two in a register."""
    i32, found = ir.IntegerType.get_signless(32), []
    for first in range(0, len(products), 2):
        lines, operands = [], list[ir.Value]()
        for place, one in enumerate(products[first : first + 2]):
            named = ", ".join(f"${len(operands) + 1 + at}" for at in range(3))
            chosen = "" if one.half is None else f" op_sel:[{one.half},0,0] op_sel_hi:[1,0,0]"
            lines.append(f"v_fma_mix{('lo', 'hi')[place]}_f16 $0, {named}{chosen}")
            operands += [one.factor, one.times, one.plus]
        found.append(assembly(i32, operands, "\n".join(lines), ",".join(["=&v", *["v"] * len(operands)])))
    f16s = vectors.vector_type(2 * len(found), ir.F16Type.get())
    return vectors.part(bitcast(vectors.from_elements(found), f16s), 0, len(products))


def _apart(packing: Packing, words: Sequence[ir.Value], count: int) -> tuple[ir.Value, float]:
    """All integers as f32, and what each has to be multiplied by."""
    found, f32 = [], ir.F32Type.get()
    for first, word in zip(range(0, count, A_WORD), words, strict=True):
        # In LLVM's sight these would be put together with shifts that find bytes, which are free.
        halves = [word, _hidden("v_lshrrev_b32 $0, 4, $1", word)]
        if not packing.signed:
            halves = [_hidden(f"v_and_b32 $0, {LOW:#x}, $1", one) for one in halves]
        for place in range(min(A_WORD, count - first)):
            octet = arith.andi(arith.shrui(halves[place % 2], number(8 * (place // 2))), number(0xFF))
            if packing.signed:
                found.append(_call("llvm.amdgcn.cvt.off.f32.i4", octet))
            else:
                found.append(value("arith.uitofp", f32, [octet]))
    return vectors.from_elements(found), 16.0 if packing.signed else 1.0


def _terms(
    integers: ir.Value, unit: float, zeros: ir.Value | None, scales: ir.Value | None, *, exact: bool
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Factors, what they are multiplied by, and what is added, in f32. Where products of scales are `exact`, one
    multiply-add has zero points and scales.
    """
    type_, units, none = integers.type, _splat(unit, integers.type), _splat(-0.0, integers.type)
    if scales is None or exact:
        times = units if scales is None else value("arith.mulf", type_, [scales, units])
        if zeros is None:
            return integers, times, none
        less = zeros if scales is None else value("arith.mulf", type_, [zeros, scales])
        return integers, times, value("arith.negf", type_, [less])
    less = none if zeros is None else value("arith.negf", type_, [zeros])
    return value("math.fma", type_, [integers, units, less]), scales, none


def _rounded_products(integers: ir.Value, scales: ir.Value, unit: float) -> ir.Value:
    """As bf16, rounded as `convert` has it, with one multiplication for 65535 times the product: a scale of bf16 has 8
    bits and 65535 has 16, so that their product is exact.
    """
    parts, length = [], vectors.length_of(integers)
    size = 2 if length % 2 == 0 else 1
    for start in range(0, length, size):
        some, scale = (vectors.part(one, start, size) for one in (integers, scales))
        times = [value("arith.mulf", some.type, [scale, _splat(one * unit, some.type)]) for one in (65535.0, 65536.0)]
        down = value("arith.mulf", some.type, [some, times[0]])
        parts.append(value("math.fma", some.type, [some, times[1], value("arith.negf", some.type, [down])]))
    return upper_halves(parts)


def _hidden(text: str, word: ir.Value) -> ir.Value:
    return assembly(word.type, [word], text, "=v,v")


def _call(name: str, operand: ir.Value) -> ir.Value:
    attributes = {
        "intrin": ir.StringAttr.get(name),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0]),
    }
    return value("llvm.call_intrinsic", ir.F32Type.get(), [operand], attributes)


def _times(scale: ir.Value, factor: float) -> ir.Value:
    f32 = ir.F32Type.get()
    constant = value("arith.constant", f32, [], {"value": ir.FloatAttr.get(f32, factor)})
    return value("arith.mulf", f32, [scale, constant])


def _splat(number_: float, type_: ir.Type) -> ir.Value:
    attribute = ir.DenseElementsAttr.get_splat(type_, ir.FloatAttr.get(ir.F32Type.get(), number_))
    return value("arith.constant", type_, [], {"value": attribute})
