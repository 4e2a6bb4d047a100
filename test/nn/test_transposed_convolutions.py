"""conv_transpose1d, 2d and 3d against loops and PyTorch, with channels first and last, and what they refuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from common import Array, assert_close, exact, normal

from ckmlir import nn
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError

CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 8, 9), (8, 4, 3), {"padding": 1, "stride": 2, "output_padding": 1}),
    ((1, 6, 4, 5), (6, 2, 3, 2), {"groups": 2, "padding": (2, 0), "stride": (3, 1), "dilation": (2, 3)}),
    ((2, 4, 3, 1), (4, 1, 2, 2), {"groups": 4, "stride": 2}),
    ((1, 3, 2, 3, 2), (3, 8, 2, 1, 2), {"stride": (1, 2, 2), "output_padding": (0, 1, 1)}),
    ((2, 4, 3, 2), (4, 8, 2, 3), {"padding": (1, 0), "dilation": (3, 4), "output_padding": (2, 3)}),
    ((0, 4, 5, 6), (4, 8, 3, 3), {}),
]


def spread(
    x: Array, weight: Array, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1,
    dilation: Any = 1,
) -> Array:  # fmt: skip
    """With channels first, in float64: each place of x adds to what a window there covers, then ends are cut off."""
    rank = x.ndim - 2
    steps, pads, more, apart = (
        [one] * rank if isinstance(one, int) else one for one in (stride, padding, output_padding, dilation)
    )
    given = zip(x.shape[2:], weight.shape[2:], steps, apart, more, strict=True)
    whole = [(length - 1) * step + (places - 1) * hop + 1 + extra for length, places, step, hop, extra in given]
    values = exact(x).reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    taps = exact(weight).reshape(groups, -1, *weight.shape[1:])
    y = np.zeros((x.shape[0], groups, weight.shape[1], *whole))
    for place in itertools.product(*map(range, weight.shape[2:])):
        met = tuple(
            slice(at * hop, at * hop + (length - 1) * step + 1, step)
            for at, hop, length, step in zip(place, apart, x.shape[2:], steps, strict=True)
        )
        products = np.einsum("ngc...,gck->ngk...", values, taps[(slice(None),) * 3 + place])
        y[(slice(None),) * 3 + met] += products
    kept = tuple(slice(pad, length - pad) for pad, length in zip(pads, whole, strict=True))
    found: Array = y.reshape(x.shape[0], groups * weight.shape[1], *whole)[(slice(None),) * 2 + kept]
    return found


@pytest.mark.one_in(16)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize(("image", "window", "how"), CASES)
def test_numbers(
    session: nn.Session, image: tuple[int, ...], window: tuple[int, ...], how: dict[str, Any], last: bool
) -> None:
    x, weight, bias = normal(*image), normal(*window), normal(window[1] * how.get("groups", 1))
    function = getattr(nn, f"conv_transpose{len(image) - 2}d")
    expected = spread(x, weight, **how)
    residual = normal(*expected.shape)
    expected = np.maximum(expected + exact(bias).reshape(-1, *[1] * (len(image) - 2)), 0) + exact(residual)
    if last:
        x, weight, residual, expected = (np.moveaxis(one, 1, -1) for one in (x, weight, residual, expected))
    found = function(x, weight, bias, activation="relu", residual=residual, channels_last=last, **how)
    assert_close(found, expected)


def test_an_output_that_is_given(session: nn.Session) -> None:
    x, weight = normal(1, 4, 3, 5), normal(4, 8, 2, 2)
    out = np.zeros((1, 8, 6, 10), x.dtype)
    assert nn.conv_transpose2d(x, weight, stride=2, out=out) is out
    assert_close(out, spread(x, weight, stride=2))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", [
    ([2, 3], [1, 0], [1, 2], 2, [2, 1]),
    ([1, 1], [0, 1], [2, 2], 2, [3, 3]),
])  # fmt: skip
def test_gradients(session: nn.Session, how: tuple[Any, ...]) -> None:
    """Those of PyTorch, of what is added to the last places as well, by as much as a stride and more."""
    torch = pytest.importorskip("torch")
    given = [torch.from_numpy(normal(*shape)).requires_grad_() for shape in ((2, 6, 3, 4), (6, 4, 3, 2), (8,))]
    same = [one.detach().double().requires_grad_() for one in given]
    found, wanted = nn.conv_transpose2d(*given, *how), torch.nn.functional.conv_transpose2d(*same, *how)
    dy = torch.from_numpy(normal(*wanted.shape))
    found.backward(dy)
    wanted.backward(dy.double())
    for own, one in ((found, wanted), *((own.grad, one.grad) for own, one in zip(given, same, strict=True))):
        assert_close(own.detach().numpy(), one.detach().numpy())


X, W = np.zeros((1, 4, 5, 6), np.float16), np.zeros((4, 2, 3, 3), np.float16)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: nn.conv_transpose2d(X[:, :3], W), r"x of shape \(1, 3, 5, 6\), weight .*: expected 4 channels of x"),
    (lambda: nn.conv_transpose2d(X, W, groups=3), "groups=3: expected 4 channels of x, and as many in every group"),
    (lambda: nn.conv_transpose1d(X, W), r"x: shape \(1, 4, 5, 6\); expected 3 dimensions"),
    (lambda: nn.conv_transpose2d(X, W, stride=2, output_padding=2), "output_padding=.2, 2. .*: expected less than one"),
    (lambda: nn.conv_transpose2d(X, W, padding=(4, 0)), r"the result has lengths \(-1, 8\); expected at least 1"),
    (lambda: nn.conv_transpose2d(X, W, padding="same"), "padding=same: expected whole numbers"),
    (lambda: nn.conv_transpose2d(X, W, np.zeros(4, np.float16)), "bias: shape"),
    (lambda: nn.conv_transpose2d(X, W.astype(np.float32)), "weight: elements are f32; expected f16"),
    (lambda: nn.conv_transpose2d(X, W, stride=0), "stride=.0, 0.: expected at least 1"),
])  # fmt: skip
def test_what_is_refused(session: nn.Session, call: Callable[[], Any], words: str) -> None:
    with pytest.raises((DeviceError, RequestError), match=words):
        call()
