"""The softmax_bwd kernels as tile code: one sum of a row, which a row that streams passes once more for."""

from functools import partial

from ckmlir.lang import Kernel, Tile
from ckmlir.ops.rows.block_kernel import Column, RowBlock, row_kernel
from ckmlir.ops.softmax.softmax_bwd import SoftmaxBwdSpec
from ckmlir.targets import Target


def build(spec: SoftmaxBwdSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    def body(block: RowBlock) -> None:
        y, dy = (block.held(partial(block.load, name)) for name in ("y", "dy"))

        def product(column: Column) -> Tile:
            found: Tile = dy(column) * y(column)  # zero behind the end of rows
            return found

        total = block.sum(product)[:, None]
        scale = block.given.scale
        block.each(lambda at: block.store(y(at) * (dy(at) - total) * scale, "dx", at))

    return row_kernel(spec, target, body, ["scale"])
