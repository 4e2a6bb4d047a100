"""Scales of stored elements in the loop over keys: the same for all keys, or others for every block of them.

With q, k, v the scales of a query, of a block of keys and of its values, a score is an exponent e = scale q k s, and O
is the sum of exp2(e) v V over that of exp2(e). Nothing of it is done to single elements: with t = e + log2(v), weights
are exp2(t - T), T being the largest t so far, and count in their sum as exp2(t - T) / v. So one multiply-add makes
exponents of products, and values with a large scale do not need weights that 8 bits hold badly. Where something is done
to exponents, these are natural ones first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Pointer,
    Scalar,
    Tile,
    View,
    coordinates,
    full,
    join_axes,
    load,
    log2,
    maximum,
    reciprocal,
    reduce_max,
    reduce_sum,
    stretch,
    view,
    where,
    zeros,
)  # fmt: skip
from ckmlir.ops.attention.loop.loop_kernel import Form, MatrixProducts, Scaled, Score
from ckmlir.ops.attention.loop.storage_kernel import Storage
from ckmlir.ops.attention.loop.units_kernel import Units
from ckmlir.ops.attention.problem import LEAST_SCALE
from ckmlir.ops.precision import LN_2, LOG2_E

ACCUMULATOR_GROUP = 4
"""Consecutive keys of which a lane holds scores."""
MOST_SINGLE = 4
"""Scales of a step that scalar registers hold, and those of the steps ahead."""


class Scaling(ABC):
    """What products of Q and K are multiplied with, and what O is."""

    @property
    def factors(self) -> Sequence[Scalar]:
        """What O is multiplied with."""
        return ()

    @property
    def channels(self) -> Sequence[View]:
        """What channels of O are multiplied with."""
        return ()

    def products(self, form: Form, storage: Storage) -> MatrixProducts:
        """What multiplies."""
        return MatrixProducts(form, storage)

    @abstractmethod
    def around(self, scores: Sequence[Score]) -> tuple[list[Score], Units]:
        """All that is done to scores where `scores` are done to natural exponents, and what they are then."""


@dataclass(frozen=True)
class Uniform(Scaling):
    """The same for all keys.

    Attributes:
        scale: of products, which makes exponents to the base 2 of them; values: of sums of values.
    """

    scale: Scalar
    values: Sequence[Scalar] = ()

    @property
    def factors(self) -> Sequence[Scalar]:
        """See `Scaling`."""
        return self.values

    def around(self, scores: Sequence[Score]) -> tuple[list[Score], Units]:
        """See `Scaling`: products stay what they are where nothing needs exponents."""
        if len(scores) > 1:
            return [Scaled(self.scale * LN_2), *scores], Units(LOG2_E)
        return scores[0].of_products(self.scale) if scores else ([], Units(self.scale))


@dataclass(frozen=True)
class ByBlock(Scaling):
    """Scales of blocks of keys that a step takes whole, or one of several steps.

    Attributes:
        rows: scale times that of each query.
        place: says for a key which block is its; k, v: the scales of a block.
        of_channels: those of channels of O, if any.
    """

    rows: Tile
    place: Callable[[Scalar], Scalar]
    k: Callable[[Scalar], Scalar]
    v: Callable[[Scalar], Scalar | float]
    of_channels: Sequence[View] = ()

    @property
    def channels(self) -> Sequence[View]:
        """See `Scaling`."""
        return self.of_channels

    def around(self, scores: Sequence[Score]) -> tuple[list[Score], Units]:
        """See `Scaling`."""
        if not scores:
            found = Loaded(self)
            return [found], Products(1.0, scales=found)
        multiplied = Multiplied(self)
        return [multiplied, *scores], Exponents(1.0, scales=multiplied)


@dataclass(frozen=True)
class ByKey(Scaling):
    """Scales of single keys, or of fewer than a step takes.

    Attributes:
        form: whose keys they are of.
        group: neighbouring keys that share one.
        rows: scale times that of each query.
        place: says what is known of a step's keys ahead; k, v: load the scales of their groups from that.
        of_channels: those of channels of O, if any.
    """

    form: Form
    group: int
    rows: Tile
    place: Callable[[Scalar], Any]
    k: Callable[[Any], Tile]
    v: Callable[[Any], Tile] | None = None
    of_channels: Sequence[View] = ()

    @property
    def channels(self) -> Sequence[View]:
        """See `Scaling`."""
        return self.of_channels

    def each(self, groups: Tile) -> Tile:
        """Numbers of groups (groups), or of queries and groups, as those of their keys."""
        if self.group == 1:
            return groups
        last = len(groups.lengths) - 1
        lies = self.form.score_layout if last else self.form.score_layout.reduce(0)
        return join_axes(stretch(groups, last + 1, self.group, lies.split(last, self.group)), last)

    def around(self, scores: Sequence[Score]) -> tuple[list[Score], Units]:
        """See `Scaling`: products become exponents at once, natural ones where something is done to them."""
        unit, scale = (LN_2, LOG2_E) if scores else (1.0, 1.0)
        if self.v is None:
            return [Columns(self, unit), *scores], Units(scale)
        found = ValueColumns(self, unit, self.v)
        return [found, *scores, Raised(found)], Keyed(scale, scales=found)


class Loaded(Score):
    """The scales of the step's keys; tiles have one element a query.

    Attributes:
        factor: of products; logarithm, inverse: of the scale of values.
    """

    factor: Tile
    logarithm: Tile
    inverse: Tile

    def __init__(self, scaling: ByBlock) -> None:
        self.scaling = scaling

    def prepare(self, key: Scalar) -> None:
        """See `loop_kernel.Score`."""
        self.place = self.scaling.place(key)

    def load(self, key: Scalar) -> None:
        """See `loop_kernel.Score`."""
        rows = self.scaling.rows
        k, v = (
            maximum(full(rows.lengths, one(self.place), "f32", rows.type.distribution), LEAST_SCALE)
            for one in (self.scaling.k, self.scaling.v)
        )
        self.factor, self.logarithm, self.inverse = rows * k, log2(v), reciprocal(v)

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`: products stay what they are."""
        return scores


