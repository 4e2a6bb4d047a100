"""batched_gated_gemm_quant: C[i] = op(scaled A[i] · scaled G[i], scaled A[i] · scaled U[i]), for places i of a batch.

The product is that of `gated_gemm_quant`, the batch that of `batched_gemm_quant`: gate and up each have a place of
their own in the batch (`gate_batch`, `up_batch`), and so have their scales and zero points.

Kernel arguments: as in `gated_gemm_quant`; then as in `batched_gemm_quant`.
"""

from __future__ import annotations

from ckmlir.ops.contraction.batch_keys import BATCH, batch_keys
from ckmlir.ops.contraction.side import REQUESTED
from ckmlir.ops.gemm.batched_gemm_quant import BatchedGemmQuant
from ckmlir.ops.gemm.gated_gemm_quant import OPERATOR as GATED
from ckmlir.ops.gemm.gated_gemm_quant import GatedGemmQuant

ARRAYS = ("a", "gate", "up", "scale_a", "scale_gate", "scale_up", "zero_gate", "zero_up", *REQUESTED, "c")


class BatchedGatedGemmQuant(BatchedGemmQuant, GatedGemmQuant):
    """The operator `batched_gated_gemm_quant`, which the module's docstring describes."""

    name = "batched_gated_gemm_quant"
    in_batch = ARRAYS
    keys = (BATCH, *GATED.keys, *batch_keys(ARRAYS))


OPERATOR = BatchedGatedGemmQuant()
