"""Operators as functions on arrays of NumPy, PyTorch, CuPy and this package.

from ckmlir import nn
nn.use("gfx942")
y = nn.linear(x, weight, bias, activation="gelu")
"""

from ckmlir.nn.array import Array
from ckmlir.nn.attention import attention, attention_varlen
from ckmlir.nn.attention_gradients import attention_backward
from ckmlir.nn.convolutions import conv1d, conv2d, conv3d
from ckmlir.nn.experts import fused_experts, moe
from ckmlir.nn.grouped import grouped_matmul
from ckmlir.nn.products import compress_sparse, linear, matmul, matmul_sparse, swiglu
from ckmlir.nn.rows import dequantize, layer_norm, quantize, rms_norm, softmax, topk, topk_softmax
from ckmlir.nn.session import Session, asarray, current, empty, use
from ckmlir.nn.tensors import cast, contiguous, cumsum, elementwise, embedding, permute, reduce

__all__ = [
    "Array",
    "Session",
    "asarray",
    "attention",
    "attention_backward",
    "attention_varlen",
    "cast",
    "compress_sparse",
    "contiguous",
    "conv1d",
    "conv2d",
    "conv3d",
    "cumsum",
    "current",
    "dequantize",
    "elementwise",
    "embedding",
    "empty",
    "fused_experts",
    "grouped_matmul",
    "layer_norm",
    "linear",
    "matmul",
    "matmul_sparse",
    "moe",
    "permute",
    "quantize",
    "reduce",
    "rms_norm",
    "softmax",
    "swiglu",
    "topk",
    "topk_softmax",
    "use",
]
