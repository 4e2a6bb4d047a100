"""The smoothquant kernels as tile code."""

from ckmlir.lang import Kernel
from ckmlir.ops.quantization.smoothquant import SmoothquantSpec
from ckmlir.ops.rows.block_kernel import RowBlock, row_kernel
from ckmlir.ops.rows.quantize_kernel import store_quantized
from ckmlir.targets import Target


def build(spec: SmoothquantSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    def body(block: RowBlock) -> None:
        y = block.held(lambda column: block.load("x", column) * block.channels("smooth", column))
        store_quantized(block, spec, target, y)

    return row_kernel(spec, target, body)
