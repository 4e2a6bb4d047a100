"""Carry the digits of merged coordinates through loops, so that no iteration divides.

A view that merges dimensions of run-time lengths (the places of a window and its channels, or images and positions)
divides a coordinate into digits. Along such a dimension an innermost loop walks in equal steps, so the digits of an
iteration are those of the one before, plus those of the step, each with the carry of the one behind it (`carries`).

Digits are divided once, before the loop, and come to the accesses through `ck.with_digits`: those of the window's
origin, in scalar registers, where all that the threads of a workgroup access lies in one unit of the last digit; those
of each wave, in scalar registers too, where all that its lanes access does; else those of a thread. The first digit is
not reduced. Behind the end of its dimension it stays at the last place there is: what runs ahead passes the last
iteration, and nothing else compares its digits with lengths. Only where a thread counts the few places of a window it
goes on, since it is by these numbers that places behind the last are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import ClassVar

from msgspec import Struct

from ckmlir.dialect import arith
from ckmlir.dialect.build import (
    attributes_of,
    create,
    default_attributes,
    producer,
    registers_of,
    text_of,
)  # fmt: skip
from ckmlir.dialect.control import end_of
from ckmlir.dialect.descriptor import Descriptor
from ckmlir.dialect.digits import ORIGIN, QUAD, THREAD, merged_along, with_digits
from ckmlir.dialect.digits import WAVE as OF_WAVE
from ckmlir.dialect.distribution import LANE, REGISTER, WAVE, Distribution
from ckmlir.dialect.distribution_builders import QUAD as SEATS
from ckmlir.dialect.distribution_builders import is_in_quads
from ckmlir.dialect.distribution_factors import Factor, renumber
from ckmlir.dialect.divisors import Divisors, constant_of, power_of_two
from ckmlir.dialect.fragment_compute import thread_coordinate
from ckmlir.dialect.loop import LOOP, stage_of
from ckmlir.dialect.symbols import Size, Symbol, divisor
from ckmlir.dialect.transform_graph import Step
from ckmlir.dialect.transforms import Embed, Merge
from ckmlir.dialect.types import WindowType, describe
from ckmlir.dialect.views import view_and_origins
from ckmlir.mlir import ir
from ckmlir.passes.carries import advanced, constant, prepared
from ckmlir.passes.framework import Pass
from ckmlir.passes.loop_body import COPY, holds_loop
from ckmlir.passes.walk import functions, operations
from ckmlir.targets.cdna import WAVE_SIZE

ACCESSES = frozenset({"ck.load_fragment", COPY})
"""What a loop brings from memory."""
UNIFORM = (ORIGIN, OF_WAVE)
"""Whose digits are the same for all lanes of a wave."""
LANE_OF_QUAD = Distribution.parse("r: 16@lane, d0: 4@lane")
ARITHMETIC: dict[str, Callable[[ir.Value, ir.Value], ir.Value]] = {
    "+": arith.addi, "-": arith.subi, "*": arith.muli, "//": arith.divui, "%": arith.remui,
}  # fmt: skip
"""Of lengths, none of which is negative."""
MOST_OF_THREADS = 2
"""Coordinates of threads, or waves, that a loop carries the digits of: each takes registers of its own."""


@dataclass(frozen=True)
class CarryDigits(Pass):
    """Carry the digits of merged coordinates through loops: add, compare and carry, where else each step divides."""

    name: ClassVar[str] = "ck-carry-digits"
    of_control: ClassVar[bool] = True

    def apply(self, module: ir.Module) -> None:
        for function in functions(module):
            for loop in [op for op in operations(function) if op.name == LOOP and not holds_loop(op)]:
                walks = _walks(loop)
                if walks:
                    _carry(loop, walks)


class Walk(Struct, frozen=True):
    """A merged coordinate that advances with a loop.

    Attributes:
        lengths: of the dimensions, the slowest first.
        origin: of the window, in the loop.
        kind: whose coordinate: see `ckmlir.dialect.digits.WithDigitsOp`.
        distribution: of the threads that access the window, as text; "" where the coordinate is the origin's.
        axis: of the window.
        inside: elements from the first register on.
        stays: whether the first digit does, at its last place.
        divisor: what is known to divide the last length.
    """

    lengths: tuple[ir.Value | int, ...]
    origin: ir.Value
    kind: str
    distribution: str
    axis: int
    inside: int
    stays: bool
    divisor: int


Walks = dict[Walk, list[ir.Operation]]
"""Coordinates, and the accesses that divide them."""
Made = dict[tuple[str, ir.Value | int, ir.Value | int], ir.Value]
"""Lengths that were computed, by operator and operands."""


def _walks(loop: ir.Operation) -> Walks:
    body = loop.regions[0].blocks[0]
    divisors, made = Divisors(), Made({})
    found: Walks = {}
    for op in (view.operation for view in body):
        window = producer(op.operands[0]) if op.name in ACCESSES else None
        if window is not None and window.name == "ck.make_window" and window.block == body:
            for walk in _along(op, window, loop, divisors, made):
                found.setdefault(walk, []).append(op)
    left = [walk for walk in found if walk.kind != ORIGIN][MOST_OF_THREADS:]
    return {walk: users for walk, users in found.items() if walk not in left}


def _along(
    op: ir.Operation, window: ir.Operation, loop: ir.Operation, divisors: Divisors, made: Made
) -> Iterable[Walk]:
    """The merged coordinates of a window that the loop moves it along."""
    described = describe(window.results[0].type)
    assert isinstance(described, WindowType)
    view, origins = view_and_origins(window.results[0])
    for axis, ((origin,), length) in enumerate(zip(origins, described.lengths, strict=True)):
        step = merged_along(described.descriptor, axis)
        if step is None or not _advances(origin, loop):
            continue
        assert isinstance(step.transform, Merge)
        sizes = step.transform.lengths
        if all(isinstance(one, int) for one in sizes[1:]):
            continue  # by constants is divided by shifts, and no better
        with ir.InsertionPoint(loop), loop.location:
            lengths = tuple(_emitted(size, list(view.operands)[1:], made) for size in sizes)
        known = divisor(sizes[-1])
        unit = power_of_two(gcd(known, divisors.of(origin)))
        if unit >= length:
            yield Walk(lengths, origin, ORIGIN, "", axis, 0, stays=True, divisor=known)
        elif op.name != COPY:  # which lane copies what is not known before LDS has its layout
            stays = not _counts_few_places(step, described.descriptor)
            walk = Walk(lengths, origin, *(_of_wave(op, axis, unit) or _of_thread(op, axis, unit)), stays, known)
            # Single elements have conditions of their own, which leave no scalar registers for the digits of steps;
            # places that are few are refused by bits instead.
            if walk.kind == QUAD or len(registers_of(op)) > 1 or not walk.stays:
                yield walk


def _emitted(size: Size, symbols: Sequence[ir.Value], made: Made) -> ir.Value | int:
    """A length of a view with these symbols, computed at the insertion point if it is a padded one; once for all views
    that have it, so that their digits are the same.
    """
    if isinstance(size, int):
        return size
    if isinstance(size, Symbol):
        return symbols[size.index]
    left, right = (_emitted(one, symbols, made) for one in (size.left, size.right))
    key = (size.operator, left, right)
    if key not in made:
        sides = (constant(one) if isinstance(one, int) else one for one in (left, right))
        made[key] = ARITHMETIC[size.operator](*sides)
    return made[key]


def _of_wave(op: ir.Operation, axis: int, unit: int) -> tuple[str, str, int, int] | None:
    """The same of the coordinate of a wave, if what its lanes access lies in one unit, and all accesses to the tile in
    few. The distribution is of waves alone, so that tiles whose waves are dealt out alike share their digits.
    """
    distribution = Distribution.parse(text_of(op, "distribution"))
    weights = (digit.weight for digit in distribution.digits(axis) if digit.source == WAVE)
    unit = power_of_two(gcd(unit, *weights))
    units = distribution.coordinates()[axis, 0] // unit
    own = set(units[:, list(registers_of(op))].ravel().tolist())
    if len(own) > 1 or len(set(units.ravel().tolist())) > MOST_OF_THREADS:
        return None
    return OF_WAVE, str(_waves_alone(distribution, axis)), axis, own.pop() * unit


def _waves_alone(distribution: Distribution, axis: int) -> Distribution:
    """Where the waves' parts of a tile lie along an axis."""
    along = distribution.along(axis)
    row = [one if one.owner == WAVE else Factor(one.length, REGISTER, rank) for rank, one in enumerate(along.dims[0])]
    copies = [one for one in along.replicated if one.owner == WAVE]
    return Distribution(*renumber((*copies, Factor(WAVE_SIZE, LANE, 0)), (tuple(row),)))


