"""Elements of 4 bits as the numbers that they stand for: integers less a zero point, and times a scale.

f16 is rounded by mixed multiply-adds, which read f32 or either half of a register as f16 and write either half, so
that elements get into order (CDNA3 ISA, VOP3P, v_fma_mixlo_f16). With scales of 16 bits these read the integer itself,
unless it has both a sign and a zero point: four bits alone in an f16 are a denormal, 2^-24 times the integer, or 2^-20
times where they are the next lowest. Of integers whose sign is turned around 8 scales are taken away, else scales times
zero points, exactly, as both have at most 11 bits; the sum of both may have more than f32.

Else integers become f32, and are scaled in pairs. Where the chip has fp8, whose codes from 0 to 15 are as many times
the least denormal, two become f32 at once: those without a sign, and those with one, turned around, where 8 more can
be taken away exactly. Others with a sign do, divided by 16, by the instruction for offsets, from any byte (VOP1,
v_cvt_off_f32_i4; SDWA), and without one by v_cvt_f32_ubyte. i8 has arithmetic on four bytes (`octets`).

fp4 become f32 by the chip's instructions, or, where one power of two is that of all that a lane has at a time, f16 or
bf16 times that power at once; where it has none, f16 by a table (`halves`), which multiply-adds read, or bf16 that
share a scale by tables of its products (`products_of_fp4`). Times a power of two they have two significant bits, and
bf16, whose least denormal is 2^-133, has all that f32 has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_real, constant_value, intrinsic, text_of, value
from ckmlir.dialect.dequantize import POWERS, operands_of
from ckmlir.dialect.packing import PACKED, Packing
from ckmlir.dialect.scalars import bits, name_of
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.convert import convert, paired_halves, rounded_above, to_eight_bit, unlimited, upper_halves
from ckmlir.lowering.halves import A_WORD, codes, number, pairs_of_fp4
from ckmlir.lowering.octets import octets
from ckmlir.lowering.packed import LEAST, LOW, pair_of_fp8, unpacked_pairs, words_of
from ckmlir.lowering.products_of_fp4 import FEWEST, products_of_fp4
from ckmlir.lowering.storage import bitcast
from ckmlir.mlir import ir
from ckmlir.passes import vectors

FIELDS = ((0x000F000F, 2.0**24), (0x00F000F0, 2.0**20))
"""Four bits of each half of a word, and what the f16 there is multiplied by to become their number."""

NANS = {"bf16": 0x7FC07FC0, "f16": 0x7E007E00}
"""By type, two that are NaN."""
MANTISSA, NO_POWER = 23, 0xFF
"""Bits of f32's; the code of a scale that is NaN."""
BOUND = 2.0**100
"""Of scales that larger factors of ours than `MOST_OF_FACTORS` are multiplied by; see `_limited`."""
MOST_OF_FACTORS = 16.0
"""Of whose multiples of a scale nothing is promised where these are beyond f32."""


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
    if not packing.is_integer:
        return [_floats(state, op, words, count)]
    if str(element) == "i8":
        return [octets(packing, words, count, result, parts.zeros)]
    scales, zeros = (None if one is None else convert(state, op, one, ir.F32Type.get()) for one in parts[:0:-1])
    narrow = parts.scales is not None and bits(parts.scales.type.element_type) == 16
    large = narrow and str(parts.scales.type.element_type) == "bf16" and str(element) != "f32"
    if str(element) == "f16" and narrow and (zeros is None or not packing.signed):
        return [_denormals(packing, words, _limited(scales) if large else scales, zeros)]
    by_arithmetic = str(element) == "bf16" and not state.target.has("packed_bf16_convert")
    in_rounding = by_arithmetic and zeros is None and str(parts.scales.type.element_type) == "bf16"
    turned = packing.signed and _takes_back(state, zeros, scales) and not in_rounding
    if turned:
        eight = _splat(-packing.least, vectors.vector_type(count, ir.F32Type.get()))
        zeros = eight if zeros is None else value("arith.addf", zeros.type, [zeros, eight])
    integers, unit, order = _apart(state, packing, words, count, signed=packing.signed and not turned)
    if large and (in_rounding or unit > MOST_OF_FACTORS):
        scales = _limited(scales)
    zeros, scales = (None if one is None else _ordered(one, order) for one in (zeros, scales))
    if in_rounding:
        return [upper_halves(_joined(_rounded_products(integers, scales, unit), order))]
    factors, times, plus = _terms(integers, unit, zeros, scales, exact=narrow)
    if str(element) == "f16":
        each = {place: [vectors.element(one, at) for one in (factors, times, plus)] for at, place in enumerate(order)}
        return [_rounded([_Product(each[at][0], None, *each[at][1:]) for at in range(count)])]
    found = [value("math.fma", one[0].type, one) for one in _in_pairs(factors, times, plus)]
    if by_arithmetic:
        return [paired_halves(_joined(map(rounded_above, found), order))]
    whole = _joined(found, order)
    if scales is None:
        return [to_eight_bit(state, whole, element, limited=unlimited)]
    return [convert(state, op, whole, element)]


