"""Outputs over memory of the device that the same kernel reads: refused, but where whoever writes has read before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from common import exact, normal

from ckmlir import nn
from ckmlir.runtime.device import DeviceError

N = 64
X, W, Q = normal(N, N), normal(N, N), normal(1, 16, 2, 32)


@pytest.fixture(scope="module")
def session() -> Iterator[nn.Session]:
    with nn.Session("gfx942", "sim") as session:
        yield session


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "a product's operand": (lambda x, w: nn.linear(x, w, out=x), "out shares memory with x"),
    "its matrix": (lambda x, w: nn.linear(x, w, out=w), "out shares memory with weight"),
    "rows behind those": (lambda x, w: nn.linear(x[:32], w, out=x[16:48]), "out shares memory with x"),
    "a residual, one row further": (
        lambda x, w: nn.linear(x[:16], w, residual=w[:16], out=w[1:17]), "out shares memory with"),
    "what is turned": (lambda x, w: nn.permute(x, (1, 0), out=x), "out shares memory with x"),
    "another element's place": (lambda x, w: nn.elementwise("a + 0", x.T, out=x), "out shares memory with a"),
    "what repeats": (lambda x, w: nn.elementwise("a + b", x, w[0], out=w), "out shares memory with b"),
    "what long rows are added to twice": (
        lambda x, w: nn.layer_norm(x, residual=w, return_sum=True, out=(None, w)),
        r"out\[1\] shares memory with residual"),
    "rows, two further": (lambda x, w: nn.softmax(x[:32], out=x[2:34]), "out shares memory with x"),
    "keys": (lambda x, w: nn.attention(*[one.reshape(1, 64, 1, 64) for one in (w, x, x)],
                                       out=x.reshape(1, 64, 1, 64)), "out shares memory with k"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_outputs_over_what_is_read(session: nn.Session, name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(DeviceError, match=f"{message}.*, which is read while it is written; expected another array"):
        call(nn.asarray(X), nn.asarray(W))


def test_outputs_in_place(session: nn.Session) -> None:
    """Rows, D tensors and queries may be written where they lay; so may what lies between the rows that are read."""
    x, w = nn.asarray(X), nn.asarray(W)
    expected = exact(nn.softmax(x))
    assert nn.softmax(x, out=x) is x
    np.testing.assert_array_equal(exact(x), expected)
    x, other = nn.asarray(X), nn.asarray(W)
    expected = exact(nn.elementwise("a * b", x, other))
    np.testing.assert_array_equal(exact(nn.elementwise("a * b", x, other, out=other)), expected)
    x, residual = nn.asarray(X), nn.asarray(W)
    expected = exact(nn.layer_norm(x, residual=residual))
    np.testing.assert_array_equal(exact(nn.layer_norm(x, residual=residual, out=residual)), expected)
    expected = exact(nn.linear(x, w, residual=nn.asarray(X)))
    other = nn.asarray(X)
    np.testing.assert_array_equal(exact(nn.linear(x, w, residual=other, out=other)), expected)
    q = nn.asarray(Q)
    expected = exact(nn.attention(q, q.strided(q.shape, q.strides), q))
    k = nn.asarray(Q)
    np.testing.assert_array_equal(exact(nn.attention(q, k, k, out=q)), expected)
    wide = nn.asarray(np.concatenate([X, X], axis=1))
    expected = exact(nn.linear(nn.asarray(X), w))
    np.testing.assert_array_equal(exact(nn.linear(wide[:, :N], w, out=wide[:, N:])), expected)
    np.testing.assert_array_equal(exact(wide[:, :N]), X.astype(float))


def test_outputs_of_the_host_may_be_inputs(session: nn.Session) -> None:
    """They are copied."""
    x = X.copy()
    expected = exact(nn.linear(X, W))
    np.testing.assert_array_equal(exact(nn.linear(x, W, out=x)), expected)
