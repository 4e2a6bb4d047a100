"""All checkers over all operators: no finding on any chip, type or named schedule, with sizes that fit the tiles and
sizes that do not.

A part of the grid runs by default; `-m full` runs the rest. Requests that an operator refuses on a chip are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from checked_runs import Keys, compiled, findings
from operator_runner import CHIPS

from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.dtypes import PACKED_TYPES
from ckmlir.ops.request import Choice, RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.schedules import ATTENTION, GEMM
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target

ALL = parse_checks("all")
STEP = 83
"""One case in so many runs by default."""
Request = dict[str, Any]
MX_TYPES = {True: ("fp8", "fp4"), False: ("f16", "bf16", "f32", "fp8", None)}
"""Types of attention with scales of 32 elements, and without."""

ROWS: list[Request] = [{"m": 4, "n": 512}, {"m": 5, "n": 1001}, {"m": 3, "n": 8200}]
QUANTISED: list[Request] = [
    {"quant": "dynamic", "keep_y": 1}, {"quant": "smooth", "add": "store"}, {"add": "add", "bias": 1},
]  # fmt: skip
SHAPES: dict[str, list[Request]] = {
    "gemm": [{"m": 128, "n": 128, "k": 192}, {"m": 131, "n": 67, "k": 71}, {"m": 1, "n": 1, "k": 1},
             {"m": 100, "n": 130, "k": 200, "layout": "RRR"}, {"m": 70, "n": 130, "k": 130, "layout": "CRR"},
             {"m": 64, "n": 130, "k": 65, "layout": "CCR", "epilogue": "direct"}],
    "gemm_multi_d": [{"m": 131, "n": 67, "k": 71}, {"m": 64, "n": 136, "k": 72, "d_kind": ("row", "column")}],
    "gemm_multi_abd": [{"m": 67, "n": 71, "k": 40}, {"m": 64, "n": 70, "k": 33, "a_kind": "full,k", "b_op": "b0"}],
    "flatmm": [{"m": 67, "n": 71, "k": 40}, {"m": 64, "n": 136, "k": 72, "op": "relu(acc + d0)"}],
    "shuffle_b": [{"n": 67, "k": 71}, {"n": 128, "k": 96, "layout": "R", "columns": 16}],
    "gated_gemm": [{"m": 131, "n": 67, "k": 71}, {"m": 64, "n": 136, "k": 72, "op": "gelu(gate) * up"},
                   {"m": 65, "n": 70, "k": 40, "op": "relu(gate) * up"}],
    "gemm_quant": [{"m": 67, "n": 140, "k": 200}, {"m": 64, "n": 136, "k": 130, "b_scale": "1x64", "b_major": "rows"},
                   {"m": 65, "n": 70, "k": 40, "a_scale": "row", "b_scale": "column"}],
    "gated_gemm_quant": [{"m": 67, "n": 140, "k": 200},
                         {"m": 65, "n": 70, "k": 40, "a_scale": "row", "b_scale": "1x64"}],
    "gemm_sparse": [{"m": 67, "n": 140, "k": 200}, {"m": 64, "n": 70, "k": 71, "layout": "RRR", "ld_index": 11}],
    "compress_sparse": [{"m": 33, "k": 100}, {"m": 9, "k": 1030, "lda": 520, "ld_index": 131},
                        {"m": 9, "k": 1025, "index_order": "pieces"}],
    "gemm_fp4": [{"m": 67, "n": 140, "k": 200, "dtype": "bf16"}, {"m": 65, "n": 70, "k": 70, "scale": "f16"}],
    "gemm_int4": [{"m": 67, "n": 140, "k": 200}, {"m": 65, "n": 70, "k": 70, "b_scale": "1x32", "zeros": 1}],
    "mx_gemm": [{"m": 67, "n": 140, "k": 200}, {"m": 65, "n": 70, "k": 40, "a_major": "rows", "b_major": "rows"}],
    "batched_gemm": [{"batch": (2, 3), "b_batch": 3, "m": 67, "n": 71, "k": 40}, {"batch": 2, "m": 1, "n": 1, "k": 1}],
    "batched_gemm_quant": [{"batch": (2, 3), "b_batch": 3, "scale_b_batch": 3, "m": 67, "n": 140, "k": 200},
                           {"batch": 2, "m": 9, "n": 70, "k": 40, "a_scale": "row", "b_scale": "column"}],
    "batched_gated_gemm_quant": [{"batch": (2, 3), "gate_batch": 3, "m": 9, "n": 140, "k": 200}],
    "batched_contraction": [{"g": (2,), "m": (3, 5), "n": (7,), "k": (4, 6)}, {"m": (64,), "n": (64,), "k": (64,)}],
    "grouped_gemm": [{"m": "67,0,5", "n": "71,8,1", "k": "40,8,0", "persistent": stays} for stays in (0, 1)],
    "grouped_gemm_quant": [{"m": "67,0,5", "n": "140,8,1", "k": "200,8,0", "persistent": stays} for stays in (0, 1)],
    "grouped_gated_gemm_quant": [{"m": "67,0,5", "n": "140,8,1", "k": "200,8,0", "persistent": 1}],
    "streamk_gemm": [{"m": 67, "n": 200, "k": 200, "block": "64x64x64", "workgroups": 5, "reduction": one}
                     for one in ("linear", "tree", "atomic")],
    "conv_bwd_data": [{"n": 2, "c": 12, "k": 20, "image": (5, 7), "strides": (1, 2)},
                      {"c": 3, "k": 8, "image": (9,), "g": 2}],
    "conv_bwd_weight": [{"n": 2, "c": 12, "k": 20, "image": (5, 7)}, {"c": 3, "k": 8, "image": (9,), "g": 2}],
    "conv_fwd": [{"n": 2, "c": 12, "k": 20, "image": (5, 7)}, {"c": 3, "k": 8, "image": (9,), "strides": 2, "g": 2}],
    "mhc": [{"m": 37, "c": 72}, {"m": 3, "c": 33, "streams": 3, "form": "ck", "layout": "RRR", "split_k": 2}],
    "mhc_coefficients": [{"m": 37, "iterations": 3}, {"m": 5, "streams": 3, "form": "ck", "ystride": 17}],
    "mhc_input": [{"m": 3, "c": 100}, {"m": 2, "c": 70, "streams": 3, "dtype": "f32", "stride": 215}],
    "mhc_post": [{"m": 3, "c": 100, "fstride": 104}, {"m": 2, "c": 70, "streams": 3, "dtype": "f16", "stride": 215}],
    "sum_parts": [{"shape": (67, 71)}],
    "layernorm2d": [*ROWS, *({**ROWS[1], **one} for one in QUANTISED), {"m": 3, "n": 300, "variance": "welford"}],
    "rmsnorm2d": [*ROWS, *({**ROWS[1], **one} for one in QUANTISED), {"m": 3, "n": 300, "t5": 1}],
    "layernorm2d_bwd": [*ROWS, {"m": 33, "n": 300, "add": 1}, {"m": 3, "n": 9000}],
    "rmsnorm2d_bwd": [*ROWS, {"m": 33, "n": 300, "add": 1}],
    "add_rmsnorm2d_rdquant": [*ROWS, {"m": 4, "n": 320, "out": "fp8"}],
    "batchnorm2d": [{"n": 2, "c": 5, "hw": 49, "residual": 1, "activation": "relu", "running": 1}],
    "batchnorm2d_sums": [{"n": 2, "c": 40, "hw": 30, "layout": "nchw"}, {"n": 3, "c": 5, "hw": 49, "of": "gradients"}],
    "batchnorm2d_infer": [{"n": 2, "c": 5, "hw": 49, "residual": 1, "activation": "relu", "params": "f32"}],
    "batchnorm2d_bwd": [{"n": 2, "c": 5, "hw": 49, "activation": "relu", "dtype": "bf16"}],
    "smoothquant": [*ROWS, {"m": 4, "n": 320, "out": "fp8"}],
    "quantize_rows": [*ROWS, {"m": 4, "n": 320, "out": "i8", "scales": "given"}],
    "quantize_tensor": [{"shape": (33, 300)}, {"shape": (70, 320), "out": "i8", "scales": "given"}],
    "dequantize": [{"m": 33, "n": 300}, {"m": 140, "n": 132, "block": "128x128"},
                   {"m": 17, "n": 100, "block": "1x32", "scales": "e8m0"}],
    "quantize_blocks": [{"m": 70, "n": 300, "row_ids": 1}, {"m": 140, "n": 131, "block": "128x128", "out": "i8"},
                        {"m": 33, "n": 100, "block": "1x32", "scales": "e8m0"}],
    "moe_smoothquant": [{**one, "experts": 5, "k": 3} for one in ROWS],
    "topk_softmax": [{"m": 5, "n": 64, "k": 3}, {"m": 17, "n": 60, "k": 2, "renormalize": 1},
                     {"m": 3, "n": 300, "k": 6}],
    "moe_sorting": [{"t": 37, "e": 17, "k": 3, "width": 5}, {"t": 99, "e": 300, "k": 6, "phases": "many", "local": 1}],
    "listed_entries": [{"t": 37, "e": 17, "topk": 3, "unit": 16}, {"t": 5, "unit": 5}],
    "moe_gemm": [{"t": 19, "n": 67, "k": 40}, {"t": 9, "n": 72, "k": 96, "unit": 16, "op": "silu(gate) * up"},
                 {"t": 19, "n": 67, "k": 40, "a_rows": "entry", "c_rows": "token"}],
    "fused_moe": [{"t": 19, "hidden": 67, "inter": 40}, {"t": 3, "hidden": 64, "inter": 64, "reduction": "atomic"},
                  {"t": 5, "hidden": 70, "inter": 72, "between": "lds"},
                  {"t": 5, "hidden": 72, "inter": 40, "dtype": "fp4"}],
    "moe_layer": [{"t": 9, "hidden": 72, "inter": 48, "e": 5, "local": 2}],
    "softmax": [*ROWS, {"m": 3, "n": 300, "mask": 1}],
    "softmax_bwd": [*ROWS, {"m": 3, "n": 300}],
    "fmha_fwd": [{"sq": 128, "sk": 128, "d": 64}, {"sq": 65, "sk": 130, "d": 128, "b": 2, "h": 2, "hk": 1, "lse": 1},
                 {"sq": 1, "sk": 1, "d": 64}, {"sq": 100, "sk": 200, "d": 64, "mask": "bottom_right", "layout": "bshd"},
                 {"sq": 70, "sk": 70, "d": 32, "mask": "window:20,5"},
                 {"sq": 70, "sk": 135, "d": 64, "mask": "window:20,5,70", "sink": 1, "alibi": "head"},
                 {"sq": 70, "sk": 136, "d": 64, "bias": "head", "dropout": 0.2, "v_layout": "columns"},
                 {"mode": "group", "seqlens_q": (70, 0, 3), "seqlens_k": (0, 5, 90), "d": 64, "soft_cap": 5},
                 {"sq": 65, "sk": 130, "d": 128, "h": 2, "hk": 1, "mask": "bottom_right", "scales": "mx"}],
    "fmha_batch_prefill": [{"d": 64, "seqlens_q": (70, 3), "seqlens_k": (100, 20), "kv_layout": "vectorised", "h": 1},
                           {"d": 64, "seqlens_q": (3,), "seqlens_k": (90,), "page_size": 64, "table": "sglang"}],
    "unified_attention": [{"d": 64, "seqlens_q": (70, 1), "seqlens_k": (100, 20), "h": 4, "hk": 1, "splits": 1},
                          {"d": 32, "seqlens_q": (1, 2), "seqlens_k": (65, 40), "h": 4, "hk": 2, "page_size": 64}],
    "fmha_fwd_appendkv": [{"d": 64, "rotary": 32, "snew": 40},
                          {"d": 64, "page_size": 16, "rotary": 16, "rotary_half": 1},
                          {"d": 40, "page_size": 64, "snew": 70, "cached": (30,)}],
    "fmha_fwd_pagedkv": [{"sq": 3, "sk": 200, "d": 64, "h": 1, "page_size": 64},
                         {"sq": 70, "seqlens_k": (135, 20), "d": 64, "h": 2, "hk": 1, "page_size": 16, "sink": 1}],
    "fmha_fwd_splitkv": [{"sq": 1, "sk": 300, "d": 64, "h": 1, "splits": 3},
                         {"sq": 70, "sk": 135, "d": 64, "h": 1, "mask": "window:20,5,70", "sink": 1, "splits": 2},
                         {"mode": "group", "seqlens_q": (3, 0), "seqlens_k": (200, 5), "d": 64, "splits": 2},
                         {"sq": 3, "sk": 300, "d": 64, "h": 1, "splits": 3, "scales": "mx"}],
    "fmha_fwd_splitkv_combine": [{"sq": 9, "dv": 64}, {"sq": 33, "b": 2, "dv": 200, "splits": 7, "layout": "bshd"},
                                 {"seqlens_q": (3, 0), "sq": 9, "dv": 32, "lse": 1, "counted": 1}],
    "fmha_fwd_shares": [{"b": 3, "sq": 9}, {"mode": "group", "seqlens_q": (70, 0, 3), "seqlens_k": (0, 5, 900)}],
    "hstu_attention": [{"sq": 200, "d": 64, "h": 1, "targets": (20,), "context": 5},
                       {"mode": "group", "seqlens_q": (70, 0, 130), "d": 32, "window": 9, "full": 3, "causal": 0}],
    "sparse_attention": [{"sq": 200, "sk": 300, "d": 64, "h": 1, "block_k": 64, "mask": "bottom_right"},
                         {"sq": 70, "sk": 130, "d": 32, "h": 2, "lists": "deltas", "block_q": 64, "pv_threshold": 9}],
    "block_means": [{"s": 300, "d": 64, "h": 1}, {"s": 70, "d": 200, "block": 64, "layout": "bshd", "shift": 1}],
    "predict_blocks": [{"sq": 200, "sk": 300, "d": 64, "h": 1, "topk": 0.4, "lists": 1},
                       {"sq": 70, "sk": 500, "d": 32, "block_k": 64, "mask": "bottom_right", "smooth": 1},
                       {"sq": 64, "sk": 64, "d": 8, "by_head": 1, "first": 1}],
    "sparge_attention": [{"sq": 200, "sk": 300, "d": 64, "h": 1, "topk": 0.4, "block_k": 64},
                         {"sq": 70, "sk": 130, "d": 32, "mask": "bottom_right", "smooth": 1, "by_head": 1, "lse": 1}],
    "sage_attention": [{"sq": 130, "sk": 200, "d": 64, "h": 2, "hk": 1}, {"sq": 3, "sk": 70, "d": 32, "h": 1}],
    "quantize_heads": [{"s": 300, "d": 64, "h": 1}, {"s": 70, "d": 208, "block": 4, "layout": "bshd", "shift": 1}],
    "sparge_sage_attention": [{"sq": 200, "sk": 300, "d": 64, "h": 1, "topk": 0.4, "block_k": 64, "scales": "warp"},
                              {"sq": 70, "sk": 130, "d": 32, "mask": "bottom_right", "smooth": 1, "by_head": 1}],
    "fmha_bwd_dot_do_o": [{"sq": 64, "dv": 64, "factor": 0.3}, {"sq": 71, "dv": 200, "b": 2, "h": 3, "layout": "bshd"},
                          {"mode": "group", "seqlens_q": (70, 0, 9), "slots_q": (72, 1, 9), "dv": 40, "sink": 1}],
    "fmha_bwd_costs": [{"b": 3, "sq": 9}, {"mode": "group", "seqlens_q": (70, 0, 3), "seqlens_k": (0, 5, 90)}],
    "fmha_bwd_turns": [{"b": 70}, {"b": 1}],
    "fmha_bwd_convert_dq": [{"sq": 40, "sk": 300, "d": 40, "workgroups": 3},
                            {"mode": "group", "seqlens_q": (70, 0, 3), "seqlens_k": (0, 5, 300), "d": 64}],
    "fmha_bwd_join": [{"sq": 40, "sk": 300, "d": 40, "workgroups": 3},
                      {"mode": "group", "seqlens_q": (470, 0, 3), "seqlens_k": (120, 5, 300), "d": 64}],
    "fmha_bwd": [{"sq": 64, "sk": 128, "d": 64}, {"sq": 33, "sk": 130, "d": 128, "h": 2, "hk": 1, "mask": "top_left"},
                 {"sq": 70, "sk": 70, "d": 32, "mask": "window:20,5", "deterministic": 1, "layout": "bshd"},
                 {"mode": "group", "seqlens_q": (70, 0, 3), "seqlens_k": (0, 5, 90), "d": 64, "h": 2, "hk": 1},
                 {"sq": 40, "sk": 136, "d": 64, "h": 1, "bias": "head", "dbias": 1},
                 {"sq": 40, "sk": 70, "d": 32, "alibi": "head"}, {"sq": 33, "sk": 70, "d": 64, "h": 1, "dropout": 0.2},
                 *({"mode": "group", "seqlens_q": (70, 0, 3), "seqlens_k": (140, 5, 90), "d": 32, "h": 2,
                    "deterministic": 1, "persistent": 1, "workgroups": 3, "ranges": ranges}
                   for ranges in ("steps", "blocks"))],
    "hstu_bwd": [{"sq": 70, "d": 64, "h": 1, "targets": (20,), "context": 5},
                 {"mode": "group", "seqlens_q": (40, 0, 130), "d": 32, "window": 9, "full": 3, "causal": 0}],
    "ssd_fwd": [{"s": 130, "d": 64, "n": 32},
                {"b": 2, "h": 2, "g": 2, "s": 70, "d": 33, "n": 17, "gate": 1, "initial": 1},
                {"s": 70, "d": 40, "n": 64, "layout": "bhds", "skip": "channel"}],
    "ragged_tiles": [{"rows": 3, "total": 40_000}, {"rows": 40, "total": 100, "tile": 8}],
    "ragged_row_sums": [{"rows": 9, "total": 5000, "pack": pack} for pack in ("host", "device")],
    "reduce": [{"shape": (64, 256), "dims": (1,)}, {"shape": (33, 65), "dims": (0,), "ops": "sum,max,sumsq"},
               {"shape": (5, 70, 9), "dims": (0, 2)}],
    "elementwise": [{"op": "a * 2 + b", "shape": (3, 1024)}, {"op": "maximum(a, b)", "shape": (5, 33)}],
    "cast": [{"shape": (3, 1024), "out": out} for out in ("f16", "f32", "i8")],
    "unpack_int4": [{"shape": (3, 4096)}, {"shape": (7, 130)}],
    "permute": [{"shape": (64, 3, 64), "perm": (2, 1, 0)}, {"shape": (5, 6, 7, 8), "perm": (0, 2, 1, 3)},
                {"shape": (65, 127), "perm": (1, 0)}],
    "transpose2d": [{"m": 64, "n": 128}, {"m": 67, "n": 61}, {"m": 127, "n": 129, "stride": 320, "ystride": 301}],
    "batched_transpose": [{"n": 2, "c": 64, "h": 8, "w": 8, "layout": layout} for layout in ("NCHW", "NHWC")]
    + [{"n": 3, "c": 5, "h": 7, "w": 9}],
    "copy": [{"m": 65, "n": 200, "through": through} for through in ("none", "registers", "direct")]
    + [{"m": 64, "n": 256, "through": "direct"}],
    "img2col": [{"image": (12, 13), "window": (3, 3), "c": 32}, {"image": (9, 7), "window": (3, 2), "c": 5, "g": 2}],
    "pooling": [{"image": (9, 7), "c": 5}, {"c": 1, "n": 1},
                {"image": (8, 8), "c": 64, "pads": (0,), "n": 1, "index": 1},
                {"image": (9, 7), "c": 5, "op": "average", "count": "elements"},
                {"image": (9, 7), "c": 5, "op": "average", "counted_pads": 0}],
    "histogram": [{"n": 3000, "bins": 300}, {"n": 1003, "part": 256, "bins": 100}],
    "cumsum": [{"m": 9, "n": 300, "totals": 1}, {"m": 300, "n": 33, "along": "columns", "exclusive": 1}],
    "nonzero": [{"m": 9, "n": 300}, {"m": 3, "n": 1, "dtype": "f16"}],
    "gather_rows": [{"rows": 9, "m": 20, "n": 300}, {"rows": 9, "m": 5, "n": 37}],
    "scatter_rows": [{"rows": 9, "m": 20, "n": 300}, {"rows": 30, "m": 17, "n": 37, "op": "store"}],
    "embedding_bag": [{"rows": 9, "m": 20, "n": 300}, {"rows": 9, "m": 5, "k": 3, "n": 37, "dtype": "bf16"}],
    "segment_sum": [{"m": 70, "n": 130, "segments": 5}],
    "argsort": [{"m": 3, "n": 300}],
    "topk": [{"m": 3, "n": 70, "k": 5}],
}  # fmt: skip
SCHEDULED: list[tuple[str, Request]] = [
    *(("gemm", {"m": 100, "n": 130, "k": k, "schedule": name}) for name in GEMM for k in (64, 200, 448)),
    *(("fmha_fwd", {"sq": 100, "sk": sk, "d": d, "schedule": name})
      for name in ATTENTION for sk, d in ((64, 64), (200, 64), (330, 128))),
]  # fmt: skip


def requests() -> Iterator[tuple[str, Request]]:
    """Every shape of every operator with every type, and every named schedule."""
    for name, shapes in SHAPES.items():
        operator = find_operator(name)
        dtypes = [one.choices for one in operator.keys if isinstance(one, Choice) and one.name == "dtype"]
        for shape, dtype in itertools.product(shapes, dtypes[0] if dtypes else (None,)):
            if (name, dtype) == ("gated_gemm", "f64") and shape.get("op") != "relu(gate) * up":
                continue  # chips have exponentials of f32 only
            if dtype in PACKED_TYPES and _cuts_bytes(name, shape):
                continue
            if shape.get("between") == "lds" and dtype not in FLOATS:
                continue  # rows between the products are quantised
            if name.startswith("fmha_fwd") and dtype not in MX_TYPES[shape.get("scales") == "mx"]:
                continue
            yield name, shape if dtype is None else {**shape, "dtype": dtype}
    yield from SCHEDULED


def _cuts_bytes(name: str, shape: Request) -> bool:
    """Whether rows are not whole bytes of packed elements, or a copy has a path that takes none."""
    if name == "copy":
        return shape["through"] != "none"
    rows = {"permute": shape.get("shape", (0,))[-1:], "transpose2d": (shape.get("m"),),
            "batched_transpose": (shape.get("c"),), "fused_moe": (shape.get("hidden"), shape.get("inter"))}  # fmt: skip
    return any(length % 4 for length in rows.get(name, ()))


def refused(name: str, request: Request, chip: str) -> bool:
    """Whether the operator does not take a request on a chip; tests of operators say which those are."""
    operator, target = find_operator(name), get_target(chip)
    try:
        return bool(operator.validate(operator.spec(operator.problem(**request), target), target))
    except RequestError:
        return True


def cases() -> Iterator[Any]:
    for number, ((name, request), chip) in enumerate(itertools.product(requests(), CHIPS), 1):
        marks = [] if number % STEP == 0 else [pytest.mark.full]
        text = ",".join(f"{key}={value}" for key, value in request.items())
        yield pytest.param(name, tuple(request.items()), chip, marks=marks, id=f"{chip}-{name}-{text}")


def test_every_operator_has_shapes() -> None:
    assert list(SHAPES) == list(OPERATORS)


def test_every_request_is_taken_somewhere() -> None:
    for name, request in requests():
        assert not all(refused(name, request, chip) for chip in CHIPS), (name, request)


@pytest.mark.parametrize(("name", "request_", "chip"), list(cases()))
def test_nothing_is_found(name: str, request_: Keys, chip: str) -> None:
    if refused(name, dict(request_), chip):
        pytest.skip(f"{name} does not take this on {chip}")
    assert findings(compiled(name, request_, chip), checks=ALL) == ()
