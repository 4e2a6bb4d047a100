"""The moe_smoothquant kernels as tile code: the scales of a token's expert are gathered by a tile of indices."""

from ckmlir.lang import (
    Kernel,
    Scalar,
    Tile,
    cast,
    coordinates,
    gather,
    load,
    loop,
    store,
    view,
    where,
    workgroup_id,
)
from ckmlir.ops.moe.moe_smoothquant import MoeSmoothquantSpec
from ckmlir.ops.rows.block_kernel import Column, Part, RowBlock, row_kernel
from ckmlir.ops.rows.quantize_kernel import store_quantized
from ckmlir.targets import Target


def build(spec: MoeSmoothquantSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    def body(block: RowBlock) -> None:
        x = block.held(_tokens(block, spec))
        if not spec.streamed:
            x(0)  # before the loop over slots, so that it is read once
        if spec.slot_groups:
            _slot(block, spec, target, x, workgroup_id(1))
        else:
            with loop(0, block.given.k, 1) as step:
                _slot(block, spec, target, x, step.index)

    return row_kernel(spec, target, body)


def _tokens(block: RowBlock, spec: MoeSmoothquantSpec) -> Part:
    """The workgroup's rows of x, zeros for those that are not there."""
    if not spec.row_ids:
        return lambda column: block.load("x", column)
    given, shape = block.given, (spec.rows, spec.length)
    ids = view(given.row_ids, (block.m,), (1,)).pad(spec.rows)
    numbers = load(ids.window((spec.rows,), (block.first,)))
    there = where(numbers < 0, -1, coordinates(numbers, 0))
    stride = given.x_stride.multiple_of(spec.align)
    own = given.x.offset(block.first.to("i64") * stride.to("i64"))
    rows = view(own, (block.m - block.first, block.n), (stride, 1)).pad(1, spec.length)
    return lambda column: cast(gather(rows.window(shape, (0, column)), there, 0, block.distribution, "near"), "f32")


def _slot(block: RowBlock, spec: MoeSmoothquantSpec, target: Target, x: Part, slot: Scalar) -> None:
    """The rows of one slot of the workgroup's tokens."""
    given, shape = block.given, (spec.rows, spec.length)
    ids = view(given.topk_ids, (block.m, given.k), (given.k, 1)).freeze(1, slot).pad(spec.rows)
    expert = load(ids.window((spec.rows,), (block.first,)))
    scales = view(given.smooth, (given.experts, block.n), (block.n, 1)).pad(1, spec.length)

    def y(column: Column) -> Tile:
        chosen = gather(scales.window(shape, (0, column)), expert, 0, block.distribution, reach="near")
        scaled: Tile = x(column) * chosen
        return scaled

    def store_q(tile: Tile, column: Column) -> None:
        everything = view(given.q, (given.k, block.m, block.n), (block.m * block.n, block.n, 1))
        rows = everything.freeze(0, slot).pad(*shape)
        store(cast(tile, spec.out), rows.window(shape, (block.first, column)))

    def store_scale(tile: Tile) -> None:
        everything = view(given.yscale, (given.k, block.m), (block.m, 1)).freeze(0, slot).pad(spec.rows)
        store(tile, everything.window((spec.rows,), (block.first,)))

    store_quantized(block, spec, target, block.held(y), store_q=store_q, store_scale=store_scale)
