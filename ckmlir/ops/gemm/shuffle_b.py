"""shuffle_b: B in fragment order, as `flatmm` and `gemm` with `shuffled` take it, from B as a plain matrix.

The order is that of `ckmlir.ops.contraction.shuffle`, whose NumPy function does the same on the host; CK Tile shuffles
weights like this before example/ck_tile/18_flatmm. Elements of 1, 2, 4 or 8 bytes are moved unchanged; incomplete tiles
are filled up with zeros. Of i4, u4 and fp4, two in a byte, `b` is the matrix of bytes: dtype=i8 and half of k.

Arrays: b (n, k), or (k, n) by `layout`, rows `ldb` elements apart; shuffled, packed, of `shuffled_shape`.

Kernel arguments: b, shuffled; n, k, ldb (i32). Grid: one dimension, blocks of B row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, alignment, array_spec, require_reachable
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.shuffle import COLUMNS, shuffle_b, shuffled_shape
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Launch, Operator
from ckmlir.ops.request import Choice, Integer, Pitch, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Algorithm, Reason, Spec, no_such_float, not_a_choice, not_powers_of_two, unlike
from ckmlir.ops.tensors.values import moved_values
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

DTYPES = ("f16", "bf16", "fp8", "bf8", "i8", "f32", "f64")
ROWS, DEPTH_BYTES, WAVES = 64, 256, 4
"""Of the block of B that a workgroup moves: columns of C, bytes along K."""


class ShuffleProblem(Struct, frozen=True):
    """A matrix to shuffle; `columns` of a tile."""

    n: int
    k: int
    dtype: str
    layout: str
    pitch: int
    columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """Of B in memory."""
        return (self.n, self.k) if self.layout == "C" else (self.k, self.n)

    @property
    def block(self) -> tuple[int, int]:
        """What a workgroup moves."""
        return ROWS, DEPTH_BYTES // find_dtype(self.dtype).bytes


class ShuffleSpec(Spec):
    """What the kernel's code depends on; `align`: elements that divide where B's rows begin and end."""

    dtype: str
    layout: str
    columns: int
    align: Algorithm[int]

    @property
    def name(self) -> str:
        return f"shuffle_b_{self.dtype}_{self.layout.lower()}_{self.columns}_align{self.align}"


class ShuffleB(Operator[ShuffleProblem, ShuffleSpec]):
    """The operator `shuffle_b`, which the module's docstring describes."""

    name = "shuffle_b"
    spec_type = ShuffleSpec
    keys = (
        Integer("n", 512, "columns of C"),
        Integer("k", 512, "length of the sums"),
        Choice("dtype", "f16", "of B", DTYPES),
        Choice("layout", "C", "of B: C as (n, k), R as (k, n)", ("C", "R")),
        Pitch("ldb", None, "elements from one row of array b to the next", minimum=1, of=("n", "k")),
        Integer("columns", 32, "of a tile: 16 or 32, those of the matrix instruction", minimum=1),
    )

    def _problem(self, values: Mapping[str, Any]) -> ShuffleProblem:
        if values["columns"] not in COLUMNS:
            raise RequestError(f"columns={values['columns']}: expected 16 or 32, those of a matrix instruction")
        least = max(values["k"] if values["layout"] == "C" else values["n"], 1)
        pitch = values["ldb"] or least
        if pitch < least:
            raise RequestError(f"ldb={pitch}: rows of array b have {least} elements; expected at least that")
        problem = ShuffleProblem(values["n"], values["k"], values["dtype"], values["layout"], pitch, values["columns"])
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: ShuffleProblem, target: Target) -> ShuffleSpec:
        align = alignment(find_dtype(problem.dtype).bytes, problem.pitch, problem.shape[1])
        return ShuffleSpec(problem.dtype, problem.layout, problem.columns, align)

    def validate(self, spec: ShuffleSpec, target: Target) -> list[Reason]:
        reasons = list(not_a_choice(spec, dtype=DTYPES, layout=("C", "R"), columns=COLUMNS))
        reasons += not_powers_of_two(spec, "align")
        if not reasons and spec.align * find_dtype(spec.dtype).bytes > 16:
            reasons.append(Reason("align", spec.align, "a vector is wider than 16 bytes", "expected less"))
        return [*reasons, *no_such_float("dtype", spec.dtype, target)]

    def mismatches(self, problem: ShuffleProblem, spec: ShuffleSpec, target: Target) -> list[Reason]:
        reasons = list(unlike(spec, dtype=problem.dtype, layout=problem.layout, columns=problem.columns))
        if self.spec(problem, target).align % spec.align:
            reasons.append(Reason("align", spec.align, "rows of array b are not aligned so", "expected less"))
        return reasons

    def kernels(self, target: Target) -> list[ShuffleSpec]:
        problems = [
            self.problem(dtype=dtype, layout=layout, columns=columns)
            for dtype in ("f16", "bf16", "fp8")
            for layout in "CR"
            for columns in COLUMNS
        ]
        specs = (self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]

    def arrays(self, problem: ShuffleProblem) -> tuple[ArraySpec, ...]:
        shuffled = shuffled_shape(problem.n, problem.k, problem.columns, find_dtype(problem.dtype).bytes)
        return (
            array_spec("b", problem.shape, problem.dtype, "in", problem.pitch),
            array_spec("shuffled", shuffled, problem.dtype, "out"),
        )

    def _values(self, problem: ShuffleProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return moved_values(array, generator)

    def reference(self, problem: ShuffleProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The NumPy function's."""
        b = arrays["b"] if problem.layout == "C" else arrays["b"].T
        return {"shuffled": shuffle_b(b, problem.columns).astype(np.float64)}

    def tolerances(
        self, problem: ShuffleProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Elements are moved."""
        return {"shuffled": Tolerance(0.0, 0.0, "elements are moved unchanged")}

    def launch(self, problem: ShuffleProblem, spec: ShuffleSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        rows = problem.block[0 if problem.layout == "C" else 1]
        if problem.shape[0] % rows:
            require_reachable("ldb", problem.pitch, rows, self.arrays(problem)[0])
        blocks = [ceil_div(length, step) for length, step in zip((problem.n, problem.k), problem.block, strict=True)]
        scalars = map(i32, (problem.n, problem.k, problem.pitch))
        return Launch((prod(blocks), 1, 1), (WAVES * WAVE_SIZE, 1, 1), ("b", "shuffled", *scalars))


OPERATOR = ShuffleB()
