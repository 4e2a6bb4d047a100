"""scatter_rows: rows put, or added up, where their numbers say.

    y[ids[i]] = x[i]                              (op=store: of rows with one number any remains)
    y[r]      = sum of x[i] with ids[i] = r       (op=add, in no particular order)

Rows of y that no number names are zeros; a number that is not a row of y is left out. f16 and bf16 are added in pairs
of neighbours, so that n and the stride are even; gfx90a adds no bf16.

Arrays: x (m, n), ids (m) i32, y (rows, n). Kernel arguments: these, then m, n, rows, the stride of x (i32).
Grid: tiles of x, those of a row next to each other; y is filled with zeros before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.indexed.rows import TILE_ROWS, RowsSpec, column_tiles, read_stride, rows_spec, some_values
from ckmlir.ops.operator import ArraySpec, Launch, Operator, Step, array_spec, ceil_div
from ckmlir.ops.precision import OVERFLOW, UNIT
from ckmlir.ops.request import Choice, Integer, Pitch, RequestError
from ckmlir.ops.scalars import i32
from ckmlir.ops.spec import Reason, not_a_choice
from ckmlir.ops.steps import OWN_KERNEL, Fill
from ckmlir.targets import Target

OPS = ("store", "add")
DTYPES = ("f32", "f16", "bf16", "i32")
PAIRS = ("f16", "bf16")
"""Types that memory adds two at a time."""
LARGEST = {"f32": OVERFLOW, "f16": 65504.0, "bf16": 255 * 2.0**120}
"""Sums of sizes from which on a sum on the way may be infinite."""
LEAST = {"f32": 2.0**-126, "f16": 2.0**-14, "bf16": 2.0**-126}
"""The smallest normal numbers."""


@dataclass(frozen=True)
class Problem:
    """m rows of n elements, `stride` elements apart, to go to `rows` rows."""

    m: int
    n: int
    rows: int
    op: str
    dtype: str
    stride: int


@dataclass(frozen=True)
class ScatterRowsSpec(RowsSpec):
    """What the kernel's code depends on."""

    op: str = "store"

    kernel = "scatter_rows"

    @property
    def name(self) -> str:
        return f"{self.kernel}_{self.op}_{self.dtype}_align{self.align}"


class ScatterRows(Operator[Problem, ScatterRowsSpec]):
    """The operator `scatter_rows`, which the module's docstring describes."""

    name = "scatter_rows"
    summary = "rows stored or added where their numbers say"
    spec_type = ScatterRowsSpec
    keys = (
        Integer("m", 256, "rows of x"),
        Integer("n", 1024, "elements of a row"),
        Integer("rows", 1024, "of y"),
        Choice("op", "add", "what happens to rows with one number", OPS),
        Choice("dtype", "f32", "of x and y", DTYPES),
        Pitch("stride", None, "of the rows of x, in elements; by default n"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        m, n, rows, op, dtype = (values[name] for name in ("m", "n", "rows", "op", "dtype"))
        problem = Problem(m, n, rows, op, dtype, read_stride(values, "stride"))
        if problem.op == "add" and problem.dtype in PAIRS:
            for name, size in (("n", problem.n), ("stride", problem.stride)):
                if size % 2:
                    raise RequestError(f"{name}={size}: memory adds {problem.dtype} in pairs; expected an even number")
        return problem

    def spec(self, problem: Problem, target: Target) -> ScatterRowsSpec:
        found = rows_spec(ScatterRowsSpec, problem.dtype, problem.n, problem.stride)
        return ScatterRowsSpec(found.dtype, found.align, problem.op)

    def validate(self, spec: ScatterRowsSpec, target: Target) -> list[Reason]:
        return list(_invalid(spec, target))

    def kernels(self, target: Target) -> list[ScatterRowsSpec]:
        found = [self.spec(self.problem(dtype=dtype, op=op), target) for op in OPS for dtype in DTYPES]
        return [spec for spec in found if not self.validate(spec, target)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (
            array_spec("x", (problem.m, problem.n), problem.dtype, "in", problem.stride),
            array_spec("ids", (problem.m,), "i32", "in"),
            array_spec("y", (problem.rows, problem.n), problem.dtype, "out"),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name != "ids":
            return some_values(problem.dtype, array.shape, generator)
        ids = generator.integers(-1, problem.rows + 1, array.shape)
        if problem.op == "store":  # different ones: two stores to one row are a race
            first = min(problem.m, 2 * problem.rows + 2)
            numbers = generator.choice(2 * problem.rows + 2, first, replace=False) - 1
            ids[:] = -1
            ids[:first] = numbers
        return ids

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        x, ids = arrays["x"], arrays["ids"]
        exact = x.astype(np.int64 if problem.dtype.startswith("i") else np.float64)
        y = np.zeros((problem.rows, problem.n), exact.dtype)
        own = np.flatnonzero((ids >= 0) & (ids < problem.rows))
        with np.errstate(invalid="ignore"):
            if problem.op == "add":
                np.add.at(y, ids[own], exact[own])
            else:
                y[ids[own]] = exact[own]
        return {"y": y.astype(np.int32) if problem.dtype == "i32" else y}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Each of the c additions to an element rounds to its type, in any order: c u sum|x| (Higham, "Accuracy and
        Stability of Numerical Algorithms", 4.2). What is denormal may be flushed."""
        ids = arrays["ids"]
        counts = np.bincount(ids[(ids >= 0) & (ids < problem.rows)], minlength=problem.rows)[:, None]
        if problem.op == "store":
            free = np.broadcast_to(counts > 1, reference["y"].shape)
            return {"y": Tolerance(0.0, 0.0, "nothing is computed", free)}
        if problem.dtype == "i32":
            return {"y": Tolerance(0.0, 0.0, "integers wrap around, and are exact")}
        x = np.nan_to_num(np.abs(arrays["x"].astype(np.float64)), posinf=0)
        sizes = self.reference(problem, {"x": x, "ids": ids})["y"]
        errors = counts * (find_dtype(problem.dtype).unit_roundoff * sizes + LEAST[problem.dtype])
        free = (sizes >= LARGEST[problem.dtype]) & ~np.isnan(reference["y"])
        return {"y": Tolerance(UNIT, errors, "sums rounded to their type after each addition, in any order", free)}

    def launch(self, problem: Problem, spec: ScatterRowsSpec, target: Target) -> Launch:
        scalars = map(i32, (problem.m, problem.n, problem.rows, problem.stride))
        grid = column_tiles(problem.n, spec) if problem.rows else 0, ceil_div(problem.m, TILE_ROWS), 1
        return Launch(grid, spec.block, ("x", "ids", "y", *scalars))

    def steps(self, problem: Problem, spec: ScatterRowsSpec, target: Target) -> tuple[Step, ...]:
        return (OWN_KERNEL,) if self.writes_nothing(problem) else (Fill("y", 0), OWN_KERNEL)


def _invalid(spec: ScatterRowsSpec, target: Target) -> Iterator[Reason]:
    yield from spec.invalid()
    yield from not_a_choice(spec, op=OPS, dtype=DTYPES)
    if spec.op != "add":
        return
    if spec.dtype in PAIRS and spec.align % 2:
        yield Reason("align", spec.align, f"memory adds {spec.dtype} in pairs", "expected an even number")
    features = ("buffer_atomic_pk_add_bf16", "global_atomic_pk_add_bf16")
    if spec.dtype == "bf16" and not any(map(target.has, features)):
        yield Reason("dtype", spec.dtype, target.lacks(features[1]), "expected another type")


OPERATOR = ScatterRows()
