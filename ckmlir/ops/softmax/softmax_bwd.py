"""softmax_bwd: the gradient of `softmax` from dy and y, its result, row by row, in f32.

    dx = scale y (dy - sum of dy y)

It holds for any mask, of which y tells all: where it is 0, so is dx, unless dy is not finite.

Arrays: y (m, n), dy (m, n); dx (m, n). They are the kernel's arguments in this order; then m, n, row strides and scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.precision import fold_steps
from ckmlir.ops.request import Choice, Integer, Real
from ckmlir.ops.rows.arrays import FLOATS, RowArray, RowOptions, rows_in, rows_out
from ckmlir.ops.rows.layout import RowSpec
from ckmlir.ops.rows.operator import RowOperator, RowProblem, stride_keys
from ckmlir.ops.tensors.rounding import Bounded, bounded, bounded_sum, output_tolerance
from ckmlir.targets import Target


class SoftmaxBwdOptions(RowOptions):
    """Choices of the operator; it has none but the element type."""

    def arrays(self) -> tuple[RowArray, ...]:
        return (rows_in("y", self.dtype), rows_in("dy", self.dtype), rows_out("dx", self.dtype))


class SoftmaxBwdSpec(SoftmaxBwdOptions, RowSpec):
    """What a softmax_bwd kernel's code depends on."""

    kernel: ClassVar[str] = "softmax_bwd"


Problem = RowProblem[SoftmaxBwdOptions]


class SoftmaxBwd(RowOperator[SoftmaxBwdOptions, SoftmaxBwdSpec]):
    """The operator `softmax_bwd`, which the module's docstring describes."""

    name = "softmax_bwd"
    spec_type = SoftmaxBwdSpec
    options_type = SoftmaxBwdOptions
    numbers = ("scale",)
    keys = (
        Integer("m", 256, "rows"),
        Integer("n", 1024, "elements of a row"),
        Choice("dtype", "f16", "of y, dy and dx", FLOATS),
        Real("scale", 1.0, "factor that x had"),
        *stride_keys("y", "dy", "dx"),
    )

    def requests(self) -> Iterable[Mapping[str, object]]:
        return [{"dtype": dtype} for dtype in FLOATS]

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        values = super()._values(problem, array, generator)
        if array.name != "y":
            return values
        powers = np.exp(values)
        found: Array = powers / powers.sum(axis=1, keepdims=True)
        return found

    def _found(self, problem: Problem, arrays: Mapping[str, Array]) -> Bounded:
        """dx, and how far f32 may be from it: a sum of a row, and the roundings of the expressions."""
        given = {name: Bounded(one.astype(np.float64), 0.0) for name, one in arrays.items()}
        total = bounded_sum(bounded("dy * y", given), 1, fold_steps(problem.sizes["n"]))
        given |= {"total": Bounded(total.value[:, None], total.error[:, None])}
        scale = float(np.float32(problem.numbers["scale"]))
        return bounded("y * (dy - total) * scale", {**given, "scale": Bounded(scale, 0.0)})

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """dx in float64, infinite where f32 is on the way."""
        return {"dx": self._found(problem, arrays).value}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """The bound of `_found`, then half an ulp of the element type."""
        error = np.broadcast_to(self._found(problem, arrays).error, reference["dx"].shape)
        return {"dx": output_tolerance(error, problem.dtype, "f32 sums and arithmetic", target)}


OPERATOR = SoftmaxBwd()
