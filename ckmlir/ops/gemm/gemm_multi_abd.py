"""gemm_multi_abd: C = op(A·B, D0, …) with A = a_op(a0, a1, …) and B = b_op(b0, b1, …), CK Tile's example 22.

`a_op` and `b_op` are expressions of up to four arrays each, computed in f32 (of f64 in f64) as they are loaded and
rounded to `dtype`, in which they are multiplied; 8-bit types saturate. With `b_dtype` one of A and B becomes fp8 and
the other bf8. An array has a type (`a_types`, by default its operand's), a form (`a_kind`: full, or one number for each
m or k, or one for all; of B n takes the place of m), a layout where it is full (`a_layout`: R or C, by default the
letter of `layout`) and a distance of its rows, or of its numbers (`lda`), of its own. Arrays that lie otherwise than
most of their operand are loaded in narrower accesses.

Arrays: a0, a1, …, b0, b1, …, D tensors, c; everything else is as in `gemm`.

Kernel arguments: a0, a1, …, b0, b1, …; m, n, k; their distances, those of c and D tensors (i32); then as in `gemm`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.block_sizes import MEDIUM, SMALL
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.keys import (
    PAIR_KEYS,
    PLAN_KEYS,
    SIZES,
    SPLIT_KEYS,
    check_sizes,
    expression_keys,
    read_problem,
)
from ckmlir.ops.contraction.operator import ContractionOperator
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.side import TYPES
from ckmlir.ops.contraction.sources import MOST, NAMES, ROWS, combined, letter_of, moved_sums, read_sources, rounded
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.list_keys import Numbers, Words
from ckmlir.ops.request import Key, Pitch
from ckmlir.ops.tensors.expression_key import ExpressionKey
from ckmlir.ops.tensors.values import moved_values
from ckmlir.targets import Target

LARGEST_INTEGER = 8
"""Inputs of integer arrays, so that products of several stay within the range of f16."""


def _keys_of(operand: str, default: str) -> tuple[Key, ...]:
    whole = operand.upper()
    kinds = ("full", ROWS[operand], "k", "scalar")
    return (
        ExpressionKey(f"{operand}_op", default, f"what {whole} is, from up to {MOST} arrays", NAMES[operand]),
        Words(f"{operand}_types", None, f"of the arrays {operand}_op names; by default dtype, or b_dtype", TYPES, MOST),
        Words(f"{operand}_kind", None, f"of those arrays: as {whole}, or one number for each of these", kinds, MOST),
        Words(f"{operand}_layout", None, f"of those that are full; by default {whole}'s of layout", ("R", "C"), MOST),
        Numbers(f"ld{operand}", None, "elements from one row of those arrays to the next; 0: packed", most=MOST),
    )


class GemmMultiABD(ContractionOperator):
    """The operator `gemm_multi_abd`, which the module's docstring describes."""

    name = "gemm_multi_abd"
    keys = (
        *SIZES,
        *PAIR_KEYS,
        *_keys_of("a", "a0 + a1"),
        *_keys_of("b", "b0 * b1"),
        Pitch("ldc", None, "elements from one row of array c to the next", minimum=1),
        *PLAN_KEYS,
        *SPLIT_KEYS,
        *expression_keys("acc * d0 * d1"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        problem = read_problem({**values, "lda": None, "ldb": None})
        sizes = {"a": problem.m, "b": problem.n}
        sources = tuple(
            source
            for operand, letter, kind in zip("ab", problem.layout, problem.held, strict=False)
            for source in read_sources(
                operand, values[f"{operand}_op"], values, sizes[operand], problem.k, kind.name, letter,
                problem.computing,
            )
        )  # fmt: skip
        lie = [
            letter_of([one for one in sources if one.operand == operand], letter)
            for operand, letter in zip("ab", problem.layout, strict=False)
        ]
        combine = (values["a_op"], values["b_op"])
        return check_sizes(replace(problem, layout="".join(lie) + problem.layout[2], sources=sources, combine=combine))

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if find_dtype(array.dtype).is_integer and array.name in problem.operands:
            return generator.integers(-LARGEST_INTEGER, LARGEST_INTEGER, array.shape)
        return moved_values(array, generator)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """That of the product of what the expressions come to, before anything is rounded."""
        if not problem.sources:
            return super().reference(problem, arrays)
        operands = {name: _operand(problem, name, arrays)[0] for name in "ab"}
        return super().reference(_plain(problem), {**arrays, **operands})

    def expected(self, problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        """That of the product of what the expressions come to, rounded to the type in which it is multiplied."""
        operands = {name: _rounded(problem, name, arrays, target)[0] for name in "ab"}
        return super().expected(_plain(problem), {**arrays, **operands}, target)

    def _tolerance(
        self,
        problem: Problem,
        arrays: Mapping[str, Array],
        reference: Array,
        target: Target,
        moved: Array | float = 0.0,
        added: int | None = None,
    ) -> Tolerance:
        """As of any product, and what it makes of the errors of A and B: these differ from the reference's by a step of
        the rounding where it is nearer than the error of the expression.
        """
        (a, a_error), (b, b_error) = (_rounded(problem, name, arrays, target) for name in "ab")
        moved = moved_sums(a, a_error, b, b_error)
        added = self._added(problem, target) if added is None else added
        return super()._tolerance(_plain(problem), {**arrays, "a": a, "b": b}, reference, target, moved, added)

    def kernels(self, target: Target) -> list[ContractionSpec]:
        problems = [
            self.problem(m=size, n=size, k=1024, dtype=dtype)
            for dtype in ("f16", "bf16")
            for size in (SMALL, 8 * MEDIUM)
        ]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]


def _plain(problem: Problem) -> Problem:
    """The product of two matrices (m, k) and (n, k) that it comes to."""
    return replace(problem, sources=(), combine=(), layout="RCR", lda=problem.k, ldb=problem.k, shuffled=0)


def _operand(problem: Problem, name: str, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """A or B with k as its second dimension, and how far what is computed may be from it."""
    sources = [one for one in problem.sources if one.operand == name]
    shape = ({"a": problem.m, "b": problem.n}[name], problem.k)
    expression = problem.combine["ab".index(name)]
    return combined(expression, sources, arrays, shape, problem.computing, _kind(problem, name))


def _rounded(problem: Problem, name: str, arrays: Mapping[str, Array], target: Target) -> tuple[Array, Array]:
    return rounded(*_operand(problem, name, arrays), _kind(problem, name), target)


def _kind(problem: Problem, name: str) -> str:
    """The type in which A or B is multiplied."""
    return problem.held["ab".index(name)].name


OPERATOR = GemmMultiABD()
