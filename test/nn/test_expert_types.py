"""Experts' rows and matrices of few bits, as arguments of functions: against loops in NumPy, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from common import HOMES, Array, assert_close, exact, normal
from test_expert_scales import LIMITED, E, N, eighths, entries, limited, routing, scales

from ckmlir import nn
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.packing import unpack_values
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError

Put = Callable[[Array], Any]
homes = pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
TOKENS, K = 9, 72


def codes(dtype: str, *shape: int) -> tuple[Array, Array]:
    """Elements as arrays hold them, and their values."""
    if find_dtype(dtype).packing is None:
        found = eighths(dtype, *shape)
        return found, exact(found)
    *rows, k = shape
    size = find_dtype(dtype).size(k)
    found = np.random.default_rng(sum(shape)).integers(0, 256, (*rows, size), dtype=np.uint8)
    return found, unpack_values(found, dtype).astype(np.float64)


def over(given: Array, group: int, k: int, block: int = 1) -> Array:
    """The scale of every element along rows, and of every row of blocks."""
    return np.repeat(np.repeat(exact(given), group, axis=-1)[..., :k], block, axis=-2)


@homes
@pytest.mark.parametrize(
    ("of_a", "of_b", "group", "block"),
    [
        ("fp4", "fp4", 32, 1),
        ("fp8", "i4", 64, 1),
        *(
            pytest.param(*one, marks=pytest.mark.full)
            for one in (
                ("bf6", "fp6", 32, 1),
                ("fp8", "fp4", 32, 1),
                ("fp4", "bf8", 32, 1),
                ("i8", "i4", 128, 128),
                ("bf8", "fp8", 0, 1),
            )
        ),
    ],
)
def test_products(session: nn.Session, put: Put, of_a: str, of_b: str, group: int, block: int) -> None:
    """Types of rows and matrices with groups that end within the last; without any, of 8 bits."""
    k, groups = (K, -(-K // group)) if group else (K, 0)
    (x, wide_x), (b, wide_b) = codes(of_a, TOKENS, k), codes(of_b, E, N, k)
    ids, _, lists = routing(put)
    given: dict[str, Any] = {}
    if group:
        powers = group == 32
        of_rows = scales(TOKENS, groups, powers=powers)
        of_matrices = scales(E, -(-N // block), groups, powers=powers, seed=5)
        given = {"a_scale": put(of_rows), "scale": put(of_matrices)}
        wide_x, wide_b = wide_x * over(of_rows, group, k), wide_b * over(of_matrices, group, k, block)[:, :N]
    given |= {"packed": of_b} if b.dtype == np.uint8 and of_a != of_b else {}
    given |= {"a_packed": of_a} if x.dtype == np.uint8 else {}
    found = nn.expert_matmul(put(x), put(b), lists, dtype="f32", **given)
    assert_close(found, entries(wide_x, wide_b, ids), "f32", factor=8)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_scales_of_integers(session: nn.Session, dtype: Any) -> None:
    """Of matrices of 4 bits beside 16, as AWQ and GPTQ have them: of a product, and of a layer."""
    x, k, (ids, weights, lists) = normal(TOKENS, K), K, routing(np.asarray)
    arrays, values, given = {}, {}, {}
    for name, shape in {"gate": (E, 40, k), "up": (E, 40, k), "down": (E, k, 40)}.items():
        arrays[name], own = codes("i4", *shape)
        given[f"{name}_scale"] = (scales(*shape[:2], -(-shape[2] // 32), seed=len(name)) / 8).astype(dtype)
        values[name] = own * over(given[f"{name}_scale"], 32, shape[2])
    found = nn.expert_matmul(x, arrays["gate"], lists, scale=given["gate_scale"], packed="i4")
    assert_close(found, entries(x, values["gate"], ids), factor=8)
    found = exact(nn.fused_experts(x, *arrays.values(), weights, ids, scales=given, packed="i4"))
    gate, up = (entries(x, values[name], ids) for name in ("gate", "up"))
    h = (gate / (1 + np.exp(-gate)) * up).reshape(TOKENS, -1, 40)
    made = [[values["down"][one] @ row for one, row in zip(*both, strict=True)] for both in zip(ids, h, strict=True)]
    assert_close(found, (np.array(made) * weights[..., None]).sum(axis=1), factor=16)


@pytest.mark.parametrize("of_x", ["f16", "fp8"])
def test_zero_points(session: nn.Session, of_x: str) -> None:
    """Beside rows of 16 bits of the scales' type, beside 8 bits i8: of a product, of gate and up, and of a layer."""
    k, group, (ids, weights, lists) = K, 32, routing(np.asarray)
    wide = of_x == "f16"
    x, wide_x = (normal(TOKENS, k),) * 2 if wide else codes(of_x, TOKENS, k)
    random, arrays, values, given = np.random.default_rng(7), {}, {}, {}
    for name, shape in {"gate": (E, 40, k), "up": (E, 40, k), "down": (E, k, 40)}.items():
        arrays[name], own = codes("u4", *shape)
        groups = (*shape[:2], -(-shape[2] // group))
        given[f"{name}_scale"] = (scales(*groups, seed=len(name)) / 8).astype(np.float16 if wide else np.float32)
        given[f"{name}_zero"] = random.integers(0, 16, groups).astype(np.float16 if wide else np.int8)
        less = own - over(given[f"{name}_zero"], group, shape[2])
        values[name] = less * over(given[f"{name}_scale"], group, shape[2])
    of_rows = scales(TOKENS, -(-k // group))
    beside = {} if wide else {"a_scale": of_rows}
    wide_x = wide_x if wide else wide_x * over(of_rows, group, k)
    kinds = {"packed": "u4", "dtype": "f32", **beside}
    first = {"scale": given["gate_scale"], "zeros": given["gate_zero"]}
    found = nn.expert_matmul(x, arrays["gate"], lists, **first, **kinds)
    gate, up = (entries(wide_x, values[name], ids) for name in ("gate", "up"))
    assert_close(found, gate, "f16" if wide else "f32", factor=8)
    second = {"up_scale": given["up_scale"], "up_zeros": given["up_zero"]}
    found = nn.expert_matmul(x, arrays["gate"], lists, up=arrays["up"], op="gate + up", **first, **second, **kinds)
    assert_close(found, gate + up, "f16" if wide else "f32", factor=8)
    layer = given if wide else {"x_scale": of_rows, **given}
    found = exact(nn.fused_experts(x, *arrays.values(), weights, ids, scales=layer, packed="u4"))
    h = (gate / (1 + np.exp(-gate)) * up).reshape(TOKENS, -1, 40)
    pairs = zip(ids, h, strict=True)
    made = [[values["down"][one] @ row for one, row in zip(*both, strict=True)] for both in pairs]
    expected = (np.array(made) * weights[..., None]).sum(axis=1)
    if wide:
        assert_close(found, expected, factor=16)
    else:  # what is between the products has 3 bits
        assert np.abs(found - expected).max() <= 0.06 * np.abs(expected).max()


def test_weights_beside_scales_and_biases_of_gate_and_up(session: nn.Session) -> None:
    (x, wide_x), (gate, wide_gate) = codes("i8", TOKENS, K), codes("i8", E, N, K)
    up, wide_up, biases = gate[::-1].copy(), wide_gate[::-1], [normal(E, N, dtype="bf16") for _ in "gu"]
    ids, weights, lists = routing(np.asarray)
    of_rows, of_both = scales(TOKENS), [scales(E, N, seed=seed) / 8 for seed in range(2)]
    found = nn.expert_matmul(
        x, gate, lists, up=up, a_scale=of_rows, scale=of_both[0], up_scale=of_both[1], bias=biases[0],
        up_bias=biases[1], weighted=True, op=LIMITED, results="token", dtype="f32",
    )  # fmt: skip
    sums = [
        entries(wide_x * of_rows[:, None], wide * scale[..., None], ids, bias)
        for wide, scale, bias in zip((wide_gate, wide_up), of_both, biases, strict=True)
    ]
    expected = (limited(*sums) * weights.reshape(-1, 1)).reshape(TOKENS, -1, N).sum(axis=1)
    assert_close(found, expected, "f32", factor=8)


def quantised(h: Array) -> Array:
    """A row as fp4 with powers of two, in float64."""
    found = np.zeros_like(h)
    for begin in range(0, len(h), 32):
        group = h[begin : begin + 32]
        scale = 2.0 ** (np.floor(np.log2(np.abs(group).max())) - 2)
        found[begin : begin + 32] = np.clip(group / scale, -6, 6).astype(ml_dtypes.float4_e2m1fn) * scale
    return found


@homes
def test_a_layer_of_mx_floats(session: nn.Session, put: Put) -> None:
    """fp4 rows and matrices with powers of two and biases, from logits on."""
    sizes = {"gate": (E, 40, K), "up": (E, 40, K), "down": (E, K, 40)}
    x, wide_x = codes("fp4", 5, K)
    of_x, logits = scales(5, 3, powers=True), normal(5, E, dtype="f32")
    arrays, beside, wide = {}, {"x_scale": put(of_x)}, {}
    for name, shape in sizes.items():
        arrays[name], values = codes("fp4", *shape)
        own = (exact(scales(*shape[:2], -(-shape[2] // 32), powers=True, seed=len(name))) / 8).astype(of_x.dtype)
        beside[f"{name}_scale"] = put(own)
        wide[name] = values * over(own, 32, shape[2])
    biases = {f"{name}_bias": normal(*shape[:2]) for name, shape in sizes.items()}
    found = nn.moe(
        put(x), *(put(one) for one in arrays.values()), put(logits), 2, scales=beside, x_packed="fp4",
        biases={name: put(one) for name, one in biases.items()},
    )  # fmt: skip
    wide_x = wide_x * over(of_x, 32, K)
    expected = np.zeros((5, K))
    scores = np.exp(exact(logits)) / np.exp(exact(logits)).sum(axis=1, keepdims=True)
    for token, place in np.ndindex(5, 2):
        one = np.argsort(-scores[token])[place]
        gate, up = (wide[name][one] @ wide_x[token] + exact(biases[f"{name}_bias"][one]) for name in ("gate", "up"))
        h = quantised(gate / (1 + np.exp(-gate)) * up)
        expected[token] += scores[token, one] * (wide["down"][one] @ h + exact(biases["down_bias"][one]))
    assert np.abs(exact(found) - expected).max() <= 0.02 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("dtype", "groups"), [("fp8", True), pytest.param("bf8", False, marks=pytest.mark.full)]
)  # fmt: skip
def test_layers_of_8_bits(session: nn.Session, dtype: str, groups: bool) -> None:
    """bf8 with scales of rows; fp8 with scales of groups and blocks, of which short rows have one for all lengths."""
    ids, weights = np.array([[0, 1], [2, 3], [1, 0]], np.int32), np.full((3, 2), 0.5, np.float32)
    sizes = {"gate": (E, 48, 40), "up": (E, 48, 40), "down": (E, 40, 48)}
    (x, wide_x), given, wide, beside = codes(dtype, 3, 40), [], {}, {"x_scale": scales(3, *[1] * groups)}
    for name, shape in sizes.items():
        array, values = codes(dtype, *shape)
        own = scales(E, 1, 1, seed=len(name)) / 8 if groups else scales(*shape[:2], seed=len(name)) / 8
        given.append(array)
        beside[f"{name}_scale"] = own
        wide[name] = values * (own if groups else own[..., None])
    if not groups:
        beside["smooth"] = np.ones((E, 48), np.float32)
    found = exact(nn.fused_experts(x, *given, weights, ids, scales=beside))
    rows = wide_x * beside["x_scale"].reshape(3, 1)
    expected = np.zeros((3, 40))
    for token, slot in np.ndindex(3, 2):
        gate, up, down = (wide[name][ids[token, slot]] for name in sizes)
        g = gate @ rows[token]
        expected[token] += 0.5 * (down @ (g / (1 + np.exp(-g)) * (up @ rows[token])))
    assert np.abs(found - expected).max() <= 0.12 * np.abs(expected).max()  # 2 or 3 bits between the products


def test_what_is_refused(session: nn.Session) -> None:
    *_, lists = routing(np.asarray)
    packed, of_b = np.zeros((TOKENS, K // 2), np.uint8), np.zeros((E, N, K // 2), np.uint8)
    fp8, wide = eighths("fp8", TOKENS, K), normal(TOKENS, K)
    powers, of_powers = scales(TOKENS, 3, powers=True), scales(E, N, 3, powers=True)

    def products(a: Array, **given: Any) -> Any:
        return nn.expert_matmul(a, of_b, lists, **given)

    def layers(**given: Any) -> Any:
        down = np.zeros((E, K, K // 2), np.uint8)
        gate = np.zeros((E, K, K // 2), np.uint8)
        return nn.moe(packed, gate, None, down, normal(TOKENS, E, dtype="f32"), 2, x_packed="fp4", **given)

    given = [normal(E, K, K) for _ in range(3)]
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: nn.expert_matmul(wide, wide, None), "routing: NoneType; expected what sort_experts returns"),
        (
            lambda: products(fp8, packed="i4", a_scale=scales(TOKENS, 3), scale=scales(E, N, 3), zeros=scales(E, N, 3)),
            "zeros: elements are f32; expected i8",
        ),
        (
            lambda: products(packed, a_packed="fp4", a_scale=powers, scale=of_powers, zeros=of_powers),
            "zeros: of integers of 4 bits with scales of groups, not of fp4; expected none",
        ),
        (lambda: products(packed, a_packed="i4"), "a_packed=i4: expected one of fp4, fp6, bf6"),
        (lambda: products(packed, a_packed="fp4"), "scale: found none of fp4, which has scales of groups; expected a"),
        (lambda: products(fp8, packed="i4"), "scale: found none of i4, which has scales of groups; expected a"),
        (lambda: products(fp8), "b: bytes may hold fp4"),
        (lambda: products(eighths("i8", TOKENS, K), packed="fp4"), "packed=fp4: expected one of i4, u4"),
        (lambda: products(normal(TOKENS, K, dtype="f32"), packed="fp4"), "packed=fp4: found for rows of f32; ex"),
        (lambda: products(fp8, packed="i4", a_scale=powers, scale=of_powers), "a_scale: powers of two beside i4"),
        (
            lambda: products(packed, a_packed="fp4", a_scale=scales(TOKENS, 3), scale=scales(E, N, 3)),
            "a_scale: f32 beside fp4; expected powers of two (e8m0)",
        ),
        (
            lambda: products(fp8, packed="fp4", a_scale=scales(TOKENS), scale=scales(E, N)),
            "scale: shape (4, 24) of f32; expected one for each of 4x24 rows and 32 of 72 of e8m0",
        ),
        (
            lambda: nn.expert_matmul(
                wide, of_b, lists, up=of_b, scale=scales(E, N, 1).astype(np.float16), up_scale=scales(E, N, 1)
            ),
            "up_scale: elements are f32; expected f16, as those of scale",
        ),
        (
            lambda: nn.fused_experts(
                wide, *given, np.ones((TOKENS, 2), np.float32), np.zeros((TOKENS, 2), np.int32),
                scales=dict.fromkeys(("gate_zero", "up_zero", "down_zero"), np.zeros((E, K, 3), np.int8)),
            ),
            "scales: gate_zero, up_zero, down_zero for f16; expected none",
        ),
        (layers, "scales: none for fp4; expected x_scale, gate_scale, down_scale"),
        (
            lambda: layers(scales={"x_scale": powers, "gate_scale": scales(E, K, 3), "down_scale": scales(E, K, 3)}),
            "x_scale: elements are e8m0 beside f32 of gate_scale; expected powers of two (e8m0) of both",
        ),
    ]  # fmt: skip
    for call, words in calls:
        with pytest.raises((DeviceError, RequestError)) as caught:
            call()
        assert words in str(caught.value)
