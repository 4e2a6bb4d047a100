"""scatter_rows: rows put, or added up, where their numbers say.

    y[ids[i]] = x[i]                              (op=store: of rows with one number any remains)
    y[r]      = sum of x[i] with ids[i] = r       (op=add, in no particular order)

Rows of y that no number names are zeros; a number that is not a row of y is left out.

Memory adds f16 and bf16 in pairs of neighbours, and rounds each addition (`sums=own`). Where n or the stride is odd, or
the chip adds no such pairs (bf16 on gfx90a), rows are added in f32, in a workspace, and a second kernel rounds them
once (`sums=f32`), which a request may ask for too: it is more exact where many rows have one number.

Arrays: x (m, n), ids (m) i32, y (rows, n). Kernel arguments: these, or the workspace for y, then m, n, rows, the stride
of x (i32). Grid: tiles of x, those of a row next to each other; what rows are added to is filled with zeros before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES, ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.sum_parts import OPERATOR as SUM_PARTS
from ckmlir.ops.contraction.sum_parts import sum_over
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.indexed.rows import TILE_ROWS, RowsSpec, column_tiles, read_stride, rows_spec, some_values
from ckmlir.ops.operator import Launch, Operator, Run, Step
from ckmlir.ops.precision import OVERFLOW, UNIT
from ckmlir.ops.request import Choice, Integer, Pitch, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Reason, not_a_choice
from ckmlir.ops.steps import OWN_KERNEL, Fill, Workspace
from ckmlir.ops.tensors.rounding import output_tolerance
from ckmlir.targets import Target

OPS = ("store", "add")
DTYPES = ("f32", "f16", "bf16", "i32")
PAIRS = ("f16", "bf16")
"""Types that memory adds two at a time."""
PAIRED = ("buffer_atomic_pk_add_bf16", "global_atomic_pk_add_bf16")
"""Features of chips that add pairs of bf16; all add pairs of f16."""
SUMS = ("own", "f32")
"""What rows of 16 bits may be added in: y's type, as memory adds them, or f32, rounded once."""
WORKSPACE = "sums"
"""Kernels' name for sums in f32 of other rows."""
LARGEST = {"f32": OVERFLOW, "f16": 65504.0, "bf16": 255 * 2.0**120}
"""Sums of sizes from which on a sum on the way may be infinite."""


class Problem(Struct, frozen=True):
    """m rows of n elements, `stride` elements apart, to go to `rows` rows.

    Attributes:
        sums: what they are added in, None where the chip decides; see `SUMS`.
    """

    m: int
    n: int
    rows: int
    op: str
    dtype: str
    stride: int
    sums: str | None


class ScatterRowsSpec(RowsSpec):
    """What the kernel's code depends on.

    Attributes:
        sums: the type of what it writes to.
    """

    op: str = "store"
    sums: str = "f16"

    kernel = "scatter_rows"

    @property
    def name(self) -> str:
        wide = "" if self.sums == self.dtype else f"_{self.sums}"
        return f"{self.kernel}_{self.op}_{self.dtype}{wide}_align{self.align}"


