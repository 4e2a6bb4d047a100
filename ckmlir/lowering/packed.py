"""Conversions of packed elements to and from f32, by gfx950's instructions or, everywhere else, by arithmetic.

Both ways are exact, or rounded to nearest even; what is too large saturates. Arithmetic takes a code's fields to where
f32 has them, in an exponent that is too small by a constant, which a multiplication makes up for; denormals of the
format are denormals of f32 there. Back, adding and subtracting a power of two rounds at the format's last place.
Integers are cut out of words, with their sign if they have one, and converted; where the chip has fp8 they are small
numbers of it, two of which it converts at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_integer, constant_real, constant_value, text_of, value
from ckmlir.dialect.packed import exponent_of
from ckmlir.dialect.packing import PACKED, Packing
from ckmlir.dialect.scalars import bits
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.convert import EIGHT_BIT, convert, to_eight_bit, unlimited
from ckmlir.lowering.halves import codes, halves
from ckmlir.lowering.octets import octets
from ckmlir.lowering.storage import bitcast
from ckmlir.mlir import ir
from ckmlir.passes import vectors

WORD = 32
SIGN = -(1 << 31)
EXPONENTS = 0x7F800000
MANTISSA, BIAS = 23, 127
"""Bits and bias of f32."""
LOW = 0x0F0F0F0F
"""The lower half of every byte."""
LEAST = {"ocp": 2.0**9, "fnuz": 2.0**10}
"""What one of the least denormals of fp8 (e4m3) is multiplied by to become 1."""
SCALED = "scaled_convert"
BLOCK = 32
"""Elements of six bits that an instruction converts."""


def lower_unpack(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.unpack_fragment: elements in bytes as f32, f16 or fp8, which holds all of them; integers as i8 or bf8 too."""
    name = text_of(op, "format")
    packing, source, element = PACKED[name], op.operands[0], op.results[0].type.element_type
    count, words = packing.count(int(source.type.shape[0])), words_of(source)
    if str(element) == "f16" and packing.bits == 4:
        return [halves(packing, words, count)]
    if bits(element) == 8 and packing.is_integer:
        return [octets(packing, words, count, op.results[0].type, exponent=exponent_of(op))]
    if str(element) in EIGHT_BIT:
        return [to_eight_bit(state, _wide(state, name, words, count), element, limited=unlimited)]
    return [convert(state, op, _wide(state, name, words, count), element)]


def _wide(state: Lowering, name: str, words: Sequence[ir.Value], count: int) -> ir.Value:
    """Elements in words as f32."""
    packing = PACKED[name]
    if packing.is_integer:
        return _integers(packing, words, count) if state.target.fp8 is None else _few(state, packing, words, count)
    if state.target.has(SCALED) and packing.bits == 4:
        return unpacked_pairs(words, count)
    if state.target.has(SCALED) and count == BLOCK:
        return value(f"rocdl.cvt.scalef32.pk32.f32.{name}", _f32s(BLOCK), [vectors.from_elements(words), _one()])
    return _decoded(packing, words, count)


