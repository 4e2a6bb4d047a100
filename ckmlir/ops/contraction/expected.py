"""What a product is to be, and how far off its kernels may be. Imported when numbers are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.reference import beside, expression_of, matrices, product, spoilt_columns
from ckmlir.ops.contraction.tolerance import gemm_tolerance, magnitudes, overflowing_parts, rounded_parts, widened
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.precision import PRECISIONS
from ckmlir.ops.tensors.expression import evaluate_exactly
from ckmlir.ops.tensors.rounding import Bounded, bounded_error, output_tolerance
from ckmlir.targets import Target


def outcome(problem: Problem, arrays: Mapping[str, Array]) -> Array:
    """C of one product, from its arrays, before it is rounded."""
    products = [product(*pair, problem.dtype) for pair in matrices(problem, arrays)]
    if problem.op:
        variables = {**dict(zip(problem.accumulators, products, strict=True)), **beside(problem, arrays)}
        precision = PRECISIONS[problem.computing]
        return np.asarray(evaluate_exactly(expression_of(problem), variables, precision=precision))
    # Exact for i8: |c| < k * 2^14 < 2^53.
    return products[0].astype(np.int64).astype(np.int32) if problem.out == "i32" else products[0]


def tolerance_of(
    problem: Problem, arrays: Mapping[str, Array], reference: Array, target: Target, moved: Array | float, added: int
) -> Tolerance:
    """How far C of one product may be off: `moved` is how far sums are, since A and B are; `added` how many parts of
    them memory adds up.
    """
    spoilt = spoilt_columns(problem, arrays)
    flushes = problem.dtype in ("f16", "bf16") and not target.has("mfma_denormals")
    flushed = find_dtype(problem.dtype).least_normal if flushes else 0.0
    pairs = matrices(problem, arrays)
    if not problem.op:
        found = gemm_tolerance(*pairs[0], reference, problem.out, problem.dtype, flushed, added)
        return widened(found, moved, spoilt)
    variables = {name: Bounded(value, 0.0) for name, value in beside(problem, arrays).items()}
    for name, (a, b) in zip(problem.accumulators, pairs, strict=True):
        total = product(a, b, problem.dtype)
        if problem.dtype == "i8":
            error = np.abs(total) * 2.0**-24 + moved  # exact in i32, then rounded to f32
        else:
            sums = gemm_tolerance(a, b, total, problem.computing, problem.dtype, flushed)
            error = moved + sums.atol + sums.rtol * np.where(np.isfinite(total), np.abs(total), 0.0)
            error = np.where(sums.unspecified, np.inf, error)
        variables[name] = Bounded(total, error)
    bound = bounded_error(expression_of(problem), variables, PRECISIONS[problem.computing])
    error = np.broadcast_to(bound, reference.shape)
    if added > 1:
        error = error + rounded_parts(reference, added, problem.out)
        sizes = _magnitudes_of_parts(problem, variables, pairs)
        error = np.where(overflowing_parts(sizes, reference, added, problem.out), np.inf, error)
    what = f"sums of {problem.k} products as CK Tile bounds them, then {problem.op} in {problem.computing}"
    return output_tolerance(np.where(spoilt, np.inf, error), problem.out, what, target)


def _magnitudes_of_parts(
    problem: Problem, beside: Mapping[str, Bounded], pairs: Sequence[tuple[Array, Array]]
) -> Array:
    """What the magnitudes of all terms of an expression add up to, which is linear in the accumulators."""
    sizes: Array = np.float64(0.0)
    for name, pair in zip(problem.accumulators, pairs, strict=True):
        values = {other: np.float64(0.0) for other in problem.accumulators}
        values |= {other: one.value for other, one in beside.items() if other not in values}
        values[name] = magnitudes(*pair)
        sizes = sizes + np.abs(evaluate_exactly(expression_of(problem), values, precision=PRECISIONS["f64"]))
    return sizes
