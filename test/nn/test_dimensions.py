"""Which dimensions functions work along: PyTorch's `dim` and `normalized_shape`, and rows that lie anyhow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from common import HOMES, WITH_TENSORS, Array, assert_close, exact, normal, softmax

from ckmlir import nn
from ckmlir.runtime.device import DeviceError

Put = Callable[[Array], Any]
homes = pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
with_tensors = pytest.mark.parametrize("put", WITH_TENSORS.values(), ids=WITH_TENSORS)


@pytest.mark.one_in(2)
@with_tensors
def test_functions_of_rows_along_any_dimension(session: nn.Session, put: Put) -> None:
    x = normal(3, 5, 7, dtype="f32")
    mask = (x > -1).astype(np.int8)
    for dim in (0, -2):
        wanted = np.moveaxis(softmax(np.moveaxis(np.where(mask, exact(x), -1e9), dim, -1)), -1, dim)
        out = put(np.zeros_like(x))
        assert nn.softmax(put(x), dim, mask=put(mask), out=out) is out
        assert_close(out, wanted, "f32")
        assert_close(nn.cumsum(put(x), dim), exact(x).cumsum(dim), "f32", 40)
        values, places = nn.sort(put(x), dim, True)
        assert (exact(values) == -np.sort(-exact(x), dim)).all()
        assert (np.take_along_axis(x, exact(places).astype(int), dim) == exact(values)).all()
        assert (exact(nn.argsort(put(x), dim)) == np.argsort(x, dim)).all()
        least, where = nn.topk(put(x), 2, dim, False)
        assert (exact(least) == np.sort(x, dim).take([0, 1], dim)).all()
        assert (np.take_along_axis(x, exact(where).astype(int), dim) == exact(least)).all()
    assert exact(nn.softmax(nn.asarray(x)[:, 1:1], 0)).shape == (3, 0, 7)


@with_tensors
def test_norms_over_several_dimensions(session: nn.Session, put: Put) -> None:
    x, residual, weight, bias = (normal(*shape) for shape in ((3, 5, 8), (3, 5, 8), (5, 8), (5, 8)))
    total = exact(x) + exact(residual)
    mean, deviation = total.mean((1, 2), keepdims=True), np.sqrt(total.var((1, 2), keepdims=True) + 1e-3)
    given = put(x), (5, 8), put(weight), put(bias), 1e-3
    y, added = nn.layer_norm(*given, residual=put(residual), return_sum=True)
    assert_close(y, (total - mean) / deviation * exact(weight) + exact(bias), factor=8)
    assert_close(added, total)
    out = put(np.zeros_like(x))
    assert nn.rms_norm(put(x), normalized_shape=(5, 8), weight=put(weight), out=out) is out
    squares = np.sqrt((exact(x) ** 2).mean((1, 2), keepdims=True) + 1e-6)
    assert_close(out, exact(x) / squares * exact(weight), factor=8)


@homes
def test_the_weight_of_a_norm_may_come_second(session: nn.Session, put: Put) -> None:
    x, weight, bias = put(normal(3, 8)), put(normal(8)), put(normal(8))
    wanted = exact(nn.layer_norm(x, (8,), weight, bias, 1e-3))
    assert (exact(nn.layer_norm(x, weight, bias, 1e-3)) == wanted).all()
    assert (exact(nn.layer_norm(x, 8, weight=weight, bias=bias, eps=1e-3)) == wanted).all()
    assert (exact(nn.layer_norm(x, None, weight, bias, 1e-3)) == wanted).all()  # None is the shape's default
    assert (exact(nn.layer_norm(x, np.int64(8), weight, bias, 1e-3)) == wanted).all()
    assert (exact(nn.rms_norm(x, weight, 1e-3)) == exact(nn.rms_norm(x, 8, weight, 1e-3))).all()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "cut",
    [
        lambda x: x[:, :5, :16],
        lambda x: x[:, ::2, :16].permute(1, 0, 2),
        lambda x: x[:0, :5, :16],
        lambda x: x[1, :, :16],
        lambda x: x[0, :16, :8].T,
        lambda x: x[:, :16, :8].permute(0, 2, 1),
        lambda x: x[:1, :5, :16].strided((4, 5, 16), (0, 40, 1)),
    ],
    ids=["cut", "other order", "empty", "matrix", "columns", "matrices of columns", "repeated"],
)
def test_products_of_rows_that_lie_anyhow(session: nn.Session, cut: Callable[[nn.Array], nn.Array]) -> None:
    x, weight, bias = cut(nn.asarray(normal(3, 17, 40))), normal(24, 16), normal(24)
    expected = exact(x) @ exact(weight).T
    assert_close(nn.matmul(x, nn.asarray(weight).T), expected)
    residual = nn.asarray(normal(*x.shape[:-2], x.shape[-2] + 2, 32))[..., 1:-1, :24]
    relu = np.maximum(expected + exact(bias), 0) + exact(residual)
    made = nn.linear(x, nn.asarray(weight), nn.asarray(bias), "relu", residual=residual)
    assert_close(made, relu)
    if x.ndim > 2 and x.shape[0] == 3:
        out = nn.asarray(np.zeros((3, x.shape[1] + 2, 40), np.float16))
        part = out[:, 1:-1, 8:32]
        assert nn.linear(x, nn.asarray(weight), nn.asarray(bias), "relu", residual=residual, out=part) is part
        assert (part.numpy() == made.numpy()).all()
        assert np.count_nonzero(out.numpy()) == np.count_nonzero(part.numpy())


X = np.zeros((3, 5, 7), np.float32)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nn.softmax(X, 3), "dim=3: expected one of 3 dimensions, from -3 to 2"),
        (lambda: nn.sort(np.zeros((), np.float32), 0), "x: a number has no rows"),
        (lambda: nn.softmax(X, 0, mask=np.ones((3, 5, 6), np.int8)), "mask: shape (3, 5, 6); expected (3, 5, 7)"),
        (lambda: nn.softmax(X, 0, out=np.zeros((5, 3, 7), np.float32)), "out: shape (5, 3, 7); expected (3, 5, 7)"),
        (lambda: nn.layer_norm(X, (3, 5)), "normalized_shape=(3, 5): x has shape (3, 5, 7); expected its last"),
        (lambda: nn.layer_norm(X, (5, 7), X[0, 0]), "weight: shape (7,); expected (5, 7)"),
        (lambda: nn.rms_norm(nn.asarray(X)[:, :, :6], (5, 6)), "is not an array of shape (3, 30)"),
        (lambda: nn.linear(nn.asarray(X)[:, :, ::2], nn.asarray(X)[0, :, :4]), "x: neither rows nor columns are"),
        (lambda: nn.permute(X, (1, 0, 2), out=X), "out: shape (3, 5, 7); expected (5, 3, 7)"),
    ],
)
def test_what_is_refused(session: nn.Session, call: Callable[[], Any], words: str) -> None:
    with pytest.raises(DeviceError) as caught:
        call()
    assert words in str(caught.value)
