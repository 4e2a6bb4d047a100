"""A contraction in NumPy: the arrays of one product, their product in float64, and what meets it in an expression."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.shuffle import unshuffle_b
from ckmlir.ops.packing import elements
from ckmlir.ops.precision import PRECISIONS, in_f32
from ckmlir.ops.tensors.expression import Expression, parse


def expression_of(problem: Problem) -> Expression:
    """The expression of the epilogue."""
    names = (*problem.accumulators, *(one.name for one in problem.side), "alpha", "beta")
    return parse(problem.op, names)


def arrays_at(problem: Problem, arrays: Mapping[str, Array], place: tuple[int, ...]) -> dict[str, Array]:
    """The arrays of one product of the batch; outputs may be missing."""
    return {
        array.name: arrays[array.name][tuple(
            at if own > 1 else 0 for at, own in zip(place, problem.batch_of(array.name).shape, strict=True)
        )]
        for array in problem.arrays()
        if array.name in arrays
    }  # fmt: skip


def matrices(problem: Problem, arrays: Mapping[str, Array]) -> list[tuple[Array, Array]]:
    """A as (m, k) and each B, less its zero points or times the scales of its elements, as (k, n): of one product."""
    kinds, size = problem.held, (problem.n, problem.k)
    zeros = {one.operand: one.over(arrays[name], *size) for one in problem.scaling for name in one.zero_names}
    scales = {one.operand: one.over(arrays[one.name], *size) for one in problem.scaling if one.of_elements}
    a = elements(arrays["a"], kinds[0].name)
    a = a if problem.layout[0] == "R" else a.T
    found = []
    for name in problem.operands[1:]:
        b = arrays[name]
        if problem.shuffled:
            b = unshuffle_b(b, problem.n, kinds[1].packed_length(problem.k), problem.shuffled)
        b = elements(b, kinds[1].name)
        b = b if problem.layout[1] == "R" else b.T
        b = b - zeros[name].T if name in zeros else b
        found.append((a, b * scales[name].T if name in scales else b))
    return found


def spoilt_columns(problem: Problem, arrays: Mapping[str, Array]) -> Array | bool:
    """Columns of C whose tiles of B are not filled up with numbers beyond k, as they should be: nothing is promised."""
    if not problem.shuffled or problem.held[1].packing is not None:  # packed elements are numbers, all of them
        return False
    found: Array = np.zeros(problem.n, np.bool_)
    for name in problem.operands[1:]:
        b = arrays[name]
        whole = unshuffle_b(b, problem.n, b.shape[1] // problem.shuffled, problem.shuffled)
        found |= ~np.isfinite(whole[:, problem.k :].astype(np.float64)).all(axis=1)
    return found


def product(a: Array, b: Array, dtype: str) -> Array:
    """a · b in float64, infinite where what products of `dtype` are summed in has none so large; of f64 in NumPy's
    longest type.
    """
    double = dtype == "f64"
    wide = np.longdouble if double else np.float64
    c = np.zeros((a.shape[0], b.shape[1]), np.float64)
    step = 1024  # bounds the float64 copies of parts of a and b
    for n in range(0, b.shape[1], step):
        columns = b[:, n : n + step].astype(wide)
        for m in range(0, a.shape[0], step):
            with np.errstate(invalid="ignore", over="ignore"):
                c[m : m + step, n : n + step] = a[m : m + step].astype(wide) @ columns
    return c if double else in_f32(c)


def beside(problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The D tensors of one product, and the numbers, as they meet C."""
    found: dict[str, Array] = {
        name: np.float64(PRECISIONS[problem.computing].number(value))
        for name, value in (("alpha", problem.alpha), ("beta", problem.beta))
    }
    for one in problem.side:
        value = arrays[one.name].astype(np.float64)
        found[one.name] = value[:, None] if one.kind == "column" else value
    return found
