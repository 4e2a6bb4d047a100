"""Hyper-connections as functions: a layer between `mhc_pre` and `mhc_post`, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from common import HOMES, WITH_TENSORS, Array, Callable, assert_close, exact, normal

from ckmlir import nn
from ckmlir.runtime.device import DeviceError

N, C = 4, 48
W = 2 * N + N * N


def given(*ahead: int, dtype: str = "f16") -> tuple[Array, ...]:
    """Streams, phi, alpha and bias."""
    scale = np.float32(1 / np.sqrt(N * C))
    phi = normal(W, N * C, dtype=dtype)
    return (
        normal(*ahead, N, C, dtype=dtype),
        (phi * scale).astype(phi.dtype),
        normal(3, dtype="f32"),
        normal(W, dtype="f32"),
    )


def expected(x: Array, phi: Array, alpha: Array, bias: Array) -> Array:
    flat = exact(x).reshape(-1, N * C)
    norm = np.sqrt((flat**2).mean(axis=1, keepdims=True) + 1e-6)
    t = np.repeat(exact(alpha), (N, N, N * N)) / norm * (flat @ exact(phi).T) + exact(bias)
    shares = np.exp(t[:, 2 * N :]).reshape(-1, N, N)
    for _ in range(20):
        shares /= shares.sum(axis=2, keepdims=True) + 1e-6
        shares /= shares.sum(axis=1, keepdims=True) + 1e-6
    y = np.concatenate([1 / (1 + np.exp(-t[:, :N])), 2 / (1 + np.exp(-t[:, N : 2 * N])), shares.reshape(-1, N * N)], 1)
    return y.reshape(*x.shape[:-2], W)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("put", WITH_TENSORS.values(), ids=WITH_TENSORS)
def test_a_layer_between_both(session: nn.Session, put: Callable[[Array], object]) -> None:
    x, phi, alpha, bias = given(2, 5)
    h, coefficients = nn.mhc_pre(*map(put, (x, phi, alpha, bias)))
    y = expected(x, phi, alpha, bias)
    assert_close(coefficients, y, "f32", 20)
    assert_close(nn.mhc(*map(put, (x, phi, alpha, bias))), y, "f32", 20)
    assert_close(h, np.einsum("abi,abic->abc", y[..., :N], exact(x)))
    f = normal(2, 5, C)
    found = nn.mhc_post(put(x), put(f), coefficients)
    res, post = y[..., 2 * N :].reshape(2, 5, N, N), y[..., N : 2 * N]
    assert_close(found, np.einsum("abij,abjc->abic", res, exact(x)) + post[..., None] * exact(f)[..., None, :])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
def test_numbers_instead_of_arrays(session: nn.Session, put: Callable[[Array], object]) -> None:
    x, phi, *_ = given(7, dtype="f32")
    found = nn.mhc(put(x), put(phi), (0.5, 2.0, -1.0), 0.25, form="ck", eps=0.0)
    flat = exact(x).reshape(7, N * C)
    s = flat @ exact(phi).T
    factor = np.repeat([0.5, 4.0, -1.0], (N, N, N * N)) / np.sqrt((flat**2).mean(axis=1, keepdims=True))
    assert_close(found, factor * np.where(np.arange(W) < 2 * N, 1 / (1 + np.exp(-s)), s) + 0.25, "f32", 20)


def test_streams_are_written_over(session: nn.Session) -> None:
    x, f, y = normal(9, N, C), normal(9, C), normal(9, W, dtype="f32")
    other = nn.mhc_post(x, f, y)
    here = nn.asarray(x)
    assert nn.mhc_post(here, nn.asarray(f), nn.asarray(y), out=here) is here
    assert (exact(here) == exact(other)).all()


def test_what_is_refused(session: nn.Session) -> None:
    x, phi, alpha, bias = given(3)
    with pytest.raises(DeviceError, match=r"phi: shape \(192, 24\); expected \(24, 192\)"):
        nn.mhc(x, phi.T.copy(), alpha, bias)
    with pytest.raises(DeviceError, match="alpha: elements are f16; expected f32"):
        nn.mhc(x, phi, alpha.astype(np.float16), bias)
    with pytest.raises(DeviceError, match="expected three numbers, of pre, post and res"):
        nn.mhc(x, phi, 1.0, 0.0, form="ck")
    with pytest.raises(DeviceError, match=r"^alpha=\[\[.*: expected three numbers, of pre, post and res$"):
        nn.mhc(x, phi, np.zeros((2, 3)), 0.0, form="ck")
    with pytest.raises(DeviceError, match="form=sinkhorn: expected one of paper, ck"):
        nn.mhc(x, phi, alpha, bias, form="sinkhorn")
    with pytest.raises(DeviceError, match=r"x: shape \(192,\); expected \(…, streams, channels\)"):
        nn.mhc(x.reshape(-1)[:192], phi, alpha, bias)
    with pytest.raises(DeviceError, match=r"f: shape \(3, 47\); expected \(3, 48\)"):
        nn.mhc_post(x, normal(3, 47), normal(3, W, dtype="f32"))
