"""gemm_int4: C = op(A·B) of floats A and 4-bit integers B with scales, which become floats on their way into LDS.

    B[n, k] = (integer[n, k] - zero[n, k // group]) * scale[n, k // group]

in f32, rounded to `dtype`, in which products are taken. Integers are from -8 to 7, or with `b_dtype=u4` from 0 to 15,
two in a byte, the first of two along k in the low half (CK Tile's pk_int4; example 18_flatmm, a16w4). Scales and, where
`zeros` asks for them, zero points are of groups of 32, 64 or 128 elements along k; the last group may be shorter.

Arrays: a0 (m, k) as A in `gemm`; b0 (n, k / 2) uint8, with `shuffled` its bytes in fragment order, as `shuffle_b` has
them, or, where n is contiguous in `layout`, (k, n / 2), two neighbours along n in a byte; b1 (n, groups) scales, b2
(n, groups) zero points, of `scale`; D tensors, c. Kernel arguments: as in `gemm_multi_abd`. Where 16 times a scale
or a zero point is beyond f32, or an element of B beyond f16, or in bf16 2^100, nothing is promised of the column;
elements of bf16 below 2^-126 may count as zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.block_sizes import MEDIUM, SMALL
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.keys import (
    PLAN_KEYS,
    SHUFFLED,
    SIZES,
    SPLIT_KEYS,
    TYPE_KEYS,
    check_sizes,
    expression_keys,
    read_problem,
)
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.shuffle import arrange
from ckmlir.ops.contraction.sources import GROUPS, Source
from ckmlir.ops.dtypes import HALF_BYTES, PACKED_INTEGERS
from ckmlir.ops.gemm.gemm_multi_abd import GemmMultiABD
from ckmlir.ops.request import Choice, Flag, Pitch, RequestError
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target

DTYPES = ("f16", "bf16")
SCALES = ("f16", "bf16", "f32")
LENGTHS = {f"1x{length}": form for form, length in GROUPS.items()}


class GemmInt4(GemmMultiABD):
    """The operator `gemm_int4`, which the module's docstring describes."""

    name = "gemm_int4"
    listed: ClassVar[tuple[dict[str, Any], ...]] = ({"zeros": 0}, {"zeros": 1})
    """Of what varieties kernels are listed."""
    keys = (
        *SIZES,
        Choice("dtype", "f16", "of A", DTYPES),
        Choice("b_dtype", "i4", "of B: integers from -8 to 7, or from 0 to 15", PACKED_INTEGERS),
        *(key for key in TYPE_KEYS if key.name in ("out", "layout")),
        Choice("b_scale", "1x128", "columns of B, and elements along K, that share a scale", tuple(LENGTHS)),
        Choice("scale", None, "type of scales and zero points; by default dtype", SCALES),
        Flag("zeros", False, "each group has a zero point"),
        Pitch("lda", None, "elements from one row of array a0 to the next", minimum=1, of=("m", "k")),
        Pitch("ldb", None, "bytes from one row of array b0 to the next", minimum=1, of=("n", "k")),
        Pitch("ld_scale", None, "elements from one row of b1, and of b2, to the next", minimum=1),
        Pitch("ldc", None, "elements from one row of array c to the next", minimum=1),
        *PLAN_KEYS,
        *SPLIT_KEYS,
        SHUFFLED,
        *expression_keys(None),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        problem = read_problem({**values, "ldb": None, "b_dtype": None})
        k, form = problem.k, LENGTHS[values["b_scale"]]
        shared = "k" if problem.layout[1] == "C" else "n"
        if values[shared] % 2:
            raise RequestError(
                f"{shared}={values[shared]}: two elements share a byte of rows of array b0; expected an even number"
            )
        bare = (
            Source("a0", problem.dtype, "along_k" if problem.layout[0] == "R" else "across_k", problem.lda),
            _elements(values["b_dtype"], problem, values["ldb"]),
            *(
                Source(name, values["scale"] or problem.dtype, form,
                       _pitch("ld_scale", values["ld_scale"], ceil_div(k, GROUPS[form])))
                for name in ("b1", "b2")[: 1 + values["zeros"]]
            ),
        )  # fmt: skip
        combine = ("a0", "(b0 - b2) * b1" if values["zeros"] else "b0 * b1")
        return check_sizes(replace(problem, sources=bare, combine=combine))

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.dtype in HALF_BYTES:
            if not problem.shuffled:
                return generator.integers(0, 256, array.shape, dtype=np.uint8)
            codes = generator.integers(0, 256, (problem.n, problem.k // 2), dtype=np.uint8)
            return arrange(codes, problem.shuffled, 1)
        if array.name == "b1":
            return generator.uniform(0.125, 0.5, array.shape)
        if array.name == "b2":
            return generator.integers(-4, 5, array.shape)
        return super()._values(problem, array, generator)

    def kernels(self, target: Target) -> list[ContractionSpec]:
        problems = [
            self.problem(m=size, n=size, k=1024, dtype=dtype, **one)
            for dtype in DTYPES
            for size in (SMALL, 8 * MEDIUM)
            for one in self.listed
        ]
        problems += [self.problem(m=SMALL, n=8 * MEDIUM, k=1024, dtype=dtype, shuffled=32) for dtype in DTYPES]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]


def _elements(dtype: str, problem: Problem, given: int | None) -> Source:
    """B's. Raises RequestError for a distance of rows that does not fit."""
    form = f"tiles_of_{problem.shuffled}" if problem.shuffled else "along_k" if problem.layout[1] == "C" else "across_k"
    bare = Source("b0", dtype, form, 1)
    row = bare.shape(problem.n, problem.k)[1]
    if problem.shuffled and given not in (None, row):
        raise RequestError(f"ldb={given}: shuffled tiles of B follow each other without gaps; expected {row}")
    return replace(bare, pitch=_pitch("ldb", given, row))


def _pitch(key: str, given: int | None, row: int) -> int:
    """The distance of rows. Raises RequestError for one that is shorter than a row."""
    pitch = max(row, 1) if given is None else given
    if pitch < row:
        raise RequestError(f"{key}={pitch}: a row has {row}; expected at least that")
    return pitch


OPERATOR = GemmInt4()
