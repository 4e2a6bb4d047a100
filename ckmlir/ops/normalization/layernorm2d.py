"""layernorm2d: y = (x - mean) / sqrt(variance + eps) * gamma + beta, row by row; the variance is the biased one.
A row without elements has mean and variance 0.

What is added to x before, and how y is quantised after, is common to all normalisations: `norm.py`. The statistics are
those of the unrounded sum (as in CK Tile's layernorm2d_fwd).

Arrays: x (m, n), residual (m, n) with add, bias (n), gamma (n), beta (n), smooth (n, f32) with quant=smooth; y (m, n),
sum (m, n) with add=store, q (m, n) and yscale (m, f32) with quant, mean (m) and inv_std (m) in f32 with save_stats.
Each is a kernel argument in this order where there is it; then m, n, row strides and eps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ckmlir.ops.comparison import Array
from ckmlir.ops.normalization.norm import Norm, Normalized, NormOptions, NormSpec, norm_keys
from ckmlir.ops.precision import DENORMAL, UNIT, fold_steps, rows_of_numbers
from ckmlir.ops.request import LEAST_NORMAL_F32, Choice
from ckmlir.ops.rows.arrays import RowArray, channels_in
from ckmlir.ops.rows.layout import MAXIMUM_WHOLE
from ckmlir.ops.rows.operator import RowProblem

VARIANCE = ("centred", "welford", "squares")


class Layernorm2dOptions(NormOptions):
    """Choices of a layer normalisation.

    Attributes:
        variance: from deviations of the mean (centred), by Welford's updates and merges, or from the mean of squares.
    """

    variance: str

    def choices(self) -> dict[str, tuple[object, ...]]:
        return {**super().choices(), "variance": VARIANCE}

    def arrays(self) -> tuple[RowArray, ...]:
        channels = [channels_in(name, self.dtype) for name in ("gamma", "beta")]
        return (*self.summands(), *channels, *self.finished("mean", "inv_std"))


class Layernorm2dSpec(Layernorm2dOptions, NormSpec):
    """What a layernorm2d kernel's code depends on."""

    kernel: ClassVar[str] = "layernorm2d"


class Layernorm2d(Norm[Layernorm2dOptions, Layernorm2dSpec]):
    """The operator `layernorm2d`, which the module's docstring describes."""

    name = "layernorm2d"
    spec_type = Layernorm2dSpec
    options_type = Layernorm2dOptions
    keys = norm_keys(
        1e-5,
        "added to the variance",
        Choice(
            "variance", None, "centred (default of rows in registers), welford (of longer ones) or squares", VARIANCE
        ),
    )

    def _choices(self, values: Mapping[str, Any]) -> dict[str, Any]:
        own = "welford" if values["n"] > MAXIMUM_WHOLE else "centred"
        return {**super()._choices(values), "variance": values["variance"] or own}

    def normalized(
        self, problem: RowProblem[Layernorm2dOptions], arrays: Mapping[str, Array], x: Array, x_error: Array
    ) -> Normalized:
        """First-order error bounds of the sums in f32.

        u is f32's unit roundoff; a statistic goes through s roundings (`fold_steps`; Chan, Golub, LeVeque, "Algorithms
        for computing the sample variance", 1983, give the same orders):

            mean      s u max|x|
            variance  4 s u σ sqrt(σ² + mean²) + (s u max|x|)², from squares 3 s u (σ² + mean²)
            inv_std   r (variance error r² / 2 + 2 u), with r = 1 / sqrt(σ² + eps) and v_rsq_f32 right to one ulp
            y         |γ| r (|x - mean| relative error of inv_std + mean error + 2 u max|x|) + 3 u (|y| + |β|)

        and what is lost where results are denormal.

        Each row has its own bounds, from its largest |x| and |x - mean|. Without eps a row of equal numbers is divided
        by what rounding leaves of its variance; only one of zeros has none for sure.
        """
        gamma, beta = (arrays[name].astype(np.float64) for name in ("gamma", "beta"))
        steps, n, x = fold_steps(problem.sizes["n"]), problem.sizes["n"], rows_of_numbers(x)
        with np.errstate(invalid="ignore", divide="ignore"):  # rows of one value without eps
            mean = x.sum(axis=1) / max(n, 1)
            centred = x - mean[:, None]
            variance = np.square(centred).sum(axis=1) / max(n, 1)
            inv_std = 1 / np.sqrt(variance + problem.numbers["eps"])
            y = centred * inv_std[:, None] * gamma + beta
            extent, spread = (np.abs(part).max(axis=1, initial=0.0) for part in (x, centred))
            given_error = x_error.max(axis=1, initial=0.0)
            mean_error = steps * UNIT * extent + given_error + DENORMAL
            variance_error = 4 * steps * UNIT * np.sqrt(variance * (variance + mean**2)) + mean_error**2
            variance_error += 2 * given_error * np.sqrt(variance)
            if problem.options.variance == "squares":
                variance_error += 3 * steps * UNIT * (variance + mean**2)
            relative = variance_error * inv_std**2 / 2 + 2 * UNIT
            row_error = inv_std * (spread * relative + mean_error + given_error + 2 * UNIT * extent)
            y_error = np.abs(gamma) * row_error[:, None] + 3 * UNIT * (np.abs(y) + np.abs(beta))
            y_error += (1 + np.abs(gamma)) * LEAST_NORMAL_F32
            errors = {"mean": mean_error, "inv_std": relative * inv_std + DENORMAL}
        undecided = np.isinf(inv_std) & (extent > 0)
        return Normalized(y, y_error, {"mean": mean, "inv_std": inv_std}, errors, undecided)


OPERATOR = Layernorm2d()
