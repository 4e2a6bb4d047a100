"""segment_sum: the sums of the rows of each segment, where memory says where segments begin.

    y[s] = x[offsets[s]] + … + x[offsets[s + 1] - 1]

Offsets never fall and lie between 0 and m; a segment without rows gives zeros. Rows are added in f32 (i32 wraps
around), in an order that depends on the segment's length alone.

Arrays: x (m, n), offsets (segments + 1) i32, y (segments, n). Kernel arguments: these, then m, n, segments, the strides
of x and y (i32). Grid: segments, column tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.indexed.rows import RowsSpec, column_tiles, read_stride, rows_spec, some_values
from ckmlir.ops.operator import Launch, Operator
from ckmlir.ops.precision import OVERFLOW, sum_error
from ckmlir.ops.request import Choice, Integer, Pitch
from ckmlir.ops.scalars import i32
from ckmlir.ops.spec import Reason, not_a_choice
from ckmlir.targets import Target

DTYPES = ("f32", "f16", "bf16", "i32")


class Problem(Struct, frozen=True):
    """m rows of n elements in segments; strides in elements from row to row."""

    m: int
    n: int
    segments: int
    dtype: str
    stride: int
    ystride: int


class SegmentSumSpec(RowsSpec):
    """What the kernel's code depends on."""

    kernel = "segment_sum"


class SegmentSum(Operator[Problem, SegmentSumSpec]):
    """The operator `segment_sum`, which the module's docstring describes."""

    name = "segment_sum"
    spec_type = SegmentSumSpec
    keys = (
        Integer("m", 256, "rows of x"),
        Integer("n", 1024, "elements of a row"),
        Integer("segments", 16, "rows of y"),
        Choice("dtype", "f32", "of x and y", DTYPES),
        Pitch("stride", None, "of the rows of x, in elements; by default n"),
        Pitch("ystride", None, "of the rows of y, in elements; by default n"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        strides = [read_stride(values, name) for name in ("stride", "ystride")]
        return Problem(values["m"], values["n"], values["segments"], values["dtype"], *strides)

    def spec(self, problem: Problem, target: Target) -> SegmentSumSpec:
        return rows_spec(SegmentSumSpec, problem.dtype, problem.n, problem.stride, problem.ystride)

    def validate(self, spec: SegmentSumSpec, target: Target) -> list[Reason]:
        return list(_invalid(spec))

    def kernels(self, target: Target) -> list[SegmentSumSpec]:
        return [self.spec(self.problem(dtype=dtype), target) for dtype in DTYPES]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (
            array_spec("x", (problem.m, problem.n), problem.dtype, "in", problem.stride),
            array_spec("offsets", (problem.segments + 1,), "i32", "in"),
            array_spec("y", (problem.segments, problem.n), problem.dtype, "out", problem.ystride),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == "offsets":
            return np.sort(generator.integers(0, problem.m + 1, array.shape))
        return some_values(problem.dtype, array.shape, generator)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        exact = np.int32 if problem.dtype == "i32" else np.float64
        return {"y": _sums(arrays["x"].astype(exact), arrays["offsets"])}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        if problem.dtype == "i32":
            return {"y": Tolerance(0.0, 0.0, "integers wrap around, and are exact")}
        x, offsets = arrays["x"].astype(np.float64), arrays["offsets"]
        sizes = _sums(np.nan_to_num(np.abs(x), posinf=0), offsets)
        nan = np.isnan(_sums(np.where(np.isnan(x), np.nan, 0.0), offsets))
        errors = sum_error(np.diff(offsets)[:, None], sizes)
        rounded = find_dtype(problem.dtype).unit_roundoff
        return {"y": Tolerance(rounded, errors, "f32 sums in any order, rounded", (sizes >= OVERFLOW) & ~nan)}

    def launch(self, problem: Problem, spec: SegmentSumSpec, target: Target) -> Launch:
        scalars = map(i32, (problem.m, problem.n, problem.segments, problem.stride, problem.ystride))
        return Launch((problem.segments, column_tiles(problem.n, spec), 1), spec.block, ("x", "offsets", "y", *scalars))


def _sums(x: Array, offsets: Array) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        sums = [x[begin:end].sum(0, dtype=x.dtype) for begin, end in pairwise(offsets.tolist())]
    return np.array(sums, x.dtype).reshape(len(offsets) - 1, x.shape[1])


def _invalid(spec: SegmentSumSpec) -> Iterator[Reason]:
    yield from spec.invalid()
    yield from not_a_choice(spec, dtype=DTYPES)


OPERATOR = SegmentSum()
