"""Kernels that quantise rows as they are, or with factors for the columns, by scales that they find or are given."""

from __future__ import annotations

from ckmlir.lang import Kernel, Tile
from ckmlir.ops.quantization.quantize_rows import QuantizeRowsSpec
from ckmlir.ops.quantization.smoothquant import SmoothquantSpec
from ckmlir.ops.rows.block_kernel import Column, RowBlock, row_kernel
from ckmlir.ops.rows.quantize_kernel import store_divided, store_quantized
from ckmlir.targets import Target


def build(spec: QuantizeRowsSpec | SmoothquantSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    factors = [array.name for array in spec.arrays() if array.sizes == ("n",)]
    given = any(array.name == "yscale" and array.role == "in" for array in spec.arrays())

    def body(block: RowBlock) -> None:
        def values(column: Column) -> Tile:
            found = block.load("x", column)
            for name in factors:
                found = found * block.channels(name, column)
            return found

        y = block.held(values)
        if given:
            store_divided(block, spec, y)
        else:
            store_quantized(block, spec, target, y)

    return row_kernel(spec, target, body)