def _of_thread(op: ir.Operation, axis: int, unit: int) -> tuple[str, str, int, int]:
    """Kind, distribution, axis and `inside` of the coordinate of a thread's registers; `unit`: a power of two that
    divides the origin and the last length.
    """
    text = text_of(op, "distribution")
    distribution = Distribution.parse(text)
    inside = int(distribution.coordinates()[axis, 0, 0, registers_of(op)[0]])
    if is_in_quads(distribution, axis) and unit % SEATS:
        return QUAD, text, axis, inside - inside % SEATS
    weights = (digit.weight for digit in distribution.digits(axis) if digit.source in (LANE, WAVE))
    return THREAD, text, axis, inside - inside % power_of_two(gcd(unit, *weights))


def _counts_few_places(step: Step, descriptor: Descriptor) -> bool:
    """Whether digits of a merged dimension are the few places of a window: see `ckmlir.lowering.window_bits`."""
    seen = (one for one in descriptor.steps if isinstance(one.transform, Embed) and one.transform.few)
    return any(one.uppers[1] in step.lowers for one in seen)


def _advances(origin: ir.Value, loop: ir.Operation) -> bool:
    """Whether a value is the loop's index and what does not change in the loop, added or subtracted."""
    body = loop.regions[0].blocks[0]
    owner = producer(origin)
    if owner is None:
        return bool(origin == body.arguments[0])
    if owner.name not in ("arith.addi", "arith.subi") or owner.block != body:
        return False
    first, second = owner.operands
    if owner.name == "arith.addi" and not _is_outside(second, body):
        first, second = second, first
    return _is_outside(second, body) and _advances(first, loop)


