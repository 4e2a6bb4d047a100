"""Which operators there are: the module of each, and what it computes. Nothing is imported for that."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Entry(Struct, frozen=True):
    """An operator's line in the registry, which says what there is without importing it."""

    module: str
    """Whose `OPERATOR` it is, within this package."""
    summary: str
    """What it computes, in a few words."""


OPERATORS: Mapping[str, Entry] = {
    "gemm": Entry("gemm.gemm", "C = A·B, four layouts, any sizes, with an expression of the sums and D tensors"),
    "gemm_multi_d": Entry("gemm.gemm_multi_d", "C = op(A·B, D0, D1, …) with up to four D tensors"),
    "gemm_multi_abd": Entry(
        "gemm.gemm_multi_abd",
        "C = op(A·B, D0, …) of several A and several B that expressions combine as they are loaded",
    ),
    "flatmm": Entry(
        "gemm.flatmm",
        "C = A·B with B in fragment order straight to registers, and an expression of the sums and D tensors",
    ),
    "shuffle_b": Entry("gemm.shuffle_b", "B in the order in which matrix instructions take it, for flatmm"),
    "gated_gemm": Entry("gemm.gated_gemm", "C = act(A·G) * (A·U), both products in one loop"),
    "gemm_quant": Entry(
        "gemm.gemm_quant", "C = op(A·B) of fp8, bf8 or i8 with scales of tensors, rows, columns or blocks"
    ),
    "gated_gemm_quant": Entry(
        "gemm.gated_gemm_quant", "C = act(A·G) * (A·U) of fp8, bf8 or i8 with scales, both products in one loop"
    ),
    "gemm_sparse": Entry(
        "gemm.gemm_sparse", "C = op(A·B) with two of every four elements of A along K, by sparse matrix instructions"
    ),
    "compress_sparse": Entry(
        "gemm.compress_sparse", "two of every four elements along rows, and their index, as gemm_sparse takes them"
    ),
    "gemm_fp4": Entry("gemm.gemm_fp4", "C = op(A·B) of floats A and 4-bit floats B with scales of groups along K"),
    "gemm_int4": Entry(
        "gemm.gemm_int4", "C = op(A·B) of floats A and 4-bit integers B with scales and zero points of groups along K"
    ),
    "mx_gemm": Entry(
        "gemm.mx_gemm", "C = op(A·B) of floats of 8, 6 and 4 bits with a power of two for every 32 elements along K"
    ),
    "batched_gemm": Entry(
        "gemm.batched_gemm", "C[i] = A[i]·B[i] over a batch of up to three dimensions, with strides and broadcasting"
    ),
    "batched_gemm_quant": Entry(
        "gemm.batched_gemm_quant",
        "C[i] = op(A[i]·B[i]) of fp8, bf8 or i8 with scales, over a batch with strides and broadcasting",
    ),
    "batched_gated_gemm_quant": Entry(
        "gemm.batched_gated_gemm_quant",
        "C[i] = act(A[i]·G[i]) * (A[i]·U[i]) of fp8, bf8 or i8 with scales, over a batch",
    ),
    "batched_contraction": Entry(
        "gemm.batched_contraction", "E[G.., M.., N..] = A[G.., M.., K..]·B[G.., N.., K..] of tensors at any strides"
    ),
    "grouped_gemm": Entry(
        "gemm.grouped_gemm", "C_i = A_i·B_i for products of different sizes in one launch, from a table in memory"
    ),
    "grouped_gemm_quant": Entry(
        "gemm.grouped_gemm_quant",
        "C_i = op(A_i·B_i) of fp8, bf8 or i8 with scales, for products of different sizes in one launch",
    ),
    "grouped_gated_gemm_quant": Entry(
        "gemm.grouped_gated_gemm_quant",
        "C_i = act(A_i·G_i) * (A_i·U_i) of fp8, bf8 or i8 with scales, for products of different sizes",
    ),
    "streamk_gemm": Entry(
        "gemm.streamk_gemm", "C = A·B, the steps along K of all blocks shared evenly by workgroups that stay"
    ),
    "conv_bwd_data": Entry(
        "convolution.conv_bwd_data", "gradient of the images of a convolution, all classes of places in one launch"
    ),
    "conv_bwd_weight": Entry(
        "convolution.conv_bwd_weight",
        "gradient of the weights of a convolution, sums in parts, in a fixed order or by atomics",
    ),
    "conv_fwd": Entry(
        "convolution.conv_fwd",
        "convolution of 1-D to 3-D images in groups, with an expression of the sums and D tensors",
    ),
    "mhc": Entry(
        "mhc.mhc", "coefficients of hyper-connections: a product with norms, sigmoids and Sinkhorn's iterations"
    ),
    "mhc_coefficients": Entry(
        "mhc.mhc_coefficients", "coefficients of hyper-connections of partial sums, the second step of mhc"
    ),
    "mhc_input": Entry("mhc.mhc_input", "what a layer reads of several streams, weighed by mhc's coefficients"),
    "mhc_post": Entry("mhc.mhc_post", "several streams behind a layer, mixed by mhc's coefficients"),
    "sum_parts": Entry(
        "contraction.sum_parts",
        "an expression of sums of parts and D tensors, in a fixed order; the second step of split-K",
    ),
    "layernorm2d": Entry(
        "normalization.layernorm2d",
        "layer normalisation of rows, with residual add, bias, row quantisation and saved statistics",
    ),
    "rmsnorm2d": Entry(
        "normalization.rmsnorm2d",
        "RMS normalisation of rows, with residual add, bias, row quantisation and saved statistics",
    ),
    "layernorm2d_bwd": Entry(
        "normalization.layernorm2d_bwd", "gradients of a layer normalisation: of rows, gamma and beta"
    ),
    "rmsnorm2d_bwd": Entry("normalization.rmsnorm2d_bwd", "gradients of an RMS normalisation: of rows and gamma"),
    "add_rmsnorm2d_rdquant": Entry(
        "normalization.add_rmsnorm2d_rdquant", "sum of two, RMS normalisation and quantisation of rows"
    ),
    "batchnorm2d": Entry(
        "batchnorm.batchnorm2d", "batch normalisation by the images' statistics, with running ones, residual and relu"
    ),
    "batchnorm2d_sums": Entry(
        "batchnorm.batchnorm2d_sums", "sums of channels over parts of images, the first step of batch normalisation"
    ),
    "batchnorm2d_infer": Entry(
        "batchnorm.batchnorm2d_infer", "batch normalisation of images by given statistics, with residual and relu"
    ),
    "batchnorm2d_bwd": Entry(
        "batchnorm.batchnorm2d_bwd", "gradients of a batch normalisation: of images, gamma and beta, behind a relu too"
    ),
    "smoothquant": Entry("quantization.smoothquant", "columns scaled, then rows quantised to i8 or fp8"),
    "quantize_rows": Entry("quantization.quantize_rows", "rows in fp8, bf8 or i8 with a scale each, found or given"),
    "quantize_tensor": Entry(
        "quantization.quantize_tensor", "a tensor in fp8, bf8 or i8 with one scale, found or given"
    ),
    "dequantize": Entry(
        "quantization.dequantize", "a matrix in 8, 6 or 4 bits times scales of the tensor, of rows or of blocks"
    ),
    "quantize_blocks": Entry(
        "quantization.quantize_blocks", "a matrix in 8, 6 or 4 bits with a scale, or a power of two, for each block"
    ),
    "moe_smoothquant": Entry(
        "moe.moe_smoothquant", "rows scaled by columns for each of a token's experts, then quantised to 8 bits"
    ),
    "topk_softmax": Entry("moe.topk_softmax", "the k best experts of every token, with weights by softmax or sigmoid"),
    "moe_sorting": Entry(
        "moe.moe_sorting", "a routing's entries sorted by expert, padded to units, for products of experts' matrices"
    ),
    "listed_entries": Entry("moe.listed_entries", "which entries of a routing a list of moe_sorting names"),
    "moe_gemm": Entry(
        "moe.moe_gemm", "rows of tokens times the matrices of their experts, by row lists of moe_sorting"
    ),
    "fused_moe": Entry(
        "moe.fused_moe",
        "a layer of experts: sorting, both products and the weighted sum, with nothing read back to the host",
    ),
    "moe_layer": Entry(
        "moe.moe_layer", "a layer of experts from the router's logits to the weighted sum: topk_softmax, then fused_moe"
    ),
    "softmax": Entry("softmax.softmax", "softmax of rows of any length, scaled, with an optional mask"),
    "softmax_bwd": Entry("softmax.softmax_bwd", "the gradient of a softmax of rows, from its result"),
    "fmha_fwd": Entry(
        "attention.fmha_fwd",
        "attention forward, O = softmax(scale · Q·Kᵀ)·V, with masks, grouped heads, group mode, dropout and LSE",
    ),
    "fmha_batch_prefill": Entry(
        "attention.fmha_batch_prefill",
        "attention over packed queries with K and V in pages, by vLLM's or SGLang's tables",
    ),
    "unified_attention": Entry(
        "attention.unified_attention",
        "attention of sequences that are prefilled and that decode in one launch, with K and V in pages",
    ),
    "fmha_fwd_appendkv": Entry(
        "attention.fmha_fwd_appendkv",
        "new keys and values written behind those of a cache, dense or in pages, keys and queries rotated (RoPE)",
    ),
    "fmha_fwd_pagedkv": Entry(
        "attention.fmha_fwd_pagedkv", "attention forward with K and V in the pages of a pool, of any power of two keys"
    ),
    "fmha_fwd_splitkv": Entry(
        "attention.fmha_fwd_splitkv",
        "attention forward with the keys of a block shared by workgroups: for few queries and many keys",
    ),
    "fmha_fwd_splitkv_combine": Entry(
        "attention.fmha_fwd_splitkv_combine",
        "attention over all keys from those over parts of them, the second step of fmha_fwd_splitkv",
    ),
    "fmha_fwd_shares": Entry(
        "attention.fmha_fwd_shares",
        "how many workgroups share the keys of each sequence, the first step of unified_attention balanced=1",
    ),
    "hstu_attention": Entry(
        "attention.hstu_attention",
        "attention with SiLU weights over jagged sequences, with windows, contexts and candidates (HSTU)",
    ),
    "sparse_attention": Entry(
        "attention.sparse_attention", "attention forward over listed or mapped blocks of keys for each block of queries"
    ),
    "block_means": Entry(
        "attention.prediction.block_means", "the mean of each block of rows of a head, and how alike its rows are"
    ),
    "predict_blocks": Entry(
        "attention.prediction.predict_blocks",
        "which blocks of keys each block of queries attends to, from the means of both (SpargeAttn)",
    ),
    "sparge_attention": Entry(
        "attention.sparge_attention",
        "attention forward over the blocks of keys that matter to each block of queries by prediction (SpargeAttn)",
    ),
    "sage_attention": Entry(
        "attention.sage_attention",
        "attention forward with Q and K in i8 or fp8 by blocks with scales, V in fp8, f16 or bf16",
    ),
    "quantize_heads": Entry(
        "attention.quantize_heads",
        "Q or K in i8 or fp8 with a scale for each block of rows, as sage_attention takes them",
    ),
    "sparge_sage_attention": Entry(
        "attention.sparge_sage_attention",
        "sparge_attention with Q and K quantised by blocks to i8 or fp8, V in fp8, f16 or bf16",
    ),
    "fmha_bwd_dot_do_o": Entry(
        "attention.backward.fmha_bwd_dot_do_o", "attention backward, first step: minus rowsum(dO·O) of every query"
    ),
    "fmha_bwd_costs": Entry(
        "attention.backward.fmha_bwd_costs",
        "attention backward with a fixed number of workgroups: where the work of each sequence begins",
    ),
    "fmha_bwd_turns": Entry(
        "attention.backward.fmha_bwd_turns",
        "attention backward with a workgroup for each head: in which order sequences have their turn",
    ),
    "fmha_bwd_convert_dq": Entry(
        "attention.backward.fmha_bwd_convert_dq",
        "attention backward with a fixed number of workgroups, last step: dQ from the slots of its parts",
    ),
    "fmha_bwd_join": Entry(
        "attention.backward.fmha_bwd_join",
        "attention backward with a fixed number of workgroups: dK or dV of blocks of keys that some share",
    ),
    "fmha_bwd": Entry(
        "attention.backward.fmha_bwd",
        "attention backward: dQ, dK and dV, with masks, grouped heads, group mode, bias, ALiBi and dropout",
    ),
    "hstu_bwd": Entry(
        "attention.backward.hstu_bwd",
        "the gradients of hstu_attention: dQ, dK and dV, with its masks, jagged sequences, bias and dropout",
    ),
    "ssd_fwd": Entry(
        "state_space.ssd_fwd", "forward pass of Mamba-2's state space duality, with skip, gate, first and last state"
    ),
    "ragged_tiles": Entry("ragged.ragged_tiles", "the table of tiles of rows of different lengths"),
    "ragged_row_sums": Entry("ragged.ragged_row_sums", "sums of rows of different lengths; an example of workspaces"),
    "reduce": Entry(
        "reduction.reduce", "sum, mean, max, min, amax, sum of squares over any dimensions, several in one pass"
    ),
    "elementwise": Entry(
        "elementwise.elementwise", "an expression of up to four tensors, element by element, with broadcasting"
    ),
    "cast": Entry("elementwise.cast", "a tensor in another element type, saturating where that is narrow"),
    "unpack_int4": Entry("elementwise.unpack_int4", "4-bit integers, two a byte, as floating-point numbers"),
    "permute": Entry("layout.permute", "dimensions of a tensor in another order, up to rank 8"),
    "transpose2d": Entry("layout.transpose2d", "transpose of a matrix through LDS without bank conflicts"),
    "batched_transpose": Entry("layout.batched_transpose", "images from channels first to channels last, or back"),
    "copy": Entry("layout.copy", "rows copied at any strides, through registers or through LDS"),
    "img2col": Entry("layout.img2col", "patches of 1-D, 2-D and 3-D images as rows of a matrix"),
    "pooling": Entry("pooling.pooling", "maximum (with indices) or average of windows of 1-D, 2-D and 3-D images"),
    "histogram": Entry("indexed.histogram", "counts of the numbers 0 to bins - 1 in a vector, or in each of its parts"),
    "cumsum": Entry("indexed.cumsum", "running sums along rows or columns, inclusive or exclusive, with totals"),
    "nonzero": Entry("indexed.nonzero", "columns of each row whose elements are not zero, and their number"),
    "gather_rows": Entry("indexed.gather_rows", "rows of a table by their numbers: an embedding"),
    "scatter_rows": Entry("indexed.scatter_rows", "rows stored or added where their numbers say"),
    "embedding_bag": Entry(
        "indexed.embedding_bag", "sums of a few rows of a table each, by their numbers, in a fixed order"
    ),
    "segment_sum": Entry("indexed.segment_sum", "sums of the rows of segments whose beginnings memory holds"),
    "argsort": Entry("indexed.argsort", "the places of each row's elements in the order of their values, stable"),
    "topk": Entry("indexed.topk", "the largest or smallest elements of each row in order, with their places"),
}
"""By name."""
