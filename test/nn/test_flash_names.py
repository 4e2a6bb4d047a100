"""Attention by flash-attention's names: its arguments, in their order, and the results of the functions behind them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from common import HOMES, exact, kept, normal

from ckmlir import nn
from ckmlir.ops.request import RequestError
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
    """And `out`, by its name alone."""
    parameters = dict(inspect.signature(getattr(nn, name)).parameters)
    out = parameters.pop("out")
    assert out.kind is out.KEYWORD_ONLY
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


@pytest.mark.one_in(2)
@homes
def test_dropout(session: nn.Session, put: Any) -> None:
    """The weights that the seed says are dropped, and of another seed others; the library's generator gives seeds."""
    q, k, v = (normal(2, 9, 4, 32), normal(2, 40, 2, 32), normal(2, 40, 2, 32))
    scores = np.einsum("bqhd,bkhd->bhqk", q.astype(np.float64), np.repeat(k, 2, 2).astype(np.float64)) / np.sqrt(32)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    given = [put(one) for one in (q, k, v)]
    for seed in (7, 2**40 + 1):
        factors = kept(2, 4, 9, 40, 0.3, seed) / 0.7
        assert 0.2 < np.mean(factors == 0) < 0.4
        wanted = np.einsum("bhqk,bkhd->bqhd", weights * factors, np.repeat(v, 2, 2).astype(np.float64))
        found = nn.attention(*given, dropout_p=0.3, seed=seed)
        assert np.allclose(exact(found), wanted, atol=4e-3)
        one = nn.attention_varlen(*(one[0] for one in given), [0, 9], [0, 40], dropout_p=0.3, seed=seed)
        assert np.allclose(exact(one), wanted[0], atol=4e-3)
    torch, results = pytest.importorskip("torch"), []
    for start in (1, 1, 2):
        torch.manual_seed(start)
        np.random.seed(start)
        results.append(exact(nn.flash_attn_func(*given, 0.3)))
        results.append(exact(nn.flash_attn_func(*given, 0.3)))
    first, second, third, fourth, other, _ = results
    assert np.array_equal(first, third) and np.array_equal(second, fourth)
    assert not np.array_equal(first, second) and not np.array_equal(first, other)


Q = np.zeros((2, 3, 4, 32), np.float16)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: nn.attention(Q, Q, Q, dropout_p=0.1), r"dropout_p=0.1: it needs a seed; expected seed=, a whole number"),
    (lambda: nn.attention(Q, Q, Q, dropout_p=0.1, seed=-1), r"dropout_p=0.1: seed=-1; expected seed="),
    (lambda: nn.flash_attn_func(Q, Q, Q, 1.5), r"dropout_p=1.5: expected a probability from 0"),
    (lambda: nn.flash_attn_varlen_func(Q[0], Q[0], Q[0], [0, 3], [0, 3], dropout_p=0.1, block_table=Q),
     "nothing is dropped of pages"),
    (lambda: nn.flash_attn_varlen_func(Q[0], Q[0], Q[0], [0, 3], [0, 3], 2, 3), "max_seqlen_q=2: a sequence has 3"),
    (lambda: nn.flash_attn_varlen_func(Q[0], Q[0], Q[0], [0, 3], [0, 3], 3, 1), "max_seqlen_k=1: a sequence has 3"),
    (lambda: nn.flash_attn_qkvpacked_func(Q), r"qkv: shape \(2, 3, 4, 32\); expected \(b, s, 3, heads, channels\)"),
    (lambda: nn.flash_attn_kvpacked_func(Q, Q[0]), r"kv: shape \(3, 4, 32\); expected"),
    (lambda: nn.flash_attn_func(Q, Q, Q, alibi_slopes=np.ones((3, 4), np.float32)), r"expected \(2, 4\)"),
])  # fmt: skip
def test_what_is_refused(session: nn.Session, call: Any, words: str) -> None:
    with pytest.raises((DeviceError, RequestError), match=words):
        call()
