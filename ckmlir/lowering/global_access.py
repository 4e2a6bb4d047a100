"""Accesses to global memory through buffer resources.

A buffer resource holds a base address and a size in bytes; a lane's access at or beyond the size reads zero or is
dropped. The base is moved to the tile's origin with 64-bit arithmetic, what a loop advances goes into the scalar
offset, what differs between lanes into the vector offset, constants into the immediate.

The hardware takes both offsets as unsigned numbers, so neither may be negative for an element that exists, be their sum
what it may. A sum without negative terms is not, since its parts never are. So every negative term of an offset, which
comes from a padding on the left, goes into the base, whatever it depends on: the base may lie anywhere below the
element.

Whether the hardware counts the scalar offset against the size is documented in two ways (the CDNA3 ISA document,
9.1.5.4, compares with `num_records - sgpr_offset`; LLVM's intrinsics speak of an offset excluded from the check).
Here every access is right under both: what has to be refused is refused by the vector offset alone, and what is valid
lies below the size with the scalar offset added.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache, partial, reduce
from itertools import pairwise, product
from math import prod
from typing import NamedTuple

from ckmlir.dialect import arith
from ckmlir.dialect.build import create, integer, registers_of, text_of, value
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.ranges import Range, range_of
from ckmlir.lowering import other_offsets
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.existence import before_the_end, existence, paddings
from ckmlir.lowering.index import Index
from ckmlir.lowering.instructions import fence
from ckmlir.lowering.merged_accesses import in_vectors
from ckmlir.lowering.parts import Rate
from ckmlir.lowering.place import OUT_OF_RANGE, Place, differing, divides, inside_of, place_of
from ckmlir.lowering.predicate import Predicate
from ckmlir.lowering.storage import from_storage, storage_of, to_storage
from ckmlir.lowering.told_rows import row_apart
from ckmlir.lowering.window_bits import Slid, is_moving, numbering, sign_if_missing, slid
from ckmlir.mlir import ir

LARGEST = 1 << 31
MOST_DISTANCES = 8
"""Distances between loads of a tile that are kept in scalar registers: of 64 in each of two tiles 55 went to lanes of
vector registers (`gemm` of i8 with odd k on gfx942), and with 16 in each short sums take longer by the model (401408 x
64 x 147 in f16 on gfx950 55 us instead of 45).
"""
MANY_LOADS, IN_COMMON = 16, 4
"""Of more loads, up to so many, so many have their distances in common: with eight, `streamk_gemm` of f16 with odd
pairs of k kept three scalar registers in lanes on gfx90a.
"""
MOST_CONDITIONS = 4
"""Of the accesses to a tile that no loop repeats: where `permute` turns two rows of a volume by 64 single elements,
conditions kept 17 to 44 scalar registers in lanes, and 19 where a gradient of images loads eight of weights for each of
its first two steps.
"""
MOST_PARTS = 6
"""Run-time lengths and strides of which a view's size is looked at."""
MOST_STORES, MANY_STORES = 4, 16
"""Of a tile, so many may have a base each, and more than so many as well: LLVM computes those one by one. Eight behind
as many loads of a D tensor of gradients of images, both of single elements, kept 44 to 65 scalar registers in lanes;
32 of a contraction with offsets in vector registers 11 to 16.
"""
MOST_KEPT = 96
"""Of more stores than these, in a block with as many loads, offsets are computed anew. Those of loads LLVM keeps, each
beside its element: 320 elements took 640 registers, and its allocator minutes to find places for them.
"""
FLAGS = 0x27000
"""Word 3 of a gfx9 buffer resource: 32-bit data, raw addressing (CDNA3 ISA, table "Buffer resource descriptor")."""


