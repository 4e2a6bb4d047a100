"""Whether an element of a window exists: the comparisons that its view's paddings ask for, as few as are needed.

A padding is compared where nothing else refuses what lies in it. Without comparison it is refused by the size of a
buffer, or there is nothing in it: where the length is a multiple of what it is padded to, a window that starts at such
a multiple and is no longer ends inside.

What an index tile says may be anything, and is compared in every case, as a distance from the window's origin: added to
the origin first, a negative one could come back into the array.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ckmlir.dialect import arith
from ckmlir.dialect.descriptor import Descriptor
from ckmlir.dialect.padding import LeftPad, RightPad
from ckmlir.dialect.symbols import divisor, resolve
from ckmlir.dialect.transform_graph import Step
from ckmlir.dialect.transforms import Embed, Merge
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.index import Index
from ckmlir.lowering.parts import Rate, rate_of
from ckmlir.lowering.place import OUT_OF_RANGE, Place
from ckmlir.lowering.predicate import Predicate
from ckmlir.mlir import ir

LARGEST = (1 << 31) - 1


def existence(
    place: Place,
    condition: Predicate | None = None,
    *,
    anywhere: int | None = None,
    by_size: bool = False,
    unpadded: bool = False,
    among: Callable[[Step], bool] = lambda step: True,
) -> Predicate | None:
    """`condition` and that the element exists; None: always.

    Args:
        anywhere: The dimension of the window along which the coordinate may be any number, also a negative one.
        by_size: What passes the end of a buffer needs no comparison.
        unpadded: Dimensions without a padding are compared too, where otherwise the view's word is taken for it that
            windows end inside.
        among: The paddings that are compared.
    """
    descriptor, symbols = place.ground.descriptor, place.ground.symbols
    compared: set[int] = set()
    """Dimensions that are compared before the paddings are."""
    if anywhere is not None:
        condition = _and(condition, place.inside[anywhere] < room(place, anywhere))
        if _right_pad(descriptor, descriptor.tops[anywhere]) is not None:
            compared.add(descriptor.tops[anywhere])
    if unpadded:
        for position in _unpadded(place):
            if position != anywhere:
                length = resolve(descriptor.lengths[position], symbols)
                condition = _and(condition, place.index[position] < length)
    steps = [step for step in paddings(place) if step.uppers[0] not in compared]
    steps = [step for step in steps if not (by_size and _refused_by_size(step, place))]
    for step, below in _beside_each_other(list(filter(among, steps))):
        if below is None:
            test = step.transform.valid(_compared(step, place), symbols)
        else:
            # What lies left of the beginning is a negative distance from it, and so, unsigned, beyond every length.
            assert isinstance(below.transform, LeftPad)
            test = place.value(below.lowers[0]) < resolve(below.transform.length, symbols)
        if isinstance(test, bool):
            if test:
                continue
            return Predicate.never(place.ground.state.emit)
        condition = _and(condition, test)
    return condition


def paddings(place: Place) -> Sequence[Step]:
    """The paddings that the element may lie in, found once for a place."""
    known: dict[str, tuple[Step, ...]] = vars(place)
    if "paddings" not in known:
        steps = place.ground.descriptor.predicates()
        known["paddings"] = tuple(step for step in steps if not _holds_nothing(step, place))
    return known["paddings"]


def refused_by_moving(place: Place) -> bool:
    """Whether the size of a buffer that moves with its window refuses what else would be compared in each step."""
    return place.moves_buffer and any(
        place.value(step.uppers[0]).part(Rate.STEP).terms and _refused_by_size(step, place) for step in paddings(place)
    )


def exist_together(first: Place, last: Place) -> bool:
    """Whether a loop changes which elements exist, but all lanes of a wave, and all elements between two, are known to
    exist where one of them does: what is compared of them is the same, and the same for all lanes. Paddings do not
    count that a wave meets in its last unit only (`in_last_unit`).
    """
    compared = [
        step for step in paddings(first)
        if not _refused_by_size(step, first) and not all(in_last_unit(step, place) for place in (first, last))
    ]  # fmt: skip
    told, others = ([_told_by(step, place) for step in compared] for place in (first, last))
    rates = {one.rate for ones in told for one in ones if not isinstance(one, int)}
    same = [[*map(_key, ones)] for ones in told] == [[*map(_key, ones)] for ones in others]
    has_units = len(compared) < len(paddings(first))
    return same and Rate.LANE not in rates and (Rate.STEP in rates or has_units)


class InLastUnit(NamedTuple):
    """An element's coordinate along a padded dimension that ends with a unit of which the array has a part.

    Attributes:
        unit: where the unit begins that a wave is in, which a loop changes.
        inside: how far the element lies inside, less than the unit is long.
        length: of the dimension without its padding.
        multiple: how long units are.
    """

    unit: Index
    inside: Index
    length: Index
    multiple: int

    def sign_if_outside(self, pointer: ir.Value) -> ir.Value:
        """The sign bit for an element in the padding, else 0: of a number that no loop changes, which is negative where
        the last unit has no such element, and one that is the same for all lanes, which is in the last unit. LLVM takes
        that for another than those of other pointers: what they have in common it would compute by itself, where one
        instruction does that and joins it with an offset.
        """
        emit = self.length.emitter
        rest = self.length % self.multiple - 1 - self.inside
        lane = emit.binary("andi", rest.emit(), emit.constant(OUT_OF_RANGE))
        left = emit.binary("subi", (self.length - self.multiple).emit(), self.unit.emit())
        own = emit.once(("last unit", left, pointer), lambda: assembly(left.type, [left], "", "=s,0", effects=True))
        return emit.binary("andi", lane, own)


def in_last_unit(step: Step, place: Place) -> InLastUnit | None:
    """A padding of a digit that a loop carries for each wave, up to a multiple: its wave is in one such unit. None for
    others.
    """
    padding, emit = step.transform, place.ground.state.emit
    if not isinstance(padding, RightPad) or padding.multiple == 1 or padding.pad != 0:
        return None
    merges = (one for one in place.ground.descriptor.steps if one.uppers in place.known)
    carried = {dimension for one in merges for dimension in one.lowers}
    coordinate = place.value(step.uppers[0])
    unit, inside = coordinate.part(Rate.STEP), coordinate.part(Rate.LANE, Rate.FIXED, constant=True)
    own = inside.bound
    if step.uppers[0] not in carried or own is None or own > padding.multiple or not unit.terms:
        return None
    if (unit + inside).key != coordinate.key or unit.multiple % padding.multiple:
        return None
    length = resolve(padding.length, place.ground.symbols)
    return InLastUnit(unit, inside, emit.number(length) if isinstance(length, int) else length, padding.multiple)


def _told_by(step: Step, place: Place) -> tuple[Index | int, ...]:
    """The coordinates that are compared for a padding: see `existence`."""
    return _compared(step, place) if isinstance(step.transform, RightPad) else (place.value(step.lowers[0]),)


def _key(item: Index | int) -> object:
    return item if isinstance(item, int) else item.key


def before_the_end(
    place: Place, differing: Collection[int], among: Sequence[Step], *, crowded: bool = False, anew: bool = False
) -> list[ir.Value] | None:
    """Numbers of which one is negative where the element lies in one of these paddings: how many elements are left
    behind it along each dimension. None where that does not say it, or conditions are as good: where no loop changes
    any, or several, or not along a dimension where a thread's accesses differ. So they are where none changes, but
    `crowded` ones differ. Of those the numbers are not those of other pointers if they are `anew`.

    Conditions of all these would be pairs of scalar registers, which LLVM makes all before the first is used. What a
    loop has come to is a number of 31 bits at most, as lengths are; a negative one counts as the largest. What other
    dimensions leave comes first: it is the same for the whole loop, before which it joins what else is.
    """
    if not crowded and not any(map(_is_changed, (one for step in among for one in _compared(step, place)))):
        return None
    left = _all_left_behind(place, among)
    if left is None:
        return None
    along = {place.ground.descriptor.tops[dim] for dim in differing}
    changing = [step for step, (_, coordinate) in left.items() if coordinate.part(Rate.STEP).terms]
    if len(changing) == 1 and changing[0].uppers[0] in along:
        found = [_left_in_loop(*left.pop(changing[0]), place)]
    elif crowded and not changing:
        apart = [step for step in left if step.uppers[0] in along]
        found = [_left_in_vectors(*left.pop(step), place, anew) for step in apart]
    else:
        return None
    return [*((end - other).emit() for end, other in left.values()), *found] if found else None


def _is_changed(coordinate: Index | int) -> bool:
    """Whether a loop changes a coordinate."""
    return isinstance(coordinate, Index) and any(rate_of(monomial) == Rate.STEP for monomial in coordinate.terms)


def before_the_ends(place: Place) -> tuple[list[ir.Value], list[ir.Value]] | None:
    """The same wherever a loop moves: of what is the same for all lanes and changes in no loop, and of the rest. None
    where that does not say it."""
    left = _all_left_behind(place, paddings(place))
    if left is None:
        return None
    alike, others = [], []
    for end, coordinate in left.values():
        if coordinate.rate <= Rate.ORIGIN:
            alike.append((end - coordinate).emit())
        elif coordinate.part(Rate.STEP).terms:
            others.append(_left_in_loop(end, coordinate, place))
        else:
            others.append((end - coordinate).emit())
    return alike, others


def _all_left_behind(place: Place, among: Sequence[Step]) -> dict[Step, tuple[Index, Index]] | None:
    """`_left_behind` of those paddings that are compared; None if one of them is not at an end."""
    steps = [one for one in among if not _refused_by_size(one, place)]
    left = {step: found for step in steps if (found := _left_behind(step, place)) is not None}
    return left if len(left) == len(steps) else None


def _left_in_loop(end: Index, coordinate: Index, place: Place) -> ir.Value:
    """How many elements are left behind one, along a dimension that a loop moves along."""
    emit, moving = place.ground.state.emit, coordinate.part(Rate.STEP)
    # What a loop changes comes apart, so that lanes keep the rest.
    rest = end - coordinate + moving
    changed, constant = rest.part(Rate.STEP), rest.constant
    come_to = emit.binary("minui", moving.emit(), emit.constant(LARGEST))
    found = emit.binary("addi", (rest - changed - constant).emit(), emit.binary("subi", changed.emit(), come_to))
    return emit.binary("addi", found, emit.constant(constant)) if constant else found


def _left_in_vectors(end: Index, coordinate: Index, place: Place, anew: bool) -> ir.Value:
    """How many elements are left behind one, in a vector register: of what is the same for all lanes LLVM would make a
    scalar register for each access before the first. `anew`: LLVM takes it for another than those of other pointers.
    """
    emit, left = place.ground.state.emit, end - coordinate
    constant = left.constant
    own = (left - constant).emit()
    key = ("left", own, place.ground.pointer if anew else None)
    start = emit.once(key, lambda: assembly(own.type, [own], "", "=v,0", effects=anew))
    return emit.binary("addi", start, emit.constant(constant)) if constant else start


def _left_behind(step: Step, place: Place) -> tuple[Index, Index] | None:
    """The last number along a padding on the right, and an element's; None for other paddings, or where the element's
    may be negative."""
    if not isinstance(step.transform, RightPad):
        return None
    (coordinate,) = _compared(step, place)
    if not isinstance(coordinate, Index) or coordinate.negative.terms:
        return None
    last = resolve(step.transform.length, place.ground.symbols) - 1
    return (place.ground.state.emit.number(last) if isinstance(last, int) else last), coordinate


def _compared(step: Step, place: Place) -> tuple[Index | int, ...]:
    """The coordinates that say whether an element lies in a padding: of a merged dimension in units, so that what is
    loaded of a unit in several pieces is compared once.
    """
    found = tuple(place.values[upper] for upper in step.uppers)
    merged = {one.uppers for one in place.ground.descriptor.steps if isinstance(one.transform, Merge)}
    if not (isinstance(step.transform, RightPad) and step.lowers in merged):
        return found
    length = resolve(step.transform.length, place.ground.symbols)
    if isinstance(length, int):
        return found
    return tuple(one if isinstance(one, int) else one.apart(length)[0] for one in found)


def _beside_each_other(steps: Sequence[Step]) -> list[tuple[Step, Step | None]]:
    """The steps, each padding on the right with that on the left of the same elements, if there is one."""
    left = {step.uppers[0]: step for step in steps if isinstance(step.transform, LeftPad)}
    right = {step.lowers[0]: step for step in steps if isinstance(step.transform, RightPad)}
    joined = {
        dim for dim, step in left.items()
        if dim in right and right[dim].transform.lower_lengths == step.transform.upper_lengths
    }  # fmt: skip
    return [
        (step, left[step.lowers[0]] if step in right.values() and step.lowers[0] in joined else None)
        for step in steps
        if step.uppers[0] not in joined
    ]


def _unpadded(place: Place) -> list[int]:
    """The dimensions of the window without a padding that it is not known to end inside of."""
    descriptor = place.ground.descriptor
    return [
        position
        for position, (top, length) in enumerate(zip(descriptor.tops, descriptor.lengths, strict=True))
        if _right_pad(descriptor, top) is None and not _below(place.index[position], length)
    ]


def _and(condition: Predicate | None, test: Predicate) -> Predicate:
    return test if condition is None else condition & test


def _right_pad(descriptor: Descriptor, dimension: int) -> RightPad | None:
    """The padding that compares a dimension with its length, if there is one."""
    for step in descriptor.steps:
        if step.uppers == (dimension,) and isinstance(step.transform, RightPad):
            return step.transform
    return None


def room(place: Place, position: int) -> Index | int:
    """How many elements lie behind the window's origin along a dimension; none if the origin lies behind them all."""
    ground = place.ground
    padding = _right_pad(ground.descriptor, ground.descriptor.tops[position])
    length = ground.descriptor.lengths[position] if padding is None else padding.length
    limit, origin = resolve(length, ground.symbols), ground.origins[position]
    if not origin.terms:
        found: Index | int = limit
        return found
    emit = ground.state.emit
    left = limit - origin
    rest = emit.once(("room", left.key), lambda: arith.maxsi(left.emit(), emit.constant(0)))
    return emit.index(rest, max(left.rate, Rate.FIXED))


