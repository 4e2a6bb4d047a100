"""The loop over queries: the only one of attention backward.

A workgroup keeps a block of keys. An iteration takes a block of queries and makes five products:

    S  = K·Qᵀ            weights P and what dS takes of them are found of S (`Weights`)
    dP = V·dOᵀ + delta   delta is what the weights begin the product with
    dV += P·dO
    dK += dS·Q           dS is found of dP, and of what was kept of the weights
    dQ  = dSᵀ·K          leaves in every iteration

S and dP have keys as rows, so that a lane holds several queries of one key: P and dS are operands of dV and dK where
they lie (`Mma.with_k_chunk`), and only dS goes through LDS, for dQ. `softmax_kernel.py` and `silu_kernel.py` have the
weights that there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
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
    load,
    loop,
    mma,
    permute_axes,
    redistribute,
    stage,
    to_lds,
    zeros,
)
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.loop.loop_kernel import behind


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

    def hide(self, exponents: Tile, other: float) -> Tile:
        """Exponents (keys, queries), `other` in the places of weights that do not count; stage `weights`."""
        return exponents

    def mark(self, weights: Tile) -> Tile:
        """Weights (keys, queries), at least 0, that tell which of them are kept; stage `weights`."""
        return weights

    def counted(self, marked: Tile) -> Tile:
        """The weights that O is made of, zeros in the places of the others; stage `weights`."""
        return marked

    def ds(self, marked: Tile, dp: Tile, delta: Tile) -> Tile:
        """dS of marked weights, where dP began with delta; stage `ds`."""
        product: Tile = marked * dp
        return product


class MaskPart(Protocol):
    """Which queries attend to which keys."""

    def apply(self, tile: Tile, query: Amount, other: float) -> Tile:
        """What is found (keys, queries) of the block of queries that begins at `query`, `other` for those that do not
        attend to the key."""

    def at(self, first: Scalar) -> MaskPart:
        """The same for the block of keys that begins at `first`."""


class Weights(ABC):
    """What makes weights of scores, and dS of dP. It has the rows of a block of queries from one stage to the next.

    Args:
        scale: of the scores, which makes exponents to the base 2 of them.
        parts: what is done to exponents, in this order.
        kept: which weights count.
    """

    def __init__(self, form: Form, scale: Scalar, parts: Sequence[ExponentPart], kept: Kept) -> None:
        self.form, self.scale, self.parts, self.kept = form, scale, parts, kept

    def at(self, first: Scalar) -> Weights:
        """The same for the block of keys that begins at `first`."""
        found = copy(self)
        found.parts, found.kept = [one.at(first) for one in self.parts], self.kept.at(first)
        return found

    def whole(self) -> Weights:
        """The same with the rows of all queries loaded, which are one block."""
        return self

    def load(self, query: Amount) -> None:
        """Load the rows of the block of queries that begins at `query`, and what parts need; stage `load_rows`."""
        for change in self.parts:
            change.load(query)

    def hold(self, query: Amount) -> None:
        """Have the rows in LDS, and find out which weights count; stage `rows_lds`."""
        self.kept.draw(query)

    def read(self) -> None:
        """Have both where the weights lie; stage `rows_read`."""
        self.kept.read()

    @abstractmethod
    def begin(self) -> Tile:
        """What dP (keys, queries) begins with; stage `dp`."""

    @abstractmethod
    def weigh(self, scores: Tile, masks: Iterable[MaskPart], query: Amount) -> tuple[Tile, Tile]:
        """What dS takes (keys, queries), and the weights that dV's product takes, in f32; stage `weights`."""

    @abstractmethod
    def ds(self, held: Tile, dp: Tile) -> Tile:
        """dS (keys, queries) of what `weigh` left for it; stage `ds`."""

    def exponents(self, scores: Tile, query: Amount) -> Tile:
        """Scaled scores, changed by the parts."""
        return self.changed(scores * self.scale, query)

    def changed(self, exponents: Tile, query: Amount) -> Tile:
        """Exponents as the parts leave them."""
        for change in self.parts:
            exponents = change.apply(exponents, query)
        return exponents


