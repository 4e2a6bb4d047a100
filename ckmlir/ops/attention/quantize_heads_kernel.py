"""The quantize_heads kernel: a workgroup takes some blocks of rows of one head, finds their largest magnitudes, and
writes them over their scales."""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import (
    Kernel,
    Tile,
    absolute,
    cast,
    coordinates,
    i32,
    i64,
    kernel,
    load,
    maximum,
    ptr,
    reduce_max,
    store,
    stretch,
    view,
    where,
    workgroup_id,
)
from ckmlir.ops.attention.fmha_fwd_spec import channel_multiple, row_multiple
from ckmlir.ops.attention.problem import LEAST_SCALE
from ckmlir.ops.attention.quantize_heads import WAVES, QuantizeHeadsSpec
from ckmlir.ops.rows.quantization import largest
from ckmlir.targets import Target

VECTOR = 8
"""Channels of a work-item, side by side."""


def build(spec: QuantizeHeadsSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {"x": ptr(spec.dtype)}
    if spec.shift:
        arguments["shift"] = ptr("f32", alignment=4)
    arguments |= {"q": ptr(spec.out), "scales": ptr("f32", alignment=4)} | dict.fromkeys(("s", "blocks", "h"), i32)
    for name in "xq":
        arguments |= {f"{name}_row": i32, f"{name}_head": i64, f"{name}_batch": i64}
    tile = count, block, channels = spec.tile
    lies = coalesced(tile, WAVES, 2, VECTOR)

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def quantize_heads(given: Any) -> None:
        first, head, batch = workgroup_id(0) * count, workgroup_id(1), workgroup_id(2)
        of_all = batch.to("i64") * given.h.to("i64") + head.to("i64")
        whole = (given.s + (count * block - 1)) // (count * block) * count

        def window(name: str, multiple: int) -> Any:
            """The workgroup's blocks of x or q: blocks, rows of a block, channels."""
            row, of_head, of_batch = (getattr(given, f"{name}_{one}") for one in ("row", "head", "batch"))
            start = (batch.to("i64") * of_batch + head.to("i64") * of_head).multiple_of(multiple)
            rows = view(getattr(given, name).offset(start), (given.s, spec.d), (row.multiple_of(multiple), 1))
            return rows.pad(count * block, channels).unmerge(0, (whole, block)).window(tile, (first, 0, 0))

        x = cast(load(window("x", row_multiple(spec.dtype)), lies), "f32")
        if spec.shift:
            x = _less(x, given, of_all, first, spec, lies)
        amax = reduce_max(reduce_max(absolute(x), 2), 1)
        scales = maximum(amax * (1.0 / largest(spec.out, target)), LEAST_SCALE)
        factor = stretch(stretch(1.0 / scales, 1, block), 2, channels)
        store(cast(x * factor, spec.out), window("q", channel_multiple(spec.out)))
        of_head = view(given.scales.offset(of_all * given.blocks.to("i64")), (given.blocks,), (1,))
        store(scales, of_head.pad(count).window((count,), (first,)))

    return quantize_heads


def _less(x: Tile, given: Any, of_all: Any, first: Any, spec: QuantizeHeadsSpec, lies: Any) -> Tile:
    """Rows less the head's shift; rows that do not exist stay zeros."""
    count, block, channels = spec.tile
    row = view(given.shift.offset(of_all * spec.d), (spec.d,), (1,)).pad(channels)
    shift = load(row.window((channels,), (0,)), lies.reduce(0).reduce(0))
    exists = (coordinates(x, 0) + first) * block + coordinates(x, 1) < given.s
    found: Tile = where(exists, x - stretch(stretch(shift, 0, block), 0, count), 0.0)
    return found
