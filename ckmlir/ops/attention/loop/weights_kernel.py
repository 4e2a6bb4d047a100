"""Weights of attention: the softmax, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from msgspec import Struct

from ckmlir.lang import Scalar, Tile, exp2, floor, full, log2, maximum, rescale, round_even, where, zeros
from ckmlir.ops.attention.level import ROOM
from ckmlir.ops.attention.loop.loop_kernel import Form, Sums, Weights
from ckmlir.ops.attention.loop.units_kernel import Units
from ckmlir.ops.precision import LN_2

LEAST_SUM = 2.0**-100
"""Less than any weight of a key that is taken from the exponent 0 (`ops.attention.level`)."""
ROUNDINGS = 2.0**-22
"""What several roundings of f32 change at most, relative to the number."""


class Top(Struct, frozen=True):
    """The largest score of every query so far, its exponent, and what earlier weights are multiplied with."""

    largest: Tile
    shift: Tile
    decay: Tile


class Softmax(Struct, frozen=True):
    """Exponentials of scores less the largest so far; the state is that and the sum of the weights.

    Attributes:
        units: what scores are.
        boost: weights are multiplied by two to this power, and so are their sums.
    """

    units: Units
    boost: int = 0
    slack: float = 0.0

    @property
    def bounded(self) -> bool:
        """See `loop_kernel.Weights`: exponentials of what is not positive, boosted; none is denormal."""
        return True

    def exponent(self, largest: Tile) -> Tile:
        """Largest scores as exponents; where weights are boosted, none is rounded to less than its score comes to,
        since 8 bits end soon above the boost."""
        exponent = self.units.exponent(largest)
        if not self.boost:
            return exponent
        slack = exponent * ROUNDINGS
        raised: Tile = maximum(exponent + slack, exponent - slack)  # of infinities one is NaN, which the other beats
        return raised

    def start(self, form: Form) -> list[Tile]:
        """See `loop_kernel.Weights`."""
        shape = (form.queries,)
        return [full(shape, -inf, "f32", form.row_layout), zeros(shape, "f32", form.row_layout)]

    def joined(self, form: Form, exponents: Tile) -> list[Tile]:
        """See `loop_kernel.Weights`: they are the largest so far, and have a weight of one."""
        largest = self.units.score(exponents)
        one = full((form.queries,), 2.0**self.boost, "f32", form.row_layout)
        return [largest, where(largest > -inf, one, 0.0)]

    def top(self, scores: Tile, state: Sequence[Tile]) -> Top | None:
        """See `loop_kernel.Weights`."""
        before, _ = state
        largest = self.units.larger(before, scores)
        if not self.slack:
            shift = self.exponent(_finite(largest))
            return Top(largest, shift, exp2(self.exponent(before) - shift))
        # Of equal infinities the difference is NaN, and nothing rises.
        rises = self.exponent(largest) - self.exponent(before) > self.slack
        largest = where(rises, largest, before)
        shift = self.exponent(_finite(largest))
        return Top(largest, shift, where(rises, exp2(self.exponent(before) - shift), 1.0))

    def weigh(self, scores: Tile, state: Sequence[Tile], top: Top, key: Scalar) -> tuple[Tile, list[Tile]]:
        """See `loop_kernel.Weights`."""
        _, total = state
        shift = top.shift - float(self.boost) if self.boost else top.shift
        weights = exp2(self.units.above(scores, shift))
        return weights, [top.largest, total * top.decay + self.units.summed(weights)]

    def rescale(self, total: Tile, top: Top) -> Tile:
        """See `loop_kernel.Weights`."""
        if self.slack:
            return rescale(total, top.decay)
        rescaled: Tile = total * top.decay[:, None]
        return rescaled

    def normalised(self, sums: Sums, factors: Sequence[Scalar]) -> Tile:
        """See `loop_kernel.Weights`; 0 where a query attends to nothing."""
        none, total = _without(sums.state[-1])
        factor = where(none, 0.0, 1.0 / total)
        for one in factors:
            factor = factor * one
        normalised: Tile = sums.o * factor[:, None]
        return normalised

    def whole(self, state: Sequence[Tile]) -> Tile | float:
        """The exponents that weights are taken from in the end."""
        return self.units.whole(self.exponent(state[0]))

    def logarithm(self, state: Sequence[Tile]) -> Tile:
        """See `loop_kernel.Weights`; minus infinity where a query attends to nothing."""
        none, total = _without(state[-1])
        power = self.whole(state) + log2(total)
        power = power - float(self.boost) if self.boost else power
        logarithm: Tile = where(none, -inf, power * LN_2)
        return logarithm


class Level(Softmax, frozen=True):
    """Exponentials of scores that are bounded, taken from 0 for all queries; the state is their sum.

    In front of it the state has the exponent that joins the sum, if any. Nothing bounds that: weights are taken from it
    where it is positive, so that the sum is at least one there.
    """

    def start(self, form: Form) -> list[Tile]:
        """See `loop_kernel.Weights`."""
        return super().start(form)[1:]

    def joined(self, form: Form, exponents: Tile) -> list[Tile]:
        """See `loop_kernel.Weights`: the exponents, and their own weights."""
        return [exponents, exp2(exponents - maximum(exponents, 0.0))]

    def top(self, scores: Tile, state: Sequence[Tile]) -> None:
        """See `loop_kernel.Weights`: nothing changes."""
        return None

    def weigh(self, scores: Tile, state: Sequence[Tile], top: Any, key: Scalar) -> tuple[Tile, list[Tile]]:
        """See `loop_kernel.Weights`."""
        *joined, total = state
        if joined:
            exponents = self.units.above(scores, self.units.rest(maximum(joined[0], 0.0)))
        else:
            exponents = self.units.whole(self.units.exponent(scores))
        weights = exp2(exponents)
        return weights, [*joined, total + self.units.summed(weights)]

    def rescale(self, total: Tile, top: Any) -> Tile:
        """See `loop_kernel.Weights`."""
        return total

    def whole(self, state: Sequence[Tile]) -> Tile | float:
        """See `Softmax`."""
        *joined, _ = state
        return maximum(joined[0], 0.0) if joined else 0.0

    def logarithm(self, state: Sequence[Tile]) -> Tile:
        """See `loop_kernel.Weights`. A sum that is less than any key's weight is of no key: it is the exponent that
        joined it, whose weight f32 may not hold."""
        found, (*joined, total) = super().logarithm(state), state
        return where(total < LEAST_SUM, joined[0] * LN_2, found) if joined else found


class Changed(Struct, frozen=True):
    """The exponent that weights are taken from behind a block, what sums are multiplied with for it, and the block's
    weights and the sum of all, before `taken` multiplies them for it."""

    shift: Tile
    decay: Tile
    taken: Tile
    weights: Tile
    total: Tile


class Lazy(Softmax, frozen=True):
    """Exponentials of scores that are bounded, taken from an exponent that changes where their sum says so, and not
    with the largest score, which is not looked for (`ops.attention.level`); the state is that exponent, without what is
    added to all, and the sum. It is a whole number, so that differences and powers of it are exact.

    Attributes:
        most: what the weights of a block may come to.
    """

    most: float = 1.0

    def start(self, form: Form) -> list[Tile]:
        """See `loop_kernel.Weights`."""
        shape, none = (form.queries,), 0.0 if self.units.more is None else round_even(-self.units.more)
        return [full(shape, none, "f32", form.row_layout), zeros(shape, "f32", form.row_layout)]

    def joined(self, form: Form, exponents: Tile) -> list[Tile]:
        """A logit has no bounds, so `schedule_choice.lazy` never chooses these weights beside one."""
        raise ValueError("weights that follow their sum need bounded scores, and a logit that joins them has no bounds")

    def top(self, scores: Tile, state: Sequence[Tile]) -> Any:
        """See `loop_kernel.Weights`. Where nothing has been summed the sum says nothing."""
        before, total = state
        weights = exp2(self.units.above(scores, before))
        added = self.units.summed(weights)
        total = total + added
        few = (total > 0.0) & (total < 1.0)
        shift = before + where((added > self.most) | few, floor(log2(total)), 0.0)
        decay = exp2(before - shift)
        return Changed(shift, decay, decay, weights, total)

    def weigh(self, scores: Tile, state: Sequence[Tile], top: Any, key: Scalar) -> tuple[Tile, list[Tile]]:
        """See `loop_kernel.Weights`."""
        return rescale(top.weights, top.taken), [top.shift, top.total * top.taken]

    def rescale(self, total: Tile, top: Any) -> Tile:
        """See `loop_kernel.Weights`."""
        return rescale(total, top.decay)

    def whole(self, state: Sequence[Tile]) -> Tile | float:
        """See `Softmax`."""
        return self.units.whole(state[0])


class Apart(Lazy, frozen=True):
    """The same of scores between whose bounds f32 does not hold weights that are taken from the lowest exponents: those
    of a block are taken from no less than ROOM below the upper bound, and multiplied where their sums are lower."""

    def top(self, scores: Tile, state: Sequence[Tile]) -> Any:
        """See `Lazy`."""
        before, total = state
        own = maximum(before, -ROOM)
        lower = exp2(before - own)
        weights = exp2(self.units.above(scores, own))
        added = self.units.summed(weights)
        total = total * lower + added
        few = (total > 0.0) & (total < lower)
        shift = where((added > lower * self.most) | few, own + floor(log2(total)), before)
        taken = exp2(own - shift)
        return Changed(shift, taken * lower, taken, weights, total)


def softmax(units: Units, boost: int, slack: float, *, level: bool, most: float) -> Softmax:
    """The softmax of scores. Weights are not taken from the largest score, but from what `Level`, `Lazy` or `Apart`
    say, where scores are bounded so and what is done to the softmax allows it: `level`, and `most`, what the weights of
    a block may come to, where that is not 0."""
    if level and units.bounds == "level":
        return Level(units)
    following = {"lazy": Lazy, "apart": Apart}
    if most and units.bounds in following:
        return following[units.bounds](units, most=most)
    return Softmax(units, boost, slack)


class Around:
    """Weights with something done to them: what a subclass does not say is as `inner` has it."""

    def __init__(self, inner: Weights) -> None:
        self.inner = inner

    @property
    def units(self) -> Units:
        """See `loop_kernel.Weights`."""
        return self.inner.units

    @property
    def boost(self) -> int:
        """See `loop_kernel.Weights`."""
        return self.inner.boost

    @property
    def bounded(self) -> bool:
        """See `loop_kernel.Weights`."""
        return self.inner.bounded

    def start(self, form: Form) -> list[Tile]:
        """See `loop_kernel.Weights`."""
        return self.inner.start(form)

    def joined(self, form: Form, exponents: Tile) -> list[Tile]:
        """See `loop_kernel.Weights`."""
        return self.inner.joined(form, exponents)

    def top(self, scores: Tile, state: Sequence[Tile]) -> Any:
        """See `loop_kernel.Weights`."""
        return self.inner.top(scores, state)

    def weigh(self, scores: Tile, state: Sequence[Tile], top: Any, key: Scalar) -> tuple[Tile, list[Tile]]:
        """See `loop_kernel.Weights`."""
        return self.inner.weigh(scores, state, top, key)

    def rescale(self, total: Tile, top: Any) -> Tile:
        """See `loop_kernel.Weights`."""
        return self.inner.rescale(total, top)

    def normalised(self, sums: Sums, factors: Sequence[Scalar]) -> Tile:
        """See `loop_kernel.Weights`."""
        return self.inner.normalised(sums, factors)

    def logarithm(self, state: Sequence[Tile]) -> Tile:
        """See `loop_kernel.Weights`."""
        return self.inner.logarithm(state)


def _without(total: Tile) -> tuple[Tile, Tile]:
    """Whether a query attends to nothing, and the sum of its weights, 1 then; a sum that is NaN is one."""
    none = total.equals(0.0)
    return none, where(none, 1.0, total)


def _finite(largest: Tile) -> Tile:
    """The row's maximum, 0 where the row has nothing yet: minus infinity less itself would be NaN."""
    return where(largest > -inf, largest, 0.0)
