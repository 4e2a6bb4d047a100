"""The loop over queries: the only one of attention backward.

A workgroup keeps a block of keys. An iteration takes a block of queries and makes five products:

    S  = K·Qᵀ            weights P = min(exp2(scale·S - exponent), 1), changed by the mask
    dP = V·dOᵀ + delta   delta is minus rowsum(dO·O), with which the product begins
    dV += P·dO
    dK += dS·Q           dS = P ∘ dP
    dQ  = dSᵀ·K          leaves in every iteration

S and dP have keys as rows, so that a lane holds several queries of one key: P and dS are operands of dV and dK where
they lie (`Mma.with_k_chunk`), and only dS goes through LDS, for dQ. Weights are at most 1 since the exponent is the
logarithm of their sum; limiting them costs nothing, and keeps keys that do not exist (zeros) from overflowing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    LdsTensor,
    Scalar,
    Tile,
    View,
    cast,
    exp2,
    load,
    loop,
    maximum,
    minimum,
    mma,
    permute_axes,
    redistribute,
    stage,
    stretch,
    to_lds,
    zeros,
)
from ckmlir.lang.views import Amount


def wide(amount: Amount) -> Amount:
    """An amount that is multiplied with 64-bit distances."""
    return amount if isinstance(amount, int) else amount.to("i64")


class Form(Struct, frozen=True):
    """What a workgroup multiplies in a step: a block of (queries, keys), heads of d and dv channels.

    Attributes:
        waves: side by side along the keys.
        scores, slopes: the matrix instructions of S and of dP.
        sums: that of dV and dK.
        queried, queried_waves: that of dQ, and waves along queries and channels.
        transposes: whether the chip's reads of LDS transpose; if not, a tile that is read both ways is there twice.
    """

    queries: int
    keys: int
    d: int
    dv: int
    dtype: str
    waves: tuple[int, int]
    scores: Mma
    slopes: Mma
    sums: Mma
    queried: Mma
    queried_waves: tuple[int, int]
    transposes: bool

    @property
    def score_layout(self) -> Distribution:
        """How a tile (keys, queries) of scores lies."""
        return self.scores.c_over(self.waves, self.keys, self.queries)

    def nothing(self) -> list[Tile]:
        """dK and dV of no queries."""
        return [
            zeros((self.keys, channels), "f32", self.sums.c_over(self.waves, self.keys, channels))
            for channels in (self.d, self.dv)
        ]

    def nothing_queried(self) -> Tile:
        """dQ of no keys."""
        return zeros((self.queries, self.d), "f32", self.queried.c_over(self.queried_waves, self.queries, self.d))


class Keys(Struct, frozen=True):
    """A block of keys in registers: K (keys, d) and V (keys, dv) as rows of products, Kᵀ (d, keys) as columns."""

    k: Tile
    v: Tile
    across: Tile


def keep_keys(form: Form, k: View, v: View, first: Scalar) -> Keys:
    """Load the block that begins at a key; views are filled up to whole blocks. V comes while K goes through LDS."""
    loaded = load(k.window((form.keys, form.d), (first, 0)))
    values = load(v.window((form.keys, form.dv), (first, 0)), form.slopes.a_over(form.waves, form.keys, form.dv))
    in_rows = to_lds(loaded, "k")
    rows = in_rows.read(form.scores.a_over(form.waves, form.keys, form.d))
    in_columns = in_rows if form.transposes else to_lds(loaded, "k_across")
    return Keys(rows, values, across(in_columns, form.queried.b_over(form.queried_waves, form.d, form.keys)))


class ExponentPart(ABC):
    """Something that is done to exponents of weights, which are to the base 2."""

    def load(self, query: Amount) -> None:  # noqa: B027
        """Load what a block of queries needs; stage `load_rows`. Most parts need nothing."""

    @abstractmethod
    def apply(self, exponents: Tile, query: Amount) -> Tile:
        """The exponents (keys, queries) of the block of queries that begins at `query`, changed."""

    @abstractmethod
    def at(self, first: Scalar) -> ExponentPart:
        """The same for the block of keys that begins at `first`."""


class Kept:
    """Which weights O is made of, as behind the softmax: all of them."""

    def at(self, first: Scalar) -> Kept:
        """The same for the block of keys that begins at `first`."""
        return self

    def draw(self, query: Amount) -> None:
        """Find it out for the block of queries that begins at `query`; stage `rows_lds`."""

    def read(self) -> None:
        """Have it where the weights lie; stage `rows_read`."""

    def mark(self, weights: Tile) -> Tile:
        """Weights (keys, queries) that tell which of them are kept; stage `weights`."""
        return weights

    def counted(self, marked: Tile) -> Tile:
        """The weights that O is made of, zeros in the places of the others; stage `weights`."""
        return marked

    def ds(self, marked: Tile, dp: Tile, delta: Tile) -> Tile:
        """dS of marked weights, where dP began with delta; stage `ds`."""
        product: Tile = marked * dp
        return product


class Queries(Struct, frozen=True):
    """A head's queries, filled up to whole blocks: q (queries, d), do (queries, dv), exponent and delta (queries).

    Attributes:
        scale: of the scores, to the base 2.
        parts: what is done to exponents, in this order.
        kept: which weights count.
        slopes: where dS goes besides, as tiles (keys, queries).
        move: whether buffers of q and do move with a step, so that their end refuses what would be compared row by row,
            for scalar registers that parts take.
    """

    q: View
    do: View
    exponent: View
    delta: View
    scale: Scalar
    parts: Sequence[ExponentPart]
    kept: Kept
    slopes: Sequence[Slopes] = ()
    move: bool = False


class WeightPart(Protocol):
    """Something that is done to weights."""

    def apply(self, weights: Tile, query: Amount) -> Tile:
        """The weights (keys, queries) of the block of queries that begins at `query`, changed."""

    def at(self, first: Scalar) -> WeightPart:
        """The same for the block of keys that begins at `first`."""


class Sink(Protocol):
    """Where what a step finds goes, such as parts of dQ."""

    def put(self, tile: Tile, query: Amount) -> None:
        """Take what the block of keys contributes to the block of queries that begins at `query`; dQ is (queries, d),
        not multiplied by the scale."""


class Slopes(Sink, Protocol):
    """Where dS (keys, queries) goes besides."""

    def at(self, first: Scalar) -> Slopes:
        """The same for the block of keys that begins at `first`."""


class Span(Struct, frozen=True):
    """Queries from `low` to `high`, where the weights are changed in this order."""

    low: Amount
    high: Amount
    parts: Sequence[WeightPart]


def differentiate(
    form: Form, keys: Keys, queries: Queries, span: Span, sink: Sink, sums: Sequence[Tile], schedule: Schedule
) -> list[Tile]:
    """Add what the queries of a span contribute to dK (not multiplied by the scale) and dV, and put their dQ.

    Stages: load_q, load_do, load_rows, q_lds, do_lds, rows_lds, rows_read, q_read, s, weights, do_across_read, dv,
    do_read, dp, ds, q_across_read, dk, ds_lds, ds_read, dq, dq_out.
    """
    nothing = zeros((form.keys, form.queries), "f32", form.score_layout)
    nothing_queried = form.nothing_queried()
    by_query = form.score_layout.reduce(0)
    kept = queries.kept
    with loop(span.low, span.high, form.queries, carry=sums, schedule=schedule) as step:
        dk, dv = step.carried
        query = step.index
        with stage("load_q"):
            gq = load(queries.q.window((form.queries, form.d), (query, 0), moves_buffer=queries.move))
        with stage("load_do"):
            gdo = load(queries.do.window((form.queries, form.dv), (query, 0), moves_buffer=queries.move))
        with stage("load_rows"):
            rows = [load(one.window((form.queries,), (query,))) for one in (queries.exponent, queries.delta)]
            for change in queries.parts:
                change.load(query)
        with stage("q_lds"):
            q, q_across = both_ways(form, gq, "q")
        with stage("do_lds"):
            do, do_across = both_ways(form, gdo, "do")
        with stage("rows_lds"):
            in_rows = [to_lds(one, name) for one, name in zip(rows, ("exponent", "delta"), strict=True)]
            kept.draw(query)
        with stage("rows_read"):
            exponent, delta = (one.read(by_query) for one in in_rows)
            delta = stretch(delta, 0, form.keys, form.score_layout)
            kept.read()
        with stage("q_read"):
            rq = q.read(form.scores.b_over(form.waves, form.queries, form.d))
        with stage("s"):
            s = mma(form.scores, keys.k, rq, nothing)
        with stage("weights"):
            exponents = s * queries.scale - exponent[None, :]
            p, weights = weigh(form, exponents, queries.parts, span.parts, kept, query)
        with stage("do_across_read"):
            rdo_across = across(do_across, form.sums.b_over(form.waves, form.dv, form.queries))
        with stage("dv"):
            dv = mma(form.sums, weights, rdo_across, dv)
        with stage("do_read"):
            rdo = do.read(form.slopes.b_over(form.waves, form.queries, form.dv))
        with stage("dp"):
            dp = mma(form.slopes, keys.v, rdo, delta)
        with stage("ds"):
            ds, by_keys = slope(form, kept.ds(p, dp, delta), queries.slopes, query)
        with stage("q_across_read"):
            rq_across = across(q_across, form.sums.b_over(form.waves, form.d, form.queries))
        with stage("dk"):
            dk = mma(form.sums, by_keys, rq_across, dk)
        with stage("ds_lds"):
            in_ds = to_lds(permute_axes(ds, 1, 0), "ds")
        with stage("ds_read"):
            by_queries = in_ds.read(form.queried.a_over(form.queried_waves, form.queries, form.keys))
        with stage("dq"):
            dq = mma(form.queried, by_queries, keys.across, nothing_queried)
        with stage("dq_out"):
            sink.put(dq, query)
        step.carry(dk, dv)
    return list(step.results)


def weigh(
    form: Form,
    exponents: Tile,
    parts: Iterable[ExponentPart],
    masks: Iterable[WeightPart],
    kept: Kept,
    query: Amount,
) -> tuple[Tile, Tile]:
    """The weights (keys, queries) of exponents, marked, and those that count, rounded, as dV's product takes them."""
    for change in parts:
        exponents = change.apply(exponents, query)
    weights = minimum(maximum(exp2(exponents), 0.0), 1.0)
    for part in masks:
        weights = part.apply(weights, query)
    marked = kept.mark(weights)
    counted = cast(kept.counted(marked), form.dtype, bounded=True)
    return marked, redistribute(counted, form.sums.a_over(form.waves, form.keys, form.queries))


def slope(form: Form, ds: Tile, takers: Iterable[Slopes], query: Amount) -> tuple[Tile, Tile]:
    """dS (keys, queries) rounded, and the same as dK's product takes it; `takers` have it as it is."""
    for one in takers:
        one.put(ds, query)
    rounded = cast(ds, form.dtype, bounded=True)
    return rounded, redistribute(rounded, form.sums.a_over(form.waves, form.keys, form.queries))


def both_ways(form: Form, tile: Tile, name: str) -> tuple[LdsTensor, LdsTensor]:
    """A tile in LDS to be read by rows, and to be read across them."""
    rows = to_lds(tile, name)
    return rows, rows if form.transposes else to_lds(tile, f"{name}_across")


def across(tensor: LdsTensor, lies: Distribution) -> Tile:
    """A tensor with its dimensions exchanged, as a tile that lies so."""
    return permute_axes(tensor.read(lies.permute((1, 0))), 1, 0)
