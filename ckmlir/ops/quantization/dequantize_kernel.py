"""The dequantize kernel: a matrix seen as blocks, each times its scale."""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import Kernel, cast, i32, kernel, load, ptr, store, stretch, view, workgroup_id
from ckmlir.ops.quantization.dequantize import WAVES, DequantizeSpec
from ckmlir.targets import Target


def build(spec: DequantizeSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    down, rows, across, columns = spec.tile
    arguments: dict[str, Any] = {
        "q": ptr(spec.dtype, spec.base), "scale": ptr(spec.scales, 4), "y": ptr(spec.out, spec.base),
        **dict.fromkeys(("m", "n", "stride", "ystride", "scale_row", "scale_column"), i32),
    }  # fmt: skip

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def dequantize(given: Any) -> None:
        n, stride, ystride = (one.multiple_of(spec.vector) for one in (given.n, given.stride, given.ystride))
        first, column = workgroup_id(1) * (down * rows), workgroup_id(0) * (across * columns)
        place = (first // spec.rows, first % spec.rows, column // columns, 0)
        tall, wide = down * spec.rows, across * columns
        blocks = ((given.m + (tall - 1)) // tall * down, (n + (wide - 1)) // wide * across)

        def window(pointer: Any, pitch: Any) -> Any:
            matrix = view(pointer, (given.m, n), (pitch, 1)).pad(tall, wide)
            seen = matrix.unmerge(1, (blocks[1], columns)).unmerge(0, (blocks[0], spec.rows))
            return seen.window(spec.tile, place)

        q = cast(load(window(given.q, stride), coalesced(spec.tile, WAVES, 3, spec.vector)), "f32")
        count = ((given.m + (spec.rows - 1)) // spec.rows, (n + (columns - 1)) // columns)
        scales = view(given.scale, count, (given.scale_row, given.scale_column)).pad(down, across)
        scale = cast(load(scales.window((down, across), (place[0], place[2]))), "f32")
        store(cast(q * stretch(stretch(scale, 1, rows), 3, columns), spec.out), window(given.y, ystride))

    return dequantize
