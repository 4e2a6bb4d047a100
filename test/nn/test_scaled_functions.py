"""Products of quantised matrices as functions on arrays: each form of scales against NumPy, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from common import HOMES, Array, assert_close, exact, normal

from ckmlir import nn
from ckmlir.ops.packing import unpack_values
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError

homes = pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
Put = Callable[[Array], Any]


def restored(q: Any, scale: Any, by: str) -> Array:
    """What was quantised, as far as it is known."""
    values, scales = exact(q), exact(scale)
    if by in ("tensor", "row"):
        return values * (scales if by == "tensor" else scales[..., None])
    rows, columns = map(int, by.split("x"))
    matrix = values.reshape(-1, values.shape[-1])
    over = scales.repeat(rows, axis=0)[: matrix.shape[0]].repeat(columns, axis=1)[:, : matrix.shape[1]]
    return (matrix * over).reshape(values.shape)


FORMS = [("row", "row"), ("tensor", "tensor"), ("1x128", "128x128"), ("1x32", "1x64"), ("row", "128x128")]
USUAL = ((FORMS[2], "fp8"),)
some_forms = pytest.mark.parametrize(
    ("of_x", "of_w", "dtype"),
    [
        pytest.param(*form, dtype, marks=() if (form, dtype) in USUAL else pytest.mark.full)
        for form in FORMS
        for dtype in ("fp8", "bf8", "i8")
    ],
)


@pytest.mark.one_in(2)
@homes
@some_forms
def test_scaled_linear(session: nn.Session, put: Put, of_x: str, of_w: str, dtype: str) -> None:
    x, w, bias, residual = normal(2, 5, 160), normal(136, 160), normal(136, dtype="f32"), normal(2, 5, 136)
    (xq, xs), (wq, ws) = nn.quantize(put(x), dtype, by=of_x), nn.quantize(put(w), dtype, by=of_w)
    expected = restored(xq, xs, of_x) @ restored(wq, ws, of_w).T
    assert_close(nn.scaled_linear(xq, wq, xs, ws, dtype="f32"), expected, "f32", 20)
    out = put(np.zeros((2, 5, 136), np.float16))
    found = nn.scaled_linear(xq, wq, xs, ws, put(bias), "relu", residual=put(residual), dtype="f16", out=out)
    assert found is out
    assert_close(out, np.maximum(expected + exact(bias), 0) + exact(residual))


@pytest.mark.one_in(2)
@homes
@some_forms
def test_scaled_matmul(session: nn.Session, put: Put, of_x: str, of_w: str, dtype: str) -> None:
    """Of views: what B and its scales are is read off their strides."""
    x, w = normal(10, 160), normal(136, 160)
    (xq, xs), (wq, ws) = nn.quantize(put(x), dtype, by=of_x), nn.quantize(put(w), dtype, by=of_w)
    expected = restored(xq, xs, of_x) @ restored(wq, ws, of_w).T
    of_a, of_b = (one.reshape(-1, 1) if by == "row" else one for one, by in ((xs, of_x), (ws, of_w)))
    found = nn.scaled_matmul(xq, wq.T, of_a, of_b.T, dtype="f32")
    assert_close(found, expected, "f32", 20)
    copied = [put(np.ascontiguousarray(np.asarray(one).T)) for one in (wq, of_b)]
    assert_close(nn.scaled_matmul(xq, copied[0], of_a, copied[1], dtype="f32"), expected, "f32", 20)


@pytest.mark.one_in(2)
@homes
def test_batches(session: nn.Session, put: Put) -> None:
    a, b = (np.random.default_rng(2).integers(-9, 10, shape, dtype=np.int8) for shape in ((3, 2, 7, 40), (2, 40, 9)))
    rows, columns = (np.abs(normal(*shape, dtype="f32")) for shape in ((3, 2, 7, 1), (2, 1, 9)))
    expected = (exact(a) * exact(rows)) @ (exact(b) * exact(columns))
    found = nn.scaled_matmul(put(a), put(b), put(rows), put(columns), dtype="f32")
    assert_close(found, expected, "f32", 20)
    number = np.float32(0.5).reshape(1)
    out = put(np.zeros((3, 2, 7, 9), np.float32))
    nn.scaled_matmul(put(a), put(b), put(number), put(columns), dtype="f32", out=out)
    assert_close(out, exact(a) / 2 @ (exact(b) * exact(columns)), "f32", 20)
    groups = np.abs(normal(2, 2, 9, dtype="f32"))  # of 32 elements along K
    over = groups.repeat(32, axis=1)[:, :40]
    assert_close(
        nn.scaled_matmul(put(a), put(b), put(rows), put(groups), dtype="f32"),
        (exact(a) * exact(rows)) @ (exact(b) * exact(over)), "f32", 20,
    )  # fmt: skip


@pytest.mark.one_in(2)
@homes
def test_products_of_groups(session: nn.Session, put: Put) -> None:
    sizes = ((5, 7, 32), (0, 9, 64), (33, 16, 96))
    a = [nn.quantize(put(normal(m, k)), "i8") for m, _, k in sizes]
    b = [nn.quantize(put(normal(n, k)), "i8") for _, n, k in sizes]
    scales = [s.reshape(-1, 1) for _, s in a], [s.reshape(-1, 1).T for _, s in b]
    found = nn.scaled_grouped_matmul([q for q, _ in a], [q.T for q, _ in b], *scales, dtype="f32")
    for one, left, right in zip(found, a, b, strict=True):
        assert_close(one, restored(*left, "row") @ restored(*right, "row").T, "f32", 20)


@pytest.mark.parametrize("form", [("row", "row"), pytest.param(("1x128", "128x128"), marks=pytest.mark.full)])
def test_groups_of_one_row_beside_others(session: nn.Session, form: tuple[str, str]) -> None:
    """One row's scale could be the matrix's, and that of a short row a group's: kernels are told what all of them are.
    """
    sizes = ((1, 7, 64), (0, 9, 64), (5, 1, 64), (2, 3, 160 if form[0] == "1x128" else 64))
    a, b = ([nn.quantize(normal(rows, k), "i8", by=by) for rows, k in of] for of, by in (
        ([(m, k) for m, _, k in sizes], form[0]), ([(n, k) for _, n, k in sizes], form[1]),
    ))  # fmt: skip
    scales = ([s if s.ndim > 1 else s[:, None] for _, s in side] for side in (a, b))
    of_a, of_b = next(scales), [s.T for s in next(scales)]
    found = nn.scaled_grouped_matmul([q for q, _ in a], [q.T for q, _ in b], of_a, of_b, dtype="f32")
    for one, left, right in zip(found, a, b, strict=True):
        assert_close(one, restored(*left, form[0]) @ restored(*right, form[1]).T, "f32", 20)


@homes
@pytest.mark.parametrize(("points", "unsigned"), [
    *(pytest.param(points, unsigned, marks=pytest.mark.full) for points in (False, True) for unsigned in (False, True)
      if points == unsigned), (True, False),
])  # fmt: skip
def test_linear_of_integers_of_four_bits(session: nn.Session, put: Put, points: bool, unsigned: bool) -> None:
    random = np.random.default_rng(5)
    weight = random.integers(0, 256, (24, 48), dtype=np.uint8)
    scale, zeros = np.abs(normal(24, 3)) / 8, random.integers(-4, 5, (24, 3)).astype(np.float16)
    x, bias = normal(2, 3, 96), normal(24)
    numbers = unpack_values(weight, "u4" if unsigned else "i4")
    whole = numbers - (exact(zeros) if points else np.zeros((24, 3))).repeat(32, 1)
    expected = exact(x) @ (whole * exact(scale).repeat(32, 1)).T + exact(bias)
    given = put(x), put(weight), put(scale), put(zeros) if points else None, put(bias)
    found = nn.linear_int4(*given, unsigned=unsigned)
    assert_close(found, expected, factor=8)


@homes
def test_linear_of_floats_of_four_bits(session: nn.Session, put: Put) -> None:
    """MXFP4 as `quantize` makes it, and scales of another type."""
    x, w, bias = normal(2, 3, 96), normal(24, 96), normal(24)
    codes, powers = nn.quantize(put(w), "fp4", by="1x32", powers=True)
    weight = unpack_values(np.asarray(codes), "fp4") * exact(np.asarray(powers)).repeat(32, 1)
    found = nn.linear_fp4(put(x), codes, powers, put(bias))
    assert_close(found, exact(x) @ weight.T + exact(bias), factor=8)
    floats = np.ones((24, 1), np.float32)
    found = nn.linear_fp4(put(x), codes, put(floats), activation="relu")
    expected = exact(x) @ unpack_values(np.asarray(codes), "fp4").T
    assert_close(found, np.maximum(expected, 0), factor=8)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("fp4", "fp4"),
        *(pytest.param(*one, marks=pytest.mark.full) for one in (("fp8", "fp8"), ("fp8", "fp4"), ("fp6", "bf6"))),
    ],
)
def test_microscaling_formats(session: nn.Session, left: str, right: str) -> None:
    x, w = normal(2, 3, 96), normal(24, 96)
    (xq, xs), (wq, ws) = (
        nn.quantize(nn.asarray(one), dtype, by="1x32", powers=True) for one, dtype in ((x, left), (w, right))
    )
    packed = [None if dtype == "fp8" else dtype for dtype in (left, right)]
    held = zip((xq, wq), packed, strict=True)
    values = [exact(q) if kind is None else unpack_values(q.numpy(), kind) for q, kind in held]
    a, b = (one.reshape(-1, 96) * exact(s).repeat(32, 1) for one, s in zip(values, (xs, ws), strict=True))
    found = nn.scaled_linear(xq, wq, xs, ws, packed=(packed[0], packed[1]), dtype="f32")
    assert_close(found, (a @ b.T).reshape(2, 3, 24), "f32", 20)


Q, S = np.zeros((4, 160), np.int8), np.ones(4, np.float32)
P = np.zeros((4, 5), np.uint8).view(ml_dtypes.float8_e8m0fnu)
F, W4 = np.zeros((2, 64), np.float16), np.zeros((8, 32), np.uint8)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: nn.scaled_linear(Q, Q[:, :64], S, S), "expected rows of 64"),
    (lambda: nn.scaled_linear(Q, Q, S[:3], S), r"x_scale: shape \(3,\); expected one number"),
    (lambda: nn.scaled_linear(Q, Q, S.reshape(2, 2), S), "x_scale: shape .2, 2.; expected one number, one for"),
    (lambda: nn.scaled_linear(Q, Q, S.astype(np.float16), S), "x_scale: elements are f16; expected f32 or e8m0"),
    (lambda: nn.scaled_linear(Q, Q, S, S.astype(np.float16)), "weight_scale: elements are f16; expected f32"),
    (lambda: nn.scaled_linear(F, F, S[:2], S[:2]), "dtype=f16"),
    (lambda: nn.scaled_linear(Q, Q, S, S, activation="soft"), "activation=soft: expected one of"),
    (lambda: nn.scaled_linear(Q, Q, S, S, dtype="f17"), "dtype=f17"),
    (lambda: nn.scaled_linear(W4, W4, S[:1], S[:1], packed=("fp5", None)), "fp5 is not a packed type"),
    (lambda: nn.scaled_matmul(Q, Q, S[:1], S[:1]), r"expected \(…, m, k\) and \(…, k, n\)"),
    (lambda: nn.scaled_matmul(Q, Q.T, S, S[:1]), r"scale_a: shape \(4,\); expected 2 dimensions"),
    (lambda: nn.scaled_grouped_matmul([Q], [], [S], [S]), "1 a, 0 b, 1 scale_a, 1 scale_b: expected as many"),
    (lambda: nn.scaled_grouped_matmul([Q] * 2, [Q.T] * 2, [S[:, None]] * 2, [S[None], S[:1]]), "all alike"),
    (lambda: nn.scaled_grouped_matmul([Q] * 2, [Q.T] * 2, [P] * 2, [P.T] * 2), r"scale_a.0.: powers of two of several"),
    (lambda: nn.scaled_matmul(Q[None], Q.T, P[None], P.T), "scale_a: powers of two of a batch"),
    (lambda: nn.scaled_swiglu(Q, Q, Q, P, P, P), "x_scale: powers of two of gated products; expected f32"),
    (lambda: nn.linear_int4(F, W4[:, :9], F), "expected rows of 18"),
    (lambda: nn.linear_int4(F, W4, F), r"scale: shape \(2, 64\); expected one for each of 8 rows and 32, 64 or 128"),
    (lambda: nn.quantize(F, "fp8", by="row", powers=True), "by=row: powers of two are scales of blocks"),
    (lambda: nn.quantize(F, "fp4", by="1x32"), "expected e8m0"),
])  # fmt: skip
def test_what_is_refused(session: nn.Session, call: Callable[[], Any], words: str) -> None:
    with pytest.raises((DeviceError, RequestError), match=words):
        call()
