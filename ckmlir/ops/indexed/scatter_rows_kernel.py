"""The scatter_rows kernel: a tile of rows to wherever they belong."""

from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import (
    Kernel,
    cast,
    coordinates,
    i32,
    kernel,
    load,
    ptr,
    scatter,
    scatter_add,
    view,
    where,
    workgroup_id,
)
from ckmlir.ops.indexed.rows import TILE_ROWS, WAVES
from ckmlir.ops.indexed.scatter_rows import ScatterRowsSpec
from ckmlir.targets import Target

PUT = {"store": scatter, "add": scatter_add}


def build(spec: ScatterRowsSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {"x": ptr(spec.dtype), "ids": ptr("i32"), "y": ptr(spec.sums)}
    arguments.update(dict.fromkeys(("m", "n", "rows", "stride"), i32))
    tile = TILE_ROWS, spec.columns

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def scatter_rows(given: Any) -> None:
        n, stride = (one.multiple_of(spec.align) for one in (given.n, given.stride))
        column, row = workgroup_id(0) * tile[1], workgroup_id(1) * tile[0]
        ids = load(view(given.ids, (given.m,), (1,)).pad(tile[0]).window(tile[:1], (row,)))
        ids = where(coordinates(ids, 0) < given.m - row, ids, -1)
        x = view(given.x, (given.m, n), (stride, 1)).pad(*tile).window(tile, (row, column))
        y = view(given.y, (given.rows, n), (n, 1)).pad(1, tile[1]).window(tile, (0, column))
        PUT[spec.op](cast(load(x, coalesced(tile, WAVES, 1, spec.align)), spec.sums), y, ids, 0)

    return scatter_rows