def _below(index: Index | int, length: object) -> bool:
    """Whether a coordinate is known to be less than a length."""
    bound = index + 1 if isinstance(index, int) else index.bound
    return bound is not None and isinstance(length, int) and bound <= length


def _holds_nothing(step: Step, place: Place) -> bool:
    """Whether no element of the window lies in a padding.

    The length has to be a multiple of what it is padded to; what is added to a multiple of that has to stay below it.
    """
    padding = step.transform
    if not isinstance(padding, RightPad):
        return False
    value = place.values[step.uppers[0]]
    if _below(value, padding.length):
        return True
    if padding.pad != 0 or divisor(padding.length) % padding.multiple:
        return False
    return isinstance(value, Index) and value.rest_fits(padding.multiple)


def _outermost(descriptor: Descriptor, dimension: int) -> int:
    """What passes its end whenever a dimension does: of a merged one the slowest part, which is not reduced."""
    for step in reversed(descriptor.steps):
        if dimension in step.uppers and isinstance(step.transform, Merge):
            dimension = step.lowers[0]
    return dimension


def _refused_by_size(step: Step, place: Place) -> bool:
    """Whether passing this step's bound always means passing the end of the buffer, in the vector offset alone.

    That is so for the outermost dimension of a matrix whose rows do not overlap (`view` requires it), also where it is
    part of a merged one, as long as the loop does not move along it, or moves the buffer: the scalar offset may not be
    part of what is refused.
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
    if dimension in place.single:
        return True  # without that element the buffer has no bytes
    others = dict(zip(first.uppers, first.transform.strides, strict=True))
    own = others.pop(dimension)
    for other in place.single:  # the buffer ends with what the window has of them
        others.pop(other, None)
    alone = not others or (list(others.values()) == [1] and own != 1)
    if any(place.value(other).negative.terms for other in others):
        return False  # a padding on the left of the other dimension moved the base, and the end with it, further away
    return alone and (place.moves_buffer or not place.value(step.uppers[0]).part(Rate.STEP).terms)
