"""The buffer resources of gfx9 that views of memory become: where a buffer begins and how many bytes it has.

A lane's access at or beyond the size reads zero or is dropped. The base is moved to the tile's origin with 64-bit
arithmetic.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from math import gcd, prod
from typing import NamedTuple

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_integer, value
from ckmlir.dialect.ranges import Range, range_of
from ckmlir.dialect.symbols import resolve
from ckmlir.dialect.transforms import Embed
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.index import Index
from ckmlir.lowering.place import OUT_OF_RANGE, Ground, Place
from ckmlir.mlir import ir

LARGEST = 1 << 31
"""Bytes of a buffer."""
LARGEST_ELEMENT = 8
"""Bytes of the largest element that addresses are counted in."""
MOST_PARTS = 6
"""Run-time lengths and strides of which a view's size is looked at."""
FLAGS = 0x27000
"""Word 3 of a gfx9 buffer resource: 32-bit data, raw addressing (CDNA3 ISA, table "Buffer resource descriptor")."""


class Reach(NamedTuple):
    """How far a buffer reaches, in bytes: `size` from some place, of which `passed` lie before it."""

    size: Index
    passed: Index
    conditions: tuple[ir.Value, ...] = ()
    """The buffer has no bytes where one of these does not hold; they are the same for all lanes."""


def reach_of(place: Place, base: Index) -> Reach:
    """How far the buffer that begins `base` bytes behind the view's pointer reaches: to the end of the array, or of the
    elements that a window of one element along some dimensions has in reach (`Ground.single`), which there are if that
    element exists.
    """
    ground, single = place.ground, place.single
    if not single:
        return Reach(ground.space, base)
    key = ("reach", ground, tuple(single), base.key)
    return ground.state.known_in_block(key, lambda: _to_the_end(ground, single, base))


def _to_the_end(ground: Ground, single: Mapping[int, int], base: Index) -> Reach:
    embed, symbols, emit = ground.descriptor.steps[0], ground.symbols, ground.state.emit
    assert isinstance(embed.transform, Embed)
    size, passed, conditions = emit.number(1), base, []
    for dimension, length, stride in zip(embed.uppers, embed.transform.lengths, embed.transform.strides, strict=True):
        many, distance = resolve(length, symbols), resolve(stride, symbols)
        if dimension not in single:
            size = size + (many - 1) * distance
            continue
        origin = ground.origins[single[dimension]]
        passed = passed - origin * distance * ground.scale
        if not (origin.is_constant and isinstance(many, int) and origin.constant < many):
            conditions.append((origin < many).value)
    if 0 in embed.transform.lengths:
        size = emit.number(0)
    return Reach(size * ground.scale, passed, tuple(conditions))


def resource(
    state: Lowering,
    pointer: ir.Value,
    base: Index,
    reach: Reach,
    only: Sequence[ir.Value] = (),
    beyond: Index | None = None,
) -> ir.Value:
    """The buffer that begins `base` bytes behind the pointer and reaches as far as `reach` says; of no bytes where one
    of the conditions `only`, which are the same for all lanes, does not hold.

    Args:
        beyond: Bytes by which a loop moves its beginning; i32, not negative.
    """
    emit, space, passed = state.emit, reach.size, reach.passed
    only = (*reach.conditions, *only)
    i16, i64 = (ir.IntegerType.get_signless(width) for width in (16, 64))

    def make() -> ir.Value:
        moved, size = pointer, Range(-LARGEST, LARGEST) if passed.terms else _range(space)
        near = size.least >= -LARGEST and size.most < LARGEST
        if not near and not passed.terms and not state.multiplies and (length := _one_length(space)):
            left = _scaled(state, *length)
        else:
            left = space.emit(32 if near else 64)
            if passed.terms:
                moved, start = further(pointer, base), passed.emit(64)
                left = emit.binary("subi", left, start)
            if not near:
                left = _reached(state, left)
            elif size.least < 0:
                left = arith.maxsi(left, emit.constant(0))
        if base.terms and not passed.terms:
            moved = _moved_alone(pointer, base)
        if beyond is not None and beyond.terms:
            moved, left = _moved(state, moved, left, beyond.emit())
        left = _only_where(state, left, only)
        left = _of_its_own(state, pointer, left, (space.key, passed.key))
        left = value("arith.extui", i64, [left])
        stride = constant_integer(0, i16)
        assert left.type == i64
        parts = [moved, stride, left, _flags(state, pointer, (base.key, space.key, passed.key))]
        return value("rocdl.make.buffer.rsrc", ir.Type.parse("!llvm.ptr<8>"), parts)

    key = ("resource", pointer, base.key, space.key, passed.key, *only, None if beyond is None else beyond.key)
    return emit.once(key, make)