class Queries(Struct, frozen=True):
    """A head's queries, filled up to whole blocks: q (queries, d), do (queries, dv).

    Attributes:
        slopes: where dS goes besides, as tiles (keys, queries).
        move: whether buffers of q and do move with a step, so that their end refuses what would be compared row by row,
            for scalar registers that parts take.
    """

    q: View
    do: View
    weights: Weights
    slopes: Sequence[Slopes] = ()
    move: bool = False


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
    """Steps over blocks of queries.

    Attributes:
        low, high: of the loop, whose steps are the form's queries.
        masks: which queries attend to which keys, all of them.
        gaps: index and distance, see `loop.loop_kernel.behind`.
    """

    low: Amount
    high: Amount
    masks: Sequence[MaskPart]
    gaps: Sequence[tuple[Scalar, Scalar]] = ()

    def query(self, index: Scalar) -> Scalar:
        """The first query of the block that the loop takes at an index."""
        return behind(index, self.gaps)


def differentiate(
    form: Form, keys: Keys, queries: Queries, span: Span, sink: Sink, sums: Sequence[Tile], schedule: Schedule
) -> list[Tile]:
    """Add what the queries of a span contribute to dK (not multiplied by the scale) and dV, and put their dQ.

    Stages: load_q, load_do, load_rows, q_lds, do_lds, rows_lds, rows_read, q_read, s, weights, do_across_read, dv,
    do_read, dp, ds, q_across_read, dk, ds_lds, ds_read, dq, dq_out.
    """
    nothing = zeros((form.keys, form.queries), "f32", form.score_layout)
    nothing_queried = form.nothing_queried()
    weights = queries.weights
    with loop(span.low, span.high, form.queries, carry=sums, schedule=schedule) as step:
        dk, dv = step.carried
        query = span.query(step.index)
        with stage("load_q"):
            gq = load(queries.q.window((form.queries, form.d), (query, 0), moves_buffer=queries.move))
        with stage("load_do"):
            gdo = load(queries.do.window((form.queries, form.dv), (query, 0), moves_buffer=queries.move))
        with stage("load_rows"):
            weights.load(query)
        with stage("q_lds"):
            q, q_across = both_ways(form, gq, "q")
        with stage("do_lds"):
            do, do_across = both_ways(form, gdo, "do")
        with stage("rows_lds"):
            weights.hold(query)
        with stage("rows_read"):
            weights.read()
        with stage("q_read"):
            rq = q.read(form.scores.b_over(form.waves, form.queries, form.d))
        with stage("s"):
            s = mma(form.scores, keys.k, rq, nothing)
        with stage("weights"):
            held, found = weights.weigh(s, span.masks, query)
            _, p = rounded(form, found)
        with stage("do_across_read"):
            rdo_across = across(do_across, form.sums.b_over(form.waves, form.dv, form.queries))
        with stage("dv"):
            dv = mma(form.sums, p, rdo_across, dv)
        with stage("do_read"):
            rdo = do.read(form.slopes.b_over(form.waves, form.queries, form.dv))
        with stage("dp"):
            dp = mma(form.slopes, keys.v, rdo, weights.begin())
        with stage("ds"):
            ds, by_keys = slope(form, weights.ds(held, dp), queries.slopes, query)
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


def rounded(form: Form, tile: Tile) -> tuple[Tile, Tile]:
    """Weights or dS (keys, queries) rounded, and the same as the products of dV and dK take it."""
    found = cast(tile, form.dtype, bounded=True)
    return found, redistribute(found, form.sums.a_over(form.waves, form.keys, form.queries))


def slope(form: Form, ds: Tile, takers: Iterable[Slopes], query: Amount) -> tuple[Tile, Tile]:
    """dS (keys, queries) rounded, and the same as dK's product takes it; `takers` have it as it is."""
    for one in takers:
        one.put(ds, query)
    return rounded(form, ds)


def both_ways(form: Form, tile: Tile, name: str) -> tuple[LdsTensor, LdsTensor]:
    """A tile in LDS to be read by rows, and to be read across them."""
    rows = to_lds(tile, name)
    return rows, rows if form.transposes else to_lds(tile, f"{name}_across")


def across(tensor: LdsTensor, lies: Distribution) -> Tile:
    """A tensor with its dimensions exchanged, as a tile that lies so."""
    return permute_axes(tensor.read(lies.permute((1, 0))), 1, 0)
