"""The dequantize kernel: a matrix seen as blocks, each times its scale."""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.packing import PACKED
from ckmlir.lang import Kernel, cast, i32, kernel, load, ptr, store, stretch, unpack, view, workgroup_id
from ckmlir.ops.contraction.scale_tiles import TILINGS
from ckmlir.ops.contraction.scale_tiles_kernel import tiled_view
from ckmlir.ops.quantization.dequantize import WAVES, DequantizeSpec
from ckmlir.targets import Target


def build(spec: DequantizeSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    down, rows, across, columns = spec.tile
    packing = PACKED.get(spec.dtype)
    arguments: dict[str, Any] = {
        "q": ptr("i8" if packing else spec.dtype, spec.base),
        "scale": ptr(spec.scales, 4),
        "y": ptr(spec.out, spec.base),
        **dict.fromkeys(("m", "n", "stride", "ystride", "scale_row", "scale_column"), i32),
    }  # fmt: skip

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def dequantize(given: Any) -> None:
        vector = max(spec.vector, packing.elements if packing else 1)
        n, ystride = given.n.multiple_of(vector), given.ystride.multiple_of(spec.vector)
        stride = given.stride.multiple_of(packing.size(vector) if packing else vector)
        first, column = workgroup_id(1) * (down * rows), workgroup_id(0) * (across * columns)
        place = (first // spec.rows, first % spec.rows, column // columns, 0)
        tall, wide = down * spec.rows, across * columns
        blocks = ((given.m + (tall - 1)) // tall * down, (n + (wide - 1)) // wide * across)

        def window(pointer: Any, pitch: Any, size: Any = lambda elements: elements) -> Any:
            """A tile of an array, of whose columns there are so many units."""
            matrix = view(pointer, (given.m, size(n)), (pitch, 1)).pad(tall, size(wide))
            seen = matrix.unmerge(1, (blocks[1], size(columns))).unmerge(0, (blocks[0], spec.rows))
            return seen.window((*spec.tile[:3], size(columns)), place)

        def in_bytes(elements: Any) -> Any:
            return elements // packing.elements * packing.bytes if packing else elements

        q = load(window(given.q, stride, in_bytes), _lies(spec))
        q = unpack(q, spec.dtype) if packing else cast(q, "f32")
        count = ((given.m + (spec.rows - 1)) // spec.rows, (n + (columns - 1)) // columns)
        if spec.tiled:
            scales = tiled_view(given.scale, *count, given.scale_row, TILINGS[spec.tiled])
        else:
            scales = view(given.scale, count, (given.scale_row, given.scale_column))
        scale = cast(load(scales.pad(down, across).window((down, across), (place[0], place[2]))), "f32")
        store(cast(q * stretch(stretch(scale, 1, rows), 3, columns), spec.out), window(given.y, ystride))

    return dequantize


def _lies(spec: DequantizeSpec) -> Distribution:
    """How q's tile is loaded: of packed elements bytes, of which a lane has all that elements share."""
    packing = PACKED.get(spec.dtype)
    if packing is None:
        return coalesced(spec.tile, WAVES, 3, spec.vector)
    groups = (*spec.tile[:3], spec.tile[3] // packing.elements)
    lies = coalesced(groups, WAVES, 3, max(spec.vector // packing.elements, 1))
    return lies if packing.bytes == 1 else lies.expand(4, packing.bytes).join(3)
