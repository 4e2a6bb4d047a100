"""layernorm2d: y = (x - mean) / sqrt(variance + eps) * gamma + beta, row by row; the variance is the biased one.

With `add`, a residual is added first: x + residual, in f32; `add=store` also stores that sum, rounded to the dtype. The
statistics are those of the unrounded sum (as in CK Tile's layernorm2d_fwd).

Arrays: x (m, n), residual (m, n) with add, gamma (n), beta (n), y (m, n), sum (m, n) with add=store, and with
save_stats mean (m) and inv_std (m) in f32.

Kernel arguments: x, residual, gamma, beta, y, sum, mean, inv_std; m, n (i32); the row strides of x, residual, y, sum
(i32); eps (f32). Those that the specification does not have are left out. Grid: one dimension, blocks of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import DTYPES, find_dtype
from ckmlir.ops.normalization.layernorm2d_spec import (
    ADD,
    FLOATS,
    MAXIMUM_ONE_PASS,
    Layernorm2dSpec,
    choose_spec,
    invalid_fields,
)  # fmt: skip
from ckmlir.ops.operator import ArraySpec, Launch, Operator, alignment, array_spec, ceil_div
from ckmlir.ops.request import Choice, Flag, Integer, Real, RequestError
from ckmlir.ops.spec import Reason
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE


@dataclass(frozen=True)
class Problem:
    """A normalisation to compute; strides are in elements."""

    m: int
    n: int
    dtype: str
    eps: float
    add: str
    save_stats: bool
    x_stride: int
    residual_stride: int
    y_stride: int
    sum_stride: int

    @property
    def row_arrays(self) -> dict[str, int]:
        """The arrays of shape (m, n), in the kernel's order, with their row strides."""
        strides = {"x": self.x_stride, "residual": self.residual_stride, "y": self.y_stride, "sum": self.sum_stride}
        absent = {"none": ("residual", "sum"), "add": ("sum",), "store": ()}[self.add]
        return {name: stride for name, stride in strides.items() if name not in absent}


STRIDE_KEYS = {"stride": "x", "residual_stride": "residual", "ystride": "y", "sum_stride": "sum"}
"""Key -> the array whose row stride it is."""


