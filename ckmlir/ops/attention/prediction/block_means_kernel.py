"""The block_means kernel: a workgroup takes a block of rows of one head, a row in neighbouring lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import (
    Kernel,
    Scalar,
    Tile,
    cast,
    coordinates,
    i32,
    i64,
    kernel,
    load,
    loop,
    minimum,
    ptr,
    redistribute,
    reduce_sum,
    rsqrt,
    store,
    stretch,
    view,
    where,
    workgroup_id,
    zeros,
)
from ckmlir.ops.attention.fmha_fwd_spec import row_multiple
from ckmlir.ops.attention.prediction.block_means import WAVES, BlockMeansSpec
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE


def build(spec: BlockMeansSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {"x": ptr(spec.dtype)}
    if spec.shift:
        arguments["shift"] = ptr("f32", alignment=4)
    arguments |= {"means": ptr("f32", alignment=4), "alike": ptr("f32", alignment=4)}
    arguments |= dict.fromkeys(("s", "blocks", "h", "row"), i32) | dict.fromkeys(("head", "batch"), i64)
    multiple, (rows, channels) = row_multiple(spec.dtype), spec.tile
    lies = coalesced((rows, channels), WAVES, 1, multiple)
    along, columns = lies.reduce(0), _columns(rows, channels)
    in_a_row = Distribution(columns.reduce(0).replicated, ((), *columns.reduce(0).dims))

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def block_means(given: Any) -> None:
        number, head, batch = (workgroup_id(axis) for axis in range(3))
        of_all = batch.to("i64") * given.h.to("i64") + head.to("i64")
        first, row = number * spec.block, given.row.multiple_of(multiple)
        start = (batch.to("i64") * given.batch + head.to("i64") * given.head).multiple_of(multiple)
        x = view(given.x.offset(start), (given.s, spec.d), (row, 1)).pad(spec.block, channels)
        shift = None
        if spec.shift:
            whole = view(given.shift.offset(of_all * spec.d), (spec.d,), (1,)).pad(channels)
            shift = load(whole.window((channels,), (0,)), along)

        def added(sums: Sequence[Tile], at: Scalar) -> list[Tile]:
            """Sums of rows and of normalised rows with those from `at` on, as many as a turn takes."""
            tiles = [load(x.window((rows, channels), (at + rows * turn, 0)), lies) for turn in range(spec.turns)]
            for turn, tile in enumerate(tiles):
                found = cast(tile, "f32")
                if shift is not None:
                    exists = coordinates(found, 0) + (at + rows * turn) < given.s
                    found = where(exists, found - shift[None, :], 0.0)
                squares = reduce_sum(found * found, 1)
                inverse = where(squares.equals(0.0), 0.0, rsqrt(squares))
                sums = [sums[0] + found, sums[1] + found * inverse[:, None]]
            return list(sums)

        none = [zeros((rows, channels), "f32", lies)] * 2
        if spec.block == rows * spec.turns:
            sums = added(none, first)
        else:
            with loop(first, first + spec.block, rows * spec.turns, carry=none) as step:
                step.carry(*added(step.carried, step.index))
            sums = step.results
        total, units = (reduce_sum(redistribute(one, columns), 0) for one in sums)
        count = minimum(given.s - first, spec.block).to("f32")
        place = of_all * given.blocks.to("i64") + number.to("i64")
        means = view(given.means.offset(place * spec.d), (spec.d,), (1,)).pad(channels)
        store(total / count, means.window((channels,), (0,)))
        share = units / count
        alike = reduce_sum(stretch(share * share, 0, 1, in_a_row), 1)
        store(alike, view(given.alike.offset(place), (1,), (1,)).window((1,), (0,)))

    return block_means


def _columns(rows: int, channels: int) -> Distribution:
    """Columns of a tile, each in one work-item."""
    lanes = min(channels, WAVE_SIZE)
    waves = channels // lanes
    return Distribution.parse(
        f"r: {WAVES // waves}@wave {WAVE_SIZE // lanes}@lane, d0: {rows}@y0, d1: {waves}@wave {lanes}@lane"
    )
