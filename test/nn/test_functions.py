"""Functions on arrays against NumPy: of the host and of the device, of every type, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from common import HOMES, WITH_TENSORS, Array, as_tensor, assert_close, exact, normal, on_host, softmax

from ckmlir import nn
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError

Put = Callable[[Array], Any]
homes_and_types = pytest.mark.parametrize(
    ("put", "dtype"),
    [(on_host, "f16"), (nn.asarray, "bf16"), (nn.asarray, "f32"), (as_tensor, "f16")],
    ids=["NumPy", "bf16", "f32", "PyTorch"],
)
homes = pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
with_tensors = pytest.mark.parametrize("put", WITH_TENSORS.values(), ids=WITH_TENSORS)


def of_its_home(found: Any, put: Put) -> None:
    assert isinstance(found, type(put(normal(1))))


# -- products ----------------------------------------------------------------------------------------------------------


@homes_and_types
def test_linear(session: nn.Session, put: Put, dtype: str) -> None:
    x, weight, bias, residual = (normal(*shape, dtype=dtype) for shape in ((2, 5, 40), (24, 40), (24,), (2, 5, 24)))
    expected = exact(x) @ exact(weight).T
    found = nn.linear(put(x), put(weight))
    of_its_home(found, put)
    assert found.dtype == put(x).dtype
    assert_close(found, expected, dtype)
    relu = np.maximum(expected + exact(bias), 0) + exact(residual)
    found = nn.linear(put(x), put(weight), put(bias), "relu", residual=put(residual))
    assert_close(found, relu, dtype)
    out = put(np.zeros((2, 5, 24), x.dtype))
    assert nn.linear(put(x), put(weight), put(bias), out=out) is out
    assert_close(out, expected + exact(bias), dtype)


@pytest.mark.parametrize("rows", [(), (0,), (1,), (3, 0), (130,)])
def test_linear_of_any_number_of_rows(session: nn.Session, rows: tuple[int, ...]) -> None:
    x, weight = normal(*rows, 16), normal(8, 16)
    assert_close(nn.linear(nn.asarray(x), nn.asarray(weight)), exact(x) @ exact(weight).T)


@with_tensors
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((7, 16), (16, 9)), ((3, 1, 7, 16), (2, 16, 9)), ((4, 7, 16), (16, 9)), ((16, 8), (3, 8, 5)), ((1, 1), (1, 1)),
        ((0, 7, 16), (0, 16, 9)), ((2, 1, 7, 16), (0, 16, 9)),
    ],
)  # fmt: skip
def test_matmul_broadcasts(session: nn.Session, put: Put, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    left, right = normal(*a, dtype="f32"), normal(*b, dtype="f32")
    found = nn.matmul(put(left), put(right))
    of_its_home(found, put)
    assert_close(found, exact(left) @ exact(right), "f32", 20)


@with_tensors
@pytest.mark.parametrize(
    ("a", "b"), [((24,), (24, 9)), ((7, 24), (24,)), ((24,), (24,)), ((24,), (3, 24, 9)), ((2, 7, 24), (24,))]
)
def test_matmul_of_vectors(session: nn.Session, put: Put, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    left, right = normal(*a), normal(*b)
    wanted = exact(left) @ exact(right)
    found = nn.matmul(put(left), put(right))
    of_its_home(found, put)
    assert found.shape == wanted.shape
    assert_close(found, wanted, factor=4)
    # Vectors with gaps between their elements, and results between others.
    apart = [put(np.stack([one, one], -1))[:, 1] if one.ndim == 1 else put(one) for one in (left, right)]
    out = put(np.zeros((*wanted.shape, 2), np.float16))
    nn.matmul(*apart, out=out[..., 1])
    assert_close(out[..., 1], wanted, factor=4)
    assert not exact(out[..., 0]).any()


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_matmul_of_transposed_views_copies_nothing(session: nn.Session, left: bool, right: bool) -> None:
    a, b = normal(16, 24), normal(24, 40)
    one = nn.asarray(a.T.copy()).T if left else nn.asarray(a)
    two = nn.asarray(b.T.copy()).T if right else nn.asarray(b)
    assert_close(nn.matmul(one, two), exact(a) @ exact(b))
    wide = nn.asarray(np.hstack([b, b]))[:, :40]
    out = nn.asarray(np.zeros((16, 48), np.float16))
    nn.matmul(one, wide, out=out[:, :40])
    assert_close(out[:, :40], exact(a) @ exact(b))
    assert not out[:, 40:].numpy().any()
    both = nn.asarray(np.stack([a, a]))
    assert_close(nn.matmul(both.permute(0, 2, 1).permute(0, 2, 1), two), np.stack([exact(a) @ exact(b)] * 2))


def test_other_output_types(session: nn.Session) -> None:
    a, b = normal(16, 24), normal(24, 40)
    assert_close(nn.matmul(a, b, dtype="float32"), exact(a) @ exact(b), "f32", 20)
    fp8, bf8 = (exact(one).astype(numpy_dtype(name, session.target)) for one, name in ((a, "fp8"), (b, "bf8")))
    assert_close(nn.matmul(fp8, bf8, dtype="float32"), exact(fp8) @ exact(bf8), "f32", 20)
    with pytest.raises(DeviceError, match="f16"):
        nn.matmul(a, bf8)
    i8 = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
    found = nn.matmul(i8, i8)
    assert found.dtype == np.int32
    assert (found == i8.astype(int) @ i8.astype(int)).all()


@with_tensors
def test_swiglu(session: nn.Session, put: Put) -> None:
    x, gate, up = normal(3, 5, 32), normal(24, 32), normal(24, 32)
    inner = exact(x) @ exact(gate).T
    expected = inner / (1 + np.exp(-inner)) * (exact(x) @ exact(up).T)
    assert_close(nn.swiglu(put(x), put(gate), put(up)), expected)


# -- rows --------------------------------------------------------------------------------------------------------------


def standardized(x: Array) -> Array:
    found: Array = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return found


@homes_and_types
def test_norms(session: nn.Session, put: Put, dtype: str) -> None:
    x, residual, weight, bias = (normal(*shape, dtype=dtype) for shape in ((2, 5, 40), (2, 5, 40), (40,), (40,)))
    assert_close(nn.layer_norm(put(x)), standardized(exact(x)), dtype, 8)
    total = exact(x) + exact(residual)
    y, added = nn.layer_norm(put(x), put(weight), put(bias), residual=put(residual), return_sum=True)
    of_its_home(y, put)
    assert_close(y, standardized(total) * exact(weight) + exact(bias), dtype, 8)
    assert_close(added, total, dtype)
    squares = np.sqrt((exact(x) ** 2).mean(-1, keepdims=True) + 1e-6)
    assert_close(nn.rms_norm(put(x), put(weight)), exact(x) / squares * exact(weight), dtype, 8)


def test_norms_of_views(session: nn.Session) -> None:
    wide = nn.asarray(normal(6, 100))
    view = wide[1::2, 3:60]
    out = nn.empty((3, 80), "float16")
    assert nn.layer_norm(view, out=out[:, :57]).shape == (3, 57)
    assert_close(out[:, :57], standardized(exact(view)))
    with pytest.raises(DeviceError, match=r"x: neighbours of a row lie 2 elements apart; make a contiguous copy first"):
        nn.layer_norm(wide[:, ::2])
    assert_close(nn.layer_norm(nn.contiguous(wide[:, ::2])), standardized(exact(wide[:, ::2])))
    with pytest.raises(DeviceError, match="is not an array of shape"):
        nn.softmax(nn.asarray(normal(2, 3, 4, 8))[:, :2, 1:3])


@with_tensors
def test_softmax_and_choice(session: nn.Session, put: Put) -> None:
    x = normal(2, 5, 33)
    assert_close(nn.softmax(put(x), scale=0.5), softmax(exact(x) / 2))
    mask = (x > 0).astype(np.int8)
    assert_close(nn.softmax(put(x), mask=put(mask)), softmax(np.where(mask, exact(x), -1e9)) * mask)
    values, places = nn.topk(put(x.astype(np.float32)), 3)
    assert exact(values).tolist() == (-np.sort(-exact(x))[..., :3]).tolist()
    assert (np.take_along_axis(x, exact(places).astype(int), -1) == exact(values)).all()
    least, _ = nn.topk(put(x.astype(np.float32)), 2, largest=False)
    assert exact(least).tolist() == np.sort(exact(x))[..., :2].tolist()
    weights, experts = nn.topk_softmax(put(x[0]), 2, renormalize=True)
    assert weights.shape == experts.shape == (5, 2)
    assert np.allclose(exact(weights).sum(1), 1)


@homes
def test_quantize(session: nn.Session, put: Put) -> None:
    x, smooth = normal(2, 5, 40), np.linspace(0.5, 2, 40).astype(np.float32)
    q, scale = nn.quantize(put(x))
    assert q.dtype == np.int8
    assert np.abs(exact(q)).max() >= 126
    assert np.abs(exact(q) * exact(scale)[..., None] - exact(x)).max() <= 1.01 * exact(scale).max()
    q, scale = nn.quantize(put(x), smooth=put(smooth))
    assert np.abs(exact(q) * exact(scale)[..., None] - exact(x) * smooth).max() <= 1.01 * exact(scale).max()


@homes
def test_sparse_products(session: nn.Session, put: Put) -> None:
    a, b, bt = normal(20, 44), normal(44, 24), normal(24, 44)
    values, index = nn.compress_sparse(put(a))
    assert exact(values).shape == (20, 22) and exact(index).shape == (20, 6)
    of_fours = np.sort(np.abs(exact(a)).reshape(20, 11, 4), axis=2)
    pruned = np.where(np.abs(exact(a)) >= np.repeat(of_fours[:, :, 2], 4, axis=1), exact(a), 0)
    found = nn.matmul_sparse(values, index, put(b), dtype="f32")
    of_its_home(found, put)
    assert_close(found, pruned @ exact(b))
    assert_close(nn.matmul_sparse(values, index, put(bt).T), pruned @ exact(bt).T)
    with pytest.raises(DeviceError, match="expected 24 elements of rows of 48"):
        nn.matmul_sparse(values, index, put(normal(48, 24)))


@homes
@pytest.mark.parametrize("by", ["tensor", "row", "1x32", "128x128"])
def test_quantize_and_back(session: nn.Session, put: Put, by: str) -> None:
    x = normal(2, 5, 40)
    for dtype in ("i8", "bf8"):
        q, scale = nn.quantize(put(x), dtype, by=by)
        of_its_home(q, put)
        assert exact(scale).shape == {"tensor": (1,), "row": (2, 5), "1x32": (10, 2), "128x128": (1, 1)}[by]
        back = nn.dequantize(q, scale, "f32", by=by)
        assert np.abs(exact(back) - exact(x)).max() <= (0.51 if dtype == "i8" else 4100) * exact(scale).max()
        if by in ("tensor", "row"):
            again, same = nn.quantize(put(x), dtype, by=by, scale=scale)
            assert same is scale
            np.testing.assert_array_equal(exact(again), exact(q))


@homes
def test_microscaling_formats_and_back(session: nn.Session, put: Put) -> None:
    """Bytes, of which a call has to say what they hold."""
    x = normal(2, 5, 64)
    for dtype, error in (("fp4", 1.01), ("fp6", 0.26)):
        q, scale = nn.quantize(put(x), dtype, by="1x32", powers=True)
        back = exact(nn.dequantize(q, scale, "f32", by="1x32", packed=dtype))
        assert back.shape == x.shape and np.abs(back - exact(x)).max() <= error * exact(scale).max()
        with pytest.raises(DeviceError, match="bytes may hold fp4"):
            nn.dequantize(q, scale, by="1x32")


def test_scales_that_do_not_go_with_what_is_quantised(session: nn.Session) -> None:
    x, ones = normal(4, 40), np.ones(40, np.float32)
    with pytest.raises(DeviceError, match="columns are scaled of rows only"):
        nn.quantize(x, by="tensor", smooth=ones)
    with pytest.raises(DeviceError, match=r"scale: shape \(40,\); expected \(4,\)"):
        nn.quantize(x, scale=ones)
    with pytest.raises(DeviceError, match="scale: numbers lie 2 elements apart"):
        nn.dequantize(nn.asarray(x.astype(np.int8)), nn.asarray(ones)[:8:2], by="row")
    with pytest.raises(DeviceError, match="by=3x3: expected one of tensor, row, 1x32"):
        nn.dequantize(x.astype(np.int8), ones[:4].reshape(2, 2), by="3x3")


# -- attention ---------------------------------------------------------------------------------------------------------


def attended(q: Array, k: Array, v: Array, mask: Callable[[Array, Array], Array] | None = None) -> Array:
    """Attention of (…, s, h, d) in float64; `mask` says which of rows and columns, the last of both aligned."""
    q, k, v = (np.swapaxes(exact(one), -2, -3) for one in (q, k, v))
    k, v = (np.repeat(one, q.shape[-3] // one.shape[-3], -3) for one in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        rows, columns = scores.shape[-2:]
        scores = np.where(mask(np.arange(rows)[:, None] + columns - rows, np.arange(columns)), scores, -1e9)
    return np.swapaxes(softmax(scores) @ v, -2, -3)


def causal(row: Array, column: Array) -> Array:
    return column <= row


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("put", "dtype"), [(on_host, "bf16"), (nn.asarray, "f16")], ids=["NumPy", "device"])
def test_attention(session: nn.Session, put: Put, dtype: str) -> None:
    q, k, v = (normal(2, *shape, dtype=dtype) for shape in ((9, 4, 32), (11, 2, 32), (11, 2, 48)))
    found = nn.attention(put(q), put(k), put(v))
    of_its_home(found, put)
    assert_close(found, attended(q, k, v), dtype)
    assert_close(nn.attention(put(q), put(k), put(v), causal=True), attended(q, k, v, causal), dtype)
    if dtype == "f16":
        near = nn.attention(put(q), put(k), put(v), window=(3, 1))
        assert_close(near, attended(q, k, v, lambda row, column: (column >= row - 3) & (column <= row + 1)))
        heads_first = [np.ascontiguousarray(np.swapaxes(one, 1, 2)) for one in (q, k, v)]
        o, lse = nn.attention(*map(put, heads_first), layout="bhsd", return_lse=True)
        assert_close(o, np.swapaxes(attended(q, k, v), 1, 2))
        assert lse.shape == (2, 4, 9)


def test_attention_of_projections_in_one_array(session: nn.Session) -> None:
    """Views of q, k and v beside each other, as one product makes them."""
    packed = nn.asarray(normal(2 * 7, 3 * 64))
    q, k, v = (packed[:, start : start + 64].reshape(2, 7, 2, 32) for start in (0, 64, 128))
    out = nn.asarray(np.zeros((2, 7, 2, 40), np.float16))
    nn.attention(q, k, v, out=out[..., :32])
    assert_close(out[..., :32], attended(q.numpy(), k.numpy(), v.numpy()))
    assert not out[..., 32:].numpy().any()
    found = nn.attention_varlen(*(one.reshape(14, 2, 32) for one in (q, k, v)), [0, 5, 14])
    wanted = [attended(*(one.reshape(14, 2, 32).numpy()[a:b] for one in (q, k, v))) for a, b in ((0, 5), (5, 14))]
    assert_close(found, np.concatenate(wanted))


@with_tensors
def test_attention_of_sequences(session: nn.Session, put: Put) -> None:
    starts, key_starts = [0, 7, 7, 20], [0, 3, 10, 27]
    q, k, v = normal(20, 4, 32), normal(27, 2, 32), normal(27, 2, 32)
    both = list(zip(pairwise(starts), pairwise(key_starts), strict=True))
    parts = [attended(q[a:b], k[c:d], v[c:d]) for (a, b), (c, d) in both if b > a]
    found = nn.attention_varlen(put(q), put(k), put(v), put(np.array(starts, np.int32)), key_starts)
    assert_close(found, np.concatenate(parts))
    same = nn.attention_varlen(put(q), put(k[:20]), put(v[:20]), starts, causal=True)
    ends = [(a, b) for a, b in pairwise(starts) if b > a]
    assert_close(same, np.concatenate([attended(q[a:b], k[a:b], v[a:b], causal) for a, b in ends]))


# -- tensors -----------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("layout", "dtype"), [("bshd", "f16"), ("bhsd", "f16"), ("bshd", "f32")])
def test_gradients_of_attention(session: nn.Session, layout: str, dtype: str) -> None:
    def turned(one: Array) -> Array:
        return one.transpose(0, 2, 1, 3) if layout == "bshd" else one

    q, k, v, do = (np.ascontiguousarray(turned(normal(1, heads, 20, 32, dtype=dtype))) for heads in (4, 2, 2, 4))
    o, lse = nn.attention(q, k, v, return_lse=True, layout=layout)
    found = nn.attention_backward(*map(nn.asarray, (do, q, k, v, o, lse)), layout=layout, deterministic=True)
    queries, g = (turned(exact(one)) for one in (q, do))
    keys, values = (np.repeat(turned(exact(one)), 2, axis=1) for one in (k, v))
    p = softmax(queries @ keys.swapaxes(2, 3) / np.sqrt(32))
    dp = g @ values.swapaxes(2, 3)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) / np.sqrt(32)
    wanted = ds @ keys, ds.swapaxes(2, 3) @ queries, p.swapaxes(2, 3) @ g
    for number, (own, one) in enumerate(zip(found, wanted, strict=True)):
        shared = one if number == 0 else one.reshape(1, 2, 2, 20, 32).sum(2)
        assert_close(own, turned(shared), dtype, factor=4)
    with pytest.raises(DeviceError, match=r"softmax_lse: shape \(1, 4, 19\); expected \(1, 4, 20\)"):
        nn.attention_backward(do, q, k, v, o, lse[..., :19], layout=layout)


@homes
def test_tensors(session: nn.Session, put: Put) -> None:
    x, row = normal(2, 5, 40), normal(40)
    found = nn.elementwise("relu(a * b) + 1", put(x), put(row))
    of_its_home(found, put)
    assert_close(found, np.maximum(exact(x) * exact(row), 0) + 1)
    assert nn.cast(put(x), "float32").dtype == np.float32
    assert (exact(nn.permute(put(x), (2, 0, -2))) == exact(x).transpose(2, 0, 1)).all()
    assert_close(nn.reduce(put(x), "sum", (0, -1), dtype="f32"), exact(x).sum((0, 2)), "f32", 40)
    assert (exact(nn.reduce(put(x), "max")) == exact(x).max(-1)).all()
    assert_close(nn.cumsum(put(x.astype(np.float32))), exact(x).cumsum(-1), "f32", 40)
    ids = np.array([[3, 0], [4, 4]], np.int32)
    assert (exact(nn.embedding(put(ids), put(x[1]))) == exact(x)[1][ids]).all()
    if not isinstance(put(ids), nn.Array):  # numbers of the host may have any integer type
        for dtype in (np.int64, np.uint8):
            assert (exact(nn.embedding(put(ids.astype(dtype)), put(x[1]))) == exact(x)[1][ids]).all()


def test_tensors_of_views(session: nn.Session) -> None:
    x = nn.asarray(normal(6, 8, 10))
    view = x[1:5:3].permute(2, 0, 1)
    for made in (nn.contiguous(view), nn.cast(view, "f16"), nn.elementwise("a", view)):
        assert made.is_contiguous
        assert (made.numpy() == view.numpy()).all()
    assert nn.cast(nn.asarray(np.float32(1.5)), "f16").shape == ()
    assert exact(nn.elementwise("a + b", view, x[0, 0, 3])).shape == view.shape


# -- refusals ----------------------------------------------------------------------------------------------------------

X, W = np.zeros((4, 8), np.float16), np.zeros((6, 8), np.float16)
Q = np.zeros((1, 4, 2, 32), np.float16)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nn.linear(X, W[:, :4]), "x of shape (4, 8) and weight of shape (6, 4): expected rows of 4"),
        (lambda: nn.linear(X, W, X), "bias: shape (4, 8); expected (6,)"),
        (lambda: nn.linear(X, W, activation="gelo"), "activation=gelo: expected one of gelu, "),
        (lambda: nn.linear(X, W.astype(np.float32)), "weight: elements are f32; expected f16"),
        (lambda: nn.linear(X, W, out=np.zeros((4, 6), np.float32)), "out: elements are f32; expected f16"),
        (lambda: nn.linear(X, W, out=np.frombuffer(bytes(48), np.float16).reshape(4, 6)), "out: a read-only array"),
        (lambda: nn.matmul(X, W), "rows of a have 8 elements, columns of b 6; expected as many"),
        (lambda: nn.matmul(np.ones((), np.float16), W.T), "a: a number; expected a vector, a matrix, or a batch"),
        (lambda: nn.matmul(np.zeros((2, 4, 8), np.float16), np.zeros((3, 8, 4), np.float16)), "do not broadcast"),
        (lambda: nn.matmul(X, W.T, dtype="f17"), "dtype=f17: unknown dtype 'f17'"),
        (lambda: nn.matmul(X.astype(np.int32), W.T.astype(np.int32)), "there are no products of i32"),
        (lambda: nn.matmul(X.astype(np.int64), W.T), "a: no operator has elements of type int64 on gfx942"),
        (lambda: nn.matmul([[1.0]], X), "a: list is not an array; expected NumPy"),
        (lambda: nn.linear(X, nn.asarray(W)), "arrays of several libraries: x (ndarray), weight (Array)"),
        (lambda: nn.layer_norm(X, weight=nn.asarray(X[0])), "x (ndarray), weight (Array); expected those of one"),
        (lambda: nn.layer_norm(np.float16(1)), "x: float16 is not an array"),
        (lambda: nn.layer_norm(np.zeros((), np.float16)), "x: a number has no rows; expected at least one dimension"),
        (lambda: nn.layer_norm(X, return_sum=True), "return_sum: found without a residual"),
        (lambda: nn.softmax(np.ma.masked_array(X)), "a masked array: the mask would be ignored"),
        (lambda: nn.attention(Q, Q, Q, layout="bsh"), "layout=bsh: expected one of bshd, bhsd"),
        (lambda: nn.attention(Q, Q[0], Q), "k: shape (4, 2, 32); expected 4 dimensions"),
        (lambda: nn.attention(Q, Q[..., :16], Q), "expected as many channels"),
        (lambda: nn.attention(Q, Q, Q[:, :3]), "expected as many batches, keys and heads in k and v"),
        (lambda: nn.attention_varlen(Q[0], Q[0], Q[0], [0, 3]), "cu_seqlens_q: it ends with 3; expected the 4 rows"),
        (lambda: nn.attention_varlen(Q[0], Q[0], Q[0], [0]), "cu_seqlens_q: it has no sequence; expected where each"),
        (lambda: nn.attention_varlen(Q[0], Q[0], Q[0], [1, 4]), "cu_seqlens_q: expected numbers from 0"),
        (lambda: nn.attention_varlen(Q[0], Q[0], Q[0], [0, 4], [0, 2, 4]), "cu_seqlens_k: 3 numbers that end with 4"),
        (lambda: nn.elementwise("a + b", X, W), "shapes (4, 8), (6, 8) do not broadcast"),
        (lambda: nn.elementwise("a"), "0 arrays; expected 1 to 4"),
        (lambda: nn.reduce(X, "sum", 2), "dims=(2,): expected some of 2 dimensions"),
        (lambda: nn.permute(X, (0, 0)), "dims=(0, 0): expected each of 2 dimensions once"),
        (lambda: nn.embedding(X, X), "ids: elements are f16; expected i32"),
        (lambda: nn.embedding(np.array([[1, 2**32]]), X), "ids: number 4294967296; expected numbers of 32 bits"),
        (lambda: nn.segment_sum(X, np.array([0, 2**31], np.uint32)), "offsets: number 2147483648; expected numbers of"),
        (lambda: nn.embedding(np.ma.masked_array([1, 2]), X), "a masked array: the mask would be ignored"),
        (lambda: nn.embedding(nn.asarray(np.array([1, 2])), X), "no operator has elements of type int64"),
    ],
)
def test_what_functions_refuse(session: nn.Session, call: Callable[[], Any], words: str) -> None:
    with pytest.raises(DeviceError) as caught:
        call()
    assert words in str(caught.value)


def test_operators_refuse_in_their_own_words(session: nn.Session) -> None:
    with pytest.raises(RequestError, match="fmha_fwd: d=30: heads of f16 have a multiple of 8"):
        nn.attention(Q[..., :30].copy(), Q[..., :30].copy(), Q[..., :30].copy())
    with pytest.raises(RequestError, match="topk"):
        nn.topk(X.astype(np.float32), 9)
