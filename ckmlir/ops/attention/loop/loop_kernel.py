"""The loop over keys: the only one of attention forward.

An iteration multiplies the queries with a block of keys, changes the scores, makes weights of them and adds the block's
values, weighted. What varies is a part; docs/operators.md lists the kinds of parts, and shows how one is added.

Both products have their operands swapped, so that a lane holds whole parts of a query's row: the weights need one
exchange between lanes, and are the operand of the second product where they lie (`Mma.with_k_chunk`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import Struct

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Scalar, Tile, cast, coordinates, loop, mma, redistribute, stage, to_lds, zeros
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.loop.storage_kernel import Storage
from ckmlir.ops.attention.loop.units_kernel import Units
from ckmlir.ops.precision import LN_2, LOG2_E


class Form(Struct, frozen=True):
    """What a workgroup multiplies in a step: a block of (queries, keys), heads of d and dv channels.

    Attributes:
        dtype: of V; weights are rounded to it.
        waves: side by side along queries and keys.
        scores, values: the matrix instructions of Q·Kᵀ and of the weights times V.
    """

    queries: int
    keys: int
    d: int
    dv: int
    dtype: str
    waves: tuple[int, int]
    scores: Mma
    values: Mma

    @property
    def score_layout(self) -> Distribution:
        """How a tile (queries, keys) of scores lies."""
        return self.scores.c_over(self.waves, self.queries, self.keys)

    @property
    def row_layout(self) -> Distribution:
        """How a tile with one element a query lies."""
        return self.score_layout.reduce(1)

    def rows(self) -> Tile:
        """The number of each query in the block, for what depends on it."""
        return coordinates(zeros((self.queries,), "i32", self.row_layout), 0)


class Keys(ABC):
    """A source of K and V. `key` is the first of a block, a multiple of the block from what the span says."""

    def prepare(self, key: Scalar) -> None:  # noqa: B027
        """What has to be known before a block is loaded, such as where it lies; stage `prepare`."""

    @abstractmethod
    def load_k(self, key: Scalar) -> Tile:
        """The block's K (keys, d), as memory has it; stage `load_k`."""

    @abstractmethod
    def load_v(self, key: Scalar) -> Tile:
        """The block's V, transposed (dv, keys); where channels share bytes (keys, dv); stage `load_v`."""

    def existing(self, v: Tile, key: Scalar) -> Tile:
        """What was loaded of V, zeros where memory may have anything behind the last key; stage `v_lds`."""
        return v


class MatrixProducts:
    """The two products of a step, by matrix instructions. `key` is the first of a block of keys."""

    def __init__(self, form: Form, storage: Storage) -> None:
        self.form, self.storage = form, storage

    def load_k(self, key: Scalar) -> None:
        """Load what Q·Kᵀ takes beside K, if anything; stage `load_k`."""

    def load_v(self, key: Scalar) -> None:
        """Load what the weights times V take beside V, if anything; stage `load_v`."""

    def scores(self, q: Tile, k: Tile, none: Tile) -> Tile:
        """Q (queries, d) times K (keys, d), on top of zeros."""
        return mma(self.form.scores, q, k, none)

    def values(self, p: Tile, v: Tile, sums: Tile) -> Tile:
        """The weights (queries, keys) times V (dv, keys), added to what was summed so far."""
        return mma(self.form.values, p, v, sums)


class Score(ABC):
    """Something that is done to scores. `key` is the first of a block of keys."""

    def prepare(self, key: Scalar) -> None:  # noqa: B027
        """What has to be known before `load`, such as a place; stage `prepare`."""

    def load(self, key: Scalar) -> None:  # noqa: B027
        """Load what the block's scores meet, if anything; stage `load_s`."""

    @abstractmethod
    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """The block's scores (queries, keys), changed. They are products of Q and K, or, behind `Scaled`, natural
        exponents; minus infinity for what a query does not attend to."""

    def of_products(self, scale: Scalar) -> tuple[list[Score], Units]:
        """What does the same to products, which `scale` makes exponents to the base 2 of, and what scores are then."""
        return [Scaled(scale * LN_2), self], Units(LOG2_E)


