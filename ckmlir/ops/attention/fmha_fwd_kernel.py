"""The attention forward kernel as tile code: one workgroup computes a block of queries of one head.

Both products have their operands swapped, so that a lane holds whole parts of a query's row: the softmax needs one
exchange between lanes, and its result is the operand of the second product where it lies (`Mma.with_k_chunk`).
"""

import math
from typing import Any

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    Pointer,
    Scalar,
    Tile,
    cast,
    coordinates,
    exp2,
    f32,
    full,
    i32,
    i64,
    kernel,
    load,
    log2,
    loop,
    maximum,
    minimum,
    mma,
    ptr,
    redistribute,
    reduce_max,
    reduce_sum,
    stage,
    store,
    to_lds,
    view,
    where,
    workgroup_id,
    zeros,
)  # fmt: skip
from ckmlir.ops.attention.fmha_fwd_spec import WEIGHT_EXPONENT, FmhaFwdSpec, channel_multiple
from ckmlir.targets import Target

INFINITY = float("inf")
ACCUMULATOR_GROUP = 4
"""Consecutive columns that a lane holds of a matrix instruction's result."""


def build(spec: FmhaFwdSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    queries, keys = spec.block
    waves = (spec.waves, 1)
    shape = "x".join(map(str, spec.mfma))
    scores = Mma.select(target, shape, spec.dtype, block_k=spec.d_tile, transposed=True)
    values = Mma.select(target, shape, spec.dtype, block_k=keys, transposed=True).with_k_chunk(ACCUMULATOR_GROUP)
    exponent = WEIGHT_EXPONENT[target.fp8] if spec.dtype == "fp8" and target.fp8 else 0

    @kernel(spec.name, target=target, waves=spec.waves, arguments=_arguments(spec))
    def fmha_fwd(given: Any) -> None:
        first, head, batch = workgroup_id(0) * queries, workgroup_id(1), workgroup_id(2)
        shared = head // given.ratio
        sq = given.sq if spec.pad_sq else given.sq.multiple_of(queries)
        sk = given.sk if spec.pad_sk else given.sk.multiple_of(keys)
        row = channel_multiple(spec.dtype)
        Q = view(_head(given, "q", head, batch, row), (sq, spec.d), (given.q_seq.multiple_of(row), 1)).pad(
            queries, spec.d_tile
        )
        K = view(_head(given, "k", shared, batch, row), (sk, spec.d), (given.k_seq.multiple_of(row), 1)).pad(
            keys, spec.d_tile
        )
        V = view(_head(given, "v", shared, batch, row), (spec.dv, sk), (1, given.v_seq.multiple_of(row))).pad(
            spec.dv_tile, keys
        )
        q = load(Q.window((queries, spec.d_tile), (first, 0)), scores.a_over(waves, queries, spec.d_tile))
        nothing = zeros((queries, keys), "f32", scores.c_over(waves, queries, keys))
        rows = scores.c_over(waves, queries, keys).reduce(1)
        start = [
            zeros((queries, spec.dv_tile), "f32", values.c_over(waves, queries, spec.dv_tile)),
            full((queries,), -INFINITY, "f32", rows),
            zeros((queries,), "f32", rows),
        ]
        low, high = _key_range(spec, given, first, sk)

        with loop(low, high, keys, carry=start, schedule=Schedule.parse(spec.schedule_text)) as step:
            o, m0, l0 = step.carried
            with stage("load_k"):
                gk = load(K.window((keys, spec.d_tile), (step.index, 0)))
            with stage("k_lds"):
                lk = to_lds(gk, "k")
            with stage("load_v"):
                gv = load(V.window((spec.dv_tile, keys), (0, step.index)))
            with stage("v_lds"):
                lv = to_lds(gv, "v")
            with stage("k_read"):
                rk = lk.read(scores.b_over(waves, keys, spec.d_tile))
            with stage("qk"):
                s = mma(scores, q, rk, nothing)
            with stage("softmax"):
                s = _masked(spec, given, s, m0, first, step.index, sk)
                m1 = maximum(m0, reduce_max(s, 1))
                shift = _finite(m1) * given.scale
                p = exp2(s * given.scale - (shift - float(exponent) if exponent else shift)[:, None])
                decay = exp2(m0 * given.scale - shift)
                l1 = l0 * decay + reduce_sum(p, 1)
                p = redistribute(cast(p, spec.dtype), values.a_over(waves, queries, keys))
            with stage("v_read"):
                rv = lv.read(values.b_over(waves, spec.dv_tile, keys))
            with stage("pv"):
                o = mma(values, p, rv, o * decay[:, None])
            step.carry(o, m1, l1)
        o, m, total = step.results

        none = total.equals(0.0)  # not of a total that is NaN
        inverse = where(none, 0.0, 1.0 / where(none, 1.0, total))
        factor = inverse * given.v_scale if spec.scaled else inverse
        row = channel_multiple(spec.out)
        output = view(_head(given, "o", head, batch, row), (sq, spec.dv), (given.o_seq.multiple_of(row), 1)).pad(
            queries, spec.dv_tile
        )
        store(cast(o * factor[:, None], spec.out), output.window((queries, spec.dv_tile), (first, 0)))
        if spec.lse:
            power = m * given.scale + log2(where(none, 1.0, total))
            power = power - float(exponent) if exponent else power
            logarithm = where(none, -INFINITY, power * math.log(2))
            position = (batch * given.h + head).to("i64") * sq.to("i64")
            L = view(given.lse.offset(position), (sq,), (1,)).pad(queries)
            store(logarithm, L.window((queries,), (first,)))

    return fmha_fwd


def _arguments(spec: FmhaFwdSpec) -> dict[str, Any]:
    arguments: dict[str, Any] = {name: ptr(spec.out if name == "o" else spec.dtype) for name in "qkvo"}
    if spec.lse:
        arguments["lse"] = ptr("f32", alignment=4)
    arguments.update(sq=i32, sk=i32, h=i32, ratio=i32, scale=f32)
    if spec.scaled:
        arguments.update(v_scale=f32)
    for name in "qkvo":
        arguments.update({f"{name}_seq": i32, f"{name}_head": i64, f"{name}_batch": i64})
    if spec.mask != "none":
        arguments.update(mask_y=i32, mask_x=i32)
    return arguments


def _head(given: Any, name: str, head: Scalar, batch: Scalar, row: int) -> Pointer:
    """The rows of one head, at any distance from the array's start."""
    by_head, by_batch = getattr(given, f"{name}_head"), getattr(given, f"{name}_batch")
    distance = head.to("i64") * by_head + batch.to("i64") * by_batch
    pointer: Pointer = getattr(given, name).offset(distance.multiple_of(row))
    return pointer


def _key_range(spec: FmhaFwdSpec, given: Any, first: Scalar, sk: Scalar) -> tuple[Scalar | int, Scalar]:
    """The keys, in whole blocks, that some query of this block attends to."""
    queries, keys = spec.block
    low: Scalar | int = 0
    high = sk
    if spec.mask != "none":
        high = sk.minimum(first + (queries - 1) + given.mask_x)
    if spec.mask == "window":
        low = (first - given.mask_y + 1).maximum(0) // keys * keys
    return low, high


def _masked(spec: FmhaFwdSpec, given: Any, s: Tile, by_row: Tile, first: Scalar, key: Scalar, sk: Scalar) -> Tile:
    """Scores, minus infinity where a query does not attend to a key: one comparison an element, whatever the mask.

    A query attends to a run of keys; `by_row` is any tile with one element a query.
    """
    column = coordinates(s, 1)
    if spec.mask == "none":
        return where(column < sk - key, s, -INFINITY) if spec.pad_sk else s
    row = coordinates(by_row, 0) + first
    end = minimum(row + given.mask_x, sk) if spec.pad_sk else row + given.mask_x
    if spec.mask == "causal":
        return where(column < (end - key)[:, None], s, -INFINITY)
    begin = row - given.mask_y + 1
    length = maximum(end - begin, 0)
    return where((column + key - begin[:, None]).below(length[:, None]), s, -INFINITY)


def _finite(largest: Tile) -> Tile:
    """The row's maximum, 0 where the row has nothing yet: minus infinity less itself would be NaN."""
    return where(largest > -INFINITY, largest, 0.0)
