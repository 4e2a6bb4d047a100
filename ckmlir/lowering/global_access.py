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

from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from functools import cached_property
from typing import NamedTuple

from ckmlir.dialect.adaptor import Step
from ckmlir.dialect.build import create, integer, integer_of, registers_of, text_of, value
from ckmlir.dialect.descriptor import Descriptor
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.padding import RightPad
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.symbols import resolve
from ckmlir.dialect.transforms import Embed, Merge
from ckmlir.dialect.types import WindowType, describe
from ckmlir.dialect.views import view_and_origins
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.index import Index, Predicate
from ckmlir.lowering.parts import Rate
from ckmlir.lowering.storage import from_storage, storage_of, to_storage
from ckmlir.mlir import arith, ir

OUT_OF_RANGE = -(1 << 31)
"""A vector offset beyond every buffer: sizes are at most this many bytes, taken as unsigned."""
LARGEST = 1 << 31
FLAGS = 0x27000
"""Word 3 of a gfx9 buffer resource: 32-bit data, raw addressing (CDNA3 ISA, table "Buffer resource descriptor")."""


def lower_load(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.load_fragment to a buffer load."""
    return [_load(op, buffer_address(state, op.operands[0], inside_of(state, op)))]


def lower_store(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.store_fragment to a buffer store."""
    address = buffer_address(state, op.operands[1], inside_of(state, op), condition=first_copy(state, op))
    return _store(op, address)


def lower_gather(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.gather_fragment to a buffer load whose lanes go where their index says."""
    inside, axis = _gathered(state, op, op.operands[1])
    return [_load(op, buffer_address(state, op.operands[0], inside, anywhere=axis))]


def lower_scatter(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.scatter_fragment to a buffer store whose lanes go where their index says."""
    inside, axis = _gathered(state, op, op.operands[2])
    return _store(op, buffer_address(state, op.operands[1], inside, condition=first_copy(state, op), anywhere=axis))


def lower_inside(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.inside_fragment to the comparisons of its view's paddings."""
    place = _place(state, op.operands[0], inside_of(state, op))
    found = _validity(None, place, place.everything)
    if found is not None:
        return [found.value]
    i1 = op.results[0].type
    return [value("arith.constant", i1, [], {"value": ir.IntegerAttr.get(i1, 1)})]


def lower_offset(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.offset_fragment to address arithmetic in elements."""
    return [_place(state, op.operands[0], inside_of(state, op)).value(0).emit()]


def _load(op: ir.Operation, address: "BufferAddress") -> ir.Value:
    fragment = op.results[0].type
    raw = value("rocdl.raw.ptr.buffer.load", storage_of(fragment), address.operands, {"aux": integer(0, 32)})
    return from_storage(raw, fragment)


def _store(op: ir.Operation, address: "BufferAddress") -> list[ir.Value]:
    create("rocdl.raw.ptr.buffer.store", [], [to_storage(op.operands[0]), *address.operands], {"aux": integer(0, 32)})
    return []


def inside_of(state: Lowering, op: ir.Operation) -> list[Index]:
    """Where a fragment begins in its tile."""
    return state.coordinates(Distribution.parse(text_of(op, "distribution")), registers_of(op)[0])


def _gathered(state: Lowering, op: ir.Operation, index: ir.Value) -> tuple[list[Index], int]:
    """Where a fragment begins, with the index given in place of its own coordinate along the axis; the axis."""
    inside, axis = inside_of(state, op), integer_of(op, "axis")
    inside[axis] = state.emit.index(index, Rate.LANE)
    return inside, axis


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
        outside = state.emit.constant(OUT_OF_RANGE)
        return self._replace(vector=value("arith.select", self.vector.type, [condition, self.vector, outside]))


@dataclass
class Ground:
    """What all accesses through a window have in common, found out once for a block."""

    state: Lowering
    window: InitVar[ir.Value]

    def __post_init__(self, window: ir.Value) -> None:
        described = describe(window.type)
        assert isinstance(described, WindowType)
        make_view, origins = view_and_origins(window)
        self.pointer: ir.Value = make_view.operands[0]
        self.descriptor = described.descriptor
        self.symbols = [self.state.uniform(item) for item in list(make_view.operands)[1:]]
        zero = self.state.emit.number(0)
        self.origins = [sum((self.state.uniform(part, origin=True) for part in parts), start=zero) for parts in origins]
        self.scale = bits(described.element) // 8
        """Bytes of an element."""

    @cached_property
    def space(self) -> Index:
        """Bytes of the whole view, from the pointer."""
        size = self.descriptor.element_space(self.symbols)
        return (self.state.emit.number(size) if isinstance(size, int) else size) * self.scale

    @cached_property
    def start(self) -> Index:
        """What the view's own slices, paddings and frozen dimensions add to the offset of its first element, in bytes.

        It may need 64 bits, so it belongs into the base. Where it is no summand of the other offsets, below a transform
        that is not linear, `split` takes it out again.
        """
        if all(isinstance(step.transform, (Embed, RightPad)) for step in self.descriptor.steps):
            return self.state.emit.number(0)
        zero = [self.state.emit.number(0)] * self.descriptor.rank
        first = self.descriptor.offset(zero, self.symbols)
        if isinstance(first, int):
            return self.state.emit.number(first * self.scale)
        found: Index = first.part(Rate.FIXED, constant=True) * self.scale
        return found

    def split(self, offset: Index) -> tuple[Index, Index, Index]:
        """An offset in bytes as base, vector and scalar offset, the latter two without negative terms."""
        base = offset.part(Rate.ORIGIN) + self.start
        base = base + (offset - base).negative
        if base.rate == Rate.LANE:
            raise ValueError(f"in {self.descriptor} an offset falls from lane to lane; strides are not negative")
        rest = offset - base
        return base, rest.part(Rate.LANE, Rate.FIXED, constant=True), rest.part(Rate.STEP)


@dataclass(frozen=True)
class Place:
    """Where an element of a view lies, as far as both kinds of address need it."""

    ground: Ground
    index: list[Index]
    """The coordinates in the view."""
    values: list[Index | int]
    """The coordinates on every level of the descriptor; numbers where they are frozen."""

    def value(self, dimension: int) -> Index:
        """A coordinate by the number of its dimension."""
        found = self.values[dimension]
        return self.ground.state.emit.number(found) if isinstance(found, int) else found

    @property
    def offset(self) -> Index:
        """Bytes from the pointer."""
        return self.value(0) * self.ground.scale

    @property
    def everything(self) -> tuple[int, ...]:
        """All dimensions of all levels, by number."""
        return tuple(upper for step in self.ground.descriptor.steps for upper in step.uppers)


def _place(state: Lowering, window: ir.Value, inside: Sequence[Index]) -> Place:
    ground = state.known_in_block(("ground", window), lambda: Ground(state, window))
    index = [origin + offset for origin, offset in zip(ground.origins, inside, strict=True)]
    return Place(ground, index, ground.descriptor.evaluate(index, ground.symbols))


def buffer_address(
    state: Lowering,
    window: ir.Value,
    inside: Sequence[Index],
    *,
    condition: Predicate | None = None,
    anywhere: int | None = None,
) -> BufferAddress:
    """The address of the element `inside` a window, for the lanes that fulfil `condition` and whose element exists.

    The coordinate along the dimension `anywhere` may be any number, also a negative one: it is compared with the bounds
    of the view, where for others what the view says of its lengths is relied upon.
    """
    place = _place(state, window, inside)
    ground = place.ground
    checked: tuple[int, ...] = ()
    if anywhere is not None:
        checked = (ground.descriptor.tops[anywhere],)
        if not _bounded(ground.descriptor, checked[0]):
            within = place.index[anywhere] < resolve(ground.descriptor.lengths[anywhere], ground.symbols)
            condition = within if condition is None else condition & within
    valid = _validity(condition, place, checked)
    base, vector, scalar = ground.split(place.offset)
    address = BufferAddress(_resource(state, ground.pointer, base, ground.space), vector.emit(), scalar.emit())
    return address if valid is None else address.only_where(valid.value, state)


def pointer_to(
    state: Lowering, window: ir.Value, inside: Sequence[Index], condition: Predicate | None
) -> tuple[ir.Value, Predicate | None]:
    """A pointer to the element `inside` a window, and where it may be used: `condition`, and the element exists."""
    place = _place(state, window, inside)
    return _moved(place.ground.pointer, place.offset), _validity(condition, place, place.everything)


def _bounded(descriptor: Descriptor, dimension: int) -> bool:
    """Whether a right padding compares the dimension with its length in any case."""
    return any(step.uppers == (dimension,) and isinstance(step.transform, RightPad) for step in descriptor.steps)


def _resource(state: Lowering, pointer: ir.Value, base: Index, space: Index) -> ir.Value:
    """The buffer that begins `base` bytes behind the pointer and ends with the tensor."""
    emit = state.emit
    i16, i32, i64 = (ir.IntegerType.get_signless(width) for width in (16, 32, 64))

    def make() -> ir.Value:
        moved, left = pointer, space.emit(64)
        if base.terms:
            moved, start = _moved(pointer, base), base.emit(64)
            left = emit.binary("subi", left, start)
        left = arith.minsi(arith.maxsi(left, emit.constant(0, 64)), emit.constant(LARGEST, 64))
        stride = value("arith.constant", i16, [], {"value": ir.IntegerAttr.get(i16, 0)})
        flags = value("arith.constant", i32, [], {"value": ir.IntegerAttr.get(i32, FLAGS)})
        assert left.type == i64
        return value("rocdl.make.buffer.rsrc", ir.Type.parse("!llvm.ptr<8>"), [moved, stride, left, flags])

    return emit.once(("resource", pointer, base.key, space.key), make)


def _moved(pointer: ir.Value, distance: Index) -> ir.Value:
    """The pointer so many bytes further on, by 64-bit arithmetic."""
    attributes = {
        "rawConstantIndices": ir.DenseI32ArrayAttr.get([-(1 << 31)]),
        "elem_type": ir.TypeAttr.get(ir.IntegerType.get_signless(8)),
    }
    return value("llvm.getelementptr", pointer.type, [pointer, distance.emit(64)], attributes)


def _validity(condition: Predicate | None, place: Place, checked: Sequence[int] = ()) -> Predicate | None:
    """`condition` and that the element exists, without what the buffer's size refuses anyway; None: always.

    Bounds of the dimensions numbered `checked` are compared in any case.
    """
    descriptor, values = place.ground.descriptor, place.values
    for step in descriptor.predicates():
        if not set(step.uppers) & set(checked) and _refused_by_size(step, place):
            continue
        test = step.transform.valid(tuple(values[upper] for upper in step.uppers), place.ground.symbols)
        if isinstance(test, bool):
            if test:
                continue
            return Predicate.never(place.ground.state.emit)
        condition = test if condition is None else condition & test
    return condition


def _outermost(descriptor: Descriptor, dimension: int) -> int:
    """What passes its end whenever a dimension does: of a merged one the slowest part, which is not reduced."""
    for step in reversed(descriptor.steps):
        if dimension in step.uppers and isinstance(step.transform, Merge):
            dimension = step.lowers[0]
    return dimension


def _refused_by_size(step: Step, place: Place) -> bool:
    """Whether passing this step's bound always means passing the end of the buffer, in the vector offset alone.

    That is so for the outermost dimension of a matrix whose rows do not overlap (`view` requires it), also where it is
    part of a merged one, as long as the loop does not move along it: the scalar offset may not be part of what is
    refused.
    """
    if not isinstance(step.transform, RightPad):
        return False
    descriptor = place.ground.descriptor
    first = descriptor.steps[0]
    if not isinstance(first.transform, Embed) or first.lowers != (0,):
        return False
    dimension = _outermost(descriptor, step.lowers[0])
    if dimension not in first.uppers:
        return False
    others = dict(zip(first.uppers, first.transform.strides, strict=True))
    own = others.pop(dimension)
    alone = not others or (list(others.values()) == [1] and own != 1)
    if any(place.value(other).negative.terms for other in others):
        return False  # a padding on the left of the other dimension moved the base, and the end with it, further away
    return alone and not place.value(step.uppers[0]).part(Rate.STEP).terms


__all__ = [
    "BufferAddress", "buffer_address", "first_copy", "inside_of",
    "lower_gather", "lower_inside", "lower_load", "lower_offset", "lower_scatter", "lower_store", "pointer_to",
]  # fmt: skip
