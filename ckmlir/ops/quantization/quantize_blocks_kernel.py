"""The quantize_blocks kernel: a workgroup finds the largest magnitudes of its blocks, and writes them and their scales.
"""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.packing import PACKED
from ckmlir.lang import (
    Kernel,
    Tile,
    absolute,
    bitcast,
    cast,
    coordinates,
    gather,
    i32,
    kernel,
    load,
    maximum,
    pack,
    ptr,
    reduce_max,
    store,
    stretch,
    view,
    where,
    workgroup_id,
)  # fmt: skip
from ckmlir.ops.contraction.scale_tiles import TILINGS
from ckmlir.ops.contraction.scale_tiles_kernel import tiled_view
from ckmlir.ops.quantization.blocks import BLOCKS
from ckmlir.ops.quantization.quantize_blocks import WAVES, QuantizeBlocksSpec, largest_exponent
from ckmlir.ops.rows.quantization import LEAST_SCALE, largest
from ckmlir.targets import Target

STORED = {"f32": "f32", "e8m0": "i8"}
"""Scales -> what is stored: codes of e8m0 are made as integers."""


def build(spec: QuantizeBlocksSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    packing = PACKED.get(spec.out)
    octets = "i8" if packing is not None else spec.out
    arguments: dict[str, Any] = {"x": ptr(spec.dtype), **({"row_ids": ptr("i32")} if spec.row_ids else {})}
    arguments |= {"q": ptr(octets), "scale": ptr(STORED[spec.scales])}
    arguments.update(dict.fromkeys(("m", "n", "stride", "qstride", "pitch"), i32))
    rows, columns = spec.tile
    shared = BLOCKS[spec.block][0]
    scales_of = {"f32": _numbers, "e8m0": _powers}[spec.scales]

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def quantize_blocks(given: Any) -> None:
        vector = max(spec.align, packing.elements if packing is not None else 1)
        n, stride = given.n.multiple_of(vector), given.stride.multiple_of(spec.align)
        qstride = given.qstride.multiple_of(packing.size(vector) if packing is not None else vector)
        group, row = workgroup_id(0), workgroup_id(1) * rows
        # Blocks, rows of a block, columns: rows are one dimension or the other.
        tile = (1, rows, columns) if shared > 1 else (rows, 1, columns)
        lengths = (1, given.m) if shared > 1 else (given.m, 1)
        place = (0, row) if shared > 1 else (row, 0)

        def window(pointer: Any, pitch: Any, size: Any = lambda elements: elements) -> Any:
            """A block of an array, of whose columns there are so many units."""
            whole, part, at = (*lengths, size(n)), (*tile[:2], size(columns)), (*place, group * size(columns))
            return view(pointer, whole, (pitch, pitch, 1)).pad(*part).window(part, at)

        def in_bytes(elements: Any) -> Any:
            return elements // packing.elements * packing.bytes if packing is not None else elements

        lanes = coalesced(tile, WAVES, 2, vector)
        if spec.row_ids:  # counted from the workgroup's first row, and none of those that are not there
            numbers = load(view(given.row_ids, (given.m,), (1,)).pad(rows).window((rows,), (row,)))
            there = where(numbers < 0, -1, coordinates(numbers, 0))
            own = view(given.x.offset(row.to("i64") * stride.to("i64")), (given.m - row, 1, n), (stride, stride, 1))
            x = cast(gather(own.pad(*tile).window(tile, (0, 0, group * columns)), there, 0, lanes, "near"), "f32")
        else:
            x = cast(load(window(given.x, stride), lanes), "f32")
        amax = reduce_max(reduce_max(absolute(x), 2), 1)
        stored, inverse = scales_of(spec, target, amax)
        factor = stretch(stretch(inverse, 1, tile[1]), 2, columns)
        q = cast(x * factor, spec.out) if packing is None else pack(x * factor, spec.out)
        store(q, window(given.q, qstride, in_bytes))
        count, groups = (given.m + (shared - 1)) // shared, (n + (columns - 1)) // columns
        if spec.major in TILINGS:
            seen = tiled_view(given.scale, count, groups, given.pitch, TILINGS[spec.major])
        else:
            strides = (given.pitch, 1) if spec.major == "k" else (1, given.pitch)
            seen = view(given.scale, (count, groups), strides)
        seen = seen.freeze(1, group).pad(amax.lengths[0])
        store(stored, seen.window(amax.lengths, (row // shared,)))

    return quantize_blocks


def _numbers(spec: QuantizeBlocksSpec, target: Target, amax: Tile) -> tuple[Tile, Tile]:
    """Scales of f32, and their inverses."""
    scale = maximum(amax * (1.0 / largest(spec.out, target)), LEAST_SCALE)
    return scale, 1.0 / scale


def _powers(spec: QuantizeBlocksSpec, target: Target, amax: Tile) -> tuple[Tile, Tile]:
    """The codes of powers of two as the bytes that they are, and their inverses, which f32 holds."""
    exponent = bitcast(maximum(amax, LEAST_SCALE), "i32") >> 23  # of nothing but NaN there is no maximum
    code = maximum(exponent - largest_exponent(spec.out, target), 0)
    return cast(where(code > 127, code - 256, code), "i8"), bitcast((254 - code) << 23, "f32")
