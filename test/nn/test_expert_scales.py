"""Scales of 8 bits and biases of experts' products, as arguments of `expert_matmul`, against loops in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from common import HOMES, Array, assert_close, exact, normal

from ckmlir import nn
from ckmlir.nn.gradients import NoGradient
from ckmlir.ops.packing import unpack_values
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError

Put = Callable[[Array], Any]
homes = pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
TOKENS, E, TOPK, K, N = 9, 4, 2, 40, 24
OF_8_BITS = {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz, "i8": np.int8}
LIMITED = "minimum(gate, 7) * sigmoid(1.702 * minimum(gate, 7)) * (clamp(up, -7, 7) + 1)"


def routing(put: Put, tokens: int = TOKENS) -> tuple[Array, Array, nn.SortedExperts]:
    random = np.random.default_rng(5)
    ids = np.array([random.permutation(E)[:TOPK] for _ in range(tokens)], np.int32).reshape(tokens, TOPK)
    weights = random.random((tokens, TOPK), np.float32)
    return ids, weights, nn.sort_experts(put(ids), put(weights), E)


def entries(x: Array, b: Array, ids: Array, bias: Array | None = None) -> Array:
    """(entries, n): what each token's experts make of it."""
    added = np.zeros(b.shape[:2]) if bias is None else exact(bias)
    made = [exact(b[one]) @ exact(row) + added[one] for row, own in zip(x, ids, strict=True) for one in own]
    return np.array(made).reshape(-1, b.shape[1])


def eighths(dtype: str, *shape: int) -> Array:
    """Numbers from -4 to 4 that every type of 8 bits has."""
    return np.random.default_rng(7).integers(-4, 5, shape).astype(OF_8_BITS[dtype])


def scales(*shape: int, powers: bool = False, seed: int = 3) -> Array:
    """From 1/8 to 1.25: powers of two, e8m0, or f32 that are none."""
    found = np.exp2(np.random.default_rng(seed).integers(-3, 1, shape))
    return found.astype(ml_dtypes.float8_e8m0fnu) if powers else (1.25 * found).astype(np.float32)


def limited(gate: Array, up: Array) -> Array:
    gate = np.minimum(gate, 7)
    found: Array = gate / (1 + np.exp(-1.702 * gate)) * (np.clip(up, -7, 7) + 1)
    return found


@homes
@pytest.mark.parametrize(("dtype", "of_bias"), [("f16", "f32"), ("bf16", "bf16"), ("f32", "f16")])
def test_a_bias_of_each_expert(session: nn.Session, put: Put, dtype: str, of_bias: str) -> None:
    """Before what becomes of the product, and before its weight."""
    x, b, bias = normal(TOKENS, K, dtype=dtype), normal(E, N, K, dtype=dtype), normal(E, N, dtype=of_bias)
    ids, weights, lists = routing(put)
    asked = {"op": "relu(acc)", "weighted": True, "results": "token"}
    found = nn.expert_matmul(put(x), put(b), lists, bias=put(bias), **asked)
    expected = np.maximum(entries(x, b, ids, bias), 0) * weights.reshape(-1, 1)
    assert_close(found, expected.reshape(TOKENS, TOPK, N).sum(1), dtype, factor=8)


@homes
def test_biases_of_gate_and_up_of_four_bits(session: nn.Session, put: Put) -> None:
    """The first product of a layer like gpt-oss's."""
    x, biases, codes = normal(TOKENS, 64) / 4, [normal(E, N) for _ in "gu"], np.random.default_rng(3)
    gate, up = (codes.integers(0, 256, (E, N, 32), dtype=np.uint8) for _ in "gu")
    of_gate, of_up = (scales(E, N, 2, powers=True, seed=seed) for seed in range(2))
    ids, _, lists = routing(put)
    beside = {"scale": of_gate, "up": up, "up_scale": of_up, "bias": biases[0], "up_bias": biases[1]}
    found = nn.expert_matmul(put(x), put(gate), lists, op=LIMITED, **{name: put(one) for name, one in beside.items()})
    wide = (
        unpack_values(one, "fp4") * np.repeat(exact(scale), 32, axis=2) for one, scale in ((gate, of_gate), (up, of_up))
    )
    expected = limited(*(entries(x, one, ids, bias) for one, bias in zip(wide, biases, strict=True)))
    assert_close(found, expected, factor=16)


