"""Mamba-2's recurrence as a function of arrays: both layouts, groups, strided views, states, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ckmlir import nn
from ckmlir.errors import CkmlirError
from ckmlir.ops.comparison import Array

pytestmark = pytest.mark.usefixtures("session")
RANDOM = np.random.default_rng(8)
BATCH, PLACES, HEADS, GROUPS, CHANNELS, STATE = 2, 40, 4, 2, 16, 24


def drawn(*shape: int, dtype: Any = np.float16) -> Array:
    found: Array = RANDOM.standard_normal(shape, dtype=np.float32).astype(dtype)
    return found


X, Z = (drawn(BATCH, PLACES, HEADS, CHANNELS) for _ in range(2))
B, C = (drawn(BATCH, PLACES, GROUPS, STATE) for _ in range(2))
DELTA = RANDOM.uniform(0.01, 1, (BATCH, PLACES, HEADS)).astype(np.float32)
DELTA_A = -DELTA * RANDOM.uniform(0.1, 2, HEADS).astype(np.float32)
FIRST = drawn(BATCH, HEADS, CHANNELS, STATE, dtype=np.float32)
SKIP = drawn(HEADS, CHANNELS, dtype=np.float32)


def exact(first: Array | None = None) -> tuple[Array, Array]:
    """Y without skip and gate, and the last state."""
    x, b, c = (one.astype(np.float64) for one in (X, np.repeat(B, 2, 2), np.repeat(C, 2, 2)))
    state = np.zeros(FIRST.shape) if first is None else first.astype(np.float64)
    y = np.zeros(X.shape)
    for i in range(PLACES):
        added = np.einsum("bhd,bhn->bhdn", DELTA[:, i, :, None] * x[:, i], b[:, i])
        state = np.exp(DELTA_A[:, i].astype(np.float64))[..., None, None] * state + added
        y[:, i] = np.einsum("bhdn,bhn->bhd", state, c[:, i])
    return y, state


def test_channels_contiguous() -> None:
    y, state = nn.ssd(X, DELTA_A, DELTA, B, C, return_state=True)
    expected, last = exact()
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=0.01, atol=0.05)
    np.testing.assert_allclose(state, last, rtol=0.01, atol=0.02)


def test_with_skip_gate_and_a_state() -> None:
    y = nn.ssd(X, DELTA_A, DELTA, B, C, skip=SKIP, z=Z, initial=FIRST)
    z = Z.astype(np.float64)
    expected = (exact(FIRST)[0] + SKIP * X.astype(np.float64)) * z / (1 + np.exp(-z))
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=0.01, atol=0.05)


def test_places_contiguous() -> None:
    """CK Tile's layout gives what the other one does, also into an array that is given."""
    x, b, c = (np.ascontiguousarray(one.transpose(0, 2, 3, 1)) for one in (X, B, C))
    decay, delta = (np.ascontiguousarray(one.transpose(0, 2, 1)) for one in (DELTA_A, DELTA))
    out = np.zeros_like(x)
    nn.ssd(x, decay, delta, b, c, layout="bhds", out=out)
    np.testing.assert_allclose(out.transpose(0, 3, 1, 2).astype(np.float64), exact()[0], rtol=0.01, atol=0.05)


def test_a_projection_that_is_split() -> None:
    """X, B and C are views of one array, as a projection leaves them."""
    sizes = HEADS * CHANNELS, GROUPS * STATE, GROUPS * STATE
    whole = np.concatenate([one.reshape(BATCH, PLACES, -1) for one in (X, B, C)], axis=2)
    parts = np.split(whole, np.cumsum(sizes)[:-1], axis=2)
    x, b, c = (one.reshape(BATCH, PLACES, heads, -1) for one, heads in zip(parts, (HEADS, GROUPS, GROUPS), strict=True))
    np.testing.assert_array_equal(nn.ssd(x, DELTA_A, DELTA, b, c), nn.ssd(X, DELTA_A, DELTA, B, C))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nn.ssd(X, DELTA_A, DELTA, B[:, 1:], C[:, 1:]), "expected as many batches and places"),
        (lambda: nn.ssd(X, DELTA_A, DELTA, B, C.astype(np.float32)), "c: elements are f32; expected f16"),
        (lambda: nn.ssd(X, DELTA_A, DELTA[:1], B, C), "delta: shape"),
        (lambda: nn.ssd(X, DELTA_A, DELTA, B, C, layout="bhsd"), "layout=bhsd"),
        (lambda: nn.ssd(X[:, :, :3], DELTA_A[..., :3], DELTA[..., :3], B, C), "h=3 is not a multiple"),
        (lambda: nn.ssd(X, DELTA_A, DELTA, B, C, skip=SKIP[:, :3]), "skip: shape"),
    ],
)
def test_what_does_not_fit(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(CkmlirError, match=words):
        call()