def _stays(state: Lowering, pointer: ir.Value) -> bool:
    """Whether a pointer is the same in all turns of loops."""
    owner = pointer.owner
    block: ir.Block = owner if isinstance(owner, ir.Block) else owner.operation.block
    entry: ir.Block = state.function.regions[0].blocks[0]
    return bool(block == entry)


def _moved(state: Lowering, pointer: ir.Value, size: ir.Value, distance: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Where a buffer begins that a loop moves, and its bytes. The larger of two numbers less one of them, in two scalar
    instructions: none subtracts and ends at 0."""
    left = state.emit.binary("subi", state.emit.binary("maxui", size, distance), distance)
    i64 = ir.IntegerType.get_signless(64)
    return _at(pointer, value("arith.extui", i64, [distance])), left


def _only_where(state: Lowering, size: ir.Value, only: Sequence[ir.Value]) -> ir.Value:
    """A size where all of these conditions hold, else 0.

    Of two selects in one another with the same 0 LLVM would make one, of a condition that is joined in pairs of
    registers. So every other has a 0 that LLVM does not know.
    """
    for number, condition in enumerate(only):
        none = _some_zero(state) if number % 2 else state.emit.constant(0)
        size = value("arith.select", size.type, [condition, size, none])
    return size


def _some_zero(state: Lowering) -> ir.Value:
    """0, from assembly that does nothing where the kernel begins."""
    if state.some_zero is None:
        i32 = ir.IntegerType.get_signless(32)
        with ir.InsertionPoint.at_block_begin(state.function.regions[0].blocks[0]):
            zero = constant_integer(0, i32)
            state.some_zero = assembly(i32, [zero], "", "=s,0")
    return state.some_zero


def _of_its_own(state: Lowering, pointer: ir.Value, size: ir.Value, key: Hashable) -> ir.Value:
    """A size that LLVM does not know to be that of another pointer's buffer; `key` is equal where sizes are.

    Buffers of one size, as those of the arrays of a row have, would share the register of the size, and that of the
    flags behind it: loops would copy both to each buffer but the first, in every turn. So the other pointers' sizes
    have a 0 added that LLVM does not know, in front of the loop. Kernels of one block copy each word once anyway; those
    that multiply have the flags of each pointer apart (`_flags`). Where a pointer is another in each turn, so are its
    buffer's words, and the sum would be taken in each.
    """
    if state.is_straight or state.multiplies or not _stays(state, pointer):
        return size
    others: list[ir.Value] = state.known_in_block(("pointers of a size", key), list[ir.Value])
    if pointer not in others:
        others.append(pointer)
    number = others.index(pointer)
    if not number:
        return size
    zero = _some_zero(state)
    if number > 1:
        zero = state.emit.binary("muli", zero, state.emit.constant(number))
    return state.emit.binary("addi", size, zero)


def _flags(state: Lowering, pointer: ir.Value, size: Hashable) -> ir.Value:
    """The last word of a pointer's buffers; `size` is equal where they begin as far behind it and are as long.

    LLVM would keep this constant in one register where several buffers are made, and copy it to each; some of the
    copies it then makes in each turn of a loop that reads them. So where an innermost loop is next, the word comes by
    assembly that does nothing. Elsewhere that would only take scalar registers.

    Of buffers of one size, such as the matrices of two products, it has the size in common too, and loops copy both
    words. Those of the second pointer and further ones have a word of their own, in loops as in front of them, by
    assembly that reads the pointer, without which all would be taken for one. Kernels with many arguments, or with
    loops in a loop, have no scalar registers for that: attention backward would keep some in lanes. Loops that multiply
    nothing have no time for it: adding parts of attention took 51 scalar instructions a step instead of 38.
    """
    constant, block = state.emit.constant(FLAGS), ir.InsertionPoint.current.block
    alike = state.has_spare_scalars and state.known_in_block(("pointer", size), lambda: pointer) != pointer
    if (block in state.steps and not alike) or not (block in state.steps or state.leads_to_loop(block)):
        return constant
    read = [constant, pointer] if alike else [constant]
    constraints = ",".join(("=s", "0", *("s" for _ in read[1:])))
    return state.known_in_block(("flags", pointer), lambda: assembly(constant.type, read, "", constraints))


def _reached(state: Lowering, size: ir.Value) -> ir.Value:
    """A 64-bit size as 32 bits: 0 where it is negative, and at most LARGEST.

    By shifts and a comparison with 0, for which the scalar unit has instructions. Which of two 64-bit numbers is less
    the vector unit would find out, with constants in vector registers; a loop that makes buffers would wait for it.
    """
    emit, i32 = state.emit, ir.IntegerType.get_signless(32)
    fits = arith.cmpi(arith.CmpIPredicate.eq, emit.binary("shrui", size, emit.constant(31, 64)), emit.constant(0, 64))
    high = arith.trunci(i32, emit.binary("shrui", size, emit.constant(32, 64)))
    beyond = emit.binary("andi", emit.binary("xori", high, emit.constant(-1)), emit.constant(OUT_OF_RANGE))
    return value("arith.select", i32, [fits, arith.trunci(i32, size), beyond])


def _one_length(size: Index) -> tuple[ir.Value, int] | None:
    """The run-time part of a size that is one such part times a power of two, as that of a vector, and the factor."""
    if len(size.terms) != 1:
        return None
    (monomial, factor), *_ = size.terms.items()
    if len(monomial) != 1 or factor < 1 or factor & (factor - 1) or factor > LARGEST:
        return None
    return monomial[0].value, factor


def _scaled(state: Lowering, length: ir.Value, factor: int) -> ir.Value:
    """A length times a factor, at most LARGEST: the length is limited, so that 32 bits hold the product.

    Six operations fewer for LLVM than `_reached`, and an instruction. Kernels with loops that multiply are left as they
    are: the order of their scalar code decides how many registers live across them.
    """
    emit = state.emit
    return emit.binary(
        "shli", emit.binary("minui", length, emit.constant(LARGEST // factor)), emit.constant(factor.bit_length() - 1)
    )


def _range(size: Index) -> Range:
    """Where a view's size lies: where all of its parts are known to be small, 32 bits hold it."""
    atoms = list({atom for monomial in size.terms for atom in monomial})
    if len(atoms) > MOST_PARTS or any(len(set(monomial)) < len(monomial) for monomial in size.terms):
        return Range(-LARGEST, LARGEST)
    # It is linear in each part, so it is largest and smallest where each part is.
    corners = [
        sum(factor * prod(at[atom] for atom in monomial) for monomial, factor in size.terms.items())
        for ends in product(*(range_of(atom.value) for atom in atoms))
        for at in [dict(zip(atoms, ends, strict=True))]
    ]
    return Range(min(corners), max(corners))


def further(pointer: ir.Value, distance: Index) -> ir.Value:
    """The pointer so many bytes further on, by 64-bit arithmetic."""
    return _at(pointer, distance.emit(64))


def _moved_alone(pointer: ir.Value, distance: Index) -> ir.Value:
    """The same for a distance that is computed for nothing else: in elements, as LLVM would put the shift that makes
    bytes of them in front of a product of 64 bits, which is twice as long then."""
    size = gcd(LARGEST_ELEMENT, *distance.terms.values())
    elements = Index({monomial: factor // size for monomial, factor in distance.terms.items()}, distance.emitter)
    return _at(pointer, elements.emit(64), size)


def _at(pointer: ir.Value, distance: ir.Value, size: int = 1) -> ir.Value:
    """The pointer so many elements of `size` bytes further on."""
    attributes = {
        "rawConstantIndices": ir.DenseI32ArrayAttr.get([-(1 << 31)]),
        "elem_type": ir.TypeAttr.get(ir.IntegerType.get_signless(8 * size)),
    }
    return value("llvm.getelementptr", pointer.type, [pointer, distance], attributes)