@dataclass(frozen=True)
class Scaled(Score):
    """Products of Q and K become natural exponents."""

    scale: Scalar

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `Score`."""
        exponents: Tile = scores * self.scale
        return exponents


class Weights(Protocol):
    """What makes weights of scores. It carries a state from block to block: tiles with one element a query."""

    @property
    def units(self) -> Units:
        """What scores are."""

    @property
    def boost(self) -> int:
        """Weights are multiplied by two to this power, and so are their sums."""

    @property
    def bounded(self) -> bool:
        """Whether weights are such as `cast(…, bounded=True)` takes; what is NaN among them, their sum is too."""

    def start(self, form: Form) -> list[Tile]:
        """The state before the first block."""

    def joined(self, form: Form, exponents: Tile) -> list[Tile]:
        """That state where an exponent to the base 2 of each query joins the sum of weights."""

    def top(self, scores: Tile, state: Sequence[Tile]) -> Any:
        """What a block changes for all weights, such as their largest score; stage `top`."""

    def weigh(self, scores: Tile, state: Sequence[Tile], top: Any, key: Scalar) -> tuple[Tile, list[Tile]]:
        """The block's weights in f32, and the state behind it; stage `exp`."""

    def rescale(self, total: Tile, top: Any) -> Tile:
        """The sums over earlier blocks (queries, dv) as the new weights need them; stage `rescale`."""

    def normalised(self, sums: Sums, factors: Sequence[Scalar]) -> Tile:
        """O of the sums over all keys, multiplied with factors."""

    def logarithm(self, state: Sequence[Tile]) -> Tile:
        """Of the sum of exponentials over all keys, to the base e."""


class Span(Struct, frozen=True):
    """Steps over blocks of keys.

    Attributes:
        low, high: of the loop, whose steps are the form's keys.
        scores: what is done to the scores there, in this order.
    """

    low: Amount
    high: Amount
    scores: Sequence[Score]

    def key(self, index: Scalar) -> Scalar:
        """The first key of the block that the loop takes at an index."""
        return index


class Parted(Span, frozen=True):
    """Runs of keys, one after the other.

    Attributes:
        gaps: see `behind`.
    """

    gaps: Sequence[tuple[Scalar, Scalar]]

    def key(self, index: Scalar) -> Scalar:
        """See `Span`."""
        return behind(index, self.gaps)


def behind(index: Scalar, gaps: Sequence[tuple[Scalar, Scalar]]) -> Scalar:
    """The place of a loop's index. A gap is an index, from which on places are so much further; they ascend."""
    place: Scalar = index
    for cut, distance in gaps:
        place = (index < cut).select(place, place + distance)
    return place


class Sums(Struct, frozen=True):
    """What a loop has found: O (queries, dv) in f32, not normalised, and the state of the weights."""

    o: Tile
    state: list[Tile]


def nothing(form: Form, weights: Weights) -> Sums:
    """The sums over no keys."""
    o = zeros((form.queries, form.dv), "f32", form.values.c_over(form.waves, form.queries, form.dv))
    return Sums(o, weights.start(form))


def attend(
    products: MatrixProducts, q: Tile, span: Span, source: Keys, weights: Weights, sums: Sums, schedule: Schedule
) -> Sums:
    """Add the keys of a span to the sums.

    Stages: prepare, load_k, k_lds, load_v, load_s, v_lds, k_read, qk, top, exp, rescale, v_read, pv. K and V lie in LDS
    as k and v.
    """
    form = products.form
    none = zeros((form.queries, form.keys), form.scores.acc_dtype, form.score_layout)
    with loop(span.low, span.high, form.keys, carry=[sums.o, *sums.state], schedule=schedule) as step:
        o, *state = step.carried
        key = span.key(step.index)
        with stage("prepare"):
            source.prepare(key)
            for score in span.scores:
                score.prepare(key)
        with stage("load_k"):
            gk = source.load_k(key)
            products.load_k(key)
        with stage("k_lds"):
            lk = to_lds(products.storage.k(gk), "k")
        with stage("load_v"):
            gv = source.load_v(key)
            products.load_v(key)
        with stage("load_s"):
            for score in span.scores:
                score.load(key)
        with stage("v_lds"):
            lv = to_lds(products.storage.v(source.existing(gv, key)), "v")
        with stage("k_read"):
            rk = lk.read(form.scores.b_over(form.waves, form.keys, form.d))
        with stage("qk"):
            s = products.scores(q, rk, none)
        with stage("top"):
            s = cast(s, "f32")
            for score in span.scores:
                s = score.apply(s, key)
            top = weights.top(s, state)
        with stage("exp"):
            p, state = weights.weigh(s, state, top, key)
            p = cast(p, form.dtype, bounded=weights.bounded)
            p = redistribute(p, form.values.a_over(form.waves, form.queries, form.keys))
        with stage("rescale"):
            o = weights.rescale(o, top)
        with stage("v_read"):
            rv = lv.read(form.values.b_over(form.waves, form.dv, form.keys))
        with stage("pv"):
            o = products.values(p, rv, o)
        step.carry(o, *state)
    o, *state = step.results
    return Sums(o, state)