def _is_outside(item: ir.Value, body: ir.Block) -> bool:
    owner = producer(item)
    home = ir.BlockArgument(item).owner if owner is None else owner.block
    return bool(home != body)


def _carry(loop: ir.Operation, walks: Walks) -> None:
    """Hand digits round a loop, and to the accesses that divide them."""
    with loop.location:
        with ir.InsertionPoint(loop):
            radices = {walk: [_at_least_one(length) for length in walk.lengths] for walk in walks}
            first = {walk: _divided(_start(walk, loop), radices[walk]) for walk in walks}
            steps = {walk: prepared(_step(walk, loop.operands[2], radices[walk]), radices[walk]) for walk in walks}
        loop = _with_arguments(loop, [digit for digits in first.values() for digit in digits])
        body = loop.regions[0].blocks[0]
        arguments = list(body.arguments)[len(body.arguments) - sum(map(len, first.values())) :]
        last = end_of(body)
        handed = list(last.operands)
        for walk, users in walks.items():
            digits, arguments = arguments[: len(walk.lengths)], arguments[len(walk.lengths) :]
            _say(walk, users, digits)
            with ir.InsertionPoint(last), default_attributes(stage_of(users[0])):
                handed += advanced(digits, *steps[walk], stays=walk.stays, uniform=walk.kind in UNIFORM)
        with ir.InsertionPoint(last), last.location:
            create("scf.yield", [], handed)
        last.erase()


def _say(walk: Walk, users: Sequence[ir.Operation], digits: Sequence[ir.Value]) -> None:
    """Accesses through windows that know the digits."""
    known: dict[ir.Value, ir.Value] = {}
    for user in users:
        window = user.operands[0]
        if window not in known:
            with ir.InsertionPoint(user), user.location, default_attributes(stage_of(user)):
                known[window] = with_digits(window, digits, walk.axis, walk.kind, walk.inside)
        user.operands[0] = known[window]


def _start(walk: Walk, loop: ir.Operation) -> ir.Value:
    """The coordinate in the first iteration."""
    start = _in_first(walk.origin, loop)
    if walk.kind == ORIGIN:
        return start
    along = 0 if walk.kind == OF_WAVE else walk.axis
    start = arith.addi(start, thread_coordinate(Distribution.parse(walk.distribution), along))
    if walk.inside:
        start = arith.addi(start, constant(walk.inside))
    return arith.addi(start, thread_coordinate(LANE_OF_QUAD, 0)) if walk.kind == QUAD else start


def _in_first(origin: ir.Value, loop: ir.Operation) -> ir.Value:
    """What `_advances` found, in the first iteration."""
    body = loop.regions[0].blocks[0]
    owner = producer(origin)
    if owner is None:
        return loop.operands[0]
    first, second = (one if _is_outside(one, body) else _in_first(one, loop) for one in owner.operands)
    return arith.addi(first, second) if owner.name == "arith.addi" else arith.subi(first, second)


def _at_least_one(length: ir.Value | int) -> ir.Value:
    """A length to divide by: a dimension of length 0 is never accessed, but dividing by 0 has no defined result."""
    return constant(length) if isinstance(length, int) else arith.maxui(length, constant(1))


def _step(walk: Walk, stride: ir.Value, radices: Sequence[ir.Value]) -> list[ir.Value]:
    """The digits of a loop's stride. One that is known to be at most the last length is taken for its own last digit:
    even as long as that, it carries from the only digit that there is.
    """
    if (constant_of(stride) or walk.divisor + 1) <= walk.divisor:
        return [*(constant(0) for _ in radices[1:]), stride]
    return _divided(stride, radices)


def _divided(item: ir.Value, radices: Sequence[ir.Value]) -> list[ir.Value]:
    """The digits of a number, the first of which is not reduced."""
    digits: list[ir.Value] = []
    for length in reversed(radices[1:]):
        digits.insert(0, arith.remui(item, length))
        item = arith.divui(item, length)
    return [item, *digits]


def _with_arguments(loop: ir.Operation, initial: Sequence[ir.Value]) -> ir.Operation:
    """The loop with further carried values, which its body does not hand on yet; in place of the loop."""
    types = [*(result.type for result in loop.results), *(one.type for one in initial)]
    with ir.InsertionPoint(loop):
        wider = ir.Operation.create(
            LOOP, results=types, operands=[*loop.operands, *initial], attributes=attributes_of(loop), regions=1
        )
    body = loop.regions[0].blocks[0]
    body.append_to(wider.regions[0])
    for one in initial:
        body.add_argument(one.type, loop.location)
    for old, new in zip(loop.results, wider.results, strict=False):
        old.replace_all_uses_with(new)
    loop.erase()
    return wider
