"""mx_gemm: C = op(scaled A · scaled B) with a power of two for every 32 elements along K, CK Tile's example 42.

A and B are of 8-bit floats, or packed ones of 6 or 4 bits (fp4, fp6, bf6), each of a type of its own; their scales are
e8m0 (OCP Microscaling Formats): code c is 2^(c - 127), 255 is NaN. gfx950's matrix instructions scale their operands by
themselves. Elsewhere, or with an instruction that does not, sums of 32 products are scaled and added in f32, which is
as exact; what the chip does not multiply, packed elements and on gfx942 two of them or of 8 bits, becomes f16 on its
way to LDS, which holds all of them.

Arrays: a, b as in `gemm`, of packed elements their bytes (`ckmlir.ops.packing`), which rows fill, along K or across it
(`layout`); lda and ldb count elements; scale_a (m, groups), scale_b (n, groups), a group being 32 elements along K, the
last one maybe less; with `a_major=rows` (groups, m); with `a_major=tiles` in tiles of 16 rows and 4 groups, which
instructions load best; with `a_major=tiles2x2` in those of aiter, of 32 rows and 8 groups
(`ckmlir.ops.contraction.scale_tiles`). Nothing is promised where NaN fills tiles up. Then D tensors, c.

Kernel arguments: as in `gemm_quant`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    check_packed,
    check_sizes,
    expression_keys,
    read_problem,
)
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.scaling import ORDERS, POWERS
from ckmlir.ops.dtypes import PACKED_FLOATS
from ckmlir.ops.gemm.gemm_quant import RESULT_KEYS, SCALE_PITCHES, GemmQuant, scale_of
from ckmlir.ops.request import Choice
from ckmlir.targets import Target
from ckmlir.targets.mfma import SCALED_BLOCK

DTYPES = ("fp8", "bf8", *PACKED_FLOATS)
LARGEST_EXPONENT = 3
LISTED = (("fp8", "fp8"), ("bf8", "bf8"), ("fp6", "fp6"), ("fp4", "fp4"), ("fp8", "fp4"))
"""Types of A and B whose kernels are listed."""


class MxGemm(GemmQuant):
    """The operator `mx_gemm`, which the module's docstring describes."""

    name = "mx_gemm"
    keys = (
        *SIZES,
        Choice("dtype", "fp8", "of A and, unless b_dtype says otherwise, B", DTYPES),
        Choice("b_dtype", None, "of B; default: dtype", DTYPES),
        *RESULT_KEYS,
        Choice("a_major", "k", "along what scales of A follow each other, or in which tiles they lie", ORDERS),
        Choice("b_major", "k", "along what those of B do; rows: along its columns", ORDERS),
        *SCALE_PITCHES,
        *PLAN_KEYS,
        SHUFFLED,
        *expression_keys("acc"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        check_packed(values, (values["dtype"], values["b_dtype"] or values["dtype"]))
        problem = read_problem(values)
        shared = (1, SCALED_BLOCK)
        scaling = (
            scale_of("a", shared, values, problem.m, problem.k, POWERS),
            scale_of("b", shared, values, problem.n, problem.k, POWERS),
        )
        return check_sizes(replace(problem, split_k=1, scaling=scaling))

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.dtype != POWERS:
            return super()._values(problem, array, generator)
        return np.exp2(generator.integers(-LARGEST_EXPONENT, LARGEST_EXPONENT + 1, array.shape))

    def kernels(self, target: Target) -> list[ContractionSpec]:
        sizes = [{"m": size, "n": size, "k": 1024} for size in (SMALL, 8 * MEDIUM)]
        problems = [self.problem(**size, dtype=a, b_dtype=b) for a, b in LISTED for size in sizes]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]


OPERATOR = MxGemm()
