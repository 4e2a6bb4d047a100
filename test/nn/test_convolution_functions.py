"""conv1d, conv2d and conv3d against loops, with channels first and last, and what they refuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from common import HOMES, Array, assert_close, exact, normal

from ckmlir import nn
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError

CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9), (4, 3, 3), {"padding": 1, "stride": 2}),
    ((1, 6, 7, 8), (4, 3, 3, 2), {"groups": 2, "padding": (2, 1), "dilation": (2, 1)}),
    ((2, 4, 5, 6), (4, 1, 4, 3), {"groups": 4, "padding": "same"}),
    ((1, 8, 3, 4, 5), (6, 8, 2, 1, 2), {"padding": "valid"}),
    ((2, 4, 6, 5), (8, 4, 3, 2), {"padding": 1, "right_padding": (-2, 3)}),
    ((0, 4, 5, 6), (8, 4, 3, 3), {}),
]  # fmt: skip


def convolved(
    x: Array, weight: Array, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
    right_padding: Any = None,
) -> Array:  # fmt: skip
    """With channels first, in float64, a place of the window after the other."""
    rank = x.ndim - 2
    stride, dilation = ([one] * rank if isinstance(one, int) else one for one in (stride, dilation))
    spans = [(size - 1) * step for size, step in zip(weight.shape[2:], dilation, strict=True)]
    if padding == "same":
        ends = [(span // 2, span - span // 2) for span in spans]
    else:
        padding = 0 if padding == "valid" else padding
        left = [padding] * rank if isinstance(padding, int) else padding
        ends = [*zip(left, right_padding or left, strict=True)]
    x = np.pad(exact(x), [(0, 0), (0, 0), *((before, max(behind, 0)) for before, behind in ends)])
    x = x[(..., *(slice(length + min(end, 0)) for length, (_, end) in zip(x.shape[2:], ends, strict=True)))]
    positions = [(n - span - 1) // step + 1 for n, span, step in zip(x.shape[2:], spans, stride, strict=True)]
    apart = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    w = exact(weight).reshape(groups, -1, *weight.shape[1:])
    y = np.zeros((x.shape[0], groups, w.shape[1], *positions))
    for place in itertools.product(*map(range, weight.shape[2:])):
        met = tuple(
            slice(at * step, at * step + (count - 1) * hop + 1, hop)
            for at, step, count, hop in zip(place, dilation, positions, stride, strict=True)
        )
        y += np.einsum("ngc...,gkc->ngk...", apart[(slice(None),) * 3 + met], w[(slice(None),) * 3 + place])
    return y.reshape(x.shape[0], weight.shape[0], *positions)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize(("image", "window", "how"), CASES)
def test_convolutions(
    session: nn.Session, image: tuple[int, ...], window: tuple[int, ...], how: dict[str, Any], last: bool
) -> None:
    x, weight, bias = normal(*image), normal(*window), normal(window[0])
    function = getattr(nn, f"conv{len(image) - 2}d")
    expected = convolved(x, weight, **how)
    expected = np.maximum(expected + exact(bias).reshape(-1, *[1] * (len(image) - 2)), 0)
    if last:
        x, weight, expected = (np.moveaxis(one, 1, -1) for one in (x, weight, expected))
    found = function(x, weight, bias, activation="relu", channels_last=last, **how)
    assert_close(found, expected)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
def test_residuals_and_outputs_that_are_given(session: nn.Session, put: Callable[[Array], Any]) -> None:
    x, weight, residual = (normal(*shape, dtype="bf16") for shape in ((2, 8, 4, 5), (16, 8, 3, 3), (2, 16, 4, 5)))
    expected = convolved(x, weight, padding=1) + exact(residual)
    assert_close(nn.conv2d(put(x), put(weight), padding=1, residual=put(residual)), expected, "bf16")
    out = put(np.zeros((2, 16, 4, 5), x.dtype))
    assert nn.conv2d(put(x), put(weight), padding=1, residual=put(residual), out=out) is out
    assert_close(out, expected, "bf16")


X, W = np.zeros((1, 4, 5, 6), np.float16), np.zeros((8, 2, 3, 3), np.float16)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: nn.conv2d(X, W), r"x of shape .* groups=1: expected 2 channels of x in each group"),
    (lambda: nn.conv2d(X, W[:7], groups=2), "and as many outputs in every one"),
    (lambda: nn.conv2d(X, W, groups=0), "groups=0"),
    (lambda: nn.conv1d(X, W), r"x: shape \(1, 4, 5, 6\); expected 3 dimensions"),
    (lambda: nn.conv2d(X, W, groups=2, padding="some"), "padding=some: expected numbers, same or valid"),
    (lambda: nn.conv2d(X, W, groups=2, padding="same", stride=2), "padding=same with stride="),
    (lambda: nn.conv2d(X, W, groups=2, padding="same", right_padding=1),
     "right_padding=1 with padding=same: expected numbers for both"),
    (lambda: nn.conv2d(X, W, groups=2, right_padding=-3), r"x has lengths \(2, 3\) with its padding"),
    (lambda: nn.conv2d(X, W, groups=2, stride=(1, 2, 3)), "expected one number, or 2"),
    (lambda: nn.conv2d(X, W, groups=2, activation="soft"), "activation=soft: expected one of"),
    (lambda: nn.conv2d(X, W.astype(np.float32), groups=2), "weight: elements are f32; expected f16"),
    (lambda: nn.conv2d(X, W, X, groups=2), "bias: shape"),
    (lambda: nn.conv2d(X, W, groups=2, out=X), "out: shape"),
    (lambda: nn.conv2d(X, W, groups=2, stride=0), "stride=.0, 0.: expected at least 1"),
    (lambda: nn.conv2d(X, W, None, 2, 1, (3, 4), 2),
     r"x has lengths \(7, 8\) with its padding, windows of weight have \(7, 9\); expected no longer ones"),
    (lambda: nn.conv2d_weight(X[:, :, :2], W.shape, X, groups=2), r"x has lengths \(2, 6\) with its padding"),
    (lambda: nn.conv2d(X[:0, :, :2], W, groups=2), r"windows of weight have \(3, 3\)"),
])  # fmt: skip
def test_what_is_refused(session: nn.Session, call: Callable[[], Any], words: str) -> None:
    with pytest.raises((DeviceError, RequestError), match=words):
        call()
