"""mx_gemm: C = op(scaled A · scaled B) with a power of two for every 32 elements along K, CK Tile's example 42.

A and B are of 8-bit floats, their scales e8m0 (OCP Microscaling Formats): code c is 2^(c - 127), 255 is NaN. gfx950's
matrix instructions scale their operands by themselves. Elsewhere, or with an instruction that does not, sums of 32
products are scaled and added in f32, which is as exact.

Arrays: a, b as in `gemm`; scale_a (m, groups), scale_b (n, groups), a group being 32 elements along K, the last one
maybe less; with `a_major=rows` (groups, m). Then D tensors, c.

Kernel arguments: as in `gemm_quant`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.defaults import MEDIUM, SMALL
from ckmlir.ops.contraction.keys import PLAN_KEYS, SHUFFLED, SIZES, check_sizes, expression_keys, read_problem
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.scaling import POWERS
from ckmlir.ops.gemm.gemm_quant import RESULT_KEYS, SCALE_KEYS, GemmQuant, scale_of
from ckmlir.ops.operator import ArraySpec
from ckmlir.ops.request import Choice
from ckmlir.targets import Target
from ckmlir.targets.mfma import SCALED_BLOCK

DTYPES = ("fp8", "bf8")
LARGEST_EXPONENT = 3


class MxGemm(GemmQuant):
    """See the module's text."""

    name = "mx_gemm"
    summary = "C = op(A·B) of 8-bit floats with a power of two for every 32 elements along K"
    keys = (
        *SIZES,
        Choice("dtype", "fp8", "of A and B", DTYPES),
        *RESULT_KEYS,
        *SCALE_KEYS,
        *PLAN_KEYS,
        SHUFFLED,
        *expression_keys("acc"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
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
        problems = [self.problem(m=size, n=size, k=1024, dtype=one) for one in DTYPES for size in (SMALL, 8 * MEDIUM)]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]


OPERATOR = MxGemm()
