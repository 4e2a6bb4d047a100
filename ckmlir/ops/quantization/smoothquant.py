"""smoothquant: columns scaled, then rows quantised: y = x * smooth in f32, q = y quantised (`rows/quantization.py`).

Arrays: x (m, n), smooth (n, f32); q (m, n), yscale (m, f32). They are the kernel's arguments in this order; then m, n
and row strides. The kernel is that of `quantize_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.precision import UNIT, in_f32
from ckmlir.ops.request import Choice, Integer
from ckmlir.ops.rows.arrays import FLOATS, RowArray, rows_in
from ckmlir.ops.rows.layout import RowSpec
from ckmlir.ops.rows.operator import RowProblem, stride_keys
from ckmlir.ops.rows.quantization import (
    QUANTIZATION_KEYS,
    QuantizedOptions,
    quantize,
    quantized_tolerances,
    smooth_array,
)  # fmt: skip
from ckmlir.ops.rows.quantizing import QuantizingOperator
from ckmlir.targets import Target


class SmoothquantOptions(QuantizedOptions):
    """Choices of the operator."""

    def arrays(self) -> tuple[RowArray, ...]:
        return (rows_in("x", self.dtype), smooth_array(), *self.quantized_arrays())


class SmoothquantSpec(SmoothquantOptions, RowSpec):
    """What a smoothquant kernel's code depends on."""

    kernel: ClassVar[str] = "smoothquant"


Problem = RowProblem[SmoothquantOptions]


class Smoothquant(QuantizingOperator[SmoothquantOptions, SmoothquantSpec]):
    """The operator `smoothquant`, which the module's docstring describes."""

    name = "smoothquant"
    spec_type = SmoothquantSpec
    options_type = SmoothquantOptions
    keys = (
        Integer("m", 256, "rows"),
        Integer("n", 1024, "elements of a row"),
        Choice("dtype", "f16", "of x", FLOATS),
        *QUANTIZATION_KEYS,
        *stride_keys("x", "q"),
    )

    def expected(self, problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        return quantize(problem.options, target, _smoothed(arrays))

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """One f32 product, and what quantisation makes of its error."""
        y = _smoothed(arrays)
        return quantized_tolerances(problem.options, target, y, UNIT * np.abs(y), reference["yscale"])


def _smoothed(arrays: Mapping[str, Array]) -> Array:
    with np.errstate(invalid="ignore"):
        product: Array = arrays["x"].astype(np.float64) * arrays["smooth"].astype(np.float64)
    return in_f32(product)


OPERATOR = Smoothquant()