class Multiplied(Loaded):
    """The same, where products become natural exponents at once."""

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        exponents: Tile = scores * (self.factor * LN_2)[:, None]
        return exponents


class Exponents(Units, frozen=True, kw_only=True):
    """Scores are natural exponents; the state, and what weights are above, are exponents to the base 2 and have the
    logarithm of the scale of values in them."""

    scales: Loaded

    def larger(self, before: Tile, scores: Tile) -> Tile:
        """See `Units`."""
        largest: Tile = maximum(before, reduce_max(scores, 1) * LOG2_E + self.scales.logarithm)
        return largest

    def above(self, scores: Tile, shift: Tile) -> Tile:
        """See `Units`."""
        above: Tile = scores * LOG2_E - (shift - self.scales.logarithm)[:, None]
        return above

    def summed(self, weights: Tile) -> Tile:
        """See `Units`."""
        total: Tile = reduce_sum(weights, 1) * self.scales.inverse
        return total


class Products(Exponents, frozen=True):
    """Scores are products of Q and K."""

    def larger(self, before: Tile, scores: Tile) -> Tile:
        """See `Units`; no scale is negative."""
        largest: Tile = maximum(before, reduce_max(scores, 1) * self.scales.factor + self.scales.logarithm)
        return largest

    def above(self, scores: Tile, shift: Tile) -> Tile:
        """See `Units`."""
        above: Tile = scores * self.scales.factor[:, None] - (shift - self.scales.logarithm)[:, None]
        return above


class Columns(Score):
    """The scales of K of the step's keys.

    Attributes:
        unit: what makes exponents of those to the base 2.
        k: one element a group. From a step to another groups are kept, not what becomes of them for each key.
    """

    k: Tile

    def __init__(self, scaling: ByKey, unit: float) -> None:
        self.scaling, self.unit = scaling, unit

    def prepare(self, key: Scalar) -> None:
        """See `loop_kernel.Score`."""
        self.place = self.scaling.place(key)

    def load(self, key: Scalar) -> None:
        """See `loop_kernel.Score`."""
        self.k = maximum(self.scaling.k(self.place), LEAST_SCALE)

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        factors = stretch(self.scaling.rows * self.unit, 1, self.k.lengths[0]) * self.k[None, :]
        exponents: Tile = scores * self.scaling.each(factors)
        return exponents


class ValueColumns(Columns):
    """Those of V too.

    Attributes:
        v: one element a group.
    """

    v: Tile

    def __init__(self, scaling: ByKey, unit: float, values: Callable[[Any], Tile]) -> None:
        super().__init__(scaling, unit)
        self.values = values

    def load(self, key: Scalar) -> None:
        """See `loop_kernel.Score`."""
        super().load(key)
        self.v = maximum(self.values(self.place), LEAST_SCALE)


@dataclass(frozen=True)
class Raised(Score):
    """Logarithms of the scales of values join exponents, behind all else that is done to these."""

    scales: ValueColumns

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        raised: Tile = scores + self.scales.scaling.each(log2(self.scales.v) * self.scales.unit)[None, :]
        return raised


class Keyed(Units, frozen=True, kw_only=True):
    """Scores are exponents with logarithms of scales of values in them."""

    scales: ValueColumns

    def summed(self, weights: Tile) -> Tile:
        """See `Units`."""
        return super().summed(weights * self.scales.scaling.each(reciprocal(self.scales.v))[None, :])


def group_of(size: int) -> int:
    """How many neighbouring keys of a lane share a scale, where `size` do."""
    return ACCUMULATOR_GROUP if size % ACCUMULATOR_GROUP == 0 else 1


def singly(form: Form, size: int) -> bool:
    """Whether the scales of a step, one for each `size` keys, are loaded one by one: where they are few, and all waves
    take the same."""
    return form.keys <= MOST_SINGLE * size and form.waves[1] == 1


def one_by_one(scales: Pointer) -> Callable[[Sequence[Scalar]], Tile]:
    """What loads those at some places, each by a scalar load: all lanes have the same."""

    def found(places: Sequence[Scalar]) -> Tile:
        each = zeros((len(places),), "f32")
        at = coordinates(each, 0)
        for number, place in enumerate(places):
            each = where(at.equals(number), scales.scalar(place), each)
        return each

    return found


def scales_of_rows(
    scales: Pointer, size: int, length: Scalar, first: Scalar, count: int, lies: Distribution | None = None
) -> Tile:
    """The scale of each of `count` rows from the first on: one for `size` of them, of `length` that there are."""
    blocks = (length + (size - 1)) // size
    each = view(scales, (blocks,), (1,)).insert(1, size).merge(0, 1).pad(count)
    return load(each.window((count,), (first,)), lies)
