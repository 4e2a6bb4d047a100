"""batched_gemm: C[i] = A[i]·B[i] for every place i of a batch of up to three dimensions (CK Tile's example 16).

Arrays are those of `gemm` with the batch's dimensions before them. `a_batch`, `b_batch` and `d0_batch` … are an array's
own batch dimensions, broadcast to `batch` by NumPy's rule: where one is 1, all products share the matrix. Strides of
batch dimensions are packed unless `a_batch_strides` … give them.

Kernel arguments: as in `gemm`; then the lengths of the batch's dimensions but the first, and for every array the
strides of its batch dimensions (i32). Grid: tiles of C row by row; places of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckmlir.ops.contraction.contraction_spec import MOST_BATCH_DIMENSIONS, ContractionSpec
from ckmlir.ops.contraction.defaults import MEDIUM, SMALL
from ckmlir.ops.contraction.keys import (
    PITCHES,
    PLAN_KEYS,
    SIZES,
    SPLIT_KEYS,
    TYPE_KEYS,
    batched,
    check_sizes,
    expression_keys,
    read_problem,
)  # fmt: skip
from ckmlir.ops.contraction.operator import ContractionOperator
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.side import NAMES
from ckmlir.ops.request import Key, Numbers, RequestError
from ckmlir.ops.tensors.keys import Broadcast
from ckmlir.targets import Target


def _batch_keys(name: str) -> tuple[Key, ...]:
    dims = MOST_BATCH_DIMENSIONS
    strides = Numbers(f"{name}_batch_strides", None, f"of array {name}'s batch dimensions, in elements", most=dims)
    if name == "c":
        return (strides,)
    help = f"array {name}'s own batch dimensions; by default batch"
    return (Broadcast(f"{name}_batch", None, help, dims, 1, of="batch", otherwise="batch"), strides)


ARRAYS = ("a", "b", *NAMES, "c")


class BatchedGemm(ContractionOperator):
    """See the module's text."""

    name = "batched_gemm"
    summary = "C[i] = A[i]·B[i] over a batch of up to three dimensions, with strides and broadcasting"
    keys = (
        Numbers("batch", (4,), "dimensions of the batch", most=MOST_BATCH_DIMENSIONS),
        *SIZES,
        *TYPE_KEYS,
        *PITCHES,
        *(key for name in ARRAYS for key in _batch_keys(name)),
        *PLAN_KEYS,
        *SPLIT_KEYS,
        *expression_keys(None),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        single = check_sizes(read_problem(values))
        there = {"a", "b", "c", *(one.name for one in single.side)}
        for name in ARRAYS:
            unused = [key.name for key in _batch_keys(name) if values[key.name] is not None]
            if unused and name not in there:
                raise RequestError(f"{unused[0]}: op={single.op or 'acc'} has no D tensor {name}")
        return batched(single, values["batch"], values)

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
