"""Where the elements of a window lie: coordinates on every level of its view, and the parts of their offset."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import InitVar, dataclass
from functools import cached_property, lru_cache, partial
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.dialect.build import integer_of, registers_of, text_of
from ckmlir.dialect.digits import ORIGIN, THREAD, WAVE, known_digits, merged_along
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.padding import RightPad
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.transforms import Embed
from ckmlir.dialect.types import WindowType, describe
from ckmlir.dialect.views import moves_buffer, view_and_origins
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.index import Index, Key
from ckmlir.lowering.parts import Rate
from ckmlir.lowering.quads import Fours, from_seat
from ckmlir.mlir import ir

OUT_OF_RANGE = -(1 << 31)
"""A vector offset beyond every buffer: sizes are at most this many bytes, taken as unsigned."""
NO_QUADS: Mapping[int, int] = MappingProxyType({})
"""Dimensions along which lanes share something: none."""


def inside_of(state: Lowering, op: ir.Operation, *, by_quads: bool = False) -> list[Index]:
    """Where a fragment begins in its tile; `by_quads`: see `Lowering.coordinates`."""
    distribution = Distribution.parse(text_of(op, "distribution"))
    return state.coordinates(distribution, registers_of(op)[0], by_quads=by_quads)


def divides(window: ir.Value, axes: Collection[int]) -> bool:
    """Whether a window's view divides a coordinate along one of these axes."""
    described = describe(window.type)
    assert isinstance(described, WindowType)
    return any(merged_along(described.descriptor, axis) is not None for axis in axes)


def differing(op: ir.Operation) -> Collection[int]:
    """The dimensions along which the accesses of a thread to its tile differ, of which a fragment is one."""
    return _differing(Distribution.parse(text_of(op, "distribution")), registers_of(op))


@lru_cache(maxsize=4096)
def _differing(distribution: Distribution, registers: tuple[int, ...]) -> Collection[int]:
    places = distribution.coordinates()[:, 0, 0]
    own = places[:, list(registers)]
    return tuple(dim for dim, (all_, some) in enumerate(zip(places, own, strict=True)) if set(all_) != set(some))


