"""Operators as functions on arrays of NumPy, PyTorch, CuPy and this package.

from ckmlir import nn
nn.use("gfx942")
y = nn.linear(x, weight, bias, activation="gelu")
"""

from types import FunctionType

from ckmlir.nn.array import Array
from ckmlir.nn.attention import attention, attention_varlen
from ckmlir.nn.attention_gradients import attention_backward, attention_varlen_backward
from ckmlir.nn.batch_norms import batch_norm, batch_norm_backward
from ckmlir.nn.cached_attention import attention_page_lists, attention_paged, attention_with_kvcache
from ckmlir.nn.combined_products import combined_matmul
from ckmlir.nn.compiling import untraced
from ckmlir.nn.convolution_gradients import (
    conv1d_input,
    conv1d_weight,
    conv2d_input,
    conv2d_weight,
    conv3d_input,
    conv3d_weight,
)
from ckmlir.nn.convolutions import conv1d, conv2d, conv3d
from ckmlir.nn.einsum import einsum
from ckmlir.nn.expert_parts import SortedExperts, expert_matmul, quantize_for_experts, sort_experts
from ckmlir.nn.experts import fused_experts, moe
from ckmlir.nn.flash import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)
from ckmlir.nn.grouped import grouped_matmul
from ckmlir.nn.hyper_connections import mhc, mhc_post, mhc_pre
from ckmlir.nn.indexed import argsort, cumsum, histogram, nonzero, scatter_rows, segment_sum, sort
from ckmlir.nn.kinds_of_attention import hstu_attention, hstu_attention_backward, sage_attention, sparse_attention
from ckmlir.nn.pooling import avg_pool1d, avg_pool2d, avg_pool3d, im2col, max_pool1d, max_pool2d, max_pool3d
from ckmlir.nn.predicted_attention import predict_blocks, sparge_attention
from ckmlir.nn.products import compress_sparse, linear, matmul, matmul_sparse, swiglu
from ckmlir.nn.quantization import dequantize, quantize
from ckmlir.nn.quantized_norms import add_rms_norm_quantize
from ckmlir.nn.row_gradients import layer_norm_backward, rms_norm_backward, softmax_backward
from ckmlir.nn.rows import layer_norm, rms_norm, softmax, topk, topk_softmax
from ckmlir.nn.scaled import linear_fp4, linear_int4, scaled_grouped_matmul, scaled_linear, scaled_matmul
from ckmlir.nn.scaled_gated import scaled_grouped_swiglu, scaled_swiglu
from ckmlir.nn.session import Session, asarray, current, empty, use
from ckmlir.nn.shuffled import linear_shuffled, shuffle_weight
from ckmlir.nn.state_space import ssd
from ckmlir.nn.tensors import cast, contiguous, elementwise, embedding, embedding_bag, permute, reduce, transpose
from ckmlir.nn.transposed_convolutions import conv_transpose1d, conv_transpose2d, conv_transpose3d

__all__ = [
    "Array",
    "Session",
    "SortedExperts",
    "add_rms_norm_quantize",
    "argsort",
    "asarray",
    "attention",
    "attention_backward",
    "attention_page_lists",
    "attention_paged",
    "attention_varlen",
    "attention_varlen_backward",
    "attention_with_kvcache",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "batch_norm_backward",
    "cast",
    "combined_matmul",
    "compress_sparse",
    "contiguous",
    "conv1d",
    "conv1d_input",
    "conv1d_weight",
    "conv2d",
    "conv2d_input",
    "conv2d_weight",
    "conv3d",
    "conv3d_input",
    "conv3d_weight",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cumsum",
    "current",
    "dequantize",
    "einsum",
    "elementwise",
    "embedding",
    "embedding_bag",
    "empty",
    "expert_matmul",
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
    "fused_experts",
    "grouped_matmul",
    "histogram",
    "hstu_attention",
    "hstu_attention_backward",
    "im2col",
    "layer_norm",
    "layer_norm_backward",
    "linear",
    "linear_fp4",
    "linear_int4",
    "linear_shuffled",
    "matmul",
    "matmul_sparse",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mhc",
    "mhc_post",
    "mhc_pre",
    "moe",
    "nonzero",
    "permute",
    "predict_blocks",
    "quantize",
    "quantize_for_experts",
    "reduce",
    "rms_norm",
    "rms_norm_backward",
    "sage_attention",
    "scaled_grouped_matmul",
    "scaled_grouped_swiglu",
    "scaled_linear",
    "scaled_matmul",
    "scaled_swiglu",
    "scatter_rows",
    "segment_sum",
    "shuffle_weight",
    "softmax",
    "softmax_backward",
    "sort",
    "sort_experts",
    "sparge_attention",
    "sparse_attention",
    "ssd",
    "swiglu",
    "topk",
    "topk_softmax",
    "transpose",
    "use",
]

for _name in __all__:  # as users find them; functions call each other directly
    if isinstance(globals()[_name], FunctionType):
        globals()[_name] = untraced(globals()[_name], __name__)