def _floats(state: Lowering, op: ir.Operation, words: Sequence[ir.Value], count: int) -> ir.Value:
    """fp4 times scales."""
    given, element = operands_of(op).scales, op.results[0].type.element_type
    one, exact = vectors.repeated(given), name_of(given.type.element_type) == POWERS
    if one is not None and exact and str(element) in NANS and state.target.has("scaled_convert"):
        return _times_power(words, count, one, element)
    by_arithmetic = str(element) == "bf16" and not state.target.has("packed_bf16_convert")
    if one is not None and by_arithmetic and count >= FEWEST:
        scale = vectors.element(convert(state, op, vectors.from_elements([one]), ir.F32Type.get()), 0)
        return products_of_fp4(words, count, scale, paired_halves if exact else _rounded_halves, signed=not exact)
    scales, none = convert(state, op, given, ir.F32Type.get()), _constant(-0.0)
    if state.target.has("scaled_convert"):
        wide = unpacked_pairs(words, count)
        factors: list[tuple[ir.Value, int | None]] = [(vectors.element(wide, place), None) for place in range(count)]
    else:
        pairs = [pair for word in words for pair in pairs_of_fp4(word)]
        factors = [(pairs[place // 2], place % 2) for place in range(count)]
    products = [_Product(*one, vectors.element(scales, place), none) for place, one in enumerate(factors)]
    if str(element) == "f16":
        return _rounded(products)
    found = vectors.from_elements([_product(one) for one in products])
    if str(element) == "f32" or state.target.has("packed_bf16_convert"):
        return convert(state, op, found, element)
    return paired_halves(found) if exact else _rounded_halves(found)


def _rounded_halves(products: ir.Value) -> ir.Value:
    """bf16 of f32, by arithmetic."""
    parts = [rounded_above(one) for (one,) in _in_pairs(products)]
    return paired_halves(_joined(parts, range(vectors.length_of(products))))


def _times_power(words: Sequence[ir.Value], count: int, power: ir.Value, element: ir.Type) -> ir.Value:
    """fp4 times one power of two for all: two elements an instruction, which takes the exponent from where f32 has it.
    The exponent of all ones is NaN, which is put beside what becomes of it.
    """
    i32, pair = ir.IntegerType.get_signless(32), vectors.vector_type(2, element)
    code = value("arith.extui", i32, [value("arith.bitcast", ir.IntegerType.get_signless(8), [power])])
    scale = bitcast(arith.shli(code, number(MANTISSA)), ir.F32Type.get())
    is_nan = arith.cmpi(arith.CmpIPredicate.eq, code, number(NO_POWER))
    beside = value("arith.select", i32, [is_nan, number(NANS[str(element)]), number(0)])
    found = []
    for place in range(-(-count // 2)):
        byte = {"srcSelIndex": ir.IntegerAttr.get(i32, place % 4)}
        two = value(f"rocdl.cvt.scalef32.pk.{element}.fp4", pair, [words[place // 4], scale], byte)
        found.append(arith.ori(bitcast(two, i32), beside))
    whole = bitcast(vectors.from_elements(found), vectors.vector_type(2 * len(found), element))
    return vectors.part(whole, 0, count)


def _product(one: _Product) -> ir.Value:
    """In f32."""
    if one.half is None:
        return value("arith.mulf", one.times.type, [one.factor, one.times])
    text = f"v_fma_mix_f32 $0, $1, $2, $3 op_sel:[{one.half},0,0] op_sel_hi:[1,0,0]"
    return assembly(one.times.type, [one.factor, one.times, one.plus], text, "=v,v,v,v")


def _denormals(packing: Packing, words: Sequence[ir.Value], scales: ir.Value, zeros: ir.Value | None) -> ir.Value:
    """The f16 of integers, of those without a sign less their zero points, times scales."""
    count, found = vectors.length_of(scales), []
    for place, word in enumerate(words):
        sources = [codes(packing, one, mask) for one in (word, arith.shrui(word, number(8))) for mask, _ in FIELDS]
        for element in range(min(A_WORD, count - A_WORD * place)):
            half, first = divmod(element, len(sources))
            scale = vectors.element(scales, A_WORD * place + element)
            times = _times(scale, FIELDS[first % len(FIELDS)][1])
            if zeros is None:
                plus = _times(scale, packing.least)
            else:
                less = value("arith.negf", scale.type, [vectors.element(zeros, A_WORD * place + element)])
                plus = value("arith.mulf", scale.type, [scale, less])
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


def _limited(scales: ir.Value) -> ir.Value:
    """Scales of at most `BOUND`, so that factors of ours times one are finite, and 0 times that is 0: what is not 0
    times a larger one is beyond f16, and beyond what is promised of bf16. NaN stays NaN, which the median would drop.
    """
    found = []
    for place in range(vectors.length_of(scales)):
        scale = vectors.element(scales, place)
        median = _call("llvm.amdgcn.fmed3", scale, _constant(-BOUND), _constant(BOUND))
        found.append(value("math.fma", scale.type, [scale, _constant(0.0), median]))
    return vectors.from_elements(found)


def _takes_back(state: Lowering, zeros: ir.Value | None, scales: ir.Value | None) -> bool:
    """Whether integers with a sign are read as 8 more, two at once, and 8 more are taken away: exactly, as zero points
    that are integers or none have few bits.
    """
    return state.target.fp8 is not None and (zeros is None or scales is None)


def _apart(
    state: Lowering, packing: Packing, words: Sequence[ir.Value], count: int, *, signed: bool
) -> tuple[ir.Value, float, list[int]]:
    """All integers as f32, what each has to be multiplied by, and which of them each is: pairs are neighbours. Those
    that have a sign, but are not `signed`, are 8 more. Where the chip has scaled conversions, these multiply.
    """
    found, f32 = dict[int, ir.Value](), ir.F32Type.get()
    least = None if signed or state.target.fp8 is None else LEAST[state.target.fp8]
    unit = 16.0 if signed else 1.0 if least is None or state.target.has("scaled_convert") else least
    for first, word in zip(range(0, count, A_WORD), words, strict=True):
        # In LLVM's sight these would be put together with shifts that find bytes, which are free.
        halves = [word, _hidden("v_lshrrev_b32 $0, 4, $1", word)]
        if not signed:
            halves = [
                codes(packing, one, LOW) if packing.signed else _hidden(f"v_and_b32 $0, {LOW:#x}, $1", one)
                for one in halves
            ]
        if least is not None:
            for place in (0, 1, 4, 5):
                pair = pair_of_fp8(halves[place % 2], place >= A_WORD // 2, least / unit)
                found |= {first + place + 2 * at: vectors.element(pair, at) for at in (0, 1)}
            continue
        for place in range(min(A_WORD, count - first)):
            octet = arith.andi(arith.shrui(halves[place % 2], number(8 * (place // 2))), number(0xFF))
            if signed:
                found[first + place] = _call("llvm.amdgcn.cvt.off.f32.i4", octet)
            else:
                found[first + place] = value("arith.uitofp", f32, [octet])
    order = [place for place in found if place < count]
    return vectors.from_elements([found[place] for place in order]), unit, order


def _ordered(vector: ir.Value, order: Sequence[int]) -> ir.Value:
    """Its elements in another order."""
    return vector if list(order) == sorted(order) else vectors.shuffle(vector, vector, order)


def _in_pairs(*operands: ir.Value) -> Iterator[list[ir.Value]]:
    """Two elements of each at a time, where there are as many: in LLVM's sight arithmetic on all would be on pairs of
    the order in which elements are needed, for which they would be moved.
    """
    length = vectors.length_of(operands[0])
    size = 2 if length % 2 == 0 else 1
    return ([vectors.part(one, start, size) for one in operands] for start in range(0, length, size))


def _joined(parts: Iterable[ir.Value], order: Sequence[int]) -> ir.Value:
    """Vectors as one, whose elements are as many of the whole's as `order` has: in the whole's order."""
    elements = [vectors.element(part, at) for part in parts for at in range(vectors.length_of(part))]
    return vectors.from_elements([elements[order.index(place)] for place in range(len(elements))])


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


def _rounded_products(integers: ir.Value, scales: ir.Value, unit: float) -> list[ir.Value]:
    """Two at a time, rounded to bf16 as `convert` has it, with one multiplication for 65535 times the product: a scale
    of bf16 has 8 bits and 65535 has 16, so that their product is exact.
    """
    parts = []
    for some, scale in _in_pairs(integers, scales):
        times = [value("arith.mulf", some.type, [scale, _splat(one * unit, some.type)]) for one in (65535.0, 65536.0)]
        down = value("arith.mulf", some.type, [some, times[0]])
        parts.append(value("math.fma", some.type, [some, times[1], value("arith.negf", some.type, [down])]))
    return parts


def _hidden(text: str, word: ir.Value) -> ir.Value:
    return assembly(word.type, [word], text, "=v,v")


def _call(name: str, *operands: ir.Value) -> ir.Value:
    return intrinsic(name, ir.F32Type.get(), operands)


def _times(scale: ir.Value, factor: float) -> ir.Value:
    return value("arith.mulf", scale.type, [scale, _constant(factor)])


def _constant(number_: float) -> ir.Value:
    f32 = ir.F32Type.get()
    return constant_real(number_, f32)


def _splat(number_: float, type_: ir.Type) -> ir.Value:
    attribute = ir.DenseElementsAttr.get_splat(type_, ir.FloatAttr.get(ir.F32Type.get(), number_))
    return constant_value(attribute)
