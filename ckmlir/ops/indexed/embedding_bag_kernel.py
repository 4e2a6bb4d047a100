"""The embedding_bag kernel: a tile of sums, to which one row each is added at a time; rows ahead are on their way."""

from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    cast,
    coordinates,
    gather,
    i32,
    kernel,
    load,
    loop,
    ptr,
    stage,
    store,
    view,
    where,
    workgroup_id,
    zeros,
)
from ckmlir.ops.indexed.embedding_bag import BAG_ROWS, EmbeddingBagSpec
from ckmlir.ops.indexed.rows import WAVES
from ckmlir.targets import Target

SCHEDULE = "schedule embedding_bag 1; ahead number 2, load 1"
"""Numbers are loaded before the rows that they name, and those before they are added."""


def build(spec: EmbeddingBagSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    computed = "i32" if spec.dtype == "i32" else "f32"
    arguments: dict[str, Any] = {"table": ptr(spec.dtype), "ids": ptr("i32"), "y": ptr(spec.out)}
    arguments.update(dict.fromkeys(("rows", "m", "k", "n", "stride", "ystride"), i32))
    tile = BAG_ROWS, spec.columns
    lies = coalesced(tile, WAVES, 1, spec.align)

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def embedding_bag(given: Any) -> None:
        n, stride, ystride = (one.multiple_of(spec.align) for one in (given.n, given.stride, given.ystride))
        column, row = workgroup_id(0) * tile[1], workgroup_id(1) * tile[0]
        table = view(given.table, (given.rows, n), (stride, 1)).pad(1, tile[1]).window(tile, (0, column))
        with loop(0, given.k, 1, carry=[zeros(tile, computed, lies)], schedule=Schedule.parse(SCHEDULE)) as step:
            with stage("number"):
                ids = view(given.ids.offset(step.index), (given.m,), (given.k,)).pad(tile[0])
                numbers = load(ids.window(tile[:1], (row,)))
                numbers = where(coordinates(numbers, 0) < given.m - row, numbers, -1)
            with stage("load"):
                found = gather(table, numbers, 0, lies)
            with stage("add"):
                step.carry(step.carried[0] + cast(found, computed))
        y = view(given.y, (given.m, n), (ystride, 1)).pad(*tile).window(tile, (row, column))
        store(cast(step.results[0], spec.out), y)

    return embedding_bag
