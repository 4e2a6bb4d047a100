"""Conversions of vectors between element types: round to nearest even; integers and 8-bit floats saturate.

What is legal is the target's data: packed conversions exist on some chips only, and asking the backend for others
aborts the process. NaN stays NaN in every floating-point result, and becomes 0 in integers.
"""

from collections.abc import Callable

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_integer, constant_real, constant_value, intrinsic, value
from ckmlir.dialect.scalars import bits, element_type, is_float, name_of
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.exact_conversions import EXACT
from ckmlir.lowering.halves import number, permuted
from ckmlir.lowering.mixed_rounding import is_mixed, rounded
from ckmlir.lowering.short_vectors import choose
from ckmlir.lowering.storage import as_fragment, as_integers, bitcast
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.passes.framework import fail

EIGHT_BIT = {
    "f8E4M3FNUZ": ("fp8", 240.0),
    "f8E5M2FNUZ": ("bf8", 57344.0),
    "f8E4M3FN": ("fp8", 448.0),
    "f8E5M2": ("bf8", 57344.0),
}
"""(name in instructions, largest finite value) of the 8-bit floats."""
UPPER_HALVES = 0x07060302
"""Bytes that v_perm_b32 takes of two words: the upper two of each."""
LOWEST_BYTES, LOWER_HALVES = 0x0C0C0400, 0x05040100
"""The same: the lowest of each, and zeros; the lower two of each."""
FLOATS, INTEGERS = ("f16", "bf16", "f32", "f64"), ("i8", "i16", "i32", "i64")


