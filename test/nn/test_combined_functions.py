"""Products of shuffled weights and of what expressions combine, norms that quantise: against NumPy, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from common import HOMES, WITH_TENSORS, Array, assert_close, exact, normal

from ckmlir import nn
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError

Put = Callable[[Array], Any]
homes = pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
with_tensors = pytest.mark.parametrize("put", WITH_TENSORS.values(), ids=WITH_TENSORS)


@pytest.mark.one_in(2)
@with_tensors
@pytest.mark.parametrize("columns", [16, 32])
def test_linear_with_a_shuffled_weight(session: nn.Session, put: Put, columns: int) -> None:
    x, weight, bias, residual = normal(2, 5, 40), normal(50, 40), normal(50), normal(2, 5, 50)
    shuffled = nn.shuffle_weight(put(weight), columns=columns)
    found = nn.linear_shuffled(put(x), shuffled, 50, put(bias), "relu", residual=put(residual), columns=columns)
    expected = np.maximum(exact(x) @ exact(weight).T + exact(bias), 0) + exact(residual)
    assert_close(found, expected, factor=4)
    out = put(np.zeros((2, 5, 50), np.float32))
    assert nn.linear_shuffled(put(x), shuffled, 50, dtype="float32", columns=columns, out=out) is out
    assert_close(out, exact(x) @ exact(weight).T, "f32", factor=64)


def test_weights_without_rows_or_columns(session: nn.Session) -> None:
    for m, n, k in ((3, 0, 8), (0, 5, 8), (3, 5, 0)):
        found = nn.linear_shuffled(normal(m, k), nn.shuffle_weight(normal(n, k)), n)
        assert_close(found, np.zeros((m, n)))


@homes
def test_products_that_expressions_combine(session: nn.Session, put: Put) -> None:
    a0, a1, b0, scale, each, bias = (normal(*shape) for shape in ((7, 40), (40,), (40, 24), (1, 24), (7, 1), (24,)))
    found = nn.combined_matmul(
        (put(a0), put(a1)), [put(b0), put(scale)], put(each), put(bias),
        a_op="a0 + a1", b_op="b0 * b1", op="relu(acc * d0 + d1)",
    )  # fmt: skip
    expected = np.maximum((exact(a0) + exact(a1)) @ (exact(b0) * exact(scale)) * exact(each) + exact(bias), 0)
    assert_close(found, expected, factor=8)
    out = put(np.zeros((7, 24), np.float32))
    assert nn.combined_matmul(put(a0), put(b0), dtype="float32", out=out) is out
    assert_close(out, exact(a0) @ exact(b0), "f32", factor=64)


def test_operands_that_lie_otherwise(session: nn.Session) -> None:
    a, b, d = (nn.asarray(normal(*shape)) for shape in ((40, 7), (24, 48), (7, 30)))
    columns, half = a.T, b[:, ::2]
    found = nn.combined_matmul(columns, b[:, :40].T, d[:, :24], normal_number(), op="acc + d0 * d1")
    assert_close(found, exact(columns) @ exact(b)[:, :40].T + 2 * exact(d)[:, :24], factor=8)
    numbers = half[0, :7].reshape(7, 1)  # two elements apart
    found = nn.combined_matmul((columns, numbers), b[:, :40].T, a_op="a0 * a1", dtype="float32")
    assert_close(found, (exact(columns) * exact(numbers)) @ exact(b)[:, :40].T, factor=8)


def normal_number() -> Any:
    return nn.asarray(np.array(2, np.float16))


@homes
@pytest.mark.parametrize("dtype", ["i8", "fp8"])
def test_a_norm_that_quantises(session: nn.Session, put: Put, dtype: str) -> None:
    x, residual, weight = normal(2, 5, 40), normal(2, 5, 40), normal(40)
    q, scales, total = nn.add_rms_norm_quantize(put(x), put(residual), put(weight), dtype=dtype)
    s = exact(x) + exact(residual)
    expected = s / np.sqrt((s * s).mean(-1, keepdims=True) + 1e-6) * exact(weight)
    step = {"i8": 0.5, "fp8": 16.0}[dtype] * exact(scales)[..., None]  # half of one of 127, or of one at fp8's largest
    assert (np.abs(exact(q) * exact(scales)[..., None] - expected) <= step + 1e-3 * np.abs(expected)).all()
    assert_close(total, s)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nn.shuffle_weight(normal(4, 4), columns=8), "columns=8: expected one of 16, 32"),
        (lambda: nn.shuffle_weight(normal(4)), "weight: shape (4,); expected 2 dimensions"),
        (
            lambda: nn.linear_shuffled(normal(3, 8), normal(4, 8), 4),
            "weight: shape (4, 8); expected (1, 512), what shuffle_weight makes of (4, 8) with columns=32",
        ),
        (lambda: nn.linear_shuffled(normal(3, 8), normal(1, 512), -1), "n=-1: expected a whole number, 0 or more"),
        (lambda: nn.combined_matmul(normal(3, 4), normal(5, 6)), "rows of a have 4 elements, columns of b 5"),
        (lambda: nn.combined_matmul((), normal(5, 6)), "a: 0 arrays; expected 1 to 4"),
        (lambda: nn.combined_matmul([normal(2, 3), normal(4, 3)], normal(3, 6)), "a: shapes (2, 3), (4, 3) do not"),
        (lambda: nn.combined_matmul(normal(2, 3, 4), normal(4, 6)), "a0: shape (2, 3, 4); expected what broadcasts"),
        (lambda: nn.combined_matmul(normal(2, 4), normal(4, 6), normal(5)), "d0: shape (5,); expected what broadcasts"),
        (lambda: nn.combined_matmul(normal(2, 4), normal(4, 6), op="acc + d0"), "d0"),
        (lambda: nn.add_rms_norm_quantize(normal(2, 4), normal(2, 5), normal(4)), "residual: shape (2, 5)"),
        (lambda: nn.add_rms_norm_quantize(normal(2, 4), normal(2, 4), normal(5)), "weight: shape (5,)"),
        (lambda: nn.add_rms_norm_quantize(normal(2, 4), normal(2, 4), normal(4), dtype="f64x"), "dtype=f64x"),
    ],
)
def test_what_is_refused(session: nn.Session, call: Callable[[], Any], words: str) -> None:
    with pytest.raises((DeviceError, RequestError)) as caught:
        call()
    assert words in str(caught.value)
