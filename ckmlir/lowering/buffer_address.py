"""Where the lanes of a buffer access go: the offsets of elements, and what keeps lanes away that have none.

What a loop advances goes into the scalar offset, what differs between lanes into the vector offset, constants into the
immediate. Where the window moves its buffer, what a loop advances moves the base, and is taken from the size.

The hardware takes both offsets as unsigned numbers, so neither may be negative for an element that exists, be their sum
what it may. A sum without negative terms is not, since its parts never are. So every negative term of an offset, which
comes from a padding on the left, goes into the base, whatever it depends on: the base may lie anywhere below the
element.

Whether the hardware counts the scalar offset against the size is documented in two ways (the CDNA3 ISA document,
9.1.5.4, compares with `num_records - sgpr_offset`; LLVM's intrinsics speak of an offset excluded from the check).
Here every access is right under both: what has to be refused is refused by the vector offset alone, and what is valid
lies below the size with the scalar offset added.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import NamedTuple

from msgspec.structs import replace

from ckmlir.dialect.build import value
from ckmlir.dialect.transform_graph import Step
from ckmlir.lowering import other_offsets
from ckmlir.lowering.buffer_resource import LARGEST, reach_of, resource
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.existence import before_the_end, existence, in_last_unit, paddings, refused_by_moving
from ckmlir.lowering.index import Index
from ckmlir.lowering.merged_accesses import in_vectors
from ckmlir.lowering.parts import Rate
from ckmlir.lowering.place import NO_QUADS, OUT_OF_RANGE, Place, place_of
from ckmlir.lowering.predicate import Predicate
from ckmlir.lowering.told_rows import row_apart
from ckmlir.lowering.window_bits import Slid, is_moving, numbering, refused, slid
from ckmlir.mlir import ir


class Shared(NamedTuple):
    """What loads of a tile have in common."""

    axes: tuple[int, ...]
    """The dimensions along which all begin at the same coordinate."""
    several: int | None
    """How far `IN_COMMON` loads reach along the other dimension; None: there are no more."""


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
    quads: Mapping[int, int] = NO_QUADS,
    shared: Shared | None = None,
    writes: bool = False,
    apart: Collection[int] = (),
    crowded: bool = False,
    anew: bool = False,
    together: bool = False,
    near: bool = False,
    several: bool = False,
) -> BufferAddress:
    """The address of the element `inside` a window, for the lanes that fulfil `condition` and whose element exists.

    The coordinate along the dimension `anywhere` may be any number, also a negative one (`existence`, and `row_apart`
    where other paddings are compared). Accesses that belong together have the coordinates along the dimensions `shared`
    in common, and differ along those in `apart`; `crowded` ones are too many to have conditions of their own.
    What `writes` in a kernel in pieces, and what is loaded `near` other accesses, has its offset at hand; those `anew`
    are not those of earlier accesses. Elements that exist `together` (`exist_together`) are refused by a buffer of no
    bytes. Those behind the end of a last unit (`in_last_unit`) have a sign. Of `several` accesses to a tile the buffer
    moves where its window says so; for one a comparison costs less.
    """
    plain = condition is None and anywhere is None and not (quads or anew or together or near)
    plain = plain and not (writes and state.in_pieces)
    if plain and (further := _further_along(state, window, inside)) is not None:
        return further
    place = place_of(state, window, inside, quads)
    if several and place.ground.may_move_buffer:
        place = replace(place, moves_buffer=True)
    ground, among, row = place.ground, paddings(place), None
    base, vector, scalar = ground.split(place.offset)
    beyond = None
    if refused_by_moving(place):
        beyond, scalar = scalar, state.emit.number(0)
    reach = reach_of(place, base)
    if anywhere is not None and condition is None:
        others = [step for step in among if step.uppers[0] != ground.descriptor.tops[anywhere]]
        if others and (found := row_apart(place, vector, anywhere)) is not None:
            (row, vector), among, anywhere = found, others, None
    units = {step: unit for step in among if (unit := in_last_unit(step, place)) is not None}
    outside = [unit.sign_if_outside(ground.pointer) for unit in units.values()]
    among = [step for step in among if step not in units]
    if together:
        there = existence(place, by_size=True, among=among.__contains__)
        only = resource(state, ground.pointer, base, reach, there.parts if there else (), beyond)
        return BufferAddress(only, _joined(state, outside, vector.emit()), scalar.emit())
    refusal = _refusal(place, condition, anywhere, among, row is not None, apart, crowded=crowded, anew=anew)
    valid = refusal.valid
    if valid is not None and condition is None and shared is not None and _moves_together(place, shared.axes):
        vector, scalar = _in_common(state, place, shared, vector, scalar)
    if valid is not None and valid.same_in_quad and row is None:
        lanes = _quad_by_quad(state, place, vector, condition, anywhere)
        if lanes is not None:
            buffer = resource(state, ground.pointer, base, reach, beyond=beyond)
            return BufferAddress(buffer, lanes, scalar.emit())
    if (near or (writes and state.in_pieces)) and refusal.is_none:
        lanes = other_offsets.at_hand(state, vector, effects=writes)
    else:
        lanes = other_offsets.anew(state, ground.pointer, vector) if anew else vector.emit()
    if row is not None:
        lanes = state.emit.binary("addi", row, lanes)
    buffer = resource(state, ground.pointer, base, reach, beyond=beyond)
    address = BufferAddress(buffer, lanes, scalar.emit())
    _may_follow(state, window, place, address, vector, plain and refusal.is_none and row is None and not outside)
    kept = refusal.apply(state, place, condition, address.vector, vector)
    return address._replace(vector=_joined(state, outside, kept))


class _Line(NamedTuple):
    """An access to an array of which all lanes have an element: others through its window follow from it."""

    inside: Sequence[Index]
    neighbours: Sequence[int | None]
    """As `Ground.neighbours`."""
    address: BufferAddress
    vector: Index


def _may_follow(
    state: Lowering, window: ir.Value, place: Place, address: BufferAddress, vector: Index, complete: bool
) -> None:
    """Let later accesses through a window follow from one, if its place is all that makes it (`complete`)."""
    neighbours = place.ground.neighbours if complete else None
    if neighbours is not None:
        state.known["line", window] = _Line(place.inside, neighbours, address, vector)


def _further_along(state: Lowering, window: ir.Value, inside: Sequence[Index]) -> BufferAddress | None:
    """The address of an element that lies a constant distance behind that of an earlier access in this block; None
    where there is none, or more is to be asked.

    It is what would be found from the beginning, in a fifth of the time: nothing else of it differs.
    """
    line: _Line | None = state.known.get(("line", window))
    if line is None:
        return None
    distance = 0
    for one, first, apart in zip(inside, line.inside, line.neighbours, strict=True):
        further = _above(one, first)
        if further is None or (further and apart is None):
            return None
        distance += further * (apart or 0)
    if distance < 0:
        return None
    state.emit.quads = {}
    return line.address._replace(vector=(line.vector + distance).emit())


def _above(one: Index, other: Index) -> int | None:
    """How much more an index is than another; None where that is not the same number always."""
    if one.terms == other.terms:
        return 0
    distance = one - other
    return distance.constant if distance.is_constant else None


class _Refusal(NamedTuple):
    """What keeps lanes away that have no element: the bits of window positions, the signs of some numbers, or a
    condition; none of them where all lanes have one.
    """

    few: Sequence[Slid] = ()
    signs: list[ir.Value] | None = None
    valid: Predicate | None = None

    @property
    def is_none(self) -> bool:
        """Whether no lane is kept away."""
        return not self.few and self.signs is None and self.valid is None

    def apply(
        self, state: Lowering, place: Place, condition: Predicate | None, vector: ir.Value, index: Index
    ) -> ir.Value:
        """The vector offset, beyond every buffer for lanes that are kept away; `index`: what it is made of."""
        if self.few:
            return _if_there(place, list(self.few), condition, (vector, index))
        if self.signs is not None:
            sign = state.emit.constant(OUT_OF_RANGE)
            return _joined(state, (state.emit.binary("andi", one, sign) for one in self.signs), vector)
        return vector if self.valid is None else _or_none(state, self.valid.value, vector)


def _joined(state: Lowering, signs: Iterable[ir.Value], vector: ir.Value) -> ir.Value:
    """A vector offset with the sign bit where one of `signs` has it, and no other bit."""
    return reduce(partial(state.emit.binary, "ori"), signs, vector)


def _refusal(
    place: Place,
    condition: Predicate | None,
    anywhere: int | None,
    among: list[Step],
    told: bool,
    apart: Collection[int],
    *,
    crowded: bool,
    anew: bool,
) -> _Refusal:
    """The cheapest form for an access; `told`: a row tells itself whether it exists, and only `among` is left."""
    if anywhere is None and not told and (few := slid(place)):
        return _Refusal(few=few)
    if anywhere is None and condition is None:
        signs = before_the_end(place, apart, among, crowded=crowded, anew=anew)
        if signs is not None:
            return _Refusal(signs=signs)
    return _Refusal(valid=existence(place, condition, anywhere=anywhere, by_size=True, among=among.__contains__))


def _in_common(state: Lowering, place: Place, shared: Shared, vector: Index, scalar: Index) -> tuple[Index, Index]:
    """Vector and scalar offset of which the scalar one has all that accesses that belong together differ in."""
    near = vector.part(Rate.FIXED)
    if shared.several is not None:
        reach = shared.several * place.ground.scale
        near = Index({monomial: factor % reach for monomial, factor in near.terms.items()}, state.emit)
    return vector - near, scalar + near


def _quad_by_quad(
    state: Lowering, place: Place, vector: Index, condition: Predicate | None, anywhere: int | None
) -> ir.Value | None:
    """The vector offset where the four lanes of a quad exist together: chosen for one of them, and handed to the
    others. None where it has no such form.
    """
    parts = vector.in_quad()
    if parts is None or (parts[2].bound or LARGEST) >= LARGEST:
        return None
    seat, own, rest = parts
    there = existence(place.at_home(seat), condition, anywhere=anywhere, by_size=True)
    assert there is not None
    chosen = state.emit.from_seat(_or_none(state, there.value, own.emit()), seat)
    return state.emit.binary("addi", chosen, rest.emit()) if rest.terms else chosen


def _moves_together(place: Place, shared: Collection[int]) -> bool:
    """Whether a loop changes which lanes have an element, for all accesses that belong together alike, and nothing else
    refuses any: then a choice between a lane's offset and none is one for all, if what is equal for all lanes, as the
    distance between rows is, goes into the scalar offset.
    """
    tops = {place.ground.descriptor.tops[axis] for axis in shared}
    return all(step.uppers[0] in tops and is_moving(step, place) for step in paddings(place))


def _or_none(state: Lowering, condition: ir.Value, vector: ir.Value) -> ir.Value:
    """A vector offset for the lanes that fulfil a condition (i1), one beyond every buffer for the others."""
    chosen = [condition, vector, state.emit.constant(OUT_OF_RANGE)]
    return state.emit.once(("only where", *chosen), lambda: value("arith.select", vector.type, chosen))


def _if_there(place: Place, few: list[Slid], condition: Predicate | None, vector: tuple[ir.Value, Index]) -> ir.Value:
    """The vector offset, beyond every buffer for lanes that have nothing to access."""
    known = {one.uppers for pair in few for one in (pair.left, pair.right)}
    merged = numbering(place, few)
    others = [
        step for step in place.ground.descriptor.predicates()
        # Behind the end of a merged dimension numbers are beyond those of all places.
        if step.uppers not in known and not (merged and step.lowers == merged.uppers)
    ]  # fmt: skip
    moving = [step for step in others if is_moving(step, place)]

    def fixed(where: Place) -> Predicate | None:
        return existence(where, condition, by_size=True, among=lambda step: step in others and step not in moving)

    return refused(place, few, fixed, existence(place, by_size=True, among=lambda step: step in moving), vector)


def of_many(state: Lowering, window: ir.Value, inside: list[Index]) -> BufferAddress | None:
    """Where one of many accesses to a tile goes, if each has a place of its own that all lanes share."""
    place = place_of(state, window, inside)
    found = in_vectors(place)
    if found is None:
        return None
    base, lanes, scalar = found
    return BufferAddress(resource(state, place.ground.pointer, base, reach_of(place, base)), lanes, scalar.emit())
