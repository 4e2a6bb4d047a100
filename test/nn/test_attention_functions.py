"""Attention over caches, with listed blocks, with 8 bits, and HSTU's, as functions on arrays, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from common import HOMES, Array, assert_close, exact, normal

from ckmlir import nn
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError

homes = pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
Put = Callable[[Array], Any]
B, H, HK, D, PAGE = 2, 4, 2, 32, 16


def attended(q: Array, k: Array, v: Array, causal: bool, left: int = -1, extra: Array | None = None) -> Array:
    """One sequence, (rows, heads, channels), the last query at the last key."""
    heads = q.shape[1] // k.shape[1]
    k, v = (exact(one).repeat(heads, 1) for one in (k, v))
    scores = np.einsum("qhd,khd->hqk", exact(q), k) / np.sqrt(q.shape[2])
    at = np.arange(len(q))[:, None] + len(k) - len(q)
    keys = np.arange(len(k))[None]
    seen = (keys <= at if causal else np.full((len(q), len(k)), True)) & ((keys >= at - left) if left >= 0 else True)
    seen = np.broadcast_to(seen, scores.shape) if extra is None else seen & extra
    weights = np.exp(np.where(seen, scores - np.where(seen, scores, -1e9).max(-1, keepdims=True), -1e9))
    weights = np.where(seen, weights, 0.0)
    total = weights.sum(-1, keepdims=True)
    return np.einsum("hqk,khd->qhd", weights / np.where(total, total, 1.0), v)


def rotated(x: Array, cos: Array, sin: Array, at: Array, interleaved: bool) -> Array:
    """Rows at positions, the first channels in pairs."""
    x, r = exact(x).copy(), 2 * cos.shape[1]
    first, second = (slice(0, r, 2), slice(1, r, 2)) if interleaved else (slice(0, r // 2), slice(r // 2, r))
    left, right = x[..., first].copy(), x[..., second].copy()
    c, s = exact(cos)[at][:, None], exact(sin)[at][:, None]
    x[..., first], x[..., second] = left * c - right * s, right * c + left * s
    return x


LENGTHS, NEW, ROWS = np.array([20, 3], np.int32), 3, 48


@pytest.mark.one_in(2)
@homes
@pytest.mark.parametrize(
    ("kind", "causal", "interleaved"),
    [
        ("pages", True, True),
        *(
            pytest.param(kind, causal, interleaved, marks=pytest.mark.full)
            for kind in ("dense", "slots", "pages")
            for causal in (False, True)
            for interleaved in (False, True)
            if (kind, causal, interleaved) != ("pages", True, True)
        ),
    ],
)
def test_new_keys_and_a_cache(session: nn.Session, put: Put, kind: str, causal: bool, interleaved: bool) -> None:
    q, k, v = normal(B, NEW, H, D), normal(B, NEW, HK, D), normal(B, NEW, HK, D)
    angles = np.random.default_rng(0).random((64, 8)) * 6
    cos, sin = np.cos(angles).astype(np.float16), np.sin(angles).astype(np.float16)
    numbers = {"dense": np.arange(B), "slots": np.array([4, 1]), "pages": np.array([[5, 2, 8], [1, 7, 0]])}[kind]
    options: dict[str, Any] = {}
    if kind == "pages":
        caches = [normal(9, PAGE, HK, D) for _ in range(2)]
        options["block_table"] = put(numbers.astype(np.int32))
    else:
        caches = [normal(B if kind == "dense" else 5, ROWS, HK, D) for _ in range(2)]
        options |= {"cache_batch_idx": put(numbers.astype(np.int32))} if kind == "slots" else {}
    expected, grown = [], [one.copy() for one in caches]
    for number, length in enumerate(LENGTHS):
        at = length + np.arange(NEW)
        new = rotated(k[number], cos, sin, at, interleaved), exact(v[number])
        rows = (numbers[number][at // PAGE], at % PAGE) if kind == "pages" else (numbers[number], at)
        whole = []
        for cache, one in zip(grown, new, strict=True):
            cache[rows] = one
            whole.append(cache[numbers[number]].reshape(-1, HK, D)[: length + NEW])
        query = rotated(q[number], cos, sin, at if causal else np.full(NEW, length), interleaved)
        expected.append(attended(query, *whole, causal))
    held = [put(one.copy()) for one in caches]
    o, lse = nn.attention_with_kvcache(
        put(q), *held, put(k), put(v), put(cos), put(sin), put(LENGTHS), causal=causal,
        rotary_interleaved=interleaved, return_lse=True, **options,
    )  # fmt: skip
    assert_close(o, np.stack(expected), factor=4)
    assert exact(lse).shape == (B, H, NEW)
    for found, wanted in zip(held, grown, strict=True):
        assert_close(found, exact(wanted))


@pytest.mark.one_in(2)
@homes
def test_a_cache_as_it_is(session: nn.Session, put: Put) -> None:
    q, k, v = normal(B, 1, H, D), normal(B, ROWS, HK, D), normal(B, ROWS, HK, D)
    held = put(q), put(k), put(v)
    whole = np.stack([attended(q[one], k[one], v[one], False) for one in range(B)])
    assert_close(nn.attention_with_kvcache(*held), whole)
    some = np.stack([attended(q[one], k[one, :9], v[one, :9], False) for one in range(B)])
    out = put(np.zeros_like(q))
    assert nn.attention_with_kvcache(*held, cache_seqlens=9, out=out) is out
    assert_close(out, some)


@pytest.mark.one_in(2)
@homes
@pytest.mark.parametrize(
    ("causal", "left"),
    [(True, -1), *(pytest.param(*one, marks=pytest.mark.full) for one in ((True, 5), (False, -1)))],
)
def test_packed_queries_and_pages(session: nn.Session, put: Put, causal: bool, left: int) -> None:
    starts, lengths = [0, 7, 8, 8], np.array([19, 40, 5], np.int32)
    q, pools = normal(8, H, D), [normal(11, PAGE, HK, D) for _ in range(2)]
    table = np.array([[9, 2, 0], [1, 7, 3], [4, 10, 10]], np.int32)
    each = zip(table, lengths, strict=True)
    rows = [[pool[pages].reshape(-1, HK, D)[:length] for pool in pools] for pages, length in each]
    parts = [q[begin:end] for begin, end in pairwise(starts)]
    expected = np.concatenate([attended(one, *two, causal, left) for one, two in zip(parts, rows, strict=True)])
    given = put(q), *map(put, pools), starts
    window = (left, 0 if causal else -1)
    found = nn.attention_paged(*given, put(lengths), put(table), causal=causal, window=window, balanced=causal)
    assert_close(found, expected)
    counts = -(-lengths // PAGE)
    indices = np.concatenate([pages[:count] for pages, count in zip(table, counts, strict=True)])
    indptr, last = [0, *np.cumsum(counts).tolist()], (lengths - 1) % PAGE + 1
    lists = put(indices), put(last.astype(np.int32))
    found, lse = nn.attention_page_lists(*given, indptr, *lists, causal=causal, window=window, return_lse=True)
    assert_close(found, expected)
    assert exact(lse).shape == (H, 8)


@homes
@pytest.mark.parametrize("form", ["map", *(pytest.param(form, marks=pytest.mark.full) for form in ("list", "deltas"))])
def test_listed_blocks(session: nn.Session, put: Put, form: str) -> None:
    q, k, v = normal(1, 100, 2, D), normal(1, 150, 1, D), normal(1, 150, 1, D)
    kept = np.random.default_rng(4).random((1, 2, 2, 3)) < 0.6
    numbers = np.full((1, 2, 2, 3), 99, np.int32)
    for place in np.ndindex(1, 2, 2):
        found = np.flatnonzero(kept[place])
        numbers[place][: len(found)] = np.diff(found, prepend=0) if form == "deltas" else found
    seen = kept[0].repeat(64, 1)[:, :100].repeat(64, 2)[:, :, :150]
    expected = attended(q[0], k[0], v[0], False, extra=seen)[None]
    options: dict[str, Any] = {"block_map": put(kept.astype(np.int8))}
    if form != "map":
        counts = kept.sum(-1).astype(np.int32)
        options = {"block_list": put(numbers), "block_counts": put(counts), "deltas": form == "deltas"}
    assert_close(nn.sparse_attention(put(q), put(k), put(v), block_size=(64, 64), **options), expected)


@homes
def test_predicted_blocks(session: nn.Session, put: Put) -> None:
    """Keys that all look one way, and a block of each that no query looks at."""
    q, k = normal(1, 100, 2, D) * 0.2 + np.float16(1), normal(1, 150, 1, D) * 0.2 + np.float16(1)
    k[:, 64:128] -= np.float16(2)
    options: dict[str, Any] = {"block_size": (64, 64), "cdfthreshd": 0.9, "return_lists": True}
    found, listed, counts = nn.predict_blocks(put(q), put(k), **options)
    np.testing.assert_array_equal(exact(found), np.broadcast_to([1, 0, 1], (1, 2, 2, 3)))
    np.testing.assert_array_equal(exact(listed), np.broadcast_to([0, 2, -1], (1, 2, 2, 3)))
    np.testing.assert_array_equal(exact(counts), np.full((1, 2, 2), 2))
    all_of_one = put(np.array([[0.5, 0.9], [1, 0.9]], np.float32))
    taken = exact(nn.predict_blocks(put(q), put(k), thresholds=all_of_one, **options)[0])
    assert taken[0, 1].all() and not taken[0, 0].all()
    v, block = normal(1, 150, 1, D), {"block_size": (64, 64), "cdfthreshd": 0.9}
    seen = np.broadcast_to(np.repeat([True, False, True], 64)[:150], (2, 100, 150))
    expected = attended(q[0], k[0], v[0], False, extra=seen)[None]
    assert_close(nn.sparge_attention(put(q), put(k), put(v), **block), expected)
    eight: dict[str, Any] = {**block, "quantized": "i8", "granularity": "warp", "dtype": "f16"}
    found, logarithms = nn.sparge_attention(put(q), put(k), put(v), return_lse=True, **eight)
    assert_close(found, expected, factor=16)  # steps of 8 bits
    assert exact(logarithms).shape == (1, 2, 100)


@homes
def test_eight_bits(session: nn.Session, put: Put) -> None:
    random = np.random.default_rng(6)
    q, k = (random.integers(-127, 128, (B, rows, heads, D), dtype=np.int8) for rows, heads in ((40, H), (150, HK)))
    v = normal(B, 150, HK, D).astype(numpy_dtype("fp8", session.target))
    shapes = (B, H, 1), (B, HK, 2), (B, HK, D)
    of_q, of_k, of_v = (random.random(shape, np.float32) / 100 + np.float32(0.01) for shape in shapes)
    over = [one.transpose(0, 2, 1).repeat(128, 1)[:, : x.shape[1], :, None] for one, x in ((of_q, q), (of_k, k))]
    numbers = exact(q) * over[0], exact(k) * over[1], exact(v) * of_v[:, None]
    expected = np.stack([attended(*(one[number] for one in numbers), True) for number in range(B)])
    found = nn.sage_attention(put(q), put(k), put(v), put(of_q), put(of_k), put(of_v), causal=True)
    assert_close(found, expected, "bf16", 8)  # weights are rounded to fp8


@homes
@pytest.mark.parametrize("targets", [True, pytest.param(False, marks=pytest.mark.full)])
def test_hstu(session: nn.Session, put: Put, targets: bool) -> None:
    starts, counts = [0, 11, 11, 40], np.array([3, 0, 4], np.int32)
    q, k, v = (normal(40, 2, D) for _ in range(3))
    expected = np.zeros((40, 2, D))
    for (begin, end), count in zip(pairwise(starts), counts, strict=True):
        rows, keys = np.arange(end - begin)[:, None], np.arange(end - begin)[None]
        history = end - begin - (count if targets else 0)
        seen = (rows == keys) | ((keys <= rows) & (keys < history))
        scores = np.einsum("qhd,khd->hqk", exact(q[begin:end]), exact(k[begin:end])) / np.sqrt(D)
        weights = np.where(seen, scores / (1 + np.exp(-scores)), 0) * 0.25
        expected[begin:end] = np.einsum("hqk,khd->qhd", weights, exact(v[begin:end]))
    given = put(counts) if targets else None
    found = nn.hstu_attention(put(q), put(k), put(v), starts, num_targets=given, attn_scale=0.25)
    assert_close(found, expected)


Q, K = np.zeros((2, 3, 4, 32), np.float16), np.zeros((2, 48, 2, 32), np.float16)
TWO = K[:, :2].copy()
N, L, FLAT = K[:, :3], np.zeros(2, np.int32), np.zeros((6, 4, 32), np.float16)
ONCE = np.lib.stride_tricks.as_strided(K, K.shape, (0, *K.strides[1:]))


@pytest.mark.parametrize(("call", "words"), [
    (lambda: nn.attention_with_kvcache(Q, K, K[:, :9]), "expected as many batches, rows and heads"),
    (lambda: nn.attention_with_kvcache(Q, K[:1], K[:1]), "k_cache: 1 batches for 2 sequences"),
    (lambda: nn.attention_with_kvcache(Q, K, K, N), "k, v, cache_seqlens: expected new keys with new values"),
    (lambda: nn.attention_with_kvcache(Q, K, K, N, N), "k, v, cache_seqlens: expected"),
    (lambda: nn.attention_with_kvcache(Q, K, K, N, N[:1], cache_seqlens=L), r"v: shape \(1, 3, 2, 32\); expected"),
    (lambda: nn.attention_with_kvcache(Q, K, K, rotary_cos=Q[0, 0]), "rotary_cos: there are no new keys"),
    (lambda: nn.attention_with_kvcache(Q, K, K, cache_leftpad=L), "cache_leftpad: .* expected None"),
    (lambda: nn.attention_with_kvcache(Q, K, K, cache_seqlens=L[:1]), r"cache_seqlens: shape \(1,\); expected \(2,\)"),
    (lambda: nn.attention_with_kvcache(Q, TWO, TWO, N, N, cache_seqlens=L), "k: 3 new keys; expected fewer"),
    (lambda: nn.attention_with_kvcache(Q, ONCE, K, N, N, cache_seqlens=L), "k_cache would be written, and elements of"),
    (lambda: nn.attention_with_kvcache(Q, K, K, block_table=L.reshape(1, 2)), "block_table: shape .* 2 sequences"),
    (lambda: nn.attention_paged(FLAT, K, K, [0, 6], L, L.reshape(2, 1)), "cu_seqlens_q: 2 numbers; expected one more"),
    (lambda: nn.attention_paged(FLAT, K, K, [0, 6], L, L.reshape(2, 1), causal=False, window=None), "window=None: exp"),
    (lambda: nn.attention_paged(FLAT, K, K, [0, 6], L, L.reshape(2, 1), causal=False, window=(3,)), "two numbers"),
    (lambda: nn.attention_paged(FLAT, K, K, [0, 6], L, L.reshape(2, 1), causal=False, balanced=True), "balanced=True"),
    (lambda: nn.attention_page_lists(FLAT, K, K, [0, 6], [0, 3], L, L), "kv_indptr: it ends with 3"),
    (lambda: nn.sparse_attention(Q, K, K), "expected a map, or a list and counts"),
    (lambda: nn.sparse_attention(Q, K, K, L.astype(np.int8)), r"block_map: shape \(2,\); expected \(2, 4, 1, 1\)"),
    (lambda: nn.sage_attention(Q, K, K, Q[0], Q[0], Q[0]), "v_scale: v is f16; expected"),
    (lambda: nn.sage_attention(Q, K, K, np.ones((2, 4, 1), np.float32), np.ones((2, 2, 1), np.float32)), "dtype=f16"),
    (lambda: nn.sparge_attention(Q, K, K, dtype="bf16"), "granularity, v_scale, dtype: only with quantized"),
    (lambda: nn.sparge_attention(Q, K, K, granularity="warp"), "granularity, v_scale, dtype: only with quantized"),
    (lambda: nn.sparge_attention(Q, K, K, quantized="i8", v_scale=Q[0]), "v_scale: v is f16; expected scales of"),
    (lambda: nn.sparge_attention(Q, K, K, block_size=(32, 128)), r"block_size\[0\]=32: expected a power of two"),
    (lambda: nn.sparge_attention(Q, K, K, quantized="i4"), "quantized=i4: expected one of i8, fp8"),
    (lambda: nn.sparge_attention(Q, K, K, quantized="i8", granularity="x"), "granularity=x: expected one of block, wa"),
    (lambda: nn.sage_attention(Q, K, K, Q[0], Q[0], granularity="tensor"), "granularity=tensor: expected one of bloc"),
    (lambda: nn.hstu_attention(FLAT, FLAT[:5], FLAT[:5], [0, 6]), "expected as many places"),
    (lambda: nn.hstu_attention(FLAT, FLAT, FLAT, [0, 6], weights="tanh"), "weights=tanh"),
])  # fmt: skip
def test_what_is_refused(session: nn.Session, call: Callable[[], Any], words: str) -> None:
    with pytest.raises((DeviceError, RequestError), match=words):
        call()
