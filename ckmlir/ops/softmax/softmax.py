"""softmax: y = exp(scale (x - max)) / sum of the same, row by row, in f32, of the elements that a mask keeps.

With mask=1 an element takes part where the mask is not 0; the others give 0. A row without elements that take part, or
of minus infinities alone, gives zeros; one with NaN or plus infinity among those is NaN. Infinite is also what
scale log2(e) x makes so in f32.

Arrays: x (m, n), mask (m, n, i8) with mask=1; y (m, n). They are the kernel's arguments in this order; then m, n, row
strides and scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.precision import LEAST_EXPONENTIAL, LOG2_E, UNIT, fold_steps, in_f32
from ckmlir.ops.request import GREATEST_F32, Choice, Flag, Integer, Real, RequestError
from ckmlir.ops.rows.arrays import FLOATS, RowArray, RowOptions, rows_in, rows_out
from ckmlir.ops.rows.layout import RowSpec
from ckmlir.ops.rows.operator import RowOperator, RowProblem, stride_keys
from ckmlir.targets import Target


class SoftmaxOptions(RowOptions):
    """Choices of the operator.

    Attributes:
        mask: an array says which elements take part.
    """

    mask: bool

    def arrays(self) -> tuple[RowArray, ...]:
        mask = [rows_in("mask", "i8")] if self.mask else []
        return (rows_in("x", self.dtype), *mask, rows_out("y", self.dtype))


class SoftmaxSpec(SoftmaxOptions, RowSpec):
    """What a softmax kernel's code depends on."""

    kernel: ClassVar[str] = "softmax"


Problem = RowProblem[SoftmaxOptions]


class Softmax(RowOperator[SoftmaxOptions, SoftmaxSpec]):
    """The operator `softmax`, which the module's docstring describes."""

    name = "softmax"
    spec_type = SoftmaxSpec
    options_type = SoftmaxOptions
    numbers = ("scale",)
    keys = (
        Integer("m", 256, "rows"),
        Integer("n", 1024, "elements of a row"),
        Choice("dtype", "f16", "of x and y", FLOATS),
        Real("scale", 1.0, "factor of x"),
        Flag("mask", False, "an i8 array says which elements take part (not 0)"),
        *stride_keys("x", "mask", "y"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        if abs(values["scale"]) * LOG2_E > GREATEST_F32:
            raise RequestError(f"scale={values['scale']:g}: times log2(e) it is not a number that f32 can hold")
        return super()._problem(values)

    def requests(self) -> Iterable[Mapping[str, object]]:
        return [{"dtype": dtype, "mask": mask} for dtype in FLOATS for mask in (False, True)]

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == "mask":
            return np.asarray(generator.integers(0, 4, array.shape) > 0)
        return np.asarray(3 * super()._values(problem, array, generator))

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """y in float64."""
        return {"y": _softmax(_exponents(problem, arrays))}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """First-order bounds. u is f32's unit roundoff, t = scale x, M the row's largest |t|, s the steps of a sum.

        Two roundings of t (by the factor, and by log2 e) and one of the difference make an error of 4 u M of an
        exponent, which is a relative one of the exponential; v_exp_f32 adds an ulp. The sum adds s u, and where maxima
        change on the way their factors add as much again. Then a division and two products. What is below
        LEAST_EXPONENTIAL may be zero.
        """
        exponents, dtype = _exponents(problem, arrays), find_dtype(problem.dtype)
        sizes = np.abs(np.where(np.isfinite(exponents), exponents, 0.0)).max(axis=1, initial=0.0)
        relative = (4 * fold_steps(problem.sizes["n"]) + 16 * sizes + 16) * UNIT
        error = reference["y"] * relative[:, None] + dtype.underflow + LEAST_EXPONENTIAL
        reason = f"f32 exponentials and sum, then half an ulp of {dtype.name}"
        return {"y": Tolerance(dtype.unit_roundoff, error, reason)}


def _exponents(problem: Problem, arrays: Mapping[str, Array]) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        scaled: Array = in_f32(arrays["x"].astype(np.float64) * problem.numbers["scale"] * LOG2_E) / LOG2_E
    return np.where(arrays["mask"] != 0, scaled, -np.inf) if problem.options.mask else scaled


def _softmax(exponents: Array) -> Array:
    largest = exponents.max(axis=1, initial=-np.inf, keepdims=True)
    with np.errstate(invalid="ignore"):  # infinities give NaN, as in the kernel
        powers = np.exp(exponents - np.where(largest == -np.inf, 0.0, largest))
        total = powers.sum(axis=1, keepdims=True)
        found: Array = powers / np.where(total == 0, 1.0, total)
    return found


OPERATOR = Softmax()
