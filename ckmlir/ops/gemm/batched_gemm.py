"""batched_gemm: C[i] = A[i]·B[i] for every place i of a batch of up to three dimensions (CK Tile's example 16).

Arrays are those of `gemm` with the batch's dimensions before them. `a_batch`, `b_batch` and `d0_batch` … are an array's
own batch dimensions, broadcast to `batch` by NumPy's rule: where one is 1, all products share the matrix. Strides of
batch dimensions are packed unless `a_batch_strides` … give them; a stride of 0 makes an input's dimension 1.

Kernel arguments: as in `gemm`; behind the distances the lengths of the batch's dimensions but the first, and for every
array the strides of its batch dimensions (i32). Grid: tiles of C row by row; places of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckmlir.ops.contraction.batch_keys import BATCH, batch_keys, read_batch
from ckmlir.ops.contraction.block_sizes import MEDIUM, SMALL
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.keys import (
    PAIR_KEYS,
    PITCHES,
    PLAN_KEYS,
    SHUFFLED,
    SIZES,
    SPLIT_KEYS,
    check_sizes,
    expression_keys,
    read_problem,
)  # fmt: skip
from ckmlir.ops.contraction.operator import ContractionOperator
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.side import REQUESTED
from ckmlir.targets import Target

ARRAYS = ("a", "b", *REQUESTED, "c")


class BatchedGemm(ContractionOperator):
    """The operator `batched_gemm`, which the module's docstring describes."""

    name = "batched_gemm"
    keys = (
        BATCH,
        *SIZES,
        *PAIR_KEYS,
        *PITCHES,
        *batch_keys(ARRAYS),
        *PLAN_KEYS,
        *SPLIT_KEYS,
        SHUFFLED,
        *expression_keys(None),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        return read_batch(check_sizes(read_problem(values)), ARRAYS, values)

    def kernels(self, target: Target) -> list[ContractionSpec]:
        problems = [
            self.problem(batch=batch, m=size, n=size, k=512, dtype=dtype)
            for batch in ((8,), (4, 8))
            for dtype in ("f16", "bf16")
            for size in (SMALL, 8 * MEDIUM)
        ]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]


OPERATOR = BatchedGemm()
