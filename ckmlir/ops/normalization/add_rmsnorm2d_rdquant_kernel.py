"""The add_rmsnorm2d_rdquant kernels as tile code."""

from ckmlir.lang import Kernel, Tile
from ckmlir.ops.normalization.add_rmsnorm2d_rdquant import AddRmsnorm2dRdquantSpec
from ckmlir.ops.normalization.rmsnorm2d_kernel import normalized_rows, rows_and_mean_square
from ckmlir.ops.rows.block_kernel import Column, RowBlock, row_kernel
from ckmlir.ops.rows.quantize_kernel import store_quantized
from ckmlir.targets import Target


def build(spec: AddRmsnorm2dRdquantSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    def body(block: RowBlock) -> None:
        x = block.held(lambda column: block.load("a", column) + block.load("b", column))
        at_once = spec.save_x and not spec.streamed
        if at_once:
            block.store(x(0), "x", 0)  # before rows are scaled, so that registers hold them once
        rows, square = rows_and_mean_square(block, x)
        inv_rms = rows.inverse_root(square)

        def y(column: Column) -> Tile:
            return normalized_rows(block, rows, inv_rms, column)

        def store_x(column: Column) -> None:
            if spec.save_x and not at_once:
                block.store(x(column), "x", column)

        store_quantized(block, spec, target, block.held(y), store_x)

    return row_kernel(spec, target, body, ["eps"])
