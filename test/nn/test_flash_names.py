"""Attention by flash-attention's names: its arguments, in their order, and the results of the functions behind them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from common import HOMES, exact, normal

from ckmlir import nn
from ckmlir.runtime.device import DeviceError

homes = pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
SHARED = "dropout_p softmax_scale causal window_size softcap alibi_slopes deterministic return_attn_probs"
ARGUMENTS = {
    "flash_attn_func": f"q k v {SHARED}",
    "flash_attn_varlen_func": f"q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k {SHARED} block_table",
    "flash_attn_with_kvcache": (
        "q k_cache v_cache k v rotary_cos rotary_sin cache_seqlens cache_batch_idx cache_leftpad block_table "
        "softmax_scale causal window_size softcap rotary_interleaved alibi_slopes num_splits return_softmax_lse"
    ),
}
"""Of flash_attn 2.8, flash_attn/flash_attn_interface.py."""


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_are_those_of_flash_attention(name: str) -> None:
    parameters = inspect.signature(getattr(nn, name)).parameters
    assert list(parameters) == ARGUMENTS[name].split()
    assert all(one.kind is one.POSITIONAL_OR_KEYWORD for one in parameters.values())


def assert_same(found: Any, wanted: Any) -> None:
    assert np.array_equal(exact(found), exact(wanted))


@pytest.mark.one_in(2)
@homes
def test_batches(session: nn.Session, put: Any) -> None:
    qkv = normal(2, 9, 3, 2, 32)
    q, k, v = (put(np.ascontiguousarray(qkv[:, :, part])) for part in range(3))
    o, lse = nn.attention(q, k, v, causal=True, window=(4, -1), scale=0.5, return_lse=True)
    found = nn.flash_attn_func(q, k, v, 0.0, 0.5, True, (4, -1), return_attn_probs=True)
    assert_same(found[0], o)
    assert_same(found[1], lse)
    assert found[2] is None
    assert_same(nn.flash_attn_qkvpacked_func(put(qkv), 0.0, 0.5, True, window_size=(4, -1)), o)
    kv = put(np.ascontiguousarray(qkv[:, :, 1:]))
    assert_same(nn.flash_attn_kvpacked_func(q, kv, causal=True, softmax_scale=0.5, window_size=(4, -1)), o)


@pytest.mark.full
@homes
def test_slopes_of_sequences_and_heads(session: nn.Session, put: Any) -> None:
    q, slopes = put(normal(2, 9, 2, 32)), np.array([[0.5, 0.25], [1.0, 2.0]], np.float32)
    whole = exact(nn.flash_attn_func(q, q, q, alibi_slopes=put(slopes)))
    each = [exact(nn.flash_attn_func(q, q, q, alibi_slopes=put(one))) for one in slopes]
    assert np.array_equal(whole[0], each[0][0]) and np.array_equal(whole[1], each[1][1])
    rows = q.reshape(18, 2, 32)
    found = nn.flash_attn_varlen_func(rows, rows, rows, [0, 9, 18], [0, 9, 18], alibi_slopes=put(slopes))
    assert np.allclose(exact(found).reshape(whole.shape), whole, atol=2e-3)


@homes
def test_sequences(session: nn.Session, put: Any) -> None:
    starts = np.array([0, 7, 7, 20], np.int32)
    qkv = normal(20, 3, 2, 32)
    q, k, v = (put(np.ascontiguousarray(qkv[:, part])) for part in range(3))
    o = nn.attention_varlen(q, k, v, starts, causal=True)
    assert_same(nn.flash_attn_varlen_func(q, k, v, put(starts), starts, 13, 13, causal=True), o)
    assert_same(nn.flash_attn_varlen_qkvpacked_func(put(qkv), starts, 13, causal=True), o)
    kv = put(np.ascontiguousarray(qkv[:, 1:]))
    assert_same(nn.flash_attn_varlen_kvpacked_func(q, kv, starts, starts, 13, 13, causal=True), o)


@pytest.mark.full
@homes
def test_caches(session: nn.Session, put: Any) -> None:
    q, k, v = put(normal(3, 4, 32)), put(normal(5, 16, 2, 32)), put(normal(5, 16, 2, 32))
    table, lengths = put(np.array([[4, 1], [0, 2]], np.int32)), put(np.array([20, 9], np.int32))
    paged = nn.attention_paged(q, k, v, [0, 1, 3], lengths, table)
    found = nn.flash_attn_varlen_func(q, k, v, [0, 1, 3], [0, 20, 29], causal=True, block_table=table)
    assert_same(found, paged)
    one = q.reshape(3, 1, 4, 32)[:2]
    o, lse = nn.attention_with_kvcache(one, k, v, cache_seqlens=lengths, block_table=table, scale=0.5, return_lse=True)
    found = nn.flash_attn_with_kvcache(
        one, k, v, cache_seqlens=lengths, block_table=table, softmax_scale=0.5, return_softmax_lse=True
    )
    assert_same(found[0], o)
    assert_same(found[1], lse)


Q = np.zeros((2, 3, 4, 32), np.float16)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: nn.flash_attn_func(Q, Q, Q, 0.1), "dropout_p=0.1: functions on arrays drop nothing; expected 0"),
    (lambda: nn.flash_attn_varlen_func(Q[0], Q[0], Q[0], [0, 3], [0, 3], 2, 3), "max_seqlen_q=2: a sequence has 3"),
    (lambda: nn.flash_attn_varlen_func(Q[0], Q[0], Q[0], [0, 3], [0, 3], 3, 1), "max_seqlen_k=1: a sequence has 3"),
    (lambda: nn.flash_attn_qkvpacked_func(Q), r"qkv: shape \(2, 3, 4, 32\); expected \(b, s, 3, heads, channels\)"),
    (lambda: nn.flash_attn_kvpacked_func(Q, Q[0]), r"kv: shape \(3, 4, 32\); expected"),
    (lambda: nn.flash_attn_func(Q, Q, Q, alibi_slopes=np.ones((3, 4), np.float32)), r"expected \(2, 4\)"),
])  # fmt: skip
def test_what_is_refused(session: nn.Session, call: Any, words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        call()
