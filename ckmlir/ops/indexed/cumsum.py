"""cumsum: running sums along the rows or columns of a matrix.

    y[i, j] = x[i, 0] + … + x[i, j]   (along rows)        y[i, j] = x[0, j] + … + x[i, j]   (along columns)

`exclusive` leaves the element itself out: sums begin with 0. `totals` also gives the sum of all, one for each row or
column. Floating-point numbers are added in f32, in an order that depends on the shape alone; i32 wraps around.

Arrays: x (m, n), y (m, n), totals (m or n, f32 or i32) if asked for. Kernel arguments: these, then m, n, the strides of
x and y (i32). Grid: tiles of rows or columns, along which a workgroup walks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.indexed.rows import read_stride
from ckmlir.ops.operator import NOTHING, Launch, Operator
from ckmlir.ops.precision import OVERFLOW, sum_error
from ckmlir.ops.request import Choice, Flag, Integer, Pitch
from ckmlir.ops.scalars import ceil_div, gcd, i32
from ckmlir.ops.spec import Algorithm, Reason, Spec, not_a_choice
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

WAVES = 4
VECTOR = 4
AXES = {"rows": 1, "columns": 0}
"""Along rows the column changes."""
TILES = {"rows": (WAVES, WAVE_SIZE * VECTOR), "columns": (256, 16)}
DTYPES = ("f32", "f16", "bf16", "i32")


class Problem(Struct, frozen=True):
    """A matrix and a direction; strides in elements from row to row."""

    m: int
    n: int
    along: str
    dtype: str
    exclusive: bool
    totals: bool
    stride: int
    ystride: int

    @property
    def axis(self) -> int:
        """The dimension that sums run along."""
        return AXES[self.along]

    @property
    def computed(self) -> str:
        """The type of sums."""
        return "i32" if self.dtype == "i32" else "f32"


class CumsumSpec(Spec):
    """What the kernel's code depends on; `align`: what divides the columns and strides, in elements."""

    dtype: str
    along: str
    exclusive: bool
    totals: bool
    align: Algorithm[int]

    @property
    def name(self) -> str:
        options = [name for name in ("exclusive", "totals") if getattr(self, name)]
        return "_".join(["cumsum", self.dtype, self.along, *options, f"align{self.align}"])


class Cumsum(Operator[Problem, CumsumSpec]):
    """The operator `cumsum`, which the module's docstring describes."""

    name = "cumsum"
    spec_type = CumsumSpec
    keys = (
        Integer("m", 256, "rows"),
        Integer("n", 1024, "columns"),
        Choice("along", "rows", "the direction of sums", tuple(AXES)),
        Choice("dtype", "f32", "of x and y", DTYPES),
        Flag("exclusive", False, "without the element itself"),
        Flag("totals", False, "the sum of all as well"),
        Pitch("stride", None, "of the rows of x, in elements; by default n"),
        Pitch("ystride", None, "of the rows of y, in elements; by default n"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        strides = [read_stride(values, name) for name in ("stride", "ystride")]
        names = ("dtype", "exclusive", "totals")
        return Problem(values["m"], values["n"], values["along"], *(values[name] for name in names), *strides)

    def spec(self, problem: Problem, target: Target) -> CumsumSpec:
        align = gcd(VECTOR, problem.n, problem.stride, problem.ystride)
        return CumsumSpec(problem.dtype, problem.along, problem.exclusive, problem.totals, align)

    def validate(self, spec: CumsumSpec, target: Target) -> list[Reason]:
        return list(_invalid(spec))

    def kernels(self, target: Target) -> list[CumsumSpec]:
        requests: list[dict[str, object]] = [
            {"dtype": "i32", "along": "columns", "exclusive": 1, "totals": 1},
        ]
        requests += [{"dtype": dtype, "along": along} for dtype in DTYPES for along in AXES]
        return [self.spec(self.problem(**request), target) for request in requests]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        shape = problem.m, problem.n
        totals = array_spec("totals", (shape[1 - problem.axis],), problem.computed, "out")
        return (
            array_spec("x", shape, problem.dtype, "in", problem.stride),
            array_spec("y", shape, problem.dtype, "out", problem.ystride),
            *([totals] if problem.totals else ()),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if problem.dtype == "i32":
            return generator.integers(-1000, 1001, array.shape)
        return generator.standard_normal(array.shape, dtype=np.float32)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return _sums(problem, arrays["x"].astype(np.int32 if problem.dtype == "i32" else np.float64))

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        if problem.dtype == "i32":
            return dict.fromkeys(reference, Tolerance(0.0, 0.0, "integers wrap around, and are exact"))
        x = arrays["x"].astype(np.float64)
        sizes = _sums(problem, np.nan_to_num(np.abs(x), posinf=0))
        nan = _sums(problem, np.where(np.isnan(x), np.nan, 0.0))
        steps, found = max(x.shape[problem.axis], 1), {}
        for name, size in sizes.items():
            rounded = find_dtype(problem.dtype if name == "y" else "f32").unit_roundoff
            free = (size >= OVERFLOW) & ~np.isnan(nan[name])
            found[name] = Tolerance(rounded, sum_error(steps, size), "f32 sums in any order, rounded", free)
        return found

    def launch(self, problem: Problem, spec: CumsumSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        across = 1 - problem.axis
        tiles = ceil_div((problem.m, problem.n)[across], TILES[problem.along][across])
        names = [array.name for array in self.arrays(problem)]
        scalars = map(i32, (problem.m, problem.n, problem.stride, problem.ystride))
        return Launch((tiles, 1, 1), (WAVES * WAVE_SIZE, 1, 1), (*names, *scalars))


def _sums(problem: Problem, x: Array) -> dict[str, Array]:
    with np.errstate(invalid="ignore", over="ignore"):
        sums = np.cumsum(x, problem.axis, dtype=x.dtype)
        found = {"y": sums}
        if problem.exclusive:
            found["y"] = np.zeros_like(sums)
            after, before = (np.moveaxis(one, problem.axis, 0) for one in (found["y"], sums))
            after[1:] = before[:-1]
        if problem.totals:
            found["totals"] = x.sum(problem.axis, dtype=x.dtype)
    return found


def _invalid(spec: CumsumSpec) -> Iterator[Reason]:
    yield from not_a_choice(spec, dtype=DTYPES, along=tuple(AXES), align=(1, 2, VECTOR))


OPERATOR = Cumsum()
