"""Which places of a window exist, as bits of one number that a loop tests.

What a lane loads of an image through a window's places is at the position that its row has, which no step changes; what
changes is the place. Along each dimension the places that exist for a position follow each other, from
ceil((left - position * stride) / dilation) on. So all of them are one number with a bit for each place, computed where
the position is, and a step shifts the bit of its place to the sign of the offset, which is beyond every buffer then.
A view that says so (`Embed.few`) has 31 places at most; one more bit stands for what other paddings hold. Where it has
as many in each dimension only, each has a number, and a place exists where no dimension refuses it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

from msgspec import Struct

from ckmlir.dialect.build import value
from ckmlir.dialect.padding import LeftPad, RightPad
from ckmlir.dialect.symbols import Size, resolve
from ckmlir.dialect.transform_graph import Step
from ckmlir.dialect.transforms import MOST_PLACES, Embed, Merge, Offset
from ckmlir.lowering.index import Emitter, Index
from ckmlir.lowering.parts import Rate
from ckmlir.lowering.place import Place
from ckmlir.lowering.predicate import Predicate
from ckmlir.lowering.quads import seats_of
from ckmlir.mlir import ir

BEYOND = -(1 << 31)
"""An offset beyond every buffer: the sign bit."""


class Slid(Struct, frozen=True):
    """A dimension that a window slides over: the paddings of its image, and positions and places seen instead."""

    left: Step
    right: Step
    embed: Step


def slid(place: Place) -> list[Slid]:
    """The dimensions whose places are few, the last the fastest."""
    steps = place.ground.descriptor.steps
    padded = {step.uppers: step for step in steps if isinstance(step.transform, LeftPad | RightPad)}
    moved = {step.uppers: step.lowers for step in steps if isinstance(step.transform, Offset)}
    found = []
    for step in steps:
        if isinstance(step.transform, Embed) and step.transform.few:
            right = padded.get(moved.get(step.lowers, step.lowers))
            left = None if right is None else padded.get(right.lowers)
            if right is None or left is None or not isinstance(left.transform, LeftPad):
                raise ValueError("few places of a window are seen of a dimension that is padded left, then right")
            found.append(Slid(left, right, step))
    return sorted(found, key=lambda one: one.left.lowers)


def numbering(place: Place, found: list[Slid]) -> Step | None:
    """The merged dimension whose digits the places are, the slowest of them, if there is one."""
    digits = tuple(one.embed.uppers[1] for one in found)
    merged = (step for step in place.ground.descriptor.steps if isinstance(step.transform, Merge))
    return next((step for step in merged if step.lowers[: len(digits)] == digits), None)


def is_moving(step: Step, place: Place) -> bool:
    """Whether a loop is known to change what a step is about."""
    return any(place.value(upper).part(Rate.STEP).terms for upper in step.uppers)


def refused(
    place: Place,
    found: list[Slid],
    fixed: Callable[[Place], Predicate | None],
    moving: Predicate | None,
    vector: tuple[ir.Value, Index],
) -> ir.Value:
    """A vector offset, which is also given as an index; beyond every buffer where the element does not exist. What is
    `fixed` becomes part of the bits, what is `moving` of the choice among them. Numbers beyond those of all places are
    taken for the last, which none has.

    Where each dimension has a number, and no loop changes the offset and that of one, the two are joined before the
    loop.
    """
    emit, signs = place.ground.state.emit, list[ir.Value]()
    last, (offset, own) = emit.constant(MOST_PLACES), vector
    groups = [[one] for one in found] if _are_few_in_each(found) else [found]
    for number, together in enumerate(groups):
        missing = _without_fixed(place, together, (lambda _: None) if number else fixed)
        which = _number(place, together)
        bit = emit.binary("minui", which.emit(), last)
        if moving is not None and not number:
            bit = _chosen(emit, moving, bit, last)
        sign = emit.binary("shli", missing, bit)
        positions = (place.value(one.embed.uppers[0]) for one in together)
        if (moving is None or number) and len(groups) > 1 and all(map(_rests, (own, which, *positions))):
            # The larger one, since LLVM would join the signs of all dimensions first, in the loop.
            offset = emit.binary("maxui", offset, emit.binary("andi", sign, emit.constant(BEYOND)))
        else:
            signs.append(sign)
    if not signs:
        return offset
    missing = emit.binary("andi", reduce(partial(emit.binary, "ori"), signs), emit.constant(BEYOND))
    return emit.binary("ori", offset, missing)


def _rests(index: Index) -> bool:
    """Whether no loop changes an index."""
    return not any(atom.moving or atom.rate == Rate.STEP for monomial in index.terms for atom in monomial)


def _are_few_in_each(found: list[Slid]) -> bool:
    """Whether each dimension has a number of its own."""
    return any(isinstance(one.embed.transform, Embed) and one.embed.transform.few > 1 for one in found)


def _without_fixed(place: Place, found: list[Slid], fixed: Callable[[Place], Predicate | None]) -> ir.Value:
    """The bits of the places that do not exist, or are refused; made by one lane of a quad where four share positions.
    """
    emit, own = place.ground.state.emit, fixed(place)
    seats = {seat for one in found for seat in seats_of(place.value(one.embed.uppers[0]).terms)}
    if len(seats) == 1:
        (seat,) = seats
        home = place.at_home(seat)
        missing = _missing(emit, home, found)
        if own is not None and own.same_in_quad:
            missing, own = _if_fulfilled(emit, fixed(home), missing), None
        missing = emit.from_seat(missing, seat, rests=True)
    else:
        missing = _missing(emit, place, found)
    return _if_fulfilled(emit, own, missing)


def _if_fulfilled(emit: Emitter, condition: Predicate | None, missing: ir.Value) -> ir.Value:
    return missing if condition is None else _chosen(emit, condition, missing, emit.constant(-1))


def _chosen(emit: Emitter, condition: Predicate, yes: ir.Value, no: ir.Value) -> ir.Value:
    key = ("chosen", condition.value, yes, no)
    return emit.once(key, lambda: value("arith.select", yes.type, [condition.value, yes, no]))


def _number(place: Place, found: list[Slid]) -> Index:
    """Which place of the window it is, counted through all dimensions."""
    merged = numbering(place, found)
    if merged is None or merged.uppers in place.known:
        number = place.ground.state.emit.number(0)
        for one in found:
            number = number * _places(place, one) + place.value(one.embed.uppers[1])
        return number
    assert isinstance(merged.transform, Merge)
    number = place.value(merged.uppers[0])
    for length in reversed(merged.transform.lengths[len(found) :]):
        number = number // resolve(length, place.ground.symbols)
    return number


def _places(place: Place, one: Slid) -> Index:
    assert isinstance(one.embed.transform, Embed)
    return _index(place, one.embed.transform.lengths[1])


def _index(place: Place, size: Size) -> Index:
    found: Index | int = resolve(size, place.ground.symbols)
    return place.ground.state.emit.number(found) if isinstance(found, int) else found


def _missing(emit: Emitter, place: Place, found: list[Slid]) -> ir.Value:
    """A bit for each place that does not exist, from the highest on, and the lowest."""
    width, exists = emit.constant(1), emit.constant(-1)
    for number, one in enumerate(reversed(found)):
        places = _places(place, one).emit()
        first, end = _range(emit, place, one, places)
        if number:
            exists = emit.binary("muli", exists, _repeated(emit, width))
        among = emit.binary("andi", _ones(emit, emit.binary("muli", end, width)), _zeros(emit, first, width))
        exists = emit.binary("andi", exists, among)
        width = emit.binary("muli", width, places)
    missing = emit.binary("ori", emit.binary("xori", exists, emit.constant(-1)), emit.constant(-(1 << 31)))
    return emit.once(("reversed", missing), lambda: value("llvm.intr.bitreverse", missing.type, [missing]))


def _range(emit: Emitter, place: Place, one: Slid, places: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The first place that exists for the position, and that behind the last."""
    padding, seen = one.left.transform, one.embed.transform
    assert isinstance(padding, LeftPad) and isinstance(seen, Embed)
    _, dilation = (_index(place, size) for size in seen.strides)
    # What a dimension is moved by counts as well.
    start = (place.value(one.right.uppers[0]) - place.value(one.embed.uppers[1]) * dilation).emit()
    left, length = _index(place, padding.pad), _index(place, padding.length)
    by, found = dilation.emit(), []
    reach = emit.binary("muli", places, by)
    for limit in (left, left + length):
        distance = emit.binary("maxsi", emit.binary("subi", limit.emit(), start), emit.constant(0))
        within = emit.binary("minsi", distance, reach)  # so that the quotient is few
        found.append(emit.few(emit.binary("addi", within, emit.binary("subi", by, emit.constant(1))), by))
    return found[0], found[1]


def _ones(emit: Emitter, count: ir.Value) -> ir.Value:
    """So many bits from the lowest on, `MOST_PLACES` at most."""
    return emit.binary("subi", emit.binary("shli", emit.constant(1), count), emit.constant(1))


def _zeros(emit: Emitter, first: ir.Value, width: ir.Value) -> ir.Value:
    return emit.binary("xori", _ones(emit, emit.binary("muli", first, width)), emit.constant(-1))


def _repeated(emit: Emitter, width: ir.Value) -> ir.Value:
    """A number with every `width`-th bit, by which a product repeats as many bits."""
    bits, distance, most = emit.constant(1, 64), width, emit.constant(32)
    for _ in range(MOST_PLACES.bit_length()):
        distance = emit.binary("minui", distance, most)
        bits = emit.binary("ori", bits, emit.binary("shli", bits, emit.widen(distance)))
        distance = emit.binary("addi", distance, distance)
    return emit.once(("low", bits), lambda: value("arith.trunci", width.type, [bits]))