class Layernorm2d(Operator[Problem, Layernorm2dSpec]):
    """See the module's text."""

    name = "layernorm2d"
    summary = "layer normalisation of rows, with optional residual add and saved statistics"
    spec_type = Layernorm2dSpec
    keys = (
        Integer("m", 256, "rows"),
        Integer("n", 1024, "elements of a row", minimum=1),
        Choice("dtype", "f16", "of x, gamma, beta, y, residual and sum", FLOATS),
        Real("eps", 1e-5, "added to the variance", minimum=0.0),
        Choice("add", "none", "add a residual first (add), and store the sum too (store)", ADD),
        Flag("save_stats", False, "also write mean and inverse deviation, f32"),
        *(
            Integer(key, None, f"elements from one row of {name} to the next", minimum=1)
            for key, name in STRIDE_KEYS.items()
        ),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        n, strides = values["n"], {}
        for key, name in STRIDE_KEYS.items():
            strides[f"{name}_stride"] = n if values[key] is None else values[key]
            if strides[f"{name}_stride"] < n:
                raise RequestError(f"{key}={values[key]}: rows have n={n} elements; expected at least that")
        problem = Problem(**{key: values[key] for key in ("m", "n", "dtype", "eps", "add", "save_stats")}, **strides)
        for key, name in STRIDE_KEYS.items():
            if values[key] is not None and name not in problem.row_arrays:
                raise RequestError(f"{key}={values[key]}: add={problem.add} has no array {name}")
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: Problem, target: Target) -> Layernorm2dSpec:
        align = alignment(find_dtype(problem.dtype).bytes, problem.n, *problem.row_arrays.values())
        return choose_spec(problem.m, problem.n, problem.dtype, problem.add, problem.save_stats, align)

    def validate(self, spec: Layernorm2dSpec, target: Target) -> list[Reason]:
        return invalid_fields(spec, target)

    def kernels(self, target: Target) -> list[Layernorm2dSpec]:
        lengths = [64 << step for step in range(int(math.log2(MAXIMUM_ONE_PASS // 64)) + 1)] + [2 * MAXIMUM_ONE_PASS]
        specs = [
            self.spec(self.problem(m=1024, n=n, dtype=dtype, add=add, save_stats=save_stats), target)
            for dtype in FLOATS
            for add in ADD
            for save_stats in (False, True)
            for n in lengths
        ]
        return [spec for spec in specs if not self.validate(spec, target)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        def rows(name: str, role: str) -> list[ArraySpec]:
            stride = problem.row_arrays.get(name)
            return [] if stride is None else [array_spec(name, (problem.m, problem.n), problem.dtype, role, stride)]

        def statistics(name: str) -> list[ArraySpec]:
            return [array_spec(name, (problem.m,), "f32", "out")] if problem.save_stats else []

        channels = [array_spec(name, (problem.n,), problem.dtype, "in") for name in ("gamma", "beta")]
        inputs = [*rows("x", "in"), *rows("residual", "in"), *channels]
        return (*inputs, *rows("y", "out"), *rows("sum", "out"), *statistics("mean"), *statistics("inv_std"))

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        values: Array = generator.standard_normal(array.shape, dtype=np.float32)
        return {"gamma": 1 + values / 4, "beta": values / 4}.get(array.name, values + 0.5)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Every output in float64."""
        x, mean, _, inv_std = _statistics(problem, arrays)
        gamma, beta = arrays["gamma"].astype(np.float64), arrays["beta"].astype(np.float64)
        with np.errstate(invalid="ignore"):  # without eps, rows of one value are 0 * infinity
            y = (x - mean[:, None]) * inv_std[:, None] * gamma + beta
        everything = {"y": y, "sum": x, "mean": mean, "inv_std": inv_std}
        return {array.name: everything[array.name] for array in self.arrays(problem) if array.role == "out"}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """First-order error bounds of Welford's algorithm in f32, then the rounding to the dtype.

        u is f32's unit roundoff; a work-item sees n/64 elements of a row one after another, and up to eight merges of
        two roundings each combine the lanes and waves, so a statistic goes through s = n/64 + 16 roundings (Chan,
        Golub, LeVeque, "Algorithms for computing the sample variance", 1983, give the same orders):

            mean      s u max|x|
            variance  4 s u σ sqrt(σ² + mean²) + (s u max|x|)²
            inv_std   r (variance error r² / 2 + 2 u), with r = 1 / sqrt(σ² + eps) and v_rsq_f32 right to one ulp
            y         |γ| r (|x - mean| relative error of inv_std + mean error + 2 u max|x|) + 3 u (|y| + |β|)
                      + u_dtype |y|

        Each row has its own bounds, from its largest |x| and |x - mean|.
        """
        x, mean, variance, inv_std = _statistics(problem, arrays)
        u, dtype = find_dtype("f32").unit_roundoff, DTYPES[problem.dtype]
        steps = ceil_div(problem.n, WAVE_SIZE) + 16
        with np.errstate(invalid="ignore"):  # rows of one value without eps have an infinite inverse deviation
            extent, spread = np.abs(x).max(axis=1), np.abs(x - mean[:, None]).max(axis=1)
            mean_error = steps * u * extent
            variance_error = 4 * steps * u * np.sqrt(variance * (variance + mean**2)) + mean_error**2
            inv_std_error = variance_error * inv_std**2 / 2 + 2 * u
            normalised_error = inv_std * (spread * inv_std_error + mean_error + 2 * u * extent)
            gamma, beta = (np.abs(arrays[name].astype(np.float64)) for name in ("gamma", "beta"))
            y_error = gamma * normalised_error[:, None] + 3 * u * (np.abs(reference["y"]) + beta)
            scaled_error = inv_std_error * inv_std
        rounding, stored = dtype.unit_roundoff, f"then half an ulp of {dtype.name}"
        found = {
            "y": Tolerance(rounding, y_error + dtype.underflow, f"Welford in f32 over {steps} steps, {stored}"),
            "sum": Tolerance(rounding + u, dtype.underflow, f"one f32 addition, {stored}"),
            "mean": Tolerance(u, mean_error, f"{steps} f32 roundings of the row's largest element"),
            "inv_std": Tolerance(u, scaled_error, f"half the variance's error over {steps} steps, and v_rsq_f32"),
        }
        return {name: found[name] for name in reference}

    def launch(self, problem: Problem, spec: Layernorm2dSpec) -> Launch:
        strides = [np.int32(stride) for stride in problem.row_arrays.values()]
        names = [array.name for array in self.arrays(problem)]
        scalars = [np.int32(problem.m), np.int32(problem.n), *strides, np.float32(problem.eps)]
        return Launch((ceil_div(problem.m, spec.rows), 1, 1), (spec.wave_count * WAVE_SIZE, 1, 1), (*names, *scalars))


def _statistics(problem: Problem, arrays: Mapping[str, Array]) -> tuple[Array, Array, Array, Array]:
    """x (with the residual), mean, variance and inverse deviation of its rows, in float64."""
    x = arrays["x"].astype(np.float64)
    if problem.add != "none":
        x = x + arrays["residual"].astype(np.float64)
    mean, variance = x.mean(axis=1), x.var(axis=1)
    with np.errstate(divide="ignore"):
        return x, mean, variance, 1 / np.sqrt(variance + problem.eps)


OPERATOR = Layernorm2d()
