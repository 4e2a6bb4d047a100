"""gemm_sparse: C = op(A · B) with two of every four elements of A along K, by sparse matrix instructions.

A is what `compress_sparse` makes of a matrix (`ckmlir.ops.contraction.sparsity`): of every four neighbours along K
two, and an index that says which. Only products of these count: where A has nothing, B may have infinities. gfx942 and
gfx950 multiply so. A lies in rows, B as in `gemm`. CK Tile has the same in its GEMM's trait UseStructuredSparsity.

Arrays: a (m, kept), kept = 2 ceil(k / 4); b as in `gemm`; index (m, ceil(k / 8), i8), or with `index_order=pieces`
(pieces, m, 16): of every row 16 bytes, then the next 16 of every row; D tensors; c. The two elements of four are in
their order: of pairs that are not, or that name one element twice, nothing is promised. Elements of A that the index
has behind k count for nothing; nothing is promised of rows where they are not finite.

Kernel arguments: a, b, index; m, n, k; lda, ldb, ld_index, ldc; distances of D tensors (i32); then as in `gemm`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.block_sizes import MEDIUM, SMALL
from ckmlir.ops.contraction.contraction_spec import LAYOUTS, OUTPUTS, ContractionSpec
from ckmlir.ops.contraction.keys import (
    OF_B,
    PITCHES,
    PLAN_KEYS,
    SHUFFLED,
    SIZES,
    SPLIT_KEYS,
    TYPE_KEYS,
    check_sizes,
    expression_keys,
    read_problem,
)
from ckmlir.ops.contraction.operator import ContractionOperator
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.reference import beside, expression_of, matrices, spoilt_columns
from ckmlir.ops.contraction.sparsity import (
    KEPT,
    OF,
    PIECES,
    in_order,
    in_rows,
    index_bytes,
    kept,
    pack_index,
    places_of,
    spread,
)  # fmt: skip
from ckmlir.ops.gemm.compress_sparse import INDEX_ORDER, check_order
from ckmlir.ops.precision import PRECISIONS, in_f32
from ckmlir.ops.request import Choice, Pitch, RequestError
from ckmlir.ops.tensors.expression import evaluate_exactly
from ckmlir.targets import Target

DTYPES = ("f16", "bf16", "i8", "fp8", "bf8")
ROW_LAYOUTS = tuple(one for one in LAYOUTS if one[0] == "R")


class GemmSparse(ContractionOperator):
    """The operator `gemm_sparse`, which the module's docstring describes."""

    name = "gemm_sparse"
    keys = (
        *SIZES,
        Choice("dtype", "f16", "of A and, unless b_dtype says otherwise, B", DTYPES),
        OF_B,
        *TYPE_KEYS[1:2],
        Choice("layout", "RCR", "of A, B, C: R rows, C columns are contiguous", ROW_LAYOUTS),
        *PITCHES,
        INDEX_ORDER,
        Pitch("ld_index", None, "elements from one row of array index to the next", minimum=1, of=()),
        *PLAN_KEYS,
        *SPLIT_KEYS,
        SHUFFLED,
        *expression_keys(None),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        least = index_bytes(values["k"])
        pitch = max(least, 1) if values["ld_index"] is None else values["ld_index"]
        if pitch < least:
            wrong = f"rows of array index have {least} elements; expected at least that"
            raise RequestError(f"ld_index={pitch}: {wrong}")
        order = values["index_order"]
        check_order(order, values["m"], values["k"], values["ld_index"])
        return check_sizes(replace(read_problem(values, ld_index=pitch), index_order=order))

    def kernels(self, target: Target) -> list[ContractionSpec]:
        problems = [
            self.problem(m=size, n=size, k=1024, dtype=dtype, out=out, layout=layout)
            for dtype in DTYPES for out in OUTPUTS[dtype][:2] for layout in ROW_LAYOUTS for size in (SMALL, 8 * MEDIUM)
        ]  # fmt: skip
        large = {"m": 8 * MEDIUM, "n": 8 * MEDIUM, "k": 1024}
        problems += [self.problem(**large, dtype=one, shuffled=32) for one in DTYPES]
        problems += [self.problem(**large, dtype=one, index_order=PIECES) for one in DTYPES]
        specs = [self.spec(problem, target) for problem in problems]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]

    def _together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        choices = np.array([(one, two) for two in range(OF) for one in range(two)])
        drawn = choices[generator.integers(0, len(choices), (problem.m, kept(problem.k) // KEPT))]
        packed = pack_index(drawn.reshape(problem.m, kept(problem.k)))
        return {"index": in_order(packed, problem.index_order)}

    def check_inputs(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        index = arrays.get("index")
        if index is None or 0 in index.shape:
            return
        places = places_of(in_rows(np.asarray(index), problem.index_order, problem.k), problem.k)
        places = places.reshape(problem.m, kept(problem.k) // KEPT, KEPT)
        wrong = np.argwhere(places[..., 0] >= places[..., 1])
        if len(wrong):
            row, four = wrong[0]
            named = " and ".join(map(str, places[row, four]))
            raise RequestError(
                f"array index: of four elements from column {OF * four} of row {row} it names {named}; expected two in "
                "their order"
            )

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """C in float64 before it is rounded, exactly in i32; products with what A does not have are none."""
        total = _sums(problem, arrays)
        if problem.op:
            variables = {problem.accumulators[0]: in_f32(total), **beside(problem, arrays)}
            precision = PRECISIONS[problem.computing]
            return {"c": np.asarray(evaluate_exactly(expression_of(problem), variables, precision=precision))}
        return {"c": total.astype(np.int64).astype(np.int32) if problem.out == "i32" else in_f32(total)}

    def _tolerance(
        self,
        problem: Problem,
        arrays: Mapping[str, Array],
        reference: Array,
        target: Target,
        moved: Array | float = 0.0,
        added: int | None = None,
    ) -> Tolerance:
        """As of the product of the matrix that has zeros where A has nothing. Of columns of B with what is not a finite
        number only sums without an expression are compared: those that such an element takes part in are as they are,
        the others have the bound of the numbers.
        """
        spoilt: Array = np.asarray(spoilt_columns(problem, arrays))
        dense = {**arrays, "a": spread(arrays["a"], _index(problem, arrays), problem.k)}
        ((_, b),) = matrices(problem, arrays)
        strange = ~np.isfinite(b.astype(np.float64)).all(axis=0)
        if strange.any():
            stored = arrays["b"]
            dense["b"] = np.where(np.isfinite(stored.astype(np.float64)), stored, np.zeros_like(stored))
        found = super()._tolerance(problem, dense, reference, target, moved, added)
        strays = ~np.isfinite(arrays["a"].astype(np.float64)) & (_columns(problem, arrays) >= problem.k)
        spoilt = spoilt | strays.any(axis=1, keepdims=True)
        free: Array = np.broadcast_to(np.asarray(found.unspecified) | spoilt, reference.shape)
        return replace(found, unspecified=free | strange if problem.op else free)


def _sums(problem: Problem, arrays: Mapping[str, Array]) -> Array:
    """Of the products of the elements that A has, in float64."""
    ((_, b),) = matrices(problem, arrays)
    b = b.astype(np.float64)
    finite = np.isfinite(b)
    a = spread(arrays["a"], _index(problem, arrays), problem.k).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        found: Array = a @ np.where(finite, b, 0.0)
        strange = np.flatnonzero(~finite.all(axis=0))
        if strange.size:
            padded = np.zeros((kept(problem.k) // KEPT * OF, strange.size))
            padded[: problem.k] = b[:, strange]
            columns = _columns(problem, arrays)
            values = arrays["a"].astype(np.float64)
            for row in range(problem.m):
                found[row, strange] = values[row] @ padded[columns[row]]
    return found


def _index(problem: Problem, arrays: Mapping[str, Array]) -> Array:
    """The index row by row."""
    return in_rows(arrays["index"], problem.index_order, problem.k)


def _columns(problem: Problem, arrays: Mapping[str, Array]) -> Array:
    """Which column of the dense matrix each element of A is of."""
    found: Array = np.arange(kept(problem.k)) // KEPT * OF + places_of(_index(problem, arrays), problem.k)
    return found


OPERATOR = GemmSparse()
