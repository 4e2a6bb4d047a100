"""Layers of experts and products of groups, as functions on arrays, against loops in NumPy, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from common import HOMES, WITH_TENSORS, Array, assert_close, exact, normal, softmax

from ckmlir import nn
from ckmlir.ops.packing import unpack_values
from ckmlir.runtime.device import DeviceError

homes = pytest.mark.parametrize("put", WITH_TENSORS.values(), ids=WITH_TENSORS)
Put = Callable[[Array], Any]
E, TOPK, HIDDEN, INTER = 4, 2, 32, 48


def layer(
    x: Array, gate: Array, up: Array | None, down: Array, weights: Array, ids: Array, *biases: Array
) -> Array:
    """Token by token, with silu; biases of gate, up and down, or none."""
    added = biases or (np.zeros((len(gate), 1)),) * 3
    y = np.zeros((len(x), down.shape[1]))
    for token, slot in np.ndindex(*ids.shape):
        if 0 <= (expert := ids[token, slot]) < len(gate):
            of_gate, of_up, of_down = (exact(one[expert]) for one in added)
            g = exact(gate[expert]) @ exact(x[token]) + of_gate
            h = g / (1 + np.exp(-g)) * (1 if up is None else exact(up[expert]) @ exact(x[token]) + of_up)
            y[token] += weights[token, slot] * (exact(down[expert]) @ h + of_down)
    return y


def matrices(experts: int = E) -> tuple[Array, Array, Array]:
    return normal(experts, INTER, HIDDEN) / 4, normal(experts, INTER, HIDDEN) / 4, normal(experts, HIDDEN, INTER) / 4


@pytest.mark.one_in(4)
@homes
@pytest.mark.parametrize("gated", [True, False])
def test_a_layer_from_logits_on(session: nn.Session, put: Put, gated: bool) -> None:
    x, logits = normal(2, 3, HIDDEN), normal(2, 3, E)
    gate, up, down = matrices()
    found = nn.moe(put(x), put(gate), put(up) if gated else None, put(down), put(logits), TOPK, renormalize=True)
    scores = softmax(exact(logits).reshape(-1, E))
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :TOPK]
    weights = np.take_along_axis(scores, ids, 1)
    weights /= weights.sum(1, keepdims=True)
    expected = layer(x.reshape(-1, HIDDEN), gate, up if gated else None, down, weights, ids)
    assert found.shape == x.shape
    assert_close(found, expected.reshape(x.shape), factor=8)


@pytest.mark.one_in(2)
@homes
def test_a_layer_from_a_routing_on(session: nn.Session, put: Put) -> None:
    x, (gate, up, down) = normal(5, HIDDEN), matrices()
    ids = np.array([[0, 3], [1, 1], [2, -1], [7, 0], [3, 2]], np.int32)
    weights = np.abs(normal(5, TOPK, dtype="f32"))
    out = put(np.zeros((5, HIDDEN), np.float16))
    assert nn.fused_experts(*map(put, (x, gate, up, down, weights, ids)), out=out) is out
    assert_close(out, layer(x, gate, up, down, weights, ids), factor=8)


def test_a_share_of_the_experts(session: nn.Session) -> None:
    x, (gate, up, down) = normal(5, HIDDEN), matrices(2)
    ids = np.array([[0, 3], [1, 1], [2, 0], [3, 0], [3, 2]], np.int32)
    weights = np.abs(normal(5, TOPK, dtype="f32"))
    mask = np.array([0, 1, 0, 1])  # of 64 bits, as ids may be
    found = nn.fused_experts(x, gate, up, down, weights, ids, experts=4, expert_mask=mask)
    local = np.array([-1, 0, -1, 1])[ids]
    assert_close(found, layer(x, gate, up, down, weights, local), factor=8)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("biased", [False, True])
def test_experts_of_8_bits(session: nn.Session, biased: bool) -> None:
    generator = np.random.default_rng(5)
    x = generator.integers(-9, 9, (3, HIDDEN)).astype(np.int8)
    shapes = ((E, INTER, HIDDEN), (E, INTER, HIDDEN), (E, HIDDEN, INTER))
    gate, up, down = (generator.integers(-9, 9, shape).astype(np.int8) for shape in shapes)
    sizes = {"x_scale": (3,), "gate_scale": (E, INTER), "up_scale": (E, INTER), "down_scale": (E, HIDDEN)}
    scales = {name: generator.uniform(0.02, 0.04, shape).astype(np.float32) for name, shape in sizes.items()}
    scales["smooth"] = np.ones((E, INTER), np.float32)
    ids, weights = np.array([[0, 1], [2, 3], [1, 0]], np.int32), np.full((3, 2), 0.5, np.float32)
    biases = (normal(E, INTER), normal(E, INTER), normal(E, HIDDEN)) if biased else ()
    added = dict(zip(("gate_bias", "up_bias", "down_bias"), biases, strict=False)) or None
    found = exact(nn.fused_experts(x, gate, up, down, weights, ids, scales=scales, biases=added))
    named = {"gate": gate, "up": up, "down": down}
    parts = (exact(one) * scales[f"{name}_scale"][..., None] for name, one in named.items())
    expected = layer(exact(x) * scales["x_scale"][:, None], *parts, weights, ids, *biases)
    assert np.abs(found - expected).max() <= 0.05 * np.abs(expected).max()  # i8 between the products
    groups = {**scales, "x_scale": np.ones((3, 1), np.float32)}
    with pytest.raises(DeviceError, match=r"x_scale: shape \(3, 1\), of groups; beside smooth expected one"):
        nn.fused_experts(x, gate, up, down, weights, ids, scales=groups)


LIMITED = "minimum(gate, 7) * sigmoid(1.702 * minimum(gate, 7)) * (clamp(up, -7, 7) + 1)"


@pytest.mark.one_in(6)
@pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
@pytest.mark.parametrize("packed", ["fp4", "i4", "u4"])
def test_experts_of_4_bits(session: nn.Session, put: Put, packed: str) -> None:
    """MXFP4 matrices with biases and an activation with limits, and such with f32 scales of 128: rows of gate have one
    of them, and down alone says for how many elements."""
    powers = packed == "fp4"
    hidden, inter, group = (72, 48, 32) if powers else (48, 136, 128)
    generator = np.random.default_rng(7)
    sizes = {"gate": (E, inter, hidden), "up": (E, inter, hidden), "down": (E, hidden, inter)}
    x, logits, codes, scales, wide = normal(3, hidden), normal(3, E), {}, {}, {}
    for name, (_, rows, k) in sizes.items():
        codes[name] = generator.integers(0, 256, (E, rows, k // 2), dtype=np.uint8)
        exponents = generator.integers(-5, -1, (E, rows, -(-k // group)))
        scales[f"{name}_scale"] = np.exp2(exponents).astype(ml_dtypes.float8_e8m0fnu if powers else np.float32)
        wide[name] = unpack_values(codes[name], packed) * np.repeat(np.exp2(exponents), group, axis=2)[..., :k]
    biases = {f"{name}_bias": normal(*shape[:2]) for name, shape in sizes.items()} if powers else None
    given = [put(x), *(put(codes[name]) for name in sizes), put(logits), TOPK]
    options = {"scales": {name: put(one) for name, one in scales.items()}, "packed": packed}
    options |= {"op": LIMITED} if powers else {}
    added = None if biases is None else {name: put(one) for name, one in biases.items()}
    found = nn.moe(*given, **options, biases=added)
    expected, scores = np.zeros((3, hidden)), softmax(exact(logits))
    for token, place in np.ndindex(3, TOPK):
        expert = np.argsort(-scores[token])[place]
        of = {name: 0.0 if biases is None else exact(biases[f"{name}_bias"][expert]) for name in sizes}
        gate, up = (wide[name][expert] @ exact(x[token]) + of[name] for name in ("gate", "up"))
        h = gate / (1 + np.exp(-gate)) * up
        if powers:
            gate = np.minimum(gate, 7)
            h = gate / (1 + np.exp(-1.702 * gate)) * (np.clip(up, -7, 7) + 1)
        expected[token] += scores[token, expert] * (wide["down"][expert] @ h + of["down"])
    assert_close(found, expected, factor=16)


def test_what_layers_refuse(session: nn.Session) -> None:
    x, (gate, up, down) = normal(5, HIDDEN), matrices()
    ids, weights, logits = np.zeros((5, 2), np.int32), np.zeros((5, 2), np.float32), normal(5, E)
    with pytest.raises(DeviceError, match=r"down: shape \(4, 48, 32\); expected \(4, 32, 48\)"):
        nn.moe(x, gate, up, gate, logits, 2)
    with pytest.raises(DeviceError, match="activation=swish: expected one of"):
        nn.moe(x, gate, up, down, logits, 2, activation="swish")
    with pytest.raises(DeviceError, match="router_logits: 4 rows for 5 tokens"):
        nn.moe(x, gate, up, down, logits[:4], 2)
    with pytest.raises(DeviceError, match="gate: matrices of 4 experts, there are 8; expected expert_mask"):
        nn.fused_experts(x, gate, up, down, weights, ids, experts=8)
    with pytest.raises(DeviceError, match="scales: smooth for f16; expected none"):
        nn.fused_experts(x, gate, up, down, weights, ids, scales={"smooth": weights})
    with pytest.raises(DeviceError, match="biases: gate_bias for f16; expected gate_bias, up_bias, down_bias"):
        nn.moe(x, gate, up, down, logits, 2, biases={"gate_bias": logits})
    with pytest.raises(DeviceError, match=r"down_bias: shape \(4, 48\); expected \(4, 32\)"):
        nn.moe(x, gate, None, down, logits, 2, biases=dict.fromkeys(("gate_bias", "down_bias"), normal(E, INTER)))
    with pytest.raises(DeviceError, match="op=3: expected an expression"):
        nn.moe(x, gate, up, down, logits, 2, op=3)
    with pytest.raises(DeviceError, match=r"op=silu\(acc\): it names acc; expected gate and up, the sums"):
        nn.moe(x, gate, up, down, logits, 2, op="silu(acc)")
    with pytest.raises(DeviceError, match="it names gate; expected acc, the sums of the only matrix"):
        nn.moe(x, gate, None, down, logits, 2, op="silu(gate)")
    for other in ("scales", "biases"):
        with pytest.raises(DeviceError, match=f"{other}: found list; expected a mapping of names to arrays"):
            nn.moe(x, gate, up, down, logits, 2, **{other: [weights]})
    with pytest.raises(DeviceError, match="biases: 1, gate_bias for f16; expected gate_bias, up_bias, down_bias"):
        nn.moe(x, gate, up, down, logits, 2, biases={1: logits, "gate_bias": logits})
    codes, groups = np.zeros((E, INTER, HIDDEN // 2), np.uint8), np.ones((E, INTER, 1), np.float32)
    down_codes, down_groups = np.zeros((E, HIDDEN, INTER // 2), np.uint8), np.ones((E, HIDDEN, 2), np.float32)
    scales = {"gate_scale": groups, "down_scale": down_groups.astype(ml_dtypes.float8_e8m0fnu)}
    with pytest.raises(DeviceError, match="scales: groups of matrices differ in length or type"):
        nn.moe(x, codes, None, down_codes, logits, 2, scales=scales)
    with pytest.raises(DeviceError, match=r"down_scale: shape \(4, 32, 3\) of f32; expected one for each of 4x32 rows"):
        scales["down_scale"] = np.ones((E, HIDDEN, 3), np.float32)
        nn.moe(x, codes, None, down_codes, logits, 2, scales=scales)
    with pytest.raises(DeviceError, match="topk_ids: elements are f32; expected i32"):
        nn.fused_experts(x, gate, up, down, weights, weights)
    with pytest.raises(DeviceError, match=r"gate: strides .* make a contiguous copy first"):
        nn.moe(nn.asarray(x), *(nn.asarray(one).permute(0, 2, 1) for one in (down, down, gate)), nn.asarray(logits), 2)


@homes
def test_products_of_a_list(session: nn.Session, put: Put) -> None:
    shapes = ((7, 16, 9), (0, 16, 4), (33, 8, 5), (3, 0, 2))
    a, b = [normal(m, k) for m, k, _ in shapes], [normal(k, n) for _, k, n in shapes]
    for found, left, right in zip(nn.grouped_matmul([*map(put, a)], [*map(put, b)]), a, b, strict=True):
        assert_close(found, exact(left) @ exact(right))


@pytest.mark.parametrize("turned", [False, True])
def test_a_product_of_a_list_without_k_makes_no_loads_narrow(turned: bool) -> None:
    """With it the kernel is the one that the others have alone."""
    operands = [(normal(16, k), normal(k, 24)) for k in (32, 0)]
    with nn.Session("gfx942", "sim") as session:
        for count in (1, 2):
            a, b = zip(*operands[:count], strict=True)
            order = (1, 0) if turned else (0, 1)
            given = ([nn.asarray(one.transpose(order)).permute(*order) for one in side] for side in (a, b))
            for found, left, right in zip(nn.grouped_matmul(*given), a, b, strict=True):
                assert_close(found, exact(left) @ exact(right))
        assert len(session.kernels) == 1


def test_products_of_a_list_one_of_which_has_one_row_or_column(session: nn.Session) -> None:
    """Where a matrix has one column, both orders are its: the launch takes that of the others."""
    shapes = ((1, 16, 9), (5, 16, 1), (3, 1, 4), (4, 8, 5))
    a, b = [normal(k, m) for m, k, _ in shapes], [normal(n, k) for _, k, n in shapes]
    given = ([nn.asarray(one).permute(1, 0) for one in side] for side in (a, b))
    for found, left, right in zip(nn.grouped_matmul(*given), a, b, strict=True):
        assert_close(found, exact(left).T @ exact(right).T)
    with pytest.raises(DeviceError, match="a, b: products differ in order or scales; expected all alike"):
        nn.grouped_matmul([nn.asarray(normal(4, 4)), nn.asarray(normal(4, 4)).permute(1, 0)], [nn.asarray(a[3].T)] * 2)


@pytest.mark.one_in(2)
@homes
def test_products_of_groups_of_rows(session: nn.Session, put: Put) -> None:
    a, b, offs = normal(20, 16), normal(4, 16, 24), [5, 5, 17, 20]
    expected = np.concatenate([exact(a[s:e]) @ exact(one) for s, e, one in zip([0, *offs], offs, b)])
    assert_close(nn.grouped_matmul(put(a), put(b), offs), expected)
    assert_close(nn.grouped_matmul(put(a), put(b), np.array(offs, np.int32), dtype="f32"), expected)
    assert nn.grouped_matmul(put(a[:0]), put(b), [0] * 4).shape == (0, 24)
    a, b = normal(20, 15), normal(4, 15, 23)  # groups begin anywhere
    expected = np.concatenate([exact(a[s:e]) @ exact(one) for s, e, one in zip([0, *offs], offs, b)])
    assert_close(nn.grouped_matmul(put(a), put(b), offs), expected)


def test_products_of_views(session: nn.Session) -> None:
    a, b = normal(20, 32), normal(2, 24, 16)
    wide, out = nn.asarray(a)[:, :16], nn.asarray(np.zeros((20, 40), np.float16))
    found = nn.grouped_matmul(wide, nn.asarray(b).permute(0, 2, 1), [8, 20], out=out[:, :24])
    expected = np.concatenate([exact(a[:8, :16]) @ exact(b[0]).T, exact(a[8:, :16]) @ exact(b[1]).T])
    assert_close(found, expected)
    assert not out[:, 24:].numpy().any()


def test_what_products_of_groups_refuse(session: nn.Session) -> None:
    a, b = normal(20, 16), normal(2, 16, 24)
    with pytest.raises(DeviceError, match=r"offs: \[12, 8\]; expected numbers that ascend to 20"):
        nn.grouped_matmul(a, b, [12, 8])
    pair = [np.zeros((4, 8), np.float16)] * 2
    with pytest.raises(DeviceError, match="out: expected a sequence of 2 arrays"):
        nn.grouped_matmul(pair, [np.zeros((8, 8), np.float16)] * 2, out=pair[0])
    with pytest.raises(DeviceError, match=r"out\[1\] shares memory with out\[0\], and both are written"):
        nn.grouped_matmul(pair, [np.zeros((8, 8), np.float16)] * 2, out=pair)
    with pytest.raises(DeviceError, match="expected 2 whole numbers, one a group"):
        nn.grouped_matmul(a, b, [20])
    with pytest.raises(DeviceError, match="expected sequences of matrices"):
        nn.grouped_matmul(a, b)
    with pytest.raises(DeviceError, match="1 and 2 matrices; expected as many"):
        nn.grouped_matmul([a], [*b])
    with pytest.raises(DeviceError, match="no product"):
        nn.grouped_matmul([a], [a])