@homes
@pytest.mark.parametrize("dtype", list(OF_8_BITS))
def test_scales_of_rows_and_channels(session: nn.Session, put: Put, dtype: str) -> None:
    x, b, bias = eighths(dtype, TOKENS, K), eighths(dtype, E, N, K), normal(E, N, dtype="f32")
    of_rows, of_channels, (ids, weights, lists) = scales(TOKENS), scales(E, N), routing(put)
    beside = {"a_scale": put(of_rows), "scale": put(of_channels), "bias": put(bias)}
    found = nn.expert_matmul(put(x), put(b), lists, weighted=True, **beside)
    wide = exact(x) * of_rows[:, None], exact(b) * of_channels[..., None]
    assert_close(found, entries(*wide, ids, bias) * weights.reshape(-1, 1), factor=4)


@pytest.mark.parametrize(
    ("dtype", "group", "block", "powers"), [("fp8", 128, 128, False), ("i8", 64, 1, False), ("bf8", 32, 1, True)]
)
def test_scales_of_groups(session: nn.Session, dtype: str, group: int, block: int, powers: bool) -> None:
    """Of blocks, of groups and powers of two; the last of each is shorter."""
    n, k = (N if block == 1 else block + 8), group + 8
    x, b, bias = eighths(dtype, TOKENS, k), eighths(dtype, E, n, k), normal(E, n, dtype="bf16")
    of_rows, of_b = scales(TOKENS, 2, powers=powers), scales(E, -(-n // block), 2, powers=powers)
    ids, _, lists = routing(np.asarray)
    found = nn.expert_matmul(x, b, lists, a_scale=of_rows, scale=of_b, bias=bias, dtype="f32")
    wide = exact(x) * np.repeat(exact(of_rows), group, axis=1)[:, :k]
    across = np.repeat(np.repeat(exact(of_b), group, axis=2), block, axis=1)[:, :n, :k]
    assert_close(found, entries(wide, exact(b) * across, ids, bias), "f32", factor=8)


def test_integers_with_a_bias_become_f32(session: nn.Session) -> None:
    x, b, bias, (ids, _, lists) = eighths("i8", TOKENS, K), eighths("i8", E, N, K), normal(E, N), routing(np.asarray)
    found = nn.expert_matmul(x, b, lists, bias=bias)
    assert found.dtype == np.float32
    assert_close(found, entries(x, b, ids, bias), "f32")


@pytest.mark.parametrize("groups", [False, True])
def test_gate_and_up_of_eight_bits(session: nn.Session, groups: bool) -> None:
    """With scales and biases of both, as layers have them; and with scales of blocks."""
    x, gate, (ids, _, lists) = eighths("fp8", TOKENS, K), eighths("fp8", E, N, K), routing(np.asarray)
    up, biases = gate[::-1].copy(), [normal(E, N) for _ in "gu"]
    of_rows = scales(TOKENS, 1)
    of_both = [scales(E, 1 if groups else N, 1, seed=seed) for seed in range(2)]
    given = [one if groups else one[..., 0] for one in (of_rows, *of_both)]
    named = dict(zip(("a_scale", "scale", "up_scale", "bias", "up_bias"), (*given, *biases), strict=True))
    found = nn.expert_matmul(x, gate, lists, up=up, op=LIMITED, **named)
    sums = [
        entries(exact(x) * of_rows, exact(b) * scale, ids, bias)
        for b, scale, bias in zip((gate, up), of_both, biases, strict=True)
    ]
    assert_close(found, limited(*sums), factor=8)


def test_no_tokens(session: nn.Session) -> None:
    *_, lists = routing(np.asarray, 0)
    bias = normal(E, N)
    assert nn.expert_matmul(normal(0, K), normal(E, N, K), lists, bias=bias, results="token").shape == (0, N)
    x, b = eighths("i8", 0, K), eighths("i8", E, N, K)
    for of_rows, of_b in ((scales(0), scales(E, N)), (scales(0, 1), scales(E, N, 1))):
        found = nn.expert_matmul(x, b, lists, a_scale=of_rows, scale=of_b)
        assert (found.shape, found.dtype) == ((0, N), np.float16)


def test_gradients_are_refused(session: nn.Session) -> None:
    ids, weights, _ = routing(np.asarray)
    x, b, bias = (torch.from_numpy(normal(*shape)) for shape in ((TOKENS, K), (E, N, K), (E, N)))
    lists = nn.sort_experts(torch.from_numpy(ids), torch.from_numpy(weights), E)
    with pytest.raises(NoGradient, match="bias: a tensor that requires gradients"):
        nn.expert_matmul(x, b, lists, bias=bias.requires_grad_())
    given = eighths("i8", TOKENS, K), eighths("i8", E, N, K), scales(TOKENS)
    x, b, of_rows = map(torch.from_numpy, given)
    with pytest.raises(NoGradient, match="a_scale: a tensor that requires gradients"):
        nn.expert_matmul(x, b, lists, a_scale=of_rows.requires_grad_(), scale=torch.ones(E, N))


def test_what_is_refused(session: nn.Session) -> None:
    x, b, bias = normal(TOKENS, K), normal(E, N, K), normal(E, N)
    bytes_x, bytes_b = eighths("i8", TOKENS, K), eighths("i8", E, N, K)
    *_, lists = routing(np.asarray)
    of_rows, of_channels, of_groups = scales(TOKENS), scales(E, N), scales(E, N, 2)

    def plain(**given: Any) -> Any:
        return nn.expert_matmul(x, b, lists, **given)

    def scaled(**given: Any) -> Any:
        return nn.expert_matmul(bytes_x, bytes_b, lists, **given)

    calls: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
        (plain, {"bias": bias[:, :5]}, "bias: shape (4, 5); expected (4, 24)"),
        (plain, {"bias": bias.astype(np.int8)}, "bias: elements are i8; expected f16, bf16, f32"),
        (plain, {"up_bias": bias}, "up_bias: found without up; leave it out, or give up"),
        (plain, {"bias": bias, "up": b}, "up_bias: matrices have biases, or none has; expected up_bias and bias, or"),
        (
            plain, {"bias": bias, "up": b, "up_bias": bias.astype(np.float32)},
            "up_bias: elements are f32; expected f16",
        ),
        (plain, {"bias": bias, "op": "acc + bias"}, "op: there is no array 'bias' in the expression"),
        (plain, {"a_scale": of_rows}, "a_scale: found for rows of f16; expected none, or a of fp8, bf8, i8, fp4"),
        (scaled, {"a_scale": of_rows}, "scale: found none beside a_scale; expected both, or neither"),
        (scaled, {"scale": of_channels}, "a_scale: found none beside scale; expected both, or neither"),
        (scaled, {"a_scale": of_rows[:5], "scale": of_channels}, "a_scale: shape (5,); expected (9,)"),
        (scaled, {"a_scale": of_rows, "scale": of_channels[:, :5]}, "scale: shape (4, 5); expected (4, 24)"),
        (
            scaled, {"a_scale": of_rows.astype(np.float16), "scale": of_channels},
            "a_scale: elements are f16; expected f32",
        ),
        (
            scaled, {"a_scale": of_rows, "scale": of_groups},
            "a_scale: shape (9,) of f32; expected one for each of 9 rows and 32 of 40 of e8m0, or 32, 64 or 128 of f32",
        ),
        (
            scaled, {"a_scale": scales(TOKENS, 2), "scale": scales(E, N, 3)},
            "scale: shape (4, 24, 3) of f32; expected one for each of 4x24 rows and 32 of 40 of e8m0, or 32, 64 or 128 "
            "of f32, or for 128 rows and 128 of f32",
        ),
        (
            scaled, {"a_scale": scales(TOKENS, 2), "scale": scales(E, N, 2, powers=True)},
            "a_scale: elements are f32 beside e8m0 of scale; expected powers of two (e8m0) of both, or f32",
        ),
        (
            lambda **given: nn.expert_matmul(x.astype(np.float32), b.astype(np.float32), lists, **given),
            {"scale": of_groups}, "scale: found for rows of f32; expected none, or a of f16, bf16, fp8, bf8, i8, fp4",
        ),
    ]  # fmt: skip
    for call, given, words in calls:
        with pytest.raises((DeviceError, RequestError)) as caught:
            call(**given)
        assert words in str(caught.value)
