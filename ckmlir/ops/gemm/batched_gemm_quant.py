"""batched_gemm_quant: C[i] = op(scaled A[i] · scaled B[i]) of quantised matrices, for every place i of a batch.

The product is that of `gemm_quant`, the batch that of `batched_gemm`: arrays have the batch's dimensions before their
own, scales and zero points too; `a_batch`, `b_batch`, `scale_a_batch`, `scale_b_batch`, `d0_batch` … are broadcast to
`batch`, so that products may share a matrix with its scales, or have scales of their own for one matrix. With
`shuffled` each B is in tiles of its own.

Kernel arguments: as in `gemm_quant`; behind the distances the lengths of the batch's dimensions but the first, and for
every array the strides of its batch dimensions (i32). Grid: tiles of C row by row; places of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ckmlir.ops.contraction.batch_keys import BATCH, batch_keys, read_batch
from ckmlir.ops.contraction.block_sizes import MEDIUM, SMALL
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.side import REQUESTED
from ckmlir.ops.gemm.gemm_quant import COMBINATIONS, GemmQuant
from ckmlir.ops.gemm.gemm_quant import OPERATOR as GEMM_QUANT
from ckmlir.targets import Target

ARRAYS = ("a", "b", "scale_a", "scale_b", "zero_b", *REQUESTED, "c")


class BatchedGemmQuant(GemmQuant):
    """The operator `batched_gemm_quant`, which the module's docstring describes.

    Attributes:
        in_batch: the arrays that have keys of the batch.
    """

    name = "batched_gemm_quant"
    in_batch: ClassVar[tuple[str, ...]] = ARRAYS
    keys = (BATCH, *GEMM_QUANT.keys, *batch_keys(ARRAYS))

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        return read_batch(super()._problem(values), self.in_batch, values)

    def kernels(self, target: Target) -> list[ContractionSpec]:
        problems = [
            self.problem(batch=(8,), m=size, n=size, k=512, dtype=dtype, a_scale=a_scale, b_scale=b_scale)
            for dtype in ("fp8", "i8")
            for a_scale, b_scale in COMBINATIONS
            for size in (SMALL, 8 * MEDIUM)
        ]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]


OPERATOR = BatchedGemmQuant()
