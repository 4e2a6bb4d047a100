"""rmsnorm2d: y = x / sqrt(mean(x²) + eps) * gamma, row by row.

What is added to x before, and how y is quantised after, is common to all normalisations: `norm.py`. The statistics are
those of the unrounded sum. With t5 (CK Tile's "model sensitive" mode, after T5's layer norm) results are rounded where
a framework without fusion rounds them: the sum to the dtype before the statistics, the normalised row to the dtype
before gamma, and for bf16 the product again.

Arrays: x (m, n), residual (m, n) with add, bias (n), gamma (n), smooth (n, f32) with quant=smooth; y (m, n), sum (m, n)
with add=store, q (m, n) and yscale (m, f32) with quant, inv_rms (m) in f32 with save_stats. Each is a kernel argument
in this order where there is it; then m, n, row strides and eps.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np

from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.normalization.norm import Norm, Normalized, NormOptions, NormSpec, norm_keys
from ckmlir.ops.precision import DENORMAL, UNIT, fold_steps, rows_of_numbers, through_jumps
from ckmlir.ops.request import LEAST_NORMAL_F32, Flag
from ckmlir.ops.rows.arrays import RowArray, channels_in
from ckmlir.ops.rows.operator import RowProblem
from ckmlir.targets import get_target


class Rmsnorm2dOptions(NormOptions):
    """Choices of an RMS normalisation.

    Attributes:
        t5: round to the dtype where a framework without fusion does.
    """

    t5: bool

    def arrays(self) -> tuple[RowArray, ...]:
        return (*self.summands(), channels_in("gamma", self.dtype), *self.finished("inv_rms"))


class Rmsnorm2dSpec(Rmsnorm2dOptions, NormSpec):
    """What an rmsnorm2d kernel's code depends on."""

    kernel: ClassVar[str] = "rmsnorm2d"


class Rmsnorm2d(Norm[Rmsnorm2dOptions, Rmsnorm2dSpec]):
    """The operator `rmsnorm2d`, which the module's docstring describes."""

    name = "rmsnorm2d"
    spec_type = Rmsnorm2dSpec
    options_type = Rmsnorm2dOptions
    keys = norm_keys(1e-5, "added to the mean square", Flag("t5", False, "round to the dtype between the steps"))

    def normalized(
        self, problem: RowProblem[Rmsnorm2dOptions], arrays: Mapping[str, Array], x: Array, x_error: Array
    ) -> Normalized:
        """`rms_normalized`; with t5 through the roundings between the steps."""
        gamma, n = arrays["gamma"].astype(np.float64), problem.sizes["n"]
        if not problem.options.t5:
            return rms_normalized(x, x_error, gamma, n, problem.numbers["eps"])
        rounded = partial(_rounded, problem.dtype)
        x, x_error = rounded(x), through_jumps(x, x_error, rounded)
        plain = rms_normalized(x, x_error, np.ones(n), n, problem.numbers["eps"])
        y, y_error = rounded(plain.y), through_jumps(plain.y, plain.y_error, rounded)
        y, y_error = y * gamma, y_error * np.abs(gamma) + UNIT * np.abs(y * gamma)
        if problem.dtype == "bf16":
            y, y_error = rounded(y), through_jumps(y, y_error, rounded)
        return plain._replace(y=y, y_error=y_error)


def rms_normalized(x: Array, x_error: Array, gamma: Array, n: int, eps: float) -> Normalized:
    """RMS normalisation in float64, and first-order error bounds of the sums in f32.

    u is f32's unit roundoff; the sum of squares goes through s roundings (`fold_steps`), all of one sign:

        mean square   (s + 2) u relative
        inv_rms r     relative error of the mean square / 2 + 2 u, with v_rsq_f32 right to one ulp
        y             |γ| r |x| (relative error of r + 3 u), and |γ| r times the error of x

    and what is lost where results are denormal.
    """
    relative = (fold_steps(n) + 2) * UNIT / 2 + 2 * UNIT
    x = rows_of_numbers(x)
    with np.errstate(invalid="ignore", divide="ignore"):  # rows of zeros without eps
        square = np.square(x).sum(axis=1) / max(n, 1)  # 0 of a row without elements
        inv_rms = 1 / np.sqrt(square + eps)
        given = x_error.max(axis=1, initial=0.0) * np.sqrt(square) * inv_rms**2  # the sum's errors within the square
        y = x * inv_rms[:, None] * gamma
        y_error = np.abs(y) * (relative + given + 3 * UNIT)[:, None] + x_error * inv_rms[:, None] * np.abs(gamma)
        y_error += (1 + np.abs(gamma)) * LEAST_NORMAL_F32
    return Normalized(y, y_error, {"inv_rms": inv_rms}, {"inv_rms": inv_rms * (relative + given) + DENORMAL})


def _rounded(dtype: str, values: Array) -> Array:
    with np.errstate(over="ignore"):
        found: Array = values.astype(numpy_dtype(dtype, get_target("gfx950"))).astype(np.float64)
    return found


OPERATOR = Rmsnorm2d()
