"""The operators, by name. An operator's module is imported when it is first asked for.

from ckmlir.ops import find_operator
gemm = find_operator("gemm")
problem = gemm.problem(m=128, n=128, k=64, dtype="bf16")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ckmlir.errors import suggest

if TYPE_CHECKING:
    from ckmlir.ops.operator import Operator

OPERATORS = {
    "gemm": "ckmlir.ops.gemm.gemm",
    "gemm_multi_d": "ckmlir.ops.gemm.gemm_multi_d",
    "gemm_multi_abd": "ckmlir.ops.gemm.gemm_multi_abd",
    "flatmm": "ckmlir.ops.gemm.flatmm",
    "shuffle_b": "ckmlir.ops.gemm.shuffle_b",
    "gated_gemm": "ckmlir.ops.gemm.gated_gemm",
    "gemm_quant": "ckmlir.ops.gemm.gemm_quant",
    "gated_gemm_quant": "ckmlir.ops.gemm.gated_gemm_quant",
    "gemm_sparse": "ckmlir.ops.gemm.gemm_sparse",
    "compress_sparse": "ckmlir.ops.gemm.compress_sparse",
    "gemm_int4": "ckmlir.ops.gemm.gemm_int4",
    "mx_gemm": "ckmlir.ops.gemm.mx_gemm",
    "batched_gemm": "ckmlir.ops.gemm.batched_gemm",
    "batched_gemm_quant": "ckmlir.ops.gemm.batched_gemm_quant",
    "batched_gated_gemm_quant": "ckmlir.ops.gemm.batched_gated_gemm_quant",
    "batched_contraction": "ckmlir.ops.gemm.batched_contraction",
    "grouped_gemm": "ckmlir.ops.gemm.grouped_gemm",
    "grouped_gemm_quant": "ckmlir.ops.gemm.grouped_gemm_quant",
    "grouped_gated_gemm_quant": "ckmlir.ops.gemm.grouped_gated_gemm_quant",
    "streamk_gemm": "ckmlir.ops.gemm.streamk_gemm",
    "conv_bwd_data": "ckmlir.ops.convolution.conv_bwd_data",
    "conv_bwd_weight": "ckmlir.ops.convolution.conv_bwd_weight",
    "conv_fwd": "ckmlir.ops.convolution.conv_fwd",
    "sum_parts": "ckmlir.ops.contraction.sum_parts",
    "layernorm2d": "ckmlir.ops.normalization.layernorm2d",
    "rmsnorm2d": "ckmlir.ops.normalization.rmsnorm2d",
    "add_rmsnorm2d_rdquant": "ckmlir.ops.normalization.add_rmsnorm2d_rdquant",
    "smoothquant": "ckmlir.ops.quantization.smoothquant",
    "quantize_rows": "ckmlir.ops.quantization.quantize_rows",
    "quantize_tensor": "ckmlir.ops.quantization.quantize_tensor",
    "dequantize": "ckmlir.ops.quantization.dequantize",
    "quantize_blocks": "ckmlir.ops.quantization.quantize_blocks",
    "moe_smoothquant": "ckmlir.ops.moe.moe_smoothquant",
    "topk_softmax": "ckmlir.ops.moe.topk_softmax",
    "moe_sorting": "ckmlir.ops.moe.moe_sorting",
    "moe_gemm": "ckmlir.ops.moe.moe_gemm",
    "fused_moe": "ckmlir.ops.moe.fused_moe",
    "moe_layer": "ckmlir.ops.moe.moe_layer",
    "softmax": "ckmlir.ops.softmax.softmax",
    "fmha_fwd": "ckmlir.ops.attention.fmha_fwd",
    "fmha_batch_prefill": "ckmlir.ops.attention.fmha_batch_prefill",
    "unified_attention": "ckmlir.ops.attention.unified_attention",
    "fmha_fwd_appendkv": "ckmlir.ops.attention.fmha_fwd_appendkv",
    "fmha_fwd_pagedkv": "ckmlir.ops.attention.fmha_fwd_pagedkv",
    "fmha_fwd_splitkv": "ckmlir.ops.attention.fmha_fwd_splitkv",
    "fmha_fwd_splitkv_combine": "ckmlir.ops.attention.fmha_fwd_splitkv_combine",
    "fmha_fwd_shares": "ckmlir.ops.attention.fmha_fwd_shares",
    "hstu_attention": "ckmlir.ops.attention.hstu_attention",
    "sparse_attention": "ckmlir.ops.attention.sparse_attention",
    "sage_attention": "ckmlir.ops.attention.sage_attention",
    "fmha_bwd_dot_do_o": "ckmlir.ops.attention.backward.fmha_bwd_dot_do_o",
    "fmha_bwd_costs": "ckmlir.ops.attention.backward.fmha_bwd_costs",
    "fmha_bwd_convert_dq": "ckmlir.ops.attention.backward.fmha_bwd_convert_dq",
    "fmha_bwd_join": "ckmlir.ops.attention.backward.fmha_bwd_join",
    "fmha_bwd": "ckmlir.ops.attention.backward.fmha_bwd",
    "ragged_tiles": "ckmlir.ops.ragged.ragged_tiles",
    "ragged_row_sums": "ckmlir.ops.ragged.ragged_row_sums",
    "reduce": "ckmlir.ops.reduction.reduce",
    "elementwise": "ckmlir.ops.elementwise.elementwise",
    "cast": "ckmlir.ops.elementwise.cast",
    "unpack_int4": "ckmlir.ops.elementwise.unpack_int4",
    "permute": "ckmlir.ops.layout.permute",
    "transpose2d": "ckmlir.ops.layout.transpose2d",
    "batched_transpose": "ckmlir.ops.layout.batched_transpose",
    "copy": "ckmlir.ops.layout.copy",
    "img2col": "ckmlir.ops.layout.img2col",
    "pooling": "ckmlir.ops.pooling.pooling",
    "histogram": "ckmlir.ops.indexed.histogram",
    "cumsum": "ckmlir.ops.indexed.cumsum",
    "nonzero": "ckmlir.ops.indexed.nonzero",
    "gather_rows": "ckmlir.ops.indexed.gather_rows",
    "scatter_rows": "ckmlir.ops.indexed.scatter_rows",
    "embedding_bag": "ckmlir.ops.indexed.embedding_bag",
    "segment_sum": "ckmlir.ops.indexed.segment_sum",
    "argsort": "ckmlir.ops.indexed.argsort",
    "topk": "ckmlir.ops.indexed.topk",
}
"""Name -> the module whose `OPERATOR` it is."""


def find_operator(name: str) -> Operator[Any, Any]:
    """The operator called `name`. Raises RequestError when there is none."""
    if not isinstance(name, str) or name not in OPERATORS:
        from ckmlir.ops.request import RequestError

        if not isinstance(name, str):
            raise RequestError(f"an operator is named by text such as 'gemm', not by {type(name).__name__}")
        raise RequestError(f"unknown operator {name!r}; {suggest(name, OPERATORS)}")
    found: Operator[Any, Any] = importlib.import_module(OPERATORS[name]).OPERATOR
    return found
