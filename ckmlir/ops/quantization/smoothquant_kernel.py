"""The smoothquant kernels: those of quantize_rows, whose columns have factors."""

from ckmlir.ops.quantization.quantize_rows_kernel import build

__all__ = ["build"]
