"""add_rmsnorm2d_rdquant: x = a + b, its RMS normalisation times gamma, quantised row by row.

    sum = a + b in f32; x is the sum rounded to the dtype
    y   = sum / sqrt(mean(sum²) + eps) * gamma, in f32, from the unrounded sum
    q   = y quantised by rows (`rows/quantization.py`)

Rows of any magnitude are normalised; one with NaN or an infinity is NaN (`norm.py`).

Rows of every length take the unrounded sum; long ones read a and b again. (CK Tile's kernel for long rows reads the
rounded x back, so that its results depend on the length of a row.)

Arrays: a, b (m, n), gamma (n); x (m, n) unless save_x=0, q (m, n), yscale (m, f32). Each is a kernel argument in this
order where there is it; then m, n, row strides and eps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.normalization.norm import Normalized, zero_times_infinity
from ckmlir.ops.normalization.rmsnorm2d import rms_normalized
from ckmlir.ops.precision import UNIT, in_f32, may_overflow
from ckmlir.ops.request import Choice, Flag, Integer, Real
from ckmlir.ops.rows.arrays import FLOATS, RowArray, channels_in, rows_in, rows_out
from ckmlir.ops.rows.layout import RowSpec
from ckmlir.ops.rows.operator import RowProblem, stride_keys
from ckmlir.ops.rows.quantization import (
    QUANTIZATION_KEYS,
    QuantizedOptions,
    quantize,
    quantized_tolerances,
)  # fmt: skip
from ckmlir.ops.rows.quantizing import QuantizingOperator
from ckmlir.targets import Target


class AddRmsnorm2dRdquantOptions(QuantizedOptions):
    """Choices of the operator.

    Attributes:
        save_x: the sum is an output.
    """

    save_x: bool

    def arrays(self) -> tuple[RowArray, ...]:
        x = [rows_out("x", self.dtype)] if self.save_x else []
        inputs = (rows_in("a", self.dtype), rows_in("b", self.dtype), channels_in("gamma", self.dtype))
        return (*inputs, *x, *self.quantized_arrays())


class AddRmsnorm2dRdquantSpec(AddRmsnorm2dRdquantOptions, RowSpec):
    """What an add_rmsnorm2d_rdquant kernel's code depends on."""

    kernel: ClassVar[str] = "add_rmsnorm2d_rdquant"


Problem = RowProblem[AddRmsnorm2dRdquantOptions]


class AddRmsnorm2dRdquant(QuantizingOperator[AddRmsnorm2dRdquantOptions, AddRmsnorm2dRdquantSpec]):
    """The operator `add_rmsnorm2d_rdquant`, which the module's docstring describes."""

    name = "add_rmsnorm2d_rdquant"
    spec_type = AddRmsnorm2dRdquantSpec
    options_type = AddRmsnorm2dRdquantOptions
    numbers = ("eps",)
    keys = (
        Integer("m", 256, "rows"),
        Integer("n", 1024, "elements of a row"),
        Choice("dtype", "f16", "of a, b, gamma and x", FLOATS),
        Real("eps", 1e-5, "added to the mean square", minimum=0.0),
        *QUANTIZATION_KEYS,
        Flag("save_x", True, "store the sum"),
        *stride_keys("a", "b", "x", "q"),
    )

    def _normalized(self, problem: Problem, arrays: Mapping[str, Array]) -> tuple[Array, Normalized]:
        a, b, gamma = (arrays[name].astype(np.float64) for name in ("a", "b", "gamma"))
        with np.errstate(invalid="ignore"):
            x = in_f32(a + b)
        return x, rms_normalized(x, UNIT * np.abs(x), gamma, problem.sizes["n"], problem.numbers["eps"])

    def expected(self, problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        x, found = self._normalized(problem, arrays)
        outputs = {"x": x, **quantize(problem.options, target, in_f32(found.y))}
        return {name: outputs[name] for name in self.output_names(problem)}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """x: one f32 addition and its rounding; q: the steps that the error of y may cross."""
        _, found = self._normalized(problem, arrays)
        free = zero_times_infinity(arrays, lambda plain: self._normalized(problem, plain)[1])
        free = free | may_overflow(found.y, found.y_error)
        dtype = find_dtype(problem.dtype)
        tolerances = {
            "x": Tolerance(
                dtype.unit_roundoff + UNIT, dtype.underflow, f"one f32 addition, half an ulp of {dtype.name}"
            ),
            **quantized_tolerances(problem.options, target, in_f32(found.y), found.y_error, reference["yscale"], free),
        }
        return {name: tolerances[name] for name in reference}


OPERATOR = AddRmsnorm2dRdquant()