def lower_convert(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.convert to conversion instructions."""
    source, element = op.operands[0], op.results[0].type.element_type
    bounded = "bounded" in op.attributes and name_of(source.type.element_type) == "f32"
    if EXACT in op.attributes and not state.target.has("packed_bf16_convert"):
        return [paired_halves(source) if state.joins_halves else upper_halves(source)]
    if is_mixed(state, op):
        return [rounded(state, source)]
    if bounded and str(element) == "bf16":
        return [bounded_to_bf16(state, source)]
    if bounded and str(element) in EIGHT_BIT:
        return [to_eight_bit(state, source, element, limited=unlimited)]
    return [convert(state, op, source, element)]


def convert(state: Lowering, op: ir.Operation, source: ir.Value, target: ir.Type) -> ir.Value:
    """A vector's elements in another type; through f32 where there is no direct way."""
    have, want = name_of(source.type.element_type), str(target)
    if have == want:
        return source
    for way in (_eight_bits, _floats, _integers, _floats_and_integers):
        found = way(state, source, target)
        if found is not None:
            return found
    if "f32" not in (have, want) and have != "f64":
        return convert(state, op, convert(state, op, source, ir.F32Type.get()), target)
    fail(op, f"no conversion from {op.operands[0].type.element_type} to {op.results[0].type.element_type}")


def _eight_bits(state: Lowering, source: ir.Value, target: ir.Type) -> ir.Value | None:
    """Between f32 and floats of 8 bits."""
    have, want = name_of(source.type.element_type), str(target)
    if have == "f32" and want in EIGHT_BIT:
        return to_eight_bit(state, source, target)
    if want != "f32":
        return None
    if have == "f8E8M0FNU":
        return _from_power(source)
    return _from_eight_bit(state, source) if have in EIGHT_BIT else None


def _floats(state: Lowering, source: ir.Value, target: ir.Type) -> ir.Value | None:
    """Between f32 or f64 and another of at least 16 bits."""
    have, want = name_of(source.type.element_type), str(target)
    if have == "f32" and want == "bf16" and not state.target.has("packed_bf16_convert"):
        return _to_bf16(source)
    if have == "bf16" and want == "f32" and state.makes_f16:
        return _from_bf16(source)
    if have not in FLOATS or want not in FLOATS or not {have, want} & {"f32", "f64"}:
        return None
    name = "arith.extf" if bits(target) > bits(source.type.element_type) else "arith.truncf"
    return _elementwise(name, source, target)


def _integers(state: Lowering, source: ir.Value, target: ir.Type) -> ir.Value | None:
    """Between integers; conditions among them, of which one that holds is 1."""
    own = source.type.element_type
    if is_float(own) or is_float(target):
        return None
    if name_of(own) == "i1":
        return _elementwise("arith.extui", source, target)
    if bits(target) < bits(own):
        return _elementwise("arith.trunci", _limited(source, target), target)
    return _elementwise("arith.extsi", source, target)


def _floats_and_integers(state: Lowering, source: ir.Value, target: ir.Type) -> ir.Value | None:
    """Between f32 or f64 and an integer."""
    have, want = name_of(source.type.element_type), str(target)
    if have == "i8" and want == "f32":
        return _from_i8(source)
    if have in INTEGERS and want in ("f32", "f64"):
        return _elementwise("arith.sitofp", source, target)
    if have not in ("f32", "f64") or want not in INTEGERS:
        return None
    if want != "i8":
        return _to_integer(source, target)
    return _bytes(_limited(_to_integer(source, ir.IntegerType.get_signless(32)), target))


def _elementwise(name: str, source: ir.Value, target: ir.Type) -> ir.Value:
    """An operation's results for a vector's elements, of another type."""
    return value(name, vectors.vector_type(vectors.length_of(source), target), [source])


def _to_integer(source: ir.Value, target: ir.Type) -> ir.Value:
    """Round to nearest even, then saturate; NaN becomes 0: what v_cvt_i32_f32 does by itself (CDNA3 ISA, VOP1).

    Without saturation in its words LLVM takes a number out of range for undefined, and what follows with it.
    """
    rounded = value("math.roundeven", source.type, [source])
    return intrinsic("llvm.fptosi.sat", vectors.vector_type(vectors.length_of(source), target), [rounded])


def _from_bf16(source: ir.Value) -> ir.Value:
    """The upper half of an f32, by integers: sums and products of extensions LLVM 22 computes in f16 where they are
    converted to that, because its mantissa holds that of bf16; its range does not (InstCombine, fptrunc of a binary
    operation).
    """
    length = vectors.length_of(source)
    i32 = vectors.vector_type(length, ir.IntegerType.get_signless(32))
    half = bitcast(source, vectors.vector_type(length, ir.IntegerType.get_signless(16)))
    wide = arith.shli(value("arith.extui", i32, [half]), _splat(16, i32))
    return bitcast(wide, vectors.vector_type(length, ir.F32Type.get()))


def _to_bf16(source: ir.Value) -> ir.Value:
    """Round to nearest even by adding just under half a unit, plus one where the kept part is odd; NaN stays NaN.

    gfx90a and gfx942 have no such instruction. NaN needs no comparison, whose masks (a pair of scalar registers an
    element) a large tile has no room for: a quiet NaN stays one when it is limited to what cannot overflow, and
    `llvm.canonicalize` quiets the others, at no cost where the value comes from arithmetic. As an integer with a sign
    a positive NaN is above all else, without one a negative NaN is, so that two minima limit both.
    """
    length = vectors.length_of(source)
    i32 = vectors.vector_type(length, ir.IntegerType.get_signless(32))
    i16 = vectors.vector_type(length, ir.IntegerType.get_signless(16))
    quiet = intrinsic("llvm.canonicalize", source.type, [source])
    raw = bitcast(quiet, i32)
    limited = arith.minui(arith.minsi(raw, _splat(0x7FFF0000, i32)), _splat(-0x10000, i32))
    odd = arith.andi(arith.shrui(raw, _splat(16, i32)), _splat(1, i32))
    rounded = arith.addi(limited, arith.addi(odd, _splat(0x7FFF, i32)))
    high = arith.trunci(i16, arith.shrui(rounded, _splat(16, i32)))
    return bitcast(high, vectors.vector_type(length, ir.BF16Type.get()))


def bounded_to_bf16(state: Lowering, source: ir.Value) -> ir.Value:
    """f32 of at most 2^100; what is below 2^-126 may become 0."""
    if state.target.has("packed_bf16_convert"):
        return value("arith.truncf", vectors.vector_type(vectors.length_of(source), ir.BF16Type.get()), [source])
    length = vectors.length_of(source)
    size = 2 if length % 2 == 0 else 1
    parts = [rounded_above(vectors.part(source, start, size)) for start in range(0, length, size)]
    rounded = vectors.from_elements([vectors.element(part, at) for part in parts for at in range(size)])
    return paired_halves(rounded) if state.joins_halves else upper_halves(rounded)


def rounded_above(x: ir.Value) -> ir.Value:
    """Round to nearest even by two packed instructions: the upper half of (65536 x) - (65536 x - x).

    65535 x has 16 bits more than the 24 of x, and is rounded to 24: to the lowest bit that a bf16 of this magnitude
    has. 65536 x, of which that is subtracted again, is a multiple of this bit, an even one where x lies in the middle
    of two, so that ties go to even; what is left is the rounded x, exactly. Just above a power of two 65535 x lies
    below the next one and keeps another bit, which is zero there. NaN stays NaN: quiet ones have the highest bit of
    their fraction set. A test compares all fractions.
    """
    many = _splat_float(65536.0, x.type)
    down = value("math.fma", x.type, [x, many, value("arith.negf", x.type, [x])])
    return value("math.fma", x.type, [x, many, value("arith.negf", x.type, [down])])


def paired_halves(rounded: ir.Value) -> ir.Value:
    """The upper halves of f32, as bf16: of an even number by an instruction a pair.

    LLVM would make the same of a shuffle, but shift every element down that is stored alone besides: the DAG's
    truncating stores, of which the one for upper halves is, want values that nothing else uses.
    """
    i32, length = ir.IntegerType.get_signless(32), vectors.length_of(rounded)
    if length % 2:
        return upper_halves(rounded)
    words = []
    for first in range(0, length, 2):
        low, high = (bitcast(vectors.element(rounded, first + place), i32) for place in range(2))
        words.append(permuted(high, low, number(UPPER_HALVES)))
    return bitcast(vectors.from_elements(words), vectors.vector_type(length, ir.BF16Type.get()))


def upper_halves(rounded: ir.Value) -> ir.Value:
    """The upper halves of f32, as bf16."""
    length = vectors.length_of(rounded)
    halves = bitcast(rounded, vectors.vector_type(2 * length, ir.BF16Type.get()))
    return vectors.shuffle(halves, halves, range(1, 2 * length, 2))


def to_eight_bit(
    state: Lowering, source: ir.Value, target: ir.Type, limited: Callable[[ir.Value, float], ir.Value] | None = None
) -> ir.Value:
    """Two values an instruction, saturated before (`limited`, by default on both sides): the instruction makes NaN (or
    infinity) of what is too large.
    """
    name, largest = _eight_bit(state, target, "to")
    length = vectors.length_of(source)
    clamped = (limited or _clamp)(source, largest)
    i32 = ir.IntegerType.get_signless(32)
    zero = constant_real(0.0, ir.F32Type.get())
    scalars = [vectors.element(clamped, position) for position in range(length)]
    scalars += [zero] * (-length % 4)
    words = []
    for first in range(0, len(scalars), 4):
        word = value("llvm.mlir.poison", i32, [])
        for half in range(2):
            pair = scalars[first + 2 * half : first + 2 * half + 2]
            word = value(f"rocdl.cvt.pk.{name}.f32", i32, [*pair, word], {"wordSel": ir.BoolAttr.get(bool(half))})
        words.append(word)
    i8 = ir.IntegerType.get_signless(8)
    octets = bitcast(vectors.from_elements(words), vectors.vector_type(4 * len(words), i8))
    return as_fragment(vectors.part(octets, 0, length), vectors.vector_type(length, target))


def _eight_bit(state: Lowering, type_: ir.Type, way: str) -> tuple[str, float]:
    """The name in instructions and the largest value of an 8-bit float.

    Raises:
        TargetError: the chip converts no 8-bit floats.
        ValueError: its instructions work on the other format.
    """
    name, largest = EIGHT_BIT[name_of(type_)]
    state.target.require("fp8_convert", f"conversion {way} {name}")
    own = element_type(name, state.target.fp8)
    if own != type_:
        raise ValueError(f"{type_} is not {state.target}'s format of {name}, {own}")
    return name, largest


def _clamp(source: ir.Value, largest: float) -> ir.Value:
    """Limited to ±largest; NaN stays NaN, which the minimum and maximum instructions would drop."""
    high, low = _splat_float(largest, source.type), _splat_float(-largest, source.type)
    limited = value("arith.maxnumf", source.type, [value("arith.minnumf", source.type, [source, high]), low])
    return _where_not_a_number(source, source, limited)


def unlimited(source: ir.Value, largest: float) -> ir.Value:
    """Values that are not too large."""
    return source


def _where_not_a_number(source: ir.Value, then: ir.Value, otherwise: ir.Value) -> ir.Value:
    """Of two vectors the elements of the first where the source is NaN, of the second where not."""
    f32, i64 = ir.F32Type.get(), ir.IntegerType.get_signless(64)
    zero = constant_real(0.0, f32)
    unordered = {"predicate": ir.IntegerAttr.get(i64, int(arith.CmpFPredicate.UNO))}
    zeros = vectors.splat(zero, vectors.length_of(source))
    return choose("arith.cmpf", unordered, lambda number: vectors.element(source, number), zeros, [then, otherwise])


def _from_eight_bit(state: Lowering, source: ir.Value) -> ir.Value:
    """Two values an instruction."""
    name, _ = _eight_bit(state, source.type.element_type, "from")
    length = vectors.length_of(source)
    octets = as_integers(source)
    if length % 4:
        zero = constant_integer(0, ir.IntegerType.get_signless(8))
        singles = [vectors.element(octets, position) for position in range(length)]
        octets = vectors.from_elements(singles + [zero] * (-length % 4))
    words = bitcast(octets, vectors.vector_type(vectors.length_of(octets) // 4, ir.IntegerType.get_signless(32)))
    pair_type = vectors.vector_type(2, ir.F32Type.get())
    floats = []
    for position in range(vectors.length_of(words)):
        word = vectors.element(words, position)
        for half in (False, True):
            pair = value(f"rocdl.cvt.pk.f32.{name}", pair_type, [word], {"wordSel": ir.BoolAttr.get(half)})
            floats += [vectors.element(pair, 0), vectors.element(pair, 1)]
    return vectors.from_elements(floats[:length])


def _from_power(source: ir.Value) -> ir.Value:
    """A power of two from its biased exponent: 0 is 2^-127, a denormal of f32, and 255 NaN.

    v_ldexp_f32 makes a denormal too (CDNA3 ISA, VOP3), and of 255 infinity, whose product with 0 is NaN.
    """
    length = vectors.length_of(source)
    i32 = vectors.vector_type(length, ir.IntegerType.get_signless(32))
    f32 = vectors.vector_type(length, ir.F32Type.get())
    code = value("arith.extui", i32, [as_integers(source)])
    power = intrinsic("llvm.ldexp", f32, [_splat_float(2.0**-127, f32), code])
    return value("math.fma", f32, [power, _splat_float(0.0, f32), power])


def _from_i8(source: ir.Value) -> ir.Value:
    """Each byte of a word: of a shift to either side LLVM makes one instruction, which takes a byte with its sign.

    As a vector of bytes LLVM takes words that go round a loop apart where they are loaded, and waits for each load
    there: the sums of two arrays of i8 took 2.8 times the cycles of f16 by the model. Scalars of which a vector repeats
    some are in no word, and are converted once each.
    """
    length = vectors.length_of(source)
    f32 = ir.F32Type.get()
    scalars = vectors.scalars_of(source)
    distinct = list(dict.fromkeys(scalars))
    if len(distinct) < len(scalars):
        own = {scalar: _from_byte(scalar) for scalar in distinct}
        return vectors.from_elements([own[scalar] for scalar in scalars])
    if length % 4:
        return value("arith.sitofp", vectors.vector_type(length, f32), [source])
    i32 = ir.IntegerType.get_signless(32)
    words = bitcast(source, vectors.vector_type(length // 4, i32))
    spread = vectors.from_elements([vectors.element(words, place // 4) for place in range(length)])
    left = _numbers([24 - 8 * (place % 4) for place in range(length)], spread.type)
    single = arith.shrsi(arith.shli(spread, left), _splat(24, spread.type))
    return value("arith.sitofp", vectors.vector_type(length, f32), [single])


def _from_byte(scalar: ir.Value) -> ir.Value:
    """An i8 by one instruction, with its sign: LLVM would extend it where it was loaded, and wait there."""
    i32, f32 = ir.IntegerType.get_signless(32), ir.F32Type.get()
    unknown = value("llvm.mlir.poison", scalar.type, [])
    word = bitcast(vectors.from_elements([scalar, unknown, unknown, unknown]), vectors.vector_type(1, i32))
    text = "v_cvt_f32_i32_sdwa $0, sext($1) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0"
    return assembly(f32, [vectors.element(word, 0)], text, "=v,v")


def _limited(source: ir.Value, target: ir.Type) -> ir.Value:
    """Integers limited to what a narrower type holds."""
    most = (1 << bits(target) - 1) - 1
    return arith.maxsi(arith.minsi(source, _splat(most, source.type)), _splat(-most - 1, source.type))


def _bytes(source: ir.Value) -> ir.Value:
    """The lowest byte of each word: by three instructions for four where LLVM would take five. Of integers that a
    kernel has taken out of words itself LLVM sees that they are in one."""
    length, i8 = vectors.length_of(source), ir.IntegerType.get_signless(8)
    if length % 4:
        return value("arith.trunci", vectors.vector_type(length, i8), [source])
    found = [vectors.element(source, place) for place in range(length)]
    for selector in (LOWEST_BYTES, LOWER_HALVES):
        found = [permuted(high, low, number(selector)) for low, high in zip(found[::2], found[1::2], strict=True)]
    return bitcast(vectors.from_elements(found), vectors.vector_type(length, i8))


def _splat(number: int, type_: ir.Type) -> ir.Value:
    attribute = ir.DenseElementsAttr.get_splat(type_, ir.IntegerAttr.get(type_.element_type, number))
    return constant_value(attribute)


def _splat_float(number: float, type_: ir.Type) -> ir.Value:
    attribute = ir.DenseElementsAttr.get_splat(type_, ir.FloatAttr.get(type_.element_type, number))
    return constant_value(attribute)


def _numbers(numbers: list[int], type_: ir.Type) -> ir.Value:
    integers = [ir.IntegerAttr.get(type_.element_type, one) for one in numbers]
    return constant_value(ir.DenseElementsAttr.get(integers, type_))
