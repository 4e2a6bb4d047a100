"""gemm: C = A·B, accumulated in f32 (floats) or i32 (i8).

Arrays have the shape of memory: `a` is (m, k) where the first letter of the layout is R and (k, m) where it is C; `b`
is (k, n) or (n, k) by the second letter; `c` is (m, n). `lda`, `ldb`, `ldc` are the distances of their rows in
elements. With `shuffled`, `b` holds the same matrix as `shuffle_b` arranges it (`ckmlir.ops.gemm.shuffle`).

Kernel arguments: a, b, c; m, n, k; lda, ldb, ldc (i32). Grid: one dimension, the tiles of C row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ckmlir.ops.choice import chosen_keys, first_valid
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.gemm.defaults import LARGE, MEDIUM, SMALL, Plan, Wish, default_epilogue, default_mfma, plans
from ckmlir.ops.gemm.gemm_spec import (
    EPILOGUES,
    LAYOUTS,
    OUTPUTS,
    PRESHUFFLE,
    GemmSpec,
    invalid_fields,
)  # fmt: skip
from ckmlir.ops.gemm.shuffle import COLUMNS, arrange, shuffled_shape, unshuffle_b, vector_length
from ckmlir.ops.gemm.tolerance import gemm_tolerance
from ckmlir.ops.operator import ArraySpec, Launch, Operator, alignment, array_spec, ceil_div
from ckmlir.ops.request import Choice, Integer, Lengths, RequestError
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.ops.spec import Reason
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE


@dataclass(frozen=True)
class Problem:
    """A product to compute. `block`, `waves`, `mfma`, `epilogue` and `schedule` are None where the operator chooses."""

    m: int
    n: int
    k: int
    dtype: str
    out: str
    layout: str
    lda: int
    ldb: int
    ldc: int
    block: tuple[int, int, int] | None
    waves: tuple[int, int] | None
    mfma: tuple[int, int, int] | None
    epilogue: str | None
    schedule: str | None
    shuffled: int
    """Columns of a tile of B in fragment order; 0: B is a plain matrix."""

    @property
    def a_shape(self) -> tuple[int, int]:
        return (self.m, self.k) if self.layout[0] == "R" else (self.k, self.m)

    @property
    def b_shape(self) -> tuple[int, int]:
        if self.shuffled:
            return shuffled_shape(self.n, self.k, self.shuffled, find_dtype(self.dtype).bytes)
        return (self.k, self.n) if self.layout[1] == "R" else (self.n, self.k)


class Gemm(Operator[Problem, GemmSpec]):
    """See the module's text."""

    name = "gemm"
    summary = "C = A·B, four layouts, any sizes"
    spec_type = GemmSpec
    keys = (
        Integer("m", 512, "rows of C"),
        Integer("n", 512, "columns of C"),
        Integer("k", 512, "length of the sums; 0 gives zeros"),
        Choice("dtype", "f16", "of A and B", tuple(OUTPUTS)),
        Choice(
            "out", None, "of C; by default dtype, or f16 for fp8 and bf8, i32 for i8", ("f16", "bf16", "f32", "i32")
        ),
        Choice("layout", "RCR", "of A, B, C: R rows, C columns are contiguous", LAYOUTS),
        Integer("lda", None, "elements from one row of array a to the next", minimum=1),
        Integer("ldb", None, "elements from one row of array b to the next", minimum=1),
        Integer("ldc", None, "elements from one row of array c to the next", minimum=1),
        Lengths("block", None, "tile m x n x k of a workgroup", 3),
        Lengths("wave", None, "waves of a workgroup along m x n", 2),
        Lengths("mfma", None, "shape m x n x k of the matrix instruction", 3),
        Choice(
            "epilogue",
            None,
            "C through LDS (cshuffle) or straight from the accumulators; by default cshuffle for blocks up to 128x128",
            EPILOGUES,
        ),
        Choice(
            "schedule",
            None,
            "of the K loop; by default compv4 where its buffers fit, else compv3; for shuffled B preshuffle",
            tuple(SCHEDULES),
        ),
        Integer(
            "shuffled",
            None,
            "B in fragment order, by tiles of so many columns: 16 or 32, those of the matrix "
            "instruction; 0: a plain matrix; by default 0, with schedule=preshuffle those of mfma, or 32",
        ),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        dtype = values["dtype"]
        out = values["out"] or OUTPUTS[dtype][0]
        if out not in OUTPUTS[dtype]:
            raise RequestError(f"out={out}: dtype={dtype} gives {' or '.join(OUTPUTS[dtype])}")
        fields = {**values, "out": out, "waves": values["wave"]}
        del fields["wave"]
        fields["shuffled"] = _shuffled(values)
        packed = Problem(**fields)
        # Rows of tiles are whole vectors, also where there are no tiles: what B promises does not depend on K.
        shortest = vector_length(find_dtype(dtype).bytes) if packed.shuffled else 1
        shapes = (("lda", packed.a_shape, 1), ("ldb", packed.b_shape, shortest), ("ldc", (packed.m, packed.n), 1))
        for name, (_, row), least in shapes:
            fields[name] = max(row, least) if values[name] is None else values[name]
            if fields[name] < row:
                wrong = f"rows of array {name[2]} have {row} elements; expected at least that"
                raise RequestError(f"{name}={fields[name]}: {wrong}")
        pitch = max(packed.b_shape[1], shortest)
        if packed.shuffled and fields["ldb"] != pitch:
            right = f"expected {pitch}, or nothing"
            raise RequestError(f"ldb={fields['ldb']}: shuffled tiles of B follow each other without gaps; {right}")
        problem = Problem(**fields)
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: Problem, target: Target) -> GemmSpec:
        """The kernel for a problem: the first plan of `ckmlir.ops.gemm.defaults` that the chip can run."""
        size = find_dtype(problem.dtype).bytes
        a, b, _ = _aligned(problem)
        wish = Wish(
            problem.m, problem.n, problem.k, problem.dtype, problem.layout, min(a, b) * size,
            problem.schedule or (PRESHUFFLE if problem.shuffled else None), problem.block, problem.waves,
        )  # fmt: skip
        candidates = (self._planned(problem, plan, target) for plan in plans(wish, target))
        return first_valid(candidates, lambda one: self.validate(one, target))

    def chosen(self, problem: Problem, spec: GemmSpec) -> dict[str, object]:
        return chosen_keys(
            problem, spec,
            {"block": "block", "wave": "waves", "mfma": "mfma", "epilogue": "epilogue", "schedule": "schedule"},
        )  # fmt: skip

    def _planned(self, problem: Problem, plan: Plan, target: Target) -> GemmSpec:
        schedule, block, waves = plan
        sizes = {"m": problem.m, "n": problem.n, "k": problem.k}
        return GemmSpec(
            dtype=problem.dtype,
            out=problem.out,
            layout=problem.layout,
            block=block,
            waves=waves,
            mfma=problem.mfma or default_mfma(block, waves, problem.dtype, target, problem.shuffled),
            epilogue=problem.epilogue or default_epilogue(block),
            schedule=schedule,
            shuffled=problem.shuffled,
            pad="".join(letter for letter, length in zip(sizes, block, strict=True) if sizes[letter] % length),
            align=_aligned(problem),
        )

    def validate(self, spec: GemmSpec, target: Target) -> list[Reason]:
        return invalid_fields(spec, target)

    def kernels(self, target: Target) -> list[GemmSpec]:
        specs = []
        for dtype, outputs in OUTPUTS.items():
            for out in outputs:
                for layout in LAYOUTS:
                    for size in (SMALL, 8 * MEDIUM, 16 * LARGE):
                        problem = self.problem(m=size, n=size, k=1024, dtype=dtype, out=out, layout=layout)
                        specs.append(self.spec(problem, target))
            problem = self.problem(m=1024, n=1024, k=1024, dtype=dtype, schedule="preshuffle")
            specs.append(self.spec(problem, target))
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (
            array_spec("a", problem.a_shape, problem.dtype, "in", problem.lda),
            array_spec("b", problem.b_shape, problem.dtype, "in", problem.ldb),
            array_spec("c", (problem.m, problem.n), problem.out, "out", problem.ldc),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        shuffled = array.name == "b" and problem.shuffled > 0
        shape = (problem.n, problem.k) if shuffled else array.shape
        values: Array
        if problem.dtype == "i8":
            values = generator.integers(-128, 128, shape, dtype=np.int16)
        else:
            values = generator.standard_normal(shape, dtype=np.float32)
        return arrange(values, problem.shuffled, find_dtype(problem.dtype).bytes) if shuffled else values

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """C in float64, in i32 for i8 (sums beyond its range wrap around, as in the matrix instruction)."""
        a, b = _matrices(problem, arrays)
        c = np.zeros((problem.m, problem.n), np.float64)
        step = 1024  # bounds the float64 copies of A's and B's parts
        for n in range(0, problem.n, step):
            columns = b[:, n : n + step].astype(np.float64)
            for m in range(0, problem.m, step):
                c[m : m + step, n : n + step] = a[m : m + step].astype(np.float64) @ columns
        if problem.out == "i32":
            return {"c": c.astype(np.int64).astype(np.int32)}  # exact: |c| < k * 2^14 < 2^53
        return {"c": c}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        flushes = problem.dtype in ("f16", "bf16") and not target.has("mfma_denormals")
        flushed = find_dtype(problem.dtype).least_normal if flushes else 0.0
        return {"c": gemm_tolerance(*_matrices(problem, arrays), reference["c"], problem.out, flushed)}

    def flops(self, problem: Problem) -> int:
        """A multiplication and an addition for each product."""
        return 2 * problem.m * problem.n * problem.k

    def launch(self, problem: Problem, spec: GemmSpec) -> Launch:
        tiles_m, tiles_n = ceil_div(problem.m, spec.block[0]), ceil_div(problem.n, spec.block[1])
        sizes = (problem.m, problem.n, problem.k, problem.lda, problem.ldb, problem.ldc)
        arguments = ("a", "b", "c", *map(np.int32, sizes))
        # The kernel numbers tiles row by row.
        shape = (tiles_n, tiles_m)
        return Launch((tiles_m * tiles_n, 1, 1), (spec.wave_count * WAVE_SIZE, 1, 1), arguments, shape)


def _aligned(problem: Problem) -> tuple[int, int, int]:
    """Of A, B and C the widest aligned vector that never crosses the end of a row, in elements."""
    a, b = find_dtype(problem.dtype).bytes, find_dtype(problem.out).bytes
    return (
        alignment(a, problem.lda, problem.a_shape[1]),
        alignment(a, problem.ldb, problem.b_shape[1]),
        alignment(b, problem.ldc, problem.n),
    )


def _shuffled(values: Mapping[str, Any]) -> int:
    """Columns of B's tiles in memory, 0 for a plain matrix."""
    asked, mfma = values["shuffled"], values["mfma"]
    if asked is None:
        if values["schedule"] != PRESHUFFLE:
            return 0
        return mfma[1] if mfma is not None and mfma[1] in COLUMNS else max(COLUMNS)
    if asked not in (0, *COLUMNS):
        raise RequestError(f"shuffled={asked}: B is in tiles of 16 or 32 columns, or plain; expected 0, 16 or 32")
    if asked and values["layout"][1] != "C":
        raise RequestError(f"layout={values['layout']}: shuffled B is made of rows along k; expected RCR or CCR")
    return int(asked)


def _matrices(problem: Problem, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """A as (m, k) and B as (k, n), views of the arrays."""
    a, b = arrays["a"], arrays["b"]
    if problem.shuffled:
        b = unshuffle_b(b, problem.n, problem.k, problem.shuffled)
    return (a if problem.layout[0] == "R" else a.T), (b if problem.layout[1] == "R" else b.T)


OPERATOR = Gemm()