def lower_pack(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.pack_fragment: f32 as elements in bytes."""
    name = text_of(op, "format")
    packing, source = PACKED[name], op.operands[0]
    bytes_ = int(op.results[0].type.shape[0])
    if packing.is_integer:
        words = joined(packing, _integer_codes(packing, source))
    elif state.target.has(SCALED) and packing.bits == 4:
        words = _packed_pairs(source)
    elif state.target.has(SCALED) and vectors.length_of(source) == BLOCK:
        words = _packed_block(name, source)
    else:
        words = joined(packing, _encoded(packing, source))
    octets = bitcast(vectors.from_elements(words), vectors.vector_type(4 * len(words), ir.IntegerType.get_signless(8)))
    return [vectors.part(octets, 0, bytes_)]


# -- by instructions


def unpacked_pairs(words: Sequence[ir.Value], count: int) -> ir.Value:
    """Two elements an instruction, which names the byte."""
    floats: list[ir.Value] = []
    for pair in range(count // 2):
        place = {"srcSelIndex": ir.IntegerAttr.get(_i32(), pair % 4)}
        found = value("rocdl.cvt.scalef32.pk.f32.fp4", _f32s(2), [words[pair // 4], _one()], place)
        floats += [vectors.element(found, 0), vectors.element(found, 1)]
    return vectors.from_elements(floats)


def _packed_pairs(source: ir.Value) -> list[ir.Value]:
    """Two elements an instruction, which puts them into a byte of a register.

    What reads such a register next has to wait one state, the next conversion too. LLVM 22 counts that where
    the byte is one of the upper half only, so that a word is written in assembly.
    """
    elements = [vectors.element(source, place) for place in range(vectors.length_of(source))]
    return [_packed_word(elements[start : start + 8]) for start in range(0, len(elements), 8)]


def _packed_word(elements: Sequence[ir.Value]) -> ir.Value:
    """Up to eight elements, which may come from instructions that have to be waited for as long."""
    lines = ["s_nop 0"]
    for pair in range(len(elements) // 2):
        place = f" op_sel:[0,0,{pair & 1},{pair >> 1}]" if pair else ""
        lines.append(f"v_cvt_scalef32_pk_fp4_f32 $0, ${2 * pair + 1}, ${2 * pair + 2}, 1.0{place}\ns_nop 0")
    constraints = ",".join(["=&v", *["v"] * len(elements), "0"])
    return assembly(_i32(), [*elements, _constant(0)], "\n".join(lines), constraints)


def _packed_block(name: str, source: ir.Value) -> list[ir.Value]:
    """The instruction takes elements of even and of odd number apart."""
    halves = [vectors.shuffle(source, source, range(parity, BLOCK, 2)) for parity in range(2)]
    type_ = vectors.vector_type(6, _i32())
    found = value(f"rocdl.cvt.scalef32.2xpk16.{name}.f32", type_, [*halves, _one()])
    return [vectors.element(found, place) for place in range(6)]


# -- by arithmetic


def _decoded(packing: Packing, words: Sequence[ir.Value], count: int) -> ir.Value:
    """Fields are cut out of words and moved, sign and magnitude apart."""
    magnitude = (1 << (packing.bits - 1)) - 1
    low = MANTISSA - packing.mantissa
    found = []
    for number in range(count):
        code = field(words, packing.bits * number, packing.bits)
        sign = arith.andi(_shifted(code, WORD - packing.bits), _constant(SIGN))
        small = arith.andi(_shifted(code, low), _constant(magnitude << low))
        found.append(arith.ori(sign, small))
    small = bitcast(vectors.from_elements(found), _f32s(count))
    return value("arith.mulf", small.type, [small, _splat_float(2.0 ** (BIAS - packing.bias), count)])


def _integers(packing: Packing, words: Sequence[ir.Value], count: int) -> ir.Value:
    """Fields moved to the top of a word and back, which spreads their signs."""
    above = WORD - packing.bits
    back = arith.shrsi if packing.signed else arith.shrui
    found = []
    for number in range(count):
        word, place = divmod(packing.bits * number, WORD)
        found.append(back(_shifted(words[word], above - place), _constant(above)))
    name = "arith.sitofp" if packing.signed else "arith.uitofp"
    return value(name, _f32s(count), [vectors.from_elements(found)])


def _few(state: Lowering, packing: Packing, words: Sequence[ir.Value], count: int) -> ir.Value:
    """Fields of four bits, alone in bytes, as multiples of the least denormal of fp8: two become f32 at once. Those
    with a sign are 8 more until they are multiplied.
    """
    assert state.target.fp8 is not None
    unit, found = 1.0 if state.target.has(SCALED) else LEAST[state.target.fp8], list[ir.Value]()
    for word in words:
        sources = [codes(packing, one, LOW) for one in (word, arith.shrui(word, _constant(packing.bits)))]
        pairs = [
            _whole(pair_of_fp8(source, upper, LEAST[state.target.fp8] / unit), unit, packing.least)
            for upper in (False, True)
            for source in sources
        ]
        found += [vectors.element(pairs[2 * upper + odd], at) for upper in (0, 1) for at in (0, 1) for odd in (0, 1)]
    return vectors.from_elements(found[:count])


def _whole(pair: ir.Value, unit: float, least: float) -> ir.Value:
    """Two at a time: in the order in which they are needed LLVM would move them."""
    if unit == 1.0:
        return value("arith.addf", pair.type, [pair, _splat_float(least, 2)]) if least else pair
    return value("math.fma", pair.type, [pair, _splat_float(unit, 2), _splat_float(least or -0.0, 2)])


def pair_of_fp8(word: ir.Value, upper: bool, factor: float) -> ir.Value:
    """Two bytes of a word, as fp8, times a power of two."""
    half = ir.BoolAttr.get(upper)
    if factor == 1.0:
        return value("rocdl.cvt.pk.f32.fp8", _f32s(2), [word], {"wordSel": half})
    factors = constant_real(factor, ir.F32Type.get())
    return value("rocdl.cvt.scalef32.pk.f32.fp8", _f32s(2), [word, factors], {"srcLoHiSel": half})


def _integer_codes(packing: Packing, source: ir.Value) -> list[ir.Value]:
    """The codes of all elements, each in a word, rounded to nearest even and saturated."""
    length = vectors.length_of(source)
    limits = [_splat_float(one, length) for one in (packing.largest, packing.least)]
    whole = value("math.roundeven", source.type, [source])
    whole = value("arith.minnumf", source.type, [whole, limits[0]])
    whole = value("arith.maxnumf", source.type, [whole, limits[1]])
    codes = value("arith.fptosi", vectors.vector_type(length, _i32()), [whole])
    codes = arith.andi(codes, _splat((1 << packing.bits) - 1, length))
    return [vectors.element(codes, place) for place in range(length)]


def _encoded(packing: Packing, source: ir.Value) -> list[ir.Value]:
    """The codes of all elements, each in a word."""
    length = vectors.length_of(source)
    i32s, low = vectors.vector_type(length, _i32()), MANTISSA - packing.mantissa
    limit = _splat_float(packing.largest, length)
    size = value("arith.minnumf", source.type, [value("math.absf", source.type, [source]), limit])
    least = (BIAS + 1 - packing.bias) << MANTISSA
    exponent = arith.maxsi(arith.andi(bitcast(size, i32s), _splat(EXPONENTS, length)), _splat(least, length))
    large = bitcast(arith.addi(exponent, _splat(low << MANTISSA, length)), source.type)
    rounded = value("arith.subf", source.type, [value("arith.addf", source.type, [size, large]), large])
    small = value("arith.mulf", source.type, [rounded, _splat_float(2.0 ** (packing.bias - BIAS), length)])
    code = arith.shrui(bitcast(small, i32s), _splat(low, length))
    sign = arith.shrui(arith.andi(bitcast(source, i32s), _splat(SIGN, length)), _splat(WORD - packing.bits, length))
    codes = arith.ori(code, sign)
    return [vectors.element(codes, place) for place in range(length)]


def joined(packing: Packing, codes: Sequence[ir.Value]) -> list[ir.Value]:
    """Codes behind each other in words."""
    words: dict[int, ir.Value] = {}
    for number, code in enumerate(codes):
        word, place = divmod(packing.bits * number, WORD)
        parts = [(word, place)] + ([(word + 1, place - WORD)] if place + packing.bits > WORD else [])
        for home, shift in parts:
            moved = _shifted(code, shift)
            words[home] = arith.ori(words[home], moved) if home in words else moved
    return [words[place] for place in sorted(words)]


def field(words: Sequence[ir.Value], start: int, length: int) -> ir.Value:
    """The bits from `start` on, moved to the lowest places; what lies above them is anything."""
    word, place = divmod(start, WORD)
    found = _shifted(words[word], -place)
    if place + length > WORD:
        found = arith.ori(found, _shifted(words[word + 1], WORD - place))
    return found


def _shifted(word: ir.Value, places: int) -> ir.Value:
    """To the left, or to the right where that is negative."""
    if not places:
        return word
    return arith.shli(word, _constant(places)) if places > 0 else arith.shrui(word, _constant(-places))


# -- values


def words_of(octets: ir.Value) -> list[ir.Value]:
    """Bytes as dwords, the last filled up with zeros."""
    count = vectors.length_of(octets)
    if count % 4:
        i8 = ir.IntegerType.get_signless(8)
        zero = constant_integer(0, i8)
        singles = [vectors.element(octets, place) for place in range(count)]
        octets = vectors.from_elements(singles + [zero] * (-count % 4))
    words = bitcast(octets, vectors.vector_type(vectors.length_of(octets) // 4, _i32()))
    return [vectors.element(words, place) for place in range(vectors.length_of(words))]


def _i32() -> ir.Type:
    return ir.IntegerType.get_signless(WORD)


def _f32s(length: int) -> ir.Type:
    return vectors.vector_type(length, ir.F32Type.get())


def _one() -> ir.Value:
    f32 = ir.F32Type.get()
    return constant_real(1.0, f32)


def _constant(number: int) -> ir.Value:
    return constant_integer(number, _i32())


def _splat(number: int, length: int) -> ir.Value:
    type_ = vectors.vector_type(length, _i32())
    attribute = ir.DenseElementsAttr.get_splat(type_, ir.IntegerAttr.get(_i32(), number))
    return constant_value(attribute)


def _splat_float(number: float, length: int) -> ir.Value:
    attribute = ir.DenseElementsAttr.get_splat(_f32s(length), ir.FloatAttr.get(ir.F32Type.get(), number))
    return constant_value(attribute)
