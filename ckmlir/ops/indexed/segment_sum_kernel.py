"""The segment_sum kernel: a workgroup walks through one segment, columns of a tile."""

from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import Kernel, cast, i32, kernel, load, loop, ptr, reduce_sum, store, view, workgroup_id, zeros
from ckmlir.ops.indexed.rows import TILE_ROWS, WAVES
from ckmlir.ops.indexed.segment_sum import SegmentSumSpec
from ckmlir.targets import Target


def build(spec: SegmentSumSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    computed = "i32" if spec.dtype == "i32" else "f32"
    arguments: dict[str, Any] = {"x": ptr(spec.dtype), "offsets": ptr("i32", 4), "y": ptr(spec.dtype)}
    arguments.update(dict.fromkeys(("m", "n", "segments", "stride", "ystride"), i32))
    tile = TILE_ROWS, spec.columns
    lies = coalesced(tile, WAVES, 1, spec.align)

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def segment_sum(given: Any) -> None:
        n, stride, ystride = (one.multiple_of(spec.align) for one in (given.n, given.stride, given.ystride))
        segment, column = workgroup_id(0), workgroup_id(1) * tile[1]
        # What memory says is kept within the array: nobody has checked it.
        begin = given.offsets.scalar(segment).maximum(0)
        end = given.offsets.scalar(segment + 1).minimum(given.m)
        rows = view(given.x, (end, n), (stride, 1)).pad(*tile)
        with loop(begin, end, TILE_ROWS, carry=[zeros(tile, computed, lies)]) as step:
            (sums,) = step.carried
            step.carry(sums + cast(load(rows.window(tile, (step.index, column)), lies), computed))
        found = cast(reduce_sum(step.results[0], 0), spec.dtype)
        y = view(given.y.offset(segment * ystride), (n,), (1,)).pad(tile[1])
        store(found, y.window(tile[1:], (column,)))

    return segment_sum