def lower_load(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.load_fragment to a buffer load."""
    distribution = Distribution.parse(text_of(op, "distribution"))
    quads = state.quads(distribution)
    inside = inside_of(state, op, by_quads=divides(op.operands[0], quads))
    shared = _shared_by_loads(distribution, len(registers_of(op)))
    count = _accesses(distribution, len(registers_of(op)))
    if count > MOST_KEPT:
        state.loading_much.add(op.block)
    outside = op.block not in state.steps
    # Each has a place of its own: LLVM would find all of them, in scalar registers, before the first load.
    in_turn = outside and count > MOST_DISTANCES and divides(op.operands[0], range(distribution.rank))
    address = _of_many(state, op.operands[0], inside) if not quads and count > MOST_DISTANCES else None
    if address is None:
        crowded = outside and count > MOST_CONDITIONS
        state.emit.in_turn = in_turn
        address = buffer_address(
            state, op.operands[0], inside, quads=quads, shared=shared, apart=differing(op), crowded=crowded
        )
        state.emit.in_turn = False
    found = load_from(op, address)
    if in_turn:
        fence("none")
    return [found]


def lower_store(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.store_fragment to a buffer store."""
    inside, condition = inside_of(state, op), first_copy(state, op)
    distribution = Distribution.parse(text_of(op, "distribution"))
    count = _accesses(distribution, len(registers_of(op)))
    many = condition is None and MOST_STORES < count <= MANY_STORES
    address = _of_many(state, op.operands[1], inside) if many else None
    if address is None:
        crowded = count > MOST_CONDITIONS and op.block not in state.steps
        address = buffer_address(
            state, op.operands[1], inside, condition=condition, writes=True, apart=differing(op), crowded=crowded,
            anew=count > MOST_KEPT and op.block in state.loading_much,
        )  # fmt: skip
    return store_to(op, address)


def _of_many(state: Lowering, window: ir.Value, inside: list[Index]) -> "BufferAddress | None":
    """Where one of many accesses to a tile goes, if each has a place of its own that all lanes share."""
    place = place_of(state, window, inside)
    found = in_vectors(place)
    if found is None:
        return None
    base, lanes, scalar = found
    return BufferAddress(_resource(state, place.ground.pointer, base, place.ground.space), lanes, scalar.emit())


def lower_inside(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.inside_fragment to the comparisons of its view's paddings."""
    place = place_of(state, op.operands[0], inside_of(state, op))
    found = existence(place)
    if found is not None:
        return [found.value]
    i1 = op.results[0].type
    return [value("arith.constant", i1, [], {"value": ir.IntegerAttr.get(i1, 1)})]


def lower_offset(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.offset_fragment to address arithmetic in elements."""
    return [place_of(state, op.operands[0], inside_of(state, op)).value(0).emit()]


def load_from(op: ir.Operation, address: "BufferAddress") -> ir.Value:
    """The fragment that an operation loads, from a buffer."""
    fragment = op.results[0].type
    raw = value("rocdl.raw.ptr.buffer.load", storage_of(fragment), address.operands, {"aux": integer(0, 32)})
    return from_storage(raw, fragment)


def store_to(op: ir.Operation, address: "BufferAddress") -> list[ir.Value]:
    """Store an operation's fragment into a buffer."""
    create("rocdl.raw.ptr.buffer.store", [], [to_storage(op.operands[0]), *address.operands], {"aux": integer(0, 32)})
    return []


def first_copy(state: Lowering, op: ir.Operation) -> Predicate | None:
    """Where several threads hold an element, only the first of them writes it; None: each is held once."""
    condition: Predicate | None = None
    for digit in Distribution.parse(text_of(op, "distribution")).replicated_digits():
        test = state.digit(digit) < 1
        condition = test if condition is None else condition & test
    return condition


class BufferAddress(NamedTuple):
    """Where the lanes of a buffer access go."""

    resource: ir.Value
    vector: ir.Value
    """Offset of each lane in bytes (i32), beyond every buffer for lanes that have nothing to access."""
    scalar: ir.Value

    @property
    def operands(self) -> list[ir.Value]:
        """In the order of the instructions."""
        return list(self)

    def only_where(self, condition: ir.Value, state: Lowering) -> "BufferAddress":
        """The same for the lanes that fulfil a condition (i1), nothing for the others."""
        return self._replace(vector=_or_none(state, condition, self.vector))


def buffer_address(
    state: Lowering,
    window: ir.Value,
    inside: Sequence[Index],
    *,
    condition: Predicate | None = None,
    anywhere: int | None = None,
    quads: Sequence[int] = (),
    shared: "Shared | None" = None,
    writes: bool = False,
    apart: Collection[int] = (),
    crowded: bool = False,
    anew: bool = False,
) -> BufferAddress:
    """The address of the element `inside` a window, for the lanes that fulfil `condition` and whose element exists.

    The coordinate along the dimension `anywhere` may be any number, also a negative one (`existence`, and `row_apart`
    where other paddings are compared). Accesses that belong together have the coordinates along the dimensions `shared`
    in common, and differ along those in `apart`; `crowded` ones are too many to have conditions of their own.
    What `writes` in a kernel in pieces has its offset at hand, and offsets `anew` are not those of earlier accesses.
    """
    place = place_of(state, window, inside, quads)
    ground = place.ground
    base, vector, scalar = ground.split(place.offset)
    few = slid(place) if anywhere is None else []
    among, row = paddings(place), None
    if anywhere is not None and condition is None:
        others = [step for step in among if step.uppers[0] != ground.descriptor.tops[anywhere]]
        if others and (found := row_apart(place, vector, anywhere)) is not None:
            (row, vector), among, anywhere = found, others, None
    left = None
    if not few and anywhere is None and condition is None:
        left = before_the_end(place, apart, among, crowded=crowded, anew=anew)
    valid = None
    if not few and left is None:
        valid = existence(place, condition, anywhere=anywhere, by_size=True, among=among.__contains__)
    if valid is not None and condition is None and shared is not None and _moves_together(place, shared.axes):
        near = vector.part(Rate.FIXED)
        if shared.several is not None:
            reach = shared.several * ground.scale
            near = Index({monomial: factor % reach for monomial, factor in near.terms.items()}, state.emit)
        vector, scalar = vector - near, scalar + near
    parts = vector.in_quad() if valid is not None and valid.same_in_quad and row is None else None
    if parts is not None and (parts[2].bound or LARGEST) < LARGEST:
        seat, own, rest = parts
        there = existence(place.at_home(), condition, anywhere=anywhere, by_size=True)
        assert there is not None
        chosen = state.emit.from_seat(_or_none(state, there.value, own.emit()), seat)
        lanes = state.emit.binary("addi", chosen, rest.emit()) if rest.terms else chosen
        return BufferAddress(_resource(state, ground.pointer, base, ground.space), lanes, scalar.emit())
    at_hand = writes and state.in_pieces and not few and left is None and valid is None
    if at_hand:
        lanes = other_offsets.at_hand(state, vector)
    else:
        lanes = other_offsets.anew(state, ground.pointer, vector) if anew else vector.emit()
    if row is not None:
        lanes = state.emit.binary("addi", row, lanes)
    address = BufferAddress(_resource(state, ground.pointer, base, ground.space), lanes, scalar.emit())
    if few:
        return address._replace(vector=state.emit.binary("ori", address.vector, _missing(place, few, condition)))
    if left is not None:
        sign = state.emit.constant(OUT_OF_RANGE)
        signs = (state.emit.binary("andi", one, sign) for one in left)
        return address._replace(vector=reduce(partial(state.emit.binary, "ori"), signs, address.vector))
    return address if valid is None else address.only_where(valid.value, state)


def _moves_together(place: Place, shared: Collection[int]) -> bool:
    """Whether a loop changes which lanes have an element, for all accesses that belong together alike, and nothing else
    refuses any: then a choice between a lane's offset and none is one for all, if what is equal for all lanes, as the
    distance between rows is, goes into the scalar offset.
    """
    tops = {place.ground.descriptor.tops[axis] for axis in shared}
    return all(step.uppers[0] in tops and is_moving(step, place) for step in paddings(place))


@lru_cache(maxsize=4096)
def _accesses(distribution: Distribution, count: int) -> int:
    """How many accesses of so many registers a thread's part of a tile takes."""
    return -(-int(distribution.coordinates().shape[-1]) // count)


class Shared(NamedTuple):
    """What loads of a tile have in common."""

    axes: tuple[int, ...]
    """The dimensions along which all begin at the same coordinate."""
    several: int | None
    """How far `IN_COMMON` loads reach along the other dimension; None: there are no more."""


@lru_cache(maxsize=4096)
def _shared_by_loads(distribution: Distribution, count: int) -> Shared | None:
    """What all loads of so many registers have in common. None where there are too many, or many that differ along
    several dimensions, or not in equal steps.
    """
    begins = distribution.coordinates()[:, 0, 0, ::count]
    axes = tuple(axis for axis, along in enumerate(begins) if (along == along[0]).all())
    if _accesses(distribution, count) <= MOST_DISTANCES:
        return Shared(axes, None)
    others = [sorted(along.tolist()) for axis, along in enumerate(begins) if axis not in axes]
    if len(others) != 1 or len(others[0]) > MANY_LOADS:
        return None
    steps = {high - low for low, high in pairwise(others[0])}
    return Shared(axes, IN_COMMON * steps.pop()) if len(steps) == 1 else None


def _or_none(state: Lowering, condition: ir.Value, vector: ir.Value) -> ir.Value:
    """A vector offset for the lanes that fulfil a condition (i1), one beyond every buffer for the others."""
    chosen = [condition, vector, state.emit.constant(OUT_OF_RANGE)]
    return state.emit.once(("only where", *chosen), lambda: value("arith.select", vector.type, chosen))


def _missing(place: Place, few: list[Slid], condition: Predicate | None) -> ir.Value:
    """The sign bit for lanes that have nothing to access."""
    known = {one.uppers for pair in few for one in (pair.left, pair.right)}
    merged = numbering(place, few)
    others = [
        step for step in place.ground.descriptor.predicates()
        # Behind the end of a merged dimension numbers are beyond those of all places.
        if step.uppers not in known and not (merged and step.lowers == merged.uppers)
    ]  # fmt: skip
    moving = [step for step in others if is_moving(step, place)]
    fixed = existence(place, condition, by_size=True, among=lambda step: step in others and step not in moving)
    return sign_if_missing(place, few, fixed, existence(place, by_size=True, among=lambda step: step in moving))


def _resource(state: Lowering, pointer: ir.Value, base: Index, space: Index) -> ir.Value:
    """The buffer that begins `base` bytes behind the pointer and ends with the tensor."""
    emit = state.emit
    i16, i64 = (ir.IntegerType.get_signless(width) for width in (16, 64))

    def make() -> ir.Value:
        moved, size = pointer, Range(-LARGEST, LARGEST) if base.terms else _range(space)
        near = size.least >= -LARGEST and size.most < LARGEST
        left = space.emit(32 if near else 64)
        if base.terms:
            moved, start = further(pointer, base), base.emit(64)
            left = emit.binary("subi", left, start)
        if not near:
            left = _reached(state, left)
        elif size.least < 0:
            left = arith.maxsi(left, emit.constant(0))
        left = value("arith.extui", i64, [left])
        stride = value("arith.constant", i16, [], {"value": ir.IntegerAttr.get(i16, 0)})
        assert left.type == i64
        parts = [moved, stride, left, _flags(state, pointer)]
        return value("rocdl.make.buffer.rsrc", ir.Type.parse("!llvm.ptr<8>"), parts)

    return emit.once(("resource", pointer, base.key, space.key), make)


def _flags(state: Lowering, pointer: ir.Value) -> ir.Value:
    """The last word of a pointer's buffers.

    LLVM would keep this constant in one register where several buffers are made, and copy it to each; some of the
    copies it then makes in each turn of a loop that reads them. So where an innermost loop is next, each pointer has a
    word of its own, by assembly that does nothing. Elsewhere that would only take scalar registers.
    """
    constant, block = state.emit.constant(FLAGS), ir.InsertionPoint.current.block
    if block in state.steps or not state.steps.intersection(block.operations[-1].operation.successors):
        return constant
    return state.known_in_block(("flags", pointer), lambda: assembly(constant.type, [constant], "", "=s,0"))


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
    attributes = {
        "rawConstantIndices": ir.DenseI32ArrayAttr.get([-(1 << 31)]),
        "elem_type": ir.TypeAttr.get(ir.IntegerType.get_signless(8)),
    }
    return value("llvm.getelementptr", pointer.type, [pointer, distance.emit(64)], attributes)
