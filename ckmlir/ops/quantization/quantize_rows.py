"""quantize_rows: every row in fp8, bf8 or i8 with a scale of its own: q = x / scale, rounded.

With `scales=dynamic` a row's scale is its largest magnitude over the largest number of q's type, at least 2^-126
(`rows/quantization.py`), and an output; with `scales=given` it is an input, and may be any number: by 0 is divided as
IEEE does, and what is then infinite saturates. i8 is rounded to the nearest even, or, with `rounding=zero`, truncated;
8-bit floats are rounded to the nearest even. NaN is left out of maxima, and becomes 0 as i8.

Arrays: x (m, n); given scales, yscale (m, f32); q (m, n); scales that are found, yscale (m, f32). They are the kernel's
arguments in this order; then m, n and row strides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.request import Choice, Integer
from ckmlir.ops.rows.arrays import FLOATS, RowArray, row_values_in, rows_in, rows_out
from ckmlir.ops.rows.layout import RowSpec
from ckmlir.ops.rows.operator import RowProblem, stride_keys
from ckmlir.ops.rows.quantization import (
    ROUNDING,
    QuantizedOptions,
    given_tolerance,
    quantize,
    quantized_tolerances,
    quotients,
    rounded,
)  # fmt: skip
from ckmlir.ops.rows.quantizing import QuantizingOperator
from ckmlir.targets import Target

OUT = ("fp8", "bf8", "i8")
SCALES = ("dynamic", "given")


class QuantizeRowsOptions(QuantizedOptions):
    """Choices of the operator.

    Attributes:
        scales: of `SCALES`.
    """

    scales: str

    def arrays(self) -> tuple[RowArray, ...]:
        x = rows_in("x", self.dtype)
        if self.scales == "given":
            return (x, row_values_in("yscale"), rows_out("q", self.out))
        return (x, *self.quantized_arrays())

    def choices(self) -> dict[str, tuple[object, ...]]:
        return {**super().choices(), "out": OUT, "rounding": ROUNDING, "scales": SCALES}


class QuantizeRowsSpec(QuantizeRowsOptions, RowSpec):
    """What a quantize_rows kernel's code depends on."""

    kernel: ClassVar[str] = "quantize_rows"


Problem = RowProblem[QuantizeRowsOptions]


class QuantizeRows(QuantizingOperator[QuantizeRowsOptions, QuantizeRowsSpec]):
    """The operator `quantize_rows`, which the module's docstring describes."""

    name = "quantize_rows"
    spec_type = QuantizeRowsSpec
    options_type = QuantizeRowsOptions
    keys = (
        Integer("m", 256, "rows"),
        Integer("n", 1024, "elements of a row"),
        Choice("dtype", "f16", "of x", FLOATS),
        Choice("out", "fp8", "of q", OUT),
        Choice("scales", "dynamic", "of rows: found, or given", SCALES),
        Choice("rounding", "nearest", "of q: to nearest even, or of i8 towards zero", ROUNDING),
        *stride_keys("x", "q"),
    )

    def requests(self) -> Iterable[Mapping[str, object]]:
        return [{"dtype": dtype, "out": out, "scales": one} for dtype in FLOATS for out in OUT for one in SCALES]

    def _choices(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        return values

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == "yscale":
            return np.asarray(np.exp2(generator.uniform(-8, 0, array.shape)), np.float32)
        return super()._values(problem, array, generator)

    def expected(self, problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        options = problem.options
        if options.scales == "dynamic":
            return quantize(options, target, arrays["x"].astype(np.float64))
        values = quotients(arrays["x"], arrays["yscale"][:, None])
        return {"q": rounded(options.out, target, values, options.rounding)}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """What quantisation makes of rows, or quotients, without an error."""
        options = problem.options
        if options.scales == "dynamic":
            x = arrays["x"].astype(np.float64)
            return quantized_tolerances(options, target, x, np.zeros_like(x), reference["yscale"])
        values = quotients(arrays["x"], arrays["yscale"][:, None])
        return {"q": given_tolerance(options.out, target, values, options.rounding)}


OPERATOR = QuantizeRows()
