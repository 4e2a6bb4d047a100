"""Traced kernels with loops in loops, as they are needed beyond one product a workgroup: small, and as irregular."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from traced_attention import attend, products

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    Scalar,
    Tile,
    View,
    atomic_add,
    cast,
    exp2,
    f32,
    i32,
    kernel,
    load,
    loop,
    mma,
    ptr,
    stage,
    store,
    to_lds,
    view,
    when,
    workgroup_id,
    zeros,
)
from ckmlir.ops.schedules import GEMM
from ckmlir.targets import get_target

BLOCK = 64, 64, 32
WAVES = 2, 2


def instruction(chip: str, k: int) -> Mma:
    return Mma.select(
        get_target(chip), "32x32x16" if chip == "gfx950" else "32x32x8", "f16", block_k=k, transposed=True
    )


def contract(
    product: Mma, a: View, b: View, rows: Scalar, columns: Scalar, begin: Scalar | int, end: Scalar, schedule: str
) -> Tile:
    """A block of a · bᵀ from one place along K to another."""
    bm, bn, bk = BLOCK
    total = zeros((bm, bn), product.acc_dtype, product.c_over(WAVES, bm, bn))
    with loop(begin, end, bk, carry=[total], schedule=Schedule.parse(GEMM[schedule])) as step:
        (total,) = step.carried
        with stage("load"):
            from_a, from_b = (
                load(a.window((bm, bk), (rows, step.index))),
                load(b.window((bn, bk), (columns, step.index))),
            )
        with stage("to_lds"):
            in_a, in_b = to_lds(from_a, "a"), to_lds(from_b, "b")
        with stage("from_lds"):
            left, right = in_a.read(product.a_over(WAVES, bm, bk)), in_b.read(product.b_over(WAVES, bn, bk))
        with stage("math"):
            step.carry(mma(product, left, right, total))
    return step.results[0]


def grouped(chip: str, schedule: str) -> Kernel:
    """Products of a table, tile after tile: pointers and sizes are read from memory, C leaves through LDS."""
    product = instruction(chip, BLOCK[2])
    bm, bn, bk = BLOCK
    counts = dict.fromkeys(("groups", "tiles", "workers"), i32)

    @kernel("grouped", target=get_target(chip), waves=4, arguments={"table": ptr("i64"), "sizes": ptr("i32"), **counts})
    def multiply(given: Any) -> None:
        with loop(workgroup_id(0), given.tiles, given.workers) as turn:
            with loop(0, given.groups, 1, carry=[workgroup_id(1)]) as search:
                found = turn.index >= given.sizes.scalar(search.index * 4 + 3)
                search.carry(found.select(search.index, search.carried[0]))
            (group,) = search.results
            m, n, k, first = (given.sizes.scalar(group * 4 + place) for place in range(4))
            n, k = n.multiple_of(8), k.multiple_of(8)
            a, b, c = (given.table.pointer(group * 3 + place, "f16") for place in range(3))
            columns = (n + (bn - 1)) // bn
            row, column = (turn.index - first) // columns * bm, (turn.index - first) % columns * bn
            left, right = view(a, (m, k), (k, 1)).pad(bm, bk), view(b, (n, k), (k, 1)).pad(bn, bk)
            total = contract(product, left, right, row, column, 0, k, schedule)
            out = to_lds(cast(total, "f16")).read(coalesced((bm, bn), 4, 1, 8))
            store(out, view(c, (m, n), (n, 1)).pad(bm, bn).window((bm, bn), (row, column)))

    return multiply


def stream_k(chip: str, schedule: str) -> Kernel:
    """Each workgroup takes as many steps along K as the others, of several tiles: whole ones are stored, rest added."""
    product = instruction(chip, BLOCK[2])
    bm, bn, bk = BLOCK
    arguments = {
        "a": ptr("f16"),
        "b": ptr("f16"),
        "c": ptr("f32"),
        **dict.fromkeys(("m", "n", "k", "all", "each"), i32),
    }

    @kernel("stream_k", target=get_target(chip), waves=4, arguments=arguments)
    def multiply(given: Any) -> None:
        m, n, k = given.m, given.n.multiple_of(8), given.k.multiple_of(8)
        a, b = view(given.a, (m, k), (k, 1)).pad(bm, bk), view(given.b, (n, k), (k, 1)).pad(bn, bk)
        c = view(given.c, (m, n), (n, 1)).pad(bm, bn)
        columns, steps = (n + (bn - 1)) // bn, (k + (bk - 1)) // bk
        first = workgroup_id(0) * given.each
        last = (first + given.each).minimum(given.all)
        with loop(first // steps, (last + (steps - 1)) // steps, 1) as tile:
            begin, end = (first - tile.index * steps).maximum(0), (last - tile.index * steps).minimum(steps)
            row, column = tile.index // columns * bm, tile.index % columns * bn
            total = contract(product, a, b, row, column, begin * bk, (end * bk).minimum(k), schedule)
            with when(end - begin >= steps) as whole:
                store(total, c.window((bm, bn), (row, column)))
            with whole.otherwise():
                atomic_add(total, c.window((bm, bn), (row, column)))

    return multiply


def attention(chip: str, schedule: str) -> Kernel:
    """Work items of a table: for each, queries of one head against keys of a length that memory holds."""
    queries, keys, channels = 128, 32, 32
    of = products(chip, (4, 1), queries, keys, channels)
    arguments = {
        **dict.fromkeys(("q", "k", "v", "o"), ptr("f16")),
        "work": ptr("i32"),
        "lengths": ptr("i32"),
        "scale": f32,
    }

    @kernel("attention", target=get_target(chip), waves=4, arguments=arguments)
    def by_table(given: Any) -> None:
        with loop(given.work.scalar(workgroup_id(0)), given.work.scalar(workgroup_id(0) + 1), 1) as turn:
            item, first = given.work.scalar(turn.index * 2 + 64), given.work.scalar(turn.index * 2 + 65)
            begin, end = given.lengths.scalar(item), given.lengths.scalar(item + 1)
            rows = view(given.k, (end, channels), (channels, 1)).pad(keys, channels)
            across = view(given.v, (channels, end), (1, channels)).pad(channels, keys)
            block = (queries, channels), (first, 0)
            q = load(
                view(given.q, (end, channels), (channels, 1)).pad(queries, channels).window(*block),
                of.scores.a_over(of.waves, queries, channels),
            )
            o = attend(of, q, rows, across, (begin, end), given.scale, schedule)
            out = view(given.o, (end, channels), (channels, 1)).pad(queries, channels).window(*block)
            store(cast(o, "f16"), out)

    return by_table


def backward(chip: str, schedule: str) -> Kernel:
    """The gradient of V, over all heads that share it and over their queries: accumulators are carried by both loops,
    probabilities go through LDS, and those of dO through atomics.
    """
    keys, queries, channels = 128, 32, 32
    scores = instruction(chip, channels)
    values = Mma.select(
        get_target(chip), scores.instruction.shape, "f16", block_k=queries, transposed=True
    ).with_k_chunk(4)
    waves = 4, 1
    arguments = {**dict.fromkeys(("q", "k", "do", "dv"), ptr("f16")), "dq": ptr("f32"), "heads": i32, "n": i32}

    @kernel("backward", target=get_target(chip), waves=4, arguments=arguments)
    def differentiate(given: Any) -> None:
        n, first = given.n, workgroup_id(0) * keys
        k_rows = view(given.k, (n, channels), (channels, 1)).pad(keys, channels)
        k = to_lds(load(k_rows.window((keys, channels), (first, 0))), "kept").read(scores.a_over(waves, keys, channels))
        none = zeros((keys, queries), "f32", scores.c_over(waves, keys, queries))
        start = zeros((keys, channels), "f32", values.c_over(waves, keys, channels))
        with loop(0, given.heads, 1, carry=[start]) as head:
            size = (head.index * n).to("i64") * channels
            q_rows = view(given.q.offset(size), (n, channels), (channels, 1)).pad(queries, channels)
            across = view(given.do.offset(size), (channels, n), (1, channels)).pad(channels, queries)
            dq = view(given.dq.offset(size), (n, n), (n, 1)).pad(keys, queries)
            with loop(0, n, queries, carry=head.carried, schedule=Schedule.parse(schedule)) as step:
                (dv,) = step.carried
                with stage("load"):
                    from_q = load(q_rows.window((queries, channels), (step.index, 0)))
                    from_do = load(across.window((channels, queries), (0, step.index)))
                with stage("to_lds"):
                    in_q, in_do = to_lds(from_q, "q"), to_lds(from_do, "do")
                with stage("s"):
                    s = mma(scores, k, in_q.read(scores.b_over(waves, queries, channels)), none)
                with stage("softmax"):
                    p = to_lds(cast(exp2(s), "f16"), "p")
                with stage("dv"):
                    read_do = in_do.read(values.b_over(waves, channels, queries))
                    dv = mma(values, p.read(values.a_over(waves, keys, queries)), read_do, dv)
                with stage("dq"):
                    atomic_add(s, dq.window((keys, queries), (first, step.index)))
                step.carry(dv)
            head.carry(*step.results)
        out = view(given.dv, (n, channels), (channels, 1)).pad(keys, channels)
        store(cast(head.results[0], "f16"), out.window((keys, channels), (first, 0)))

    return differentiate


AHEAD = "schedule ahead 1; ahead load 2, to_lds 1; buffers 2"
KERNELS: dict[str, tuple[Callable[[str, str], Kernel], tuple[str, ...]]] = {
    "grouped": (grouped, ("compv3", "compv4", "async", "hot_loop", "compv5")),
    "stream_k": (stream_k, ("compv3", "compv4", "mem4", "unpipelined")),
    "attention": (attention, ("qr", "qr_async", "unpipelined")),
    "backward": (backward, (AHEAD, "schedule unpipelined 1")),
}
"""Kernels with the schedules of their inner loops."""
