"""The parts of a layer of experts as functions on arrays, against loops in NumPy, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from common import HOMES, Array, assert_close, exact, normal
from msgspec.structs import replace

from ckmlir import nn
from ckmlir.ops.packing import unpack_values
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError

Put = Callable[[Array], Any]
homes = pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
TOKENS, E, TOPK, K, N = 9, 4, 2, 40, 24


def routing() -> tuple[Array, Array]:
    random = np.random.default_rng(5)
    ids = np.stack([random.permutation(E)[:TOPK] for _ in range(TOKENS)]).astype(np.int32)
    return ids, random.random((TOKENS, TOPK), np.float32)


def entries(x: Array, b: Array, ids: Array) -> Array:
    """(tokens, topk, n): what each token's experts make of it."""
    return np.stack([[exact(b[one]) @ exact(row) for one in own] for row, own in zip(x, ids, strict=True)])


def test_entries_by_expert(session: nn.Session) -> None:
    ids, weights = routing()
    found = nn.sort_experts(ids, weights, E, unit=16)
    taken, tokens = found.totals
    assert tokens == TOKENS and taken % 16 == 0
    for place, (word, weight) in enumerate(zip(found.ids[:taken], found.weights[:taken], strict=True)):
        token, slot = word & 0xFFFFFF, word >> 24
        if token < TOKENS:
            assert ids[token, slot] == found.experts[place // 16] and weights[token, slot] == weight


@homes
@pytest.mark.parametrize("results", ["entry", "token"])
def test_rows_times_the_matrices_of_their_experts(session: nn.Session, put: Put, results: str) -> None:
    x, b, (ids, weights) = normal(TOKENS, K), normal(E, N, K), routing()
    sorted_entries = nn.sort_experts(put(ids), put(weights), E)
    found = nn.expert_matmul(put(x), put(b), sorted_entries, results=results, weighted=True)
    expected = entries(x, b, ids) * weights[..., None]
    assert_close(found, expected.sum(1) if results == "token" else expected.reshape(-1, N), factor=8)


@homes
def test_two_products_by_entry_and_by_place(session: nn.Session, put: Put) -> None:
    x, first, second, (ids, weights) = normal(TOKENS, K), normal(E, N, K) / 4, normal(E, 8, N), routing()
    sorted_entries = nn.sort_experts(put(ids), put(weights), E)
    expected = np.zeros((TOKENS, 8))
    for token, slot in np.ndindex(ids.shape):
        one = ids[token, slot]
        expected[token] += weights[token, slot] * (exact(second[one]) @ (exact(first[one]) @ exact(x[token])))
    for rows in ("entry", "place"):
        between = nn.expert_matmul(put(x), put(first), sorted_entries, results=rows)
        found = nn.expert_matmul(between, put(second), sorted_entries, rows=rows, results="token", weighted=True)
        assert_close(found, expected, factor=8)


@pytest.mark.one_in(2)
@homes
@pytest.mark.parametrize(("packed", "powers"), [("fp4", True), ("fp4", False), ("i4", False), ("u4", False)])
def test_matrices_of_four_bits(session: nn.Session, put: Put, packed: str, powers: bool) -> None:
    """MXFP4 weights, and such with other scales, of 64 elements; the last group is shorter."""
    k, group = 72, 32 if powers else 64
    x, codes = normal(TOKENS, k), np.random.default_rng(3).integers(0, 256, (E, N, k // 2), dtype=np.uint8)
    exponents = np.random.default_rng(4).integers(-2, 3, (E, N, -(-k // group)))
    scale = np.exp2(exponents).astype(ml_dtypes.float8_e8m0fnu if powers else np.float32)
    b = unpack_values(codes, packed) * np.repeat(np.exp2(exponents), group, axis=2)[..., :k]
    ids, weights = routing()
    sorted_entries = nn.sort_experts(put(ids), put(weights), E)
    kinds = {"results": "token", "weighted": True, "packed": packed}
    found = nn.expert_matmul(put(x), put(codes), sorted_entries, scale=put(scale), **kinds)
    assert_close(found, (entries(x, b, ids) * weights[..., None]).sum(1), factor=16)


@homes
def test_gate_and_up_in_one_product(session: nn.Session, put: Put) -> None:
    x, gate, up, (ids, weights) = normal(TOKENS, K), normal(E, N, K), normal(E, N, K), routing()
    sorted_entries = nn.sort_experts(put(ids), put(weights), E)
    left, right = entries(x, gate, ids), entries(x, up, ids)
    found = nn.expert_matmul(put(x), put(gate), sorted_entries, up=put(up))
    assert_close(found, (left / (1 + np.exp(-left)) * right).reshape(-1, N), factor=16)
    asked = {"op": "relu(gate) + up", "results": "token", "weighted": True, "dtype": "f32"}
    found = nn.expert_matmul(put(x), put(gate), sorted_entries, up=put(up), **asked)
    assert_close(found, ((np.maximum(left, 0) + right) * weights[..., None]).sum(1), factor=16)


def test_pairs_and_powers_of_two_by_other_types(session: nn.Session) -> None:
    """PyTorch's type of two elements, and powers of two as bytes, of gate and up, come to the same."""
    random, (ids, weights) = np.random.default_rng(3), routing()
    x = torch.from_numpy(normal(TOKENS, 64))
    gate, up = (torch.from_numpy(random.integers(0, 256, (E, N, 32), np.uint8)) for _ in "gu")
    of_gate, of_up = (torch.from_numpy(random.integers(124, 128, (E, N, 2), np.uint8)) for _ in "gu")
    entries_of = nn.sort_experts(torch.from_numpy(ids), torch.from_numpy(weights), E)
    found = nn.expert_matmul(x, gate, entries_of, scale=of_gate, up=up, up_scale=of_up)
    pairs = (one.view(torch.float4_e2m1fn_x2) for one in (gate, up))
    powers = (one.view(torch.float8_e8m0fnu) for one in (of_gate, of_up))
    named = dict(zip(("b", "up", "scale", "up_scale"), (*pairs, *powers), strict=True))
    assert torch.equal(found, nn.expert_matmul(x, routing=entries_of, **named))


def test_a_share_of_the_experts(session: nn.Session) -> None:
    x, b, (ids, weights), mask = normal(TOKENS, K), normal(E, N, K), routing(), np.array([1, 0, 1, 1], np.int32)
    sorted_entries = nn.sort_experts(ids, weights, E, expert_mask=mask)
    found = nn.expert_matmul(x, b[mask > 0], sorted_entries, results="token", weighted=True)
    here = weights * mask[ids]
    assert_close(found, (entries(x, b, ids) * here[..., None]).sum(1), factor=8)


@homes
def test_rows_scaled_for_each_expert_and_quantised(session: nn.Session, put: Put) -> None:
    x, (ids, _) = normal(TOKENS, K), routing()
    smooth = np.abs(normal(E, K, dtype="f32")) + 0.5
    q, scales = nn.quantize_for_experts(put(x), put(ids), put(smooth))
    expected = exact(x) * smooth[ids.T]
    step = 0.501 * exact(scales)[..., None]
    assert (np.abs(exact(q) * exact(scales)[..., None] - expected) <= step).all()


def test_what_is_refused(session: nn.Session) -> None:
    x, b, (ids, weights) = normal(TOKENS, K), normal(E, N, K), routing()
    one = nn.sort_experts(ids, weights, E)
    smooth = np.ones((E, K), np.float32)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: nn.sort_experts(ids, weights[:, :1], E), "topk_weights: shape (9, 1); expected (9, 2)"),
        (lambda: nn.sort_experts(ids, weights, E, expert_mask=ids[0]), "expert_mask: shape (2,); expected (4,)"),
        (lambda: nn.expert_matmul(x, b, one, rows="row"), "rows=row: expected one of token, entry, place"),
        (lambda: nn.expert_matmul(x, b, one, results="sum"), "results=sum: expected one of entry, token, place"),
        (
            lambda: nn.expert_matmul(x, np.zeros((E, N, K // 2), np.uint8), one, scale=np.ones((E, N, 3), np.float32)),
            "scale: shape (4, 24, 3) of f32; expected one for each of 4x24 rows and 32 of 40 of e8m0, or 32, 64",
        ),
        (lambda: nn.expert_matmul(x, b, one, up=b, op="acc"), "it names acc; expected gate and up, the sums of"),
        (lambda: nn.expert_matmul(x, b, one, op="silu(up)"), "it names up; expected acc, the sums of the only matrix"),
        (lambda: nn.expert_matmul(x, b, one, op="acc * d0"), "op: there is no array 'd0' in the expression"),
        (lambda: nn.expert_matmul(x, b, one, op="acc + d0", weighted=True), "op: there is no array 'd0'"),
        (lambda: nn.expert_matmul(x, b, one, up=b, op="gate * beta"), "op: there is no array 'beta'"),
        (lambda: nn.expert_matmul(x, b, one, up=b[:3]), "up: shape (3, 24, 40); expected (4, 24, 40)"),
        (lambda: nn.expert_matmul(x, b, one, up_scale=smooth), "up_scale: found without up; leave it out"),
        (lambda: nn.expert_matmul(x, b, one, up=b, up_scale=smooth), "up_scale: matrices have scales, or none has"),
        (
            lambda: nn.expert_matmul(x, x, one, scale=smooth, packed="fp6"),
            "packed=fp6: expected one of fp4, i4, u4",
        ),
        (lambda: nn.expert_matmul(x, b[:3], one), "b: matrices of 3 experts; expected the routing's 4"),
        (lambda: nn.expert_matmul(x[:5], b, one), "a: 5 rows; expected 9, one for each token"),
        (lambda: nn.expert_matmul(x, b, one, rows="entry"), "a: 9 rows; expected 18, one for each entry"),
        (lambda: nn.expert_matmul(x, b[..., :8].copy(), one), "expected rows of one length"),
        (lambda: nn.expert_matmul(x, b.astype(np.float32), one), "b: elements are f32; expected f16"),
        (lambda: nn.quantize_for_experts(x, ids[:3], smooth), "expected (tokens, n), (tokens, topk) and (experts, n)"),
        (lambda: nn.expert_matmul(x, b, replace(one, ids=one.ids[:5])), "sorted_ids: shape (5,); expected at least"),
    ]
    for call, words in calls:
        with pytest.raises((DeviceError, RequestError)) as caught:
            call()
        assert words in str(caught.value)
