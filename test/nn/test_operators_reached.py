"""Every operator is what a function on arrays runs, or is listed here with the reason why none does."""

from __future__ import annotations

import ast
from pathlib import Path

from ckmlir import nn
from ckmlir.ops import OPERATORS

A_STEP = "a step of other operators, whose functions run it"
APART = {
    "gemm_multi_d": "gemm with D tensors: linear and combined_matmul",
    "streamk_gemm": "gemm with work shared out otherwise",
    "unpack_int4": "cast of packed i4",
    "fmha_fwd_pagedkv": "fmha_batch_prefill with tables of one width: attention_paged",
    "sum_parts": A_STEP,
    "batchnorm2d_sums": A_STEP,
    "mhc_coefficients": A_STEP,
    "listed_entries": A_STEP,
    "fmha_fwd_splitkv_combine": A_STEP,
    "fmha_fwd_shares": A_STEP,
    "block_means": A_STEP,
    "quantize_heads": A_STEP,
    "fmha_bwd_dot_do_o": A_STEP,
    "fmha_bwd_costs": A_STEP,
    "fmha_bwd_turns": A_STEP,
    "fmha_bwd_convert_dq": A_STEP,
    "fmha_bwd_join": A_STEP,
    "ragged_tiles": A_STEP,
    "ragged_row_sums": A_STEP,
}


def test_every_operator_is_reached() -> None:
    sources = [path.read_text() for path in Path(nn.__file__).parent.glob("*.py")]
    words = {
        node.value
        for text in sources
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(OPERATORS) - words == set(APART)
