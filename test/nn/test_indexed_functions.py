"""Sorting, counting and adding up rows as functions on arrays, against NumPy, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from common import WITH_TENSORS, Array, assert_close, exact, normal

from ckmlir import nn
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError

Put = Callable[[Array], Any]
homes = pytest.mark.parametrize("put", WITH_TENSORS.values(), ids=WITH_TENSORS)


@pytest.mark.one_in(2)
@homes
@pytest.mark.parametrize("descending", [pytest.param(False, marks=pytest.mark.full), True])
def test_sort_and_argsort(session: nn.Session, put: Put, descending: bool) -> None:
    x = np.round(normal(2, 3, 17, dtype="f32"))  # some are equal
    order = np.argsort(-x if descending else x, axis=-1, kind="stable")
    values, places = nn.sort(put(x), descending=descending)
    assert (exact(values) == np.take_along_axis(x, order, -1)).all()
    assert (exact(places) == order).all()
    assert (exact(nn.argsort(put(x), descending=descending)) == order).all()


@pytest.mark.one_in(2)
@homes
def test_nonzero(session: nn.Session, put: Put) -> None:
    x = (normal(2, 3, 13) > 0.4).astype(np.int8)
    places, counts = nn.nonzero(put(x))
    assert (exact(counts) == x.sum(-1)).all()
    for row, found, count in zip(x.reshape(6, 13), exact(places).reshape(6, 13), exact(counts).ravel(), strict=True):
        assert (found[: int(count)] == np.flatnonzero(row)).all()
        assert (found[int(count) :] == -1).all()


@pytest.mark.one_in(2)
@homes
@pytest.mark.parametrize("shape", [(2, 3, 40), (70,), (0,), (2, 0), (0, 3)])
def test_histogram(session: nn.Session, put: Put, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).integers(-1, 9, shape, dtype=np.int32)
    assert (exact(nn.histogram(put(x), 8)) == (x[..., None] == np.arange(8)).sum(-2)).all()


@homes
def test_sums_of_segments(session: nn.Session, put: Put) -> None:
    x, offsets = normal(7, 3, 4, dtype="f32"), np.array([0, 2, 2, 7], np.int32)
    expected = np.stack([exact(x)[a:b].sum(0) for a, b in ((0, 2), (2, 2), (2, 7))])
    assert_close(nn.segment_sum(put(x), put(offsets)), expected, "f32")
    assert nn.segment_sum(put(x), put(offsets[:1])).shape == (0, 3, 4)


@pytest.mark.one_in(2)
@homes
@pytest.mark.parametrize("op", ["add", "store"])
def test_scattered_rows(session: nn.Session, put: Put, op: str) -> None:
    x = normal(2, 3, 6)
    ids = np.array([[3, 1, -1], [1, 5, 4]] if op == "add" else [[3, 1, -1], [2, 5, 4]], np.int32)
    expected = np.zeros((5, 6))
    for row, number in zip(exact(x).reshape(6, 6), ids.ravel(), strict=True):
        if 0 <= number < 5:
            expected[number] += row
    assert_close(nn.scatter_rows(put(x), put(ids), 5, op=op), expected)


@homes
def test_many_rows_of_one_number_are_added_in_f32(session: nn.Session, put: Put) -> None:
    """In f16 the sum would stay at 2048, in bf16 at 256, and with it the gradient of a frequent token."""
    x = np.ones((2100, 2), np.float16)
    assert (exact(nn.scatter_rows(put(x), put(np.zeros(2100, np.int32)), 1)) == 2100).all()


@pytest.mark.one_in(2)
@homes
@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 5, 7), (3, 0), (0, 2, 3), (1, 1)])
def test_transpose(session: nn.Session, put: Put, shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    found = nn.transpose(put(x))
    assert found.shape == (*shape[:-2], shape[-1], shape[-2])
    assert (exact(found) == exact(x).swapaxes(-1, -2)).all()


@pytest.mark.one_in(2)
@homes
def test_bags_of_rows(session: nn.Session, put: Put) -> None:
    x, ids = normal(7, 12), np.array([[[0, 6], [2, 2]], [[-1, 3], [7, -5]]])
    rows = np.concatenate([exact(x), np.zeros((1, 12))])
    expected = rows[np.where((ids < 0) | (ids > 6), 7, ids)].sum(-2)
    assert_close(nn.embedding_bag(put(ids.astype(np.int32)), put(x)), expected)
    assert nn.embedding_bag(put(ids[:0].astype(np.int32)), put(x)).shape == (0, 2, 12)


def test_rows_apart(session: nn.Session) -> None:
    x = normal(4, 24, dtype="f32")
    view = nn.asarray(x)[::2, :17]
    assert (exact(nn.argsort(view)) == np.argsort(x[::2, :17], axis=-1)).all()
    assert (exact(nn.transpose(view)) == x[::2, :17].T).all()
    assert_close(nn.segment_sum(view, nn.asarray(np.array([0, 2], np.int32))), exact(x)[::2, :17].sum(0)[None], "f32")


X, IDS, NUMBER = np.zeros((2, 4), np.float32), np.zeros(2, np.int32), np.zeros((), np.float32)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: nn.argsort(np.zeros((2, 5000), np.float32)), "n=5000: expected at most 4096"),
    (lambda: nn.sort(X.astype(np.int8)), "dtype=i8"),
    (lambda: nn.argsort(NUMBER), "expected at least one dimension"),
    (lambda: nn.histogram(X, 4), "x: elements are f32; expected i32"),
    (lambda: nn.histogram(IDS, 0), "bins=0: expected a whole number, 1 or more"),
    (lambda: nn.histogram(IDS, 5000), "bins=5000: expected at most 4096"),
    (lambda: nn.segment_sum(X, IDS[:0]), "offsets: no number"),
    (lambda: nn.segment_sum(X, X), r"offsets: shape \(2, 4\); expected 1 dimensions"),
    (lambda: nn.segment_sum(NUMBER, IDS), "x: a number has no rows"),
    (lambda: nn.segment_sum(nn.asarray(X), nn.asarray(np.zeros(4, np.int32))[::2]), "offsets: numbers lie 2 elements"),
    (lambda: nn.scatter_rows(X, IDS[:1], 3), r"ids: shape \(1,\); expected \(2,\)"),
    (lambda: nn.scatter_rows(X, IDS, 3, op="max"), "op=max"),
    (lambda: nn.transpose(IDS), r"x: shape \(2,\); expected a matrix"),
])  # fmt: skip
def test_what_is_refused(session: nn.Session, call: Callable[[], Any], words: str) -> None:
    with pytest.raises((DeviceError, RequestError), match=words):
        call()