class ScatterRows(Operator[Problem, ScatterRowsSpec]):
    """The operator `scatter_rows`, which the module's docstring describes."""

    name = "scatter_rows"
    spec_type = ScatterRowsSpec
    keys = (
        Integer("m", 256, "rows of x"),
        Integer("n", 1024, "elements of a row"),
        Integer("rows", 1024, "of y"),
        Choice("op", "add", "what happens to rows with one number", OPS),
        Choice("dtype", "f32", "of x and y", DTYPES),
        Pitch("stride", None, "of the rows of x, in elements; by default n"),
        Choice(
            "sums", None, "what f16 and bf16 are added in: y's type, as memory adds pairs (the default where it does), "
            "or f32", SUMS,
        ),
    )  # fmt: skip

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        m, n, rows, op, dtype, sums = (values[name] for name in ("m", "n", "rows", "op", "dtype", "sums"))
        problem = Problem(m, n, rows, op, dtype, read_stride(values, "stride"), sums)
        if sums and (op != "add" or dtype not in PAIRS):
            raise RequestError(f"sums={sums}: op={op} of {dtype} leaves no choice; expected nothing")
        if sums == "own":
            for name, size in (("n", n), ("stride", problem.stride)):
                if size % 2:
                    raise RequestError(f"{name}={size}: memory adds {dtype} in pairs; expected even, or sums=f32")
        return problem

    def spec(self, problem: Problem, target: Target) -> ScatterRowsSpec:
        found = rows_spec(ScatterRowsSpec, problem.dtype, problem.n, problem.stride)
        sums = "f32" if _is_wide(problem, target) else problem.dtype
        return ScatterRowsSpec(found.dtype, found.align, problem.op, sums)

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
        added = "f32" if _is_wide(problem, target) else problem.dtype
        kind = find_dtype(added)
        errors = counts * (kind.unit_roundoff * sizes + kind.least_normal)
        free = (sizes >= LARGEST[added]) & ~np.isnan(reference["y"])
        what = f"sums rounded to {added} after each addition, in any order"
        if added == problem.dtype:
            return {"y": Tolerance(UNIT, errors, what, free)}
        return {"y": output_tolerance(np.where(free, np.inf, errors), problem.dtype, what, target)}

    def launch(self, problem: Problem, spec: ScatterRowsSpec, target: Target) -> Launch:
        scalars = map(i32, (problem.m, problem.n, problem.rows, problem.stride))
        grid = column_tiles(problem.n, spec) if problem.rows else 0, ceil_div(problem.m, TILE_ROWS), 1
        return Launch(grid, spec.block, ("x", "ids", _written(spec), *scalars))

    def steps(self, problem: Problem, spec: ScatterRowsSpec, target: Target) -> tuple[Step, ...]:
        """Zeros, to which rows are added; and what rounds sums in f32."""
        if self.writes_nothing(problem):
            return (OWN_KERNEL,)
        rows, n, written = problem.rows, problem.n, _written(spec)
        queued: tuple[Step, ...] = (Fill(written, 0), OWN_KERNEL)
        if written != WORKSPACE:
            return queued
        rounded = sum_over(1, (rows, n), spec.sums, (rows * n, n, 1), problem.dtype, (n, 1))
        return (*queued, Run(SUM_PARTS, rounded, {"acc_parts": WORKSPACE, "c": "y"}))

    def workspaces(self, problem: Problem, spec: ScatterRowsSpec, target: Target) -> tuple[Workspace, ...]:
        if _written(spec) != WORKSPACE or self.writes_nothing(problem):
            return ()
        size = problem.rows * problem.n * find_dtype(spec.sums).bytes
        if size > MAXIMUM_ARRAY_BYTES:
            raise RequestError(
                f"rows={problem.rows}: sums in f32 take {size} bytes; kernels address at most {MAXIMUM_ARRAY_BYTES}"
            )
        return (Workspace(WORKSPACE, size),)


def _is_wide(problem: Problem, target: Target) -> bool:
    """Whether rows of 16 bits are added in f32."""
    if problem.op != "add" or problem.dtype not in PAIRS:
        return False
    if problem.sums is not None:
        return problem.sums == "f32"
    adds_pairs = problem.dtype != "bf16" or any(map(target.has, PAIRED))
    return not adds_pairs or problem.n % 2 == 1 or problem.stride % 2 == 1


def _written(spec: ScatterRowsSpec) -> str:
    """The array that rows go to."""
    return "y" if spec.sums == spec.dtype else WORKSPACE


def _invalid(spec: ScatterRowsSpec, target: Target) -> Iterator[Reason]:
    yield from spec.invalid()
    yield from not_a_choice(spec, op=OPS, dtype=DTYPES)
    if spec.sums != spec.dtype and (spec.sums != "f32" or spec.op != "add" or spec.dtype not in PAIRS):
        yield Reason("sums", spec.sums, f"op={spec.op} of {spec.dtype} writes its own type", f"expected {spec.dtype}")
    if spec.op != "add" or spec.sums == "f32":
        return
    if spec.dtype in PAIRS and spec.align % 2:
        yield Reason("align", spec.align, f"memory adds {spec.dtype} in pairs", "expected an even number")
    if spec.dtype == "bf16" and not any(map(target.has, PAIRED)):
        yield Reason("dtype", spec.dtype, target.lacks(PAIRED[1]), "expected another type, or sums=f32")


OPERATOR = ScatterRows()
