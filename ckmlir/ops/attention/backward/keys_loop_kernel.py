"""The loop over keys of attention backward for few queries: the other way round than `loop_kernel`.

All queries of a head are one block, which a workgroup keeps: Q and dO as rows and as columns of products, and dQ. An
iteration takes a block of keys and makes the same five products. dK and dV of the block are then complete, and leave;
dQ stays until the last block. So nothing is added in memory but the dQ of workgroups that share the keys of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Scalar,
    Tile,
    View,
    load,
    loop,
    mma,
    permute_axes,
    stage,
    to_lds,
    zeros,
)
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.backward.loop_kernel import (
    Form,
    MaskPart,
    Queries,
    Weights,
    across,
    both_ways,
    rounded,
    slope,
)


class KeptQueries(Struct, frozen=True):
    """A block of queries in registers: what `Queries` has, loaded.

    Attributes:
        q, do: columns of S and of dP; q_across, do_across: columns of dK and of dV.
        weights: with all rows.
    """

    given: Queries
    q: Tile
    do: Tile
    q_across: Tile
    do_across: Tile
    weights: Weights


def keep_queries(form: Form, queries: Queries) -> KeptQueries:
    """Load all queries; the views are filled up to a whole block."""
    def read(whole: View, name: str, products: Mma, channels: int) -> tuple[Tile, Tile]:
        rows, columns = both_ways(form, load(whole.window((form.queries, channels), (0, 0))), name)
        return (
            rows.read(products.b_over(form.waves, form.queries, channels)),
            across(columns, form.sums.b_over(form.waves, channels, form.queries)),
        )

    q, q_across = read(queries.q, "q", form.scores, form.d)
    do, do_across = read(queries.do, "do", form.slopes, form.dv)
    return KeptQueries(queries, q, do, q_across, do_across, queries.weights.whole())


class KeyRows(Struct, frozen=True):
    """A head's keys, filled up to whole blocks: k (keys, d), v (keys, dv).

    Attributes:
        leave: takes dK, not multiplied by the scale, or dV, by name, of the block of keys that begins at a key.
    """

    k: View
    v: View
    leave: Callable[[str, Tile, Scalar], None]


def differentiate_keys(
    form: Form, kept: KeptQueries, keys: KeyRows, low: Amount, high: Amount, masks: Sequence[MaskPart],
    schedule: Schedule,
) -> Tile:  # fmt: skip
    """What the keys from `low` to `high` contribute to dQ (not multiplied by the scale); their dK and dV leave.

    Stages: load_k, load_v, load_rows, k_lds, k_read, rows_lds, rows_read, s, weights, dv, dv_out, dp, ds, dk, dk_out,
    across_lds, across_read, ds_lds, ds_read, dq.
    """
    queries, query = kept.given, 0
    scores = zeros((form.keys, form.queries), "f32", form.score_layout)
    nothing = form.nothing()
    with loop(low, high, form.keys, carry=[form.nothing_queried()], schedule=schedule) as step:
        (dq,) = step.carried
        first = step.index
        weights = kept.weights.at(first)
        with stage("load_k"):
            gk = load(keys.k.window((form.keys, form.d), (first, 0)))
        with stage("load_v"):
            gv = load(
                keys.v.window((form.keys, form.dv), (first, 0)), form.slopes.a_over(form.waves, form.keys, form.dv)
            )
        with stage("load_rows"):
            weights.load(query)
        with stage("k_lds"):
            in_k = to_lds(gk, "k")
        with stage("k_read"):
            rk = in_k.read(form.scores.a_over(form.waves, form.keys, form.d))
        with stage("rows_lds"):
            weights.hold(query)
        with stage("rows_read"):
            weights.read()
        with stage("s"):
            s = mma(form.scores, rk, kept.q, scores)
        with stage("weights"):
            held, found = weights.weigh(s, (one.at(first) for one in masks), query)
            _, p = rounded(form, found)
        with stage("dv"):
            dv = mma(form.sums, p, kept.do_across, nothing[1])
        with stage("dv_out"):
            keys.leave("dv", dv, first)
        with stage("dp"):
            dp = mma(form.slopes, gv, kept.do, weights.begin())
        with stage("ds"):
            takers = (one.at(first) for one in queries.slopes)
            ds, by_keys = slope(form, weights.ds(held, dp), takers, query)
        with stage("dk"):
            dk = mma(form.sums, by_keys, kept.q_across, nothing[0])
        with stage("dk_out"):
            keys.leave("dk", dk, first)
        with stage("across_lds"):
            in_across = in_k if form.transposes else to_lds(gk, "k_across")
        with stage("across_read"):
            columns = across(in_across, form.queried.b_over(form.queried_waves, form.d, form.keys))
        with stage("ds_lds"):
            in_ds = to_lds(permute_axes(ds, 1, 0), "ds")
        with stage("ds_read"):
            by_queries = in_ds.read(form.queried.a_over(form.queried_waves, form.queries, form.keys))
        with stage("dq"):
            dq = mma(form.queried, by_queries, columns, dq)
        step.carry(dq)
    total: Tile = step.results[0]
    return total


def leave_nothing(form: Form, keys: KeyRows, low: Amount, high: Amount) -> None:
    """Let zeros leave as dK and dV of the keys from `low` to `high`, to which no query attends."""
    with loop(low, high, form.keys) as step:
        for name, tile in zip(("dk", "dv"), form.nothing(), strict=True):
            keys.leave(name, tile, step.index)
