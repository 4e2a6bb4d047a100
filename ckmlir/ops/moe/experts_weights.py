"""Products of floats A by matrices of elements of 4 bits with scales, which become A's type before they are multiplied:
their arithmetic, which is that of `gemm_fp4` and `gemm_int4`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.reference import matrices
from ckmlir.ops.contraction.scaling import POWERS, Scale
from ckmlir.ops.contraction.sources import Source, combined, moved_sums, rounded
from ckmlir.ops.gemm.gemm import Gemm
from ckmlir.targets import Target

LARGEST_EXPONENT = 3
"""Of made-up powers of two."""
LARGEST_ZERO = 4
"""Of made-up zero points."""


class WeightsGemm(Gemm):
    """Products of one expert's rows with its matrices. No request names it."""

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name in {name for one in problem.scaling for name in one.zero_names}:
            return generator.integers(-LARGEST_ZERO, LARGEST_ZERO + 1, array.shape)
        if array.name not in {one.name for one in problem.scaling}:
            return super()._values(problem, array, generator)
        if array.dtype == POWERS:
            return np.exp2(generator.integers(-LARGEST_EXPONENT, LARGEST_EXPONENT + 1, array.shape))
        return generator.uniform(0.125, 0.5, array.shape)

    def expected(self, problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        """That of the product of the matrices that the chip multiplies."""
        return super().expected(*as_multiplied(problem, arrays, target), target)

    def _tolerance(
        self,
        problem: Problem,
        arrays: Mapping[str, Array],
        reference: Array,
        target: Target,
        moved: Array | float = 0.0,
        added: int | None = None,
    ) -> Tolerance:
        """As of any product, and what the rounding of B's elements makes of it, and their errors before it."""
        a = matrices(problem, arrays)[0][0].astype(np.float64)
        made, worst = dict(arrays), np.zeros((problem.m, problem.n))
        for one in problem.scaling:
            made[one.operand], error = _multiplied(problem, one, arrays, target)
            worst = np.maximum(worst, moved_sums(a, np.zeros(a.shape), made[one.operand], error))
        return super()._tolerance(_plain(problem), made, reference, target, worst + moved, added)


def as_multiplied(
    problem: Problem, arrays: Mapping[str, Array], target: Target
) -> tuple[Problem, Mapping[str, Array]]:
    """A product and its arrays, of the matrices that the chip multiplies; as they are where no elements have scales."""
    scales = [one for one in problem.scaling if one.of_elements]
    made = {one.operand: _multiplied(problem, one, arrays, target)[0] for one in scales}
    return (_plain(problem), {**arrays, **made}) if made else (problem, arrays)


def _multiplied(problem: Problem, scale: Scale, arrays: Mapping[str, Array], target: Target) -> tuple[Array, Array]:
    """A matrix B (n, k) as the chip multiplies it, and how far its elements may be from that."""
    form = f"tiles_of_{problem.shuffled}" if problem.shuffled else "along_k" if problem.layout[1] == "C" else "across_k"
    size, names = (problem.n, problem.k), dict(zip(("b1", "b2"), (scale.name, *scale.zero_names), strict=False))
    sources = (Source("b0", problem.b_dtype, form, 1), *(Source(own, scale.dtype, "along_k", 1) for own in names))
    given = {"b0": arrays[scale.operand], **{own: scale.over(arrays[name], *size) for own, name in names.items()}}
    op = "(b0 - b2) * b1" if scale.zeros else "b0 * b1"
    found = combined(op, sources, given, size, problem.computing, problem.dtype)
    return rounded(*found, problem.dtype, target)


def _plain(problem: Problem) -> Problem:
    """The product of matrices (m, k) and (n, k) of A's type."""
    ld = {"lda": problem.k, "ldb": problem.k}
    return replace(problem, b_dtype="", layout=f"{problem.layout[0]}CR", scaling=(), shuffled=0, **ld)


OPERATOR = WeightsGemm()