@lru_cache(maxsize=4096)
def accesses_of(distribution: Distribution, count: int) -> int:
    """How many accesses of so many registers a thread's part of a tile takes."""
    return -(-int(distribution.coordinates().shape[-1]) // count)


@dataclass(eq=False)
class Ground:
    """What all accesses through a window have in common, found out once for a block."""

    state: Lowering
    window: InitVar[ir.Value]

    def __post_init__(self, window: ir.Value) -> None:
        described = describe(window.type)
        assert isinstance(described, WindowType)
        window, self.carried = known_digits(window)
        self.may_move_buffer = moves_buffer(window)
        """Whether the buffer may begin where a loop moves the window to."""
        make_view, origins = view_and_origins(window)
        self.pointer: ir.Value = make_view.operands[0]
        self.descriptor, self.lengths = described.descriptor, described.lengths
        known = self.descriptor.symbol_multiples
        self.symbols = [
            self.state.uniform(item, multiple=known.get(place, 1))
            for place, item in enumerate(list(make_view.operands)[1:])
        ]
        zero = self.state.emit.number(0)
        uniform = partial(self.state.uniform, least=Rate.ORIGIN)
        self.origins = [sum((uniform(part) for part in parts), start=zero) for parts in origins]
        self.scale = bits(described.element) // 8
        """Bytes of an element."""

    @cached_property
    def neighbours(self) -> Sequence[int | None] | None:
        """Bytes between neighbours along each dimension (None: known at run time only) of a view that is an array as it
        lies in memory, with buffers that stay; None for other views.
        """
        first, *others = self.descriptor.steps
        embed = first.transform
        if others or self.carried or self.may_move_buffer or not isinstance(embed, Embed) or embed.few:
            return None
        strides = dict(zip(first.uppers, embed.strides, strict=True))
        own = (strides[top] for top in self.descriptor.tops)
        return tuple(stride * self.scale if isinstance(stride, int) else None for stride in own)

    @cached_property
    def space(self) -> Index:
        """Bytes of the whole view, from the pointer."""
        size = self.descriptor.element_space(self.symbols)
        return (self.state.emit.number(size) if isinstance(size, int) else size) * self.scale

    @cached_property
    def single(self) -> dict[int, int]:
        """Dimensions of the array along which the window has one element, at a coordinate that never changes: by their
        numbers the window's. What a window reaches ends with those elements; of a row that is its length, where the
        whole array takes products of 64 bits. Kernels with loops are left as they are, as which scalars live across
        loops would change, except for rows where nothing multiplies.
        """
        first = self.descriptor.steps[0]
        if self.state.multiplies or not isinstance(first.transform, Embed) or first.lowers != (0,):
            return {}
        pads = (step for step in self.descriptor.steps if isinstance(step.transform, RightPad))
        below = {step.uppers[0]: step.lowers[0] for step in pads}
        found = {
            dimension: axis
            for axis, (top, length) in enumerate(zip(self.descriptor.tops, self.lengths, strict=True))
            if length == 1
            and (dimension := below.get(top, top)) in first.uppers
            and self.origins[axis].rate <= Rate.ORIGIN
        }
        is_row = len(first.uppers) <= len(found) + 1
        return found if self.state.is_straight or is_row else {}

    @cached_property
    def origin(self) -> Index:
        """Bytes from the pointer to the window's first element."""
        first = self.descriptor.offset(self.origins, self.symbols)
        return (self.state.emit.number(first) if isinstance(first, int) else first) * self.scale

    @cached_property
    def start(self) -> Index:
        """What the view's own slices, paddings and frozen dimensions add to the offset of its first element, in bytes.

        It may need 64 bits, so it belongs into the base. Where it is not a summand of the other offsets, below a
        transform that is not linear, `split` takes it out again.
        """
        if all(isinstance(step.transform, (Embed, RightPad)) for step in self.descriptor.steps):
            return self.state.emit.number(0)
        zero = [self.state.emit.number(0)] * self.descriptor.rank
        first = self.descriptor.offset(zero, self.symbols)
        if isinstance(first, int):
            return self.state.emit.number(first * self.scale)
        found: Index = first.part(Rate.FIXED, constant=True) * self.scale
        return found

    def digits(self, op: ir.Operation, inside: Sequence[Index]) -> tuple[tuple[int, ...], tuple[Index, ...]]:
        """What a ck.with_digits says of the element `inside` the window: a merged dimension, by its number, and its
        digits.
        """
        axis, kind, emit = integer_of(op, "axis"), text_of(op, "of"), self.state.emit
        merge = merged_along(self.descriptor, axis)
        assert merge is not None
        values = list(op.operands)[1:]
        if kind in (ORIGIN, WAVE):
            # Before the loop as well, where nothing moves them yet: so all have one base.
            own = inside[axis] if kind == ORIGIN else inside[axis].part(Rate.LANE, constant=True)
            own = own - integer_of(op, "inside")
            # The power of two of `WithDigitsOp`, as far as the window or this access tells.
            reach = self.lengths[axis] if kind == ORIGIN else own.bound
            multiple = 1 if reach is None else 1 << (reach - 1).bit_length()
            digits = [self.state.uniform(item, least=Rate.STEP) for item in values[:-1]]
            last = self.state.uniform(values[-1], least=Rate.STEP, multiple=multiple)
            return merge.uppers, (*digits, last + own)
        further = inside[axis].constant - integer_of(op, "inside")
        digits = [self.state.of_thread(item) for item in values]
        if kind == THREAD:
            return merge.uppers, (*digits[:-1], digits[-1] + further)
        return merge.uppers, tuple(Index(from_seat(digit.terms, further, emit), emit) for digit in digits)

    def split(self, offset: Index) -> tuple[Index, Index, Index]:
        """An offset in bytes as base, vector and scalar offset, the latter two without negative terms."""
        base = offset.part(Rate.ORIGIN) + self.start
        base = base + (offset - base).negative
        if base.rate == Rate.LANE:
            raise ValueError(f"in {self.descriptor} an offset falls from lane to lane; strides are not negative")
        rest = offset - base
        return base, rest.part(Rate.LANE, Rate.FIXED, constant=True), rest.part(Rate.STEP)


class Place(Struct, frozen=True, dict=True):
    """Where an element of a view lies, as far as both kinds of address need it."""

    ground: Ground
    inside: list[Index]
    """The coordinates in the window."""
    index: list[Index]
    """The coordinates in the view."""
    values: list[Index | int]
    """The coordinates on every level of the descriptor; numbers where they are frozen."""
    known: Collection[tuple[int, ...]] = ()
    """The merged dimensions whose digits a loop carries, by their numbers."""
    moves_buffer: bool = False
    """Whether the buffer begins where a loop moves the window to."""

    def value(self, dimension: int) -> Index:
        """A coordinate by the number of its dimension."""
        found = self.values[dimension]
        return self.ground.state.emit.number(found) if isinstance(found, int) else found

    @property
    def single(self) -> dict[int, int]:
        """`Ground.single`, where the element has no coordinate of its own along the dimension."""
        return {dimension: axis for dimension, axis in self.ground.single.items() if not self.inside[axis].terms}

    def at_home(self, seat: int) -> Place:
        """The place as the lane at a seat has it that others of its quad take parts of it from. Numbers of which that
        lane has its own are the same for all seats, so that they are compared once.
        """
        emit = self.ground.state.emit

        def own(one: Index) -> Index:
            fours = emit.quads.get((one - one.constant).key)
            if fours is None or fours.seat(one.constant) != seat:
                return one.at_home()
            return one.of_each(seat, fours)

        index = [own(one) for one in self.index]
        values = [one if isinstance(one, int) else own(one) for one in self.values]
        return replace(self, index=index, values=values)

    @property
    def offset(self) -> Index:
        """Bytes from the pointer."""
        return self.value(0) * self.ground.scale


def _fours(ground: Ground, index: Sequence[Index], quads: Mapping[int, int]) -> dict[Key, Fours]:
    """What lanes of a quad share of coordinates, without their constants. Positions of windows with few places rest in
    all loops (`ckmlir.lowering.window_bits`). Of other numbers only what is divided again and again is shared, where
    four follow each other.
    """
    few = any(isinstance(step.transform, Embed) and step.transform.few for step in ground.descriptor.steps)
    found = {}
    for dim, apart in quads.items():
        rest = few and not index[dim].part(Rate.STEP).terms
        if rest or apart == 1:
            found[(index[dim] - index[dim].constant).key] = Fours(apart, rest)
    return found


def place_of(state: Lowering, window: ir.Value, inside: Sequence[Index], quads: Mapping[int, int] = NO_QUADS) -> Place:
    """The place of the element `inside` a window; along the dimensions `quads` lanes share divisions (`quads`), of
    numbers so far from each other.
    """
    ground = state.known_in_block(("ground", window), lambda: Ground(state, window))
    index = [origin + offset for origin, offset in zip(ground.origins, inside, strict=True)]
    state.emit.quads = _fours(ground, index, quads)
    known = dict(ground.digits(op, inside) for op in ground.carried)
    values = ground.descriptor.evaluate(index, ground.symbols, known)
    return Place(ground, list(inside), index, values, frozenset(known))
