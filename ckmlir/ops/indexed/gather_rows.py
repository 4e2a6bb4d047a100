"""gather_rows: rows of a table by their numbers, as an embedding looks them up.

    y[i] = table[ids[i]]

A number that is not a row of the table (negative, or `rows` and beyond) gives a row of zeros.

Arrays: table (rows, n), ids (m) i32, y (m, n). Kernel arguments: these, then rows, m, n, the strides of table and y
(i32). Grid: tiles of y, those of a row next to each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.indexed.rows import (
    DTYPES,
    TILE_ROWS,
    RowsSpec,
    column_tiles,
    read_stride,
    rows_by_number,
    rows_spec,
    some_values,
)  # fmt: skip
from ckmlir.ops.operator import Launch, Operator
from ckmlir.ops.request import Choice, Integer, Pitch
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Reason
from ckmlir.targets import Target


class Problem(Struct, frozen=True):
    """m rows of n elements out of a table; strides in elements from row to row."""

    rows: int
    m: int
    n: int
    dtype: str
    stride: int
    ystride: int


class GatherRowsSpec(RowsSpec):
    """What the kernel's code depends on."""

    kernel = "gather_rows"


class GatherRows(Operator[Problem, GatherRowsSpec]):
    """The operator `gather_rows`, which the module's docstring describes."""

    name = "gather_rows"
    spec_type = GatherRowsSpec
    keys = (
        Integer("rows", 1024, "of the table"),
        Integer("m", 256, "rows that are looked up"),
        Integer("n", 1024, "elements of a row"),
        Choice("dtype", "f16", "of table and y", DTYPES),
        Pitch("stride", None, "of the rows of the table, in elements; by default n"),
        Pitch("ystride", None, "of the rows of y, in elements; by default n"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        strides = [read_stride(values, name) for name in ("stride", "ystride")]
        return Problem(values["rows"], values["m"], values["n"], values["dtype"], *strides)

    def spec(self, problem: Problem, target: Target) -> GatherRowsSpec:
        return rows_spec(GatherRowsSpec, problem.dtype, problem.n, problem.stride, problem.ystride)

    def validate(self, spec: GatherRowsSpec, target: Target) -> list[Reason]:
        return list(spec.invalid())

    def kernels(self, target: Target) -> list[GatherRowsSpec]:
        return [self.spec(self.problem(dtype=dtype), target) for dtype in DTYPES]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (
            array_spec("table", (problem.rows, problem.n), problem.dtype, "in", problem.stride),
            array_spec("ids", (problem.m,), "i32", "in"),
            array_spec("y", (problem.m, problem.n), problem.dtype, "out", problem.ystride),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == "ids":
            return generator.integers(-1, problem.rows + 1, array.shape)
        return some_values(problem.dtype, array.shape, generator)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": rows_by_number(arrays["table"], arrays["ids"])}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        return {"y": Tolerance(0.0, 0.0, "nothing is computed")}

    def launch(self, problem: Problem, spec: GatherRowsSpec, target: Target) -> Launch:
        scalars = map(i32, (problem.rows, problem.m, problem.n, problem.stride, problem.ystride))
        grid = column_tiles(problem.n, spec), ceil_div(problem.m, TILE_ROWS), 1
        return Launch(grid, spec.block, ("table", "ids", "y", *scalars))


OPERATOR = GatherRows()
