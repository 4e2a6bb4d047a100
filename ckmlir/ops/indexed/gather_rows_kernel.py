"""The gather_rows kernel: a tile of rows from wherever they are."""

from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import Kernel, gather, i32, kernel, load, ptr, store, view, workgroup_id
from ckmlir.ops.indexed.gather_rows import GatherRowsSpec
from ckmlir.ops.indexed.rows import TILE_ROWS, WAVES
from ckmlir.targets import Target


def build(spec: GatherRowsSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {"table": ptr(spec.dtype), "ids": ptr("i32"), "y": ptr(spec.dtype)}
    arguments.update(dict.fromkeys(("rows", "m", "n", "stride", "ystride"), i32))
    tile = TILE_ROWS, spec.columns

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def gather_rows(given: Any) -> None:
        n, stride, ystride = (one.multiple_of(spec.align) for one in (given.n, given.stride, given.ystride))
        column, row = workgroup_id(0) * tile[1], workgroup_id(1) * tile[0]
        ids = load(view(given.ids, (given.m,), (1,)).pad(tile[0]).window(tile[:1], (row,)))
        table = view(given.table, (given.rows, n), (stride, 1)).pad(1, tile[1])
        found = gather(table.window(tile, (0, column)), ids, 0, coalesced(tile, WAVES, 1, spec.align))
        store(found, view(given.y, (given.m, n), (ystride, 1)).pad(*tile).window(tile, (row, column)))

    return gather_rows
