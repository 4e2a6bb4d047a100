"""The kernel of `predict_blocks`: some rows of scores of a head, each in the lanes of a wave, or of all.

Scores become integers with the same order. The least of them is found, bit by bit, above which the weights of all
others add up to less than what is wanted: what is above it is selected, of what is equal to it the first blocks. A sum
of some of the weights, always in the same order, never exceeds that of more of them in f32 either; so the search finds
what a sum for each block would.
"""

from __future__ import annotations

from math import inf
from typing import Any

from ckmlir.dialect.distribution_builders import rows
from ckmlir.lang import (
    Kernel,
    Scalar,
    Tile,
    bitcast,
    cast,
    coordinates,
    exp2,
    f32,
    i32,
    kernel,
    load,
    loop,
    maximum,
    minimum,
    ptr,
    reduce_max,
    reduce_sum,
    scan_sum,
    splat_like,
    store,
    view,
    where,
    workgroup_id,
)
from ckmlir.ops.attention.prediction.problem import VECTOR, PredictSpec
from ckmlir.ops.request import GREATEST_F32, LEAST_NORMAL_F32
from ckmlir.targets import Target

LARGEST, LEAST, POSITIVE = 2**31 - 1, -(2**31), 0x7FFFFFFF
BITS = 32
LOWEST = -GREATEST_F32
"""The least that a maximum is taken for: minus infinity less this has an exponential of 0, less itself it is NaN."""


def build(spec: PredictSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    read = ["scores", "alike_q", "alike_k", *["thresholds"] * spec.by_head]
    arguments: dict[str, Any] = {name: ptr("f32", alignment=4) for name in read} | {"block_map": ptr("i8", alignment=1)}
    arguments |= dict.fromkeys(("rows", "columns", "h", "ratio"), i32)
    arguments |= dict.fromkeys(("similar", "share") if not spec.by_head else (), f32)
    arguments |= {"count" if spec.counted else "scale": f32}
    arguments |= dict.fromkeys(("sq", "further", "q_bits", "k_bits") if spec.causal else (), i32)
    tile = spec.rows, spec.length
    lies = rows(*tile, spec.waves, VECTOR, spec.row_waves)

    @kernel(spec.name, target=target, waves=spec.waves, arguments=arguments)
    def predict_blocks(given: Any) -> None:
        first, head, batch = workgroup_id(0) * spec.rows, workgroup_id(1), workgroup_id(2)
        columns = given.columns.multiple_of(spec.align)
        of_q = batch.to("i64") * given.h.to("i64") + head.to("i64")
        of_k = batch.to("i64") * (given.h // given.ratio).to("i64") + (head // given.ratio).to("i64")
        blocks = of_q * given.rows.to("i64")

        def matrix(pointer: Any) -> Any:
            of_head = pointer.offset(blocks * columns.to("i64"))
            return view(of_head, (given.rows, columns), (columns, 1)).pad(*tile).window(tile, (first, 0))

        def vector(pointer: Any, length: Scalar, at: Any, axis: int) -> Tile:
            window = view(pointer, (length,), (1,)).pad(tile[axis]).window((tile[axis],), (at,))
            return load(window, lies.reduce(1 - axis))

        scores = load(matrix(given.scores), lies)
        alike_q = vector(given.alike_q.offset(blocks), given.rows, first, 0)
        alike_k = vector(given.alike_k.offset(of_k * columns.to("i64")), columns, 0, 1)
        similar, share = _thresholds(spec, given, head)
        none, one = splat_like(scores, 0, "i32"), splat_like(scores, 1, "i32")
        exists = coordinates(scores, 1) < _reach(spec, given, coordinates(alike_q, 0) + first)[:, None]
        among = exists & (none + _ones(alike_k > similar, alike_k)[None, :]).equals(1)
        largest = maximum(reduce_max(where(among, scores, -inf), 1), LOWEST)
        if spec.counted:  # the keys of others are the least
            weights, wanted = splat_like(scores, 1, "f32"), splat_like(alike_q, 0, "f32") + given.count
        else:
            weights = where(among, exp2(scores.minus(largest[:, None]) * given.scale), 0.0)
            wanted = maximum(reduce_sum(weights, 1) * share, LEAST_NORMAL_F32)
        taken = _selected(where(among, _ordered(scores), LEAST), weights, wanted)
        found = where((none + _ones(alike_q > similar, alike_q)[:, None]).equals(1), where(among, taken, one), one)
        if spec.first:
            found = where(coordinates(scores, 1).equals(0), 1, found)
        store(cast(where(exists, found, 0), "i8"), matrix(given.block_map))

    return predict_blocks


def _thresholds(spec: PredictSpec, given: Any, head: Scalar) -> tuple[Scalar, Scalar]:
    """What `alike` has to exceed, and the share of the weights that is wanted."""
    if not spec.by_head:
        return given.similar, given.share
    own = given.thresholds.offset(head * 2)
    return own.scalar(0), own.scalar(1)


def _ones(condition: Tile, like: Tile) -> Tile:
    """1 where it holds, else 0."""
    return where(condition, splat_like(like, 1, "i32"), 0)


def _reach(spec: PredictSpec, given: Any, row: Tile) -> Tile:
    """How many blocks of keys each row may take."""
    if not spec.causal:
        all_of_them: Tile = splat_like(row, 0, "i32") + given.columns
        return all_of_them
    one = splat_like(row, 1, "i32")
    last = minimum((row + 1) << (one * given.q_bits), given.sq) - 1 + given.further
    reached: Tile = minimum((last >> (one * given.k_bits)) + 1, given.columns)
    return reached


def _selected(keys: Tile, weights: Tile, wanted: Tile) -> Tile:
    """1 for the elements that are selected, by their keys, else 0."""

    def above(level: Tile) -> Tile:
        return reduce_sum(where(keys > level[:, None], weights, 0.0), 1)

    with loop(0, BITS, 1, carry=[splat_like(wanted, LARGEST, "i32")]) as step:
        (level,) = step.carried
        lower = level ^ (splat_like(level, 1, "i32") << (BITS - 1 - step.index))
        step.carry(where(above(lower) < wanted, lower, level))
    level = step.results[0]
    equal = _ones(keys.equals(level[:, None]), keys)
    before = above(level)[:, None] + cast(scan_sum(equal, 1, exclusive=True), "f32") * weights
    return where(keys > level[:, None], 1, where(before < wanted[:, None], equal, 0))


def _ordered(scores: Tile) -> Tile:
    """Integers in the order of the scores."""
    bits = bitcast(scores + 0.0, "i32")  # of -0 this makes 0
    return where(bits < 0, bits ^ POSITIVE, bits)
