"""Maxima and averages of windows, windows as rows, and gradients of convolutions, against loops in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from common import WITH_TENSORS, Array, assert_close, exact, normal
from test_convolution_functions import CASES, convolved

from ckmlir import nn
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError

homes = pytest.mark.parametrize("put", WITH_TENSORS.values(), ids=WITH_TENSORS)
Put = Callable[[Array], Any]


def windows(
    x: Array, size: list[int], stride: list[int], pad: list[int], outside: float, ceil: bool = False,
    behind: float | None = None,
) -> Array:  # fmt: skip
    """[n, channels, positions…, places] of images with channels first; what lies outside is `outside`, and `behind` the
    padding another number, if that is given.
    """
    room = [length + 2 * p - k for length, p, k in zip(x.shape[2:], pad, size, strict=True)]
    count = [(-(-r // s) if ceil else r // s) + 1 for r, s in zip(room, stride, strict=True)]
    if ceil:  # a window begins in the images, or in the padding before them
        bounds = zip(count, stride, x.shape[2:], pad, strict=True)
        count = [c - ((c - 1) * s >= length + p) for c, s, length, p in bounds]
    wide = np.pad(exact(x), [(0, 0), (0, 0), *((p, p) for p in pad)], constant_values=outside)
    ends = [(0, 0), (0, 0), *((0, s) for s in stride)]
    wide = np.pad(wide, ends, constant_values=outside if behind is None else behind)
    places = []
    for at in itertools.product(*map(range, size)):
        met = tuple(slice(a, a + (c - 1) * s + 1, s) for a, c, s in zip(at, count, stride, strict=True))
        places.append(wide[(slice(None), slice(None), *met)])
    return np.stack(places, -1)


POOLS: list[tuple[tuple[int, ...], int, int, int, bool]] = [
    ((2, 3, 9), 3, 2, 1, False), ((2, 5, 7, 8), 2, 2, 0, False), ((1, 4, 8, 6), 3, 2, 1, True),
    ((1, 2, 4, 5, 6), 2, 1, 1, False), ((0, 3, 4, 4), 2, 2, 0, False), ((2, 5, 2, 6), 3, 3, 0, True),
]  # fmt: skip


def some(cases: Sequence[tuple[Any, ...]], *few: int) -> list[Any]:
    """Of the cases a few with channels that come first or last, in turn; the others are of the long run."""
    every = [(number, last) for number in range(len(cases)) for last in (False, True)]
    usual = {(number, bool(place % 2)) for place, number in enumerate(few)}
    marks = {one: () if one in usual else pytest.mark.full for one in every}
    return [pytest.param(*cases[number], last, marks=marks[number, last]) for number, last in every]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("shape", "size", "stride", "pad", "ceil", "last"), some(POOLS, 2, 1, 4, 5))
def test_pooling(
    session: nn.Session, shape: tuple[int, ...], size: int, stride: int, pad: int, ceil: bool, last: bool
) -> None:
    x, rank = normal(*shape), len(shape) - 2
    how = [size] * rank, [stride] * rank, [pad] * rank
    most = windows(x, *how, -np.inf, ceil).max(-1)
    found = windows(x, *how, np.nan, ceil)
    mean = np.nansum(found, -1) / np.isfinite(found).sum(-1)
    given = np.moveaxis(x, 1, -1) if last else x
    maxima, averages = getattr(nn, f"max_pool{rank}d"), getattr(nn, f"avg_pool{rank}d")
    for function, expected, options in (
        (maxima, most, {}),
        (averages, mean, {"count_include_pad": False}),
        (averages, np.nanmean(windows(x, *how, 0.0, ceil, np.nan), -1), {}),
    ):
        y = function(given, size, stride, pad, ceil_mode=ceil, channels_last=last, **options)
        assert_close(y, np.moveaxis(expected, 1, -1) if last else expected)


@homes
def test_where_maxima_are(session: nn.Session, put: Put) -> None:
    x = normal(2, 4, 6, 3, dtype="f32")  # channels last
    y, places = nn.max_pool2d(put(x), (2, 3), return_indices=True, channels_last=True)
    assert (x.ravel()[exact(places).astype(int)] == exact(y)).all()
    turned = nn.max_pool2d(put(np.moveaxis(x, -1, 1).copy()), (2, 3), return_indices=True)
    assert (exact(turned[1]) == np.moveaxis(exact(places), -1, 1)).all()
    x[0, 0, 0, 0] = np.nan
    assert np.isnan(np.asarray(nn.max_pool2d(x, 2, channels_last=True))[0, 0, 0, 0])


@homes
@pytest.mark.parametrize("groups", [1, 2])
def test_windows_as_rows(session: nn.Session, put: Put, groups: int) -> None:
    x = normal(2, 4, 5, 6)
    expected = windows(x, [3, 2], [2, 1], [1, 0], 0.0)  # n, channels, positions, places
    n, channels, *positions, places = expected.shape
    expected = np.moveaxis(expected.reshape(n, groups, channels // groups, *positions, places), (1, 2), (0, -1))
    found = nn.im2col(put(np.moveaxis(x, 1, -1).copy()), (3, 2), 1, (1, 0), (2, 1), groups=groups)
    assert (exact(found) == expected.reshape(groups, n, *positions, -1)).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("image", "window", "how", "last"), some(CASES, 1, 4))
def test_gradients_of_convolutions(
    session: nn.Session, image: tuple[int, ...], window: tuple[int, ...], how: dict[str, Any], last: bool
) -> None:
    """Convolutions are linear in both: what a gradient weighs is what its result moves by."""
    x, weight = normal(*image, dtype="f32"), normal(*window, dtype="f32")
    dy = normal(*convolved(x, weight, **how).shape, dtype="f32")
    rank = len(image) - 2
    turned = [np.moveaxis(one, 1, -1).copy() if last else one for one in (x, weight, dy)]
    of_images, of_weights = (getattr(nn, f"conv{rank}d_{name}") for name in ("input", "weight"))
    dx = of_images(turned[0].shape, turned[1], turned[2], channels_last=last, **how)
    dw = of_weights(turned[0], turned[1].shape, turned[2], channels_last=last, **how)
    back = [np.moveaxis(exact(one), -1, 1) if last else exact(one) for one in (dx, dw)]
    assert back[0].shape == x.shape
    assert back[1].shape == weight.shape
    for _ in range(3):
        for gradient, expected in (
            (back[0], lambda other: convolved(other, weight, **how)),
            (back[1], lambda other: convolved(x, other, **how)),
        ):
            other = normal(*gradient.shape, dtype="f32")
            moved = exact(dy) * expected(other)
            size = np.abs(moved).sum()
            assert abs((gradient * exact(other)).sum() - moved.sum()) <= 1e-5 * max(size, 1.0)


def test_gradients_where_they_are_wanted(session: nn.Session) -> None:
    put, x, weight, dy = nn.asarray, normal(1, 6, 7, 8), normal(4, 3, 3, 2), normal(1, 4, 7, 9)
    options: dict[str, Any] = {"padding": 1, "groups": 2}
    dx, dw = put(np.zeros_like(x)), put(np.zeros_like(weight))
    assert nn.conv2d_input(x.shape, put(weight), put(dy), out=dx, **options) is dx
    assert nn.conv2d_weight(put(x), weight.shape, put(dy), out=dw, **options) is dw
    assert (exact(dx) == exact(nn.conv2d_input(x.shape, weight, dy, **options))).all()
    assert (exact(dw) == exact(nn.conv2d_weight(x, weight.shape, dy, **options))).all()
    assert exact(dx).any()
    assert exact(dw).any()


X, W = np.zeros((1, 4, 5, 6), np.float16), np.zeros((8, 2, 3, 3), np.float16)
DY = np.zeros((1, 8, 3, 4), np.float16)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: nn.max_pool1d(X, 2), r"x: shape \(1, 4, 5, 6\); expected 3 dimensions"),
    (lambda: nn.max_pool2d(X, (2, 2, 2)), "kernel_size=.*expected one number, or 2"),
    (lambda: nn.max_pool2d(X, 0), "kernel_size=.0, 0.: expected at least 1"),
    (lambda: nn.max_pool2d(X, 2, stride=0), "stride=.0, 0.: expected at least 1"),
    (lambda: nn.max_pool2d(X, 2, padding=2), "expected at most half of kernel_size"),
    (lambda: nn.max_pool2d(X, 7), "windows reach beyond images"),
    (lambda: nn.max_pool2d(X.astype(np.int8), 2), "dtype=i8"),
    (lambda: nn.im2col(X, 3, groups=4), "groups=4: x has 6 channels"),
    (lambda: nn.im2col(X[0, 0], 3), "expected images"),
    (lambda: nn.conv2d_input(X.shape[1:], W, DY, groups=2), r"input_size=\(4, 5, 6\): expected 4 lengths"),
    (lambda: nn.conv2d_input(X.shape, W, DY), "input_size of shape .* expected 2 channels of input_size"),
    (lambda: nn.conv2d_input(X.shape, W, DY, padding=1, groups=2), r"grad_output: shape .* expected \(1, 8, 5, 6\)"),
    (lambda: nn.conv2d_weight(X, W.shape, DY.astype(np.float32), groups=2), "grad_output: elements are f32"),
    (lambda: nn.conv2d_weight(X, (8, 2, 3), DY, groups=2), "weight_size=.8, 2, 3.: expected 4 lengths"),
    (lambda: nn.conv2d_weight(X, W.shape, DY, groups=2, out=X), "out: shape"),
])  # fmt: skip
def test_what_is_refused(session: nn.Session, call: Callable[[], Any], words: str) -> None:
    with pytest.raises((DeviceError, RequestError), match=words):
        call()
