"""embedding_bag: sums of k rows of a table each, by their numbers.

    y[i] = table[ids[i, 0]] + table[ids[i, 1]] + … + table[ids[i, k - 1]]

Rows are added in this order, in f32 (i32 for i32), so two runs give the same bits. A number that is not a row of the
table (negative, or `rows` and beyond) adds nothing, and nothing is read for it.

Arrays: table (rows, n), ids (m, k) i32, y (m, n). Kernel arguments: these, then rows, m, k, n, the strides of table and
y (i32). Grid: tiles of y, those of a row next to each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.indexed.rows import RowsSpec, column_tiles, read_stride, rows_by_number, rows_spec, some_values
from ckmlir.ops.operator import Launch, Operator
from ckmlir.ops.precision import OVERFLOW, sum_error
from ckmlir.ops.request import Choice, Integer, Pitch, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Reason, not_a_choice
from ckmlir.ops.tensors.rounding import output_tolerance
from ckmlir.targets import Target

BAG_ROWS = 8
"""Sums of a workgroup: two of each wave."""
OUTPUTS = {"f32": ("f32", "f16", "bf16"), "f16": ("f16", "f32"), "bf16": ("bf16", "f32"), "i32": ("i32",)}
"""Type of the table -> types of y; the first is the default."""


class Problem(Struct, frozen=True):
    """m sums of k rows of n elements; strides in elements from row to row."""

    rows: int
    m: int
    k: int
    n: int
    dtype: str
    out: str
    stride: int
    ystride: int


class EmbeddingBagSpec(RowsSpec):
    """What the kernel's code depends on."""

    out: str = "f16"

    kernel = "embedding_bag"

    @property
    def name(self) -> str:
        return f"{self.kernel}_{self.dtype}_{self.out}_align{self.align}"


class EmbeddingBag(Operator[Problem, EmbeddingBagSpec]):
    """The operator `embedding_bag`, which the module's docstring describes."""

    name = "embedding_bag"
    spec_type = EmbeddingBagSpec
    keys = (
        Integer("rows", 1024, "of the table"),
        Integer("m", 256, "sums"),
        Integer("k", 4, "rows of each sum"),
        Integer("n", 1024, "elements of a row"),
        Choice("dtype", "f16", "of the table", tuple(OUTPUTS)),
        Choice("out", None, "of y; by default dtype", OUTPUTS["f32"] + OUTPUTS["i32"]),
        Pitch("stride", None, "of the rows of the table, in elements; by default n"),
        Pitch("ystride", None, "of the rows of y, in elements; by default n"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        strides = [read_stride(values, name) for name in ("stride", "ystride")]
        rows, m, k, n, dtype = (values[name] for name in ("rows", "m", "k", "n", "dtype"))
        out = values["out"] or OUTPUTS[dtype][0]
        if out not in OUTPUTS[dtype]:
            raise RequestError(f"out={out}: sums of {dtype} are {' or '.join(OUTPUTS[dtype])}; expected one of these")
        return Problem(rows, m, k, n, dtype, out, *strides)

    def spec(self, problem: Problem, target: Target) -> EmbeddingBagSpec:
        found = rows_spec(EmbeddingBagSpec, problem.dtype, problem.n, problem.stride, problem.ystride)
        return EmbeddingBagSpec(found.dtype, found.align, problem.out)

    def validate(self, spec: EmbeddingBagSpec, target: Target) -> list[Reason]:
        return list(_invalid(spec))

    def kernels(self, target: Target) -> list[EmbeddingBagSpec]:
        return [self.spec(self.problem(dtype=dtype), target) for dtype in OUTPUTS]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (
            array_spec("table", (problem.rows, problem.n), problem.dtype, "in", problem.stride),
            array_spec("ids", (problem.m, problem.k), "i32", "in"),
            array_spec("y", (problem.m, problem.n), problem.out, "out", problem.ystride),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == "ids":
            return generator.integers(-1, problem.rows + 1, array.shape)
        return some_values(problem.dtype, array.shape, generator)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": _sums(problem, arrays, arrays["table"])}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        if problem.dtype == "i32":
            return {"y": Tolerance(0.0, 0.0, "integers wrap around, and are exact")}
        table = arrays["table"].astype(np.float64)
        sizes = _sums(problem, arrays, np.nan_to_num(np.abs(table), posinf=0))
        beyond = (sizes >= OVERFLOW) & ~np.isnan(reference["y"])
        errors = np.where(beyond, np.inf, sum_error(max(problem.k - 1, 0), sizes))
        return {"y": output_tolerance(errors, problem.out, f"{problem.k} f32 additions", target)}

    def launch(self, problem: Problem, spec: EmbeddingBagSpec, target: Target) -> Launch:
        sizes = problem.rows, problem.m, problem.k, problem.n, problem.stride, problem.ystride
        grid = column_tiles(problem.n, spec), ceil_div(problem.m, BAG_ROWS), 1
        return Launch(grid, spec.block, ("table", "ids", "y", *map(i32, sizes)))


def _sums(problem: Problem, arrays: Mapping[str, Array], table: Array) -> Array:
    """In float64, or in i32."""
    exact = np.int32 if problem.dtype == "i32" else np.float64
    rows = rows_by_number(table.astype(exact), arrays["ids"])
    total = np.zeros((problem.m, problem.n), exact)
    with np.errstate(invalid="ignore", over="ignore"):
        for slot in range(problem.k):
            total = total + rows[:, slot]
    return total


def _invalid(spec: EmbeddingBagSpec) -> Iterator[Reason]:
    yield from spec.invalid()
    yield from not_a_choice(spec, dtype=OUTPUTS)
    if spec.dtype in OUTPUTS:
        yield from not_a_choice(spec, out=OUTPUTS[spec.dtype])


OPERATOR = EmbeddingBag()
