"""Arrays of a device: views against NumPy's, what they refuse, and other libraries' views of them."""

from __future__ import annotations

import gc
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from common import assert_close, exact, normal, softmax
from hypothesis import given
from hypothesis import strategies as st

from ckmlir import nn
from ckmlir.nn.array import reshaped_strides
from ckmlir.runtime import dlpack, open_device
from ckmlir.runtime.device import DeviceError
from ckmlir.targets import get_target

DATA = np.arange(120, dtype=np.int32).reshape(2, 3, 4, 5)
KEYS: list[Any] = [
    0, -1, slice(None), slice(1, None), (..., 2), (0, ..., slice(None, None, 2)), (slice(None), 1, slice(3, 1)), None,
    (None, 1, None, ...), (..., None), (1, 2, 3, 4), np.int64(1), slice(-2, None), (slice(0, 9), slice(2, 3)),
    (slice(None), slice(None, None, 3)),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indices_are_those_of_numpy(session: nn.Session, key: Any) -> None:
    array = nn.asarray(DATA)
    view = array[key]
    assert view.shape == DATA[key].shape
    assert (view.numpy() == DATA[key]).all()
    assert view.data.whole is array.data.whole


def test_views_of_views(session: nn.Session) -> None:
    array, expected = nn.asarray(DATA)[:, 1:, ::2], DATA[:, 1:, ::2]
    for made, wanted in (
        (array.T, expected.T),
        (array.permute(2, 0, -1, 1), expected.transpose(2, 0, 3, 1)),
        (array.permute(2, 0, 3, 1)[1, :, 2:], expected.transpose(2, 0, 3, 1)[1, :, 2:]),
        (array[:, 0].reshape(2, 2, 5), expected[:, 0].reshape(2, 2, 5)),
    ):
        assert (made.numpy() == wanted).all()
        assert made.data.whole is array.data.whole
    assert nn.asarray(DATA).reshape(6, -1).strides == (20, 1)
    assert nn.asarray(DATA).reshape(2, 3, 2, 2, 5).shape == (2, 3, 2, 2, 5)
    assert nn.asarray(DATA).is_contiguous
    assert not array.is_contiguous
    assert len(array) == 2
    assert array.ndim == 4
    assert array.size == expected.size


def test_what_is_no_view_is_refused(session: nn.Session) -> None:
    array = nn.asarray(DATA)
    for wrong, words in (
        (lambda: array[::-1], "a slice with step -1: strides are not negative"),
        (lambda: array[0, 0, 0, 0, 0], "5 indices for an array of shape"),
        (lambda: array[..., ...], "only one ellipsis"),
        (lambda: array["x"], "str is not an index; expected whole numbers, slices"),
        (lambda: array[[0, 1]], "list is not an index"),
        (lambda: array.reshape(7, -1), "has 120 elements"),
        (lambda: array.T.reshape(120), "do not lie so; make a contiguous copy first"),
        (lambda: array.permute(0, 1), "expected each of 4 dimensions once"),
        (lambda: array.permute("a", 1, 2, 3), "permute('a', 1, 2, 3): expected whole numbers"),
        (lambda: array.reshape(12.0, 10), "reshape(12.0, 10): expected whole numbers"),
        (lambda: array.reshape(None), "reshape(None,): expected whole numbers"),
        (lambda: array[True], "bool is not an index; expected whole numbers, slices"),
        (lambda: array[1.5:], "slice(1.5, None, None): slice indices must be integers"),
        (lambda: array[::0], "slice(None, None, 0): slice step cannot be zero"),
        (lambda: nn.empty((1.5,), "f16"), "shape (1.5,): expected whole numbers"),
        (lambda: nn.empty((2, -1), "f16"), "shape (2, -1): expected no length below 0"),
        (lambda: nn.empty((2, 4), "f16"), "'f16' is float128 to NumPy, which no kernel has; expected 'float16'"),
        (lambda: nn.asarray(np.zeros(4, np.longdouble)), "float128 to NumPy, which no kernel has"),
        (lambda: array.strided((121,), (1,)), "are not within 480"),
        (lambda: nn.asarray("words"), "is not an array"),
    ):
        with pytest.raises(DeviceError) as caught:
            wrong()
        assert words in str(caught.value)
    with pytest.raises(IndexError, match="index 2 is out of bounds: the dimension has length 2"):
        array[2]
    with pytest.raises(TypeError, match="without dimensions has no length"):
        len(nn.asarray(3))


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.permutations(range(4)),
    st.integers(0, 2**16),
)
def test_reshaping_is_a_view_where_numpy_can_make_one(lengths: list[int], order: list[int], seed: int) -> None:
    """Of a transposed array, to any shape of as many elements."""
    source = np.empty(lengths, np.int8)
    array = source.transpose([dim for dim in order if dim < source.ndim])
    random = np.random.default_rng(seed)
    wanted, left = [], array.size
    while left > 1 and len(wanted) < 4:
        divisors = [one for one in range(1, left + 1) if left % one == 0]
        wanted.append(int(random.choice(divisors)))
        left //= wanted[-1]
    wanted.append(left)
    found = reshaped_strides(array.shape, array.strides, wanted)
    view = array.view()
    try:
        view.shape = tuple(wanted)
    except AttributeError:
        assert found is None
        return
    assert found is not None
    if math.prod(wanted):
        pairs = zip(wanted, found, view.strides, strict=True)
        assert all(length == 1 or own == numpys for length, own, numpys in pairs)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.int32, np.float64])
def test_numpy_sees_the_same_memory(session: nn.Session, dtype: Any) -> None:
    array = nn.asarray(np.arange(24).reshape(2, 3, 4).astype(dtype))
    before = len(dlpack._exported)
    view = np.from_dlpack(array[1].T)
    assert view.shape == (4, 3)
    assert view.dtype == dtype
    assert (view == array.numpy()[1].T).all()
    session.device.write(array.data, np.zeros((2, 3, 4), dtype))
    assert not view.any()
    assert len(dlpack._exported) == before + 1
    del view
    gc.collect()
    assert len(dlpack._exported) == before


def test_capsules_that_nobody_takes_give_the_memory_back(session: nn.Session) -> None:
    before = len(dlpack._exported)
    capsule = nn.asarray(DATA).__dlpack__()
    assert len(dlpack._exported) == before + 1
    del capsule
    gc.collect()
    assert len(dlpack._exported) == before
    with pytest.raises(BufferError, match="a copy was asked for"):
        nn.asarray(DATA).__dlpack__(copy=True)


def test_memory_lives_as_long_as_a_view_of_it(session: nn.Session) -> None:
    view = np.from_dlpack(nn.asarray(DATA)[1:])
    for _ in range(4):  # takes the memory if it was free
        nn.asarray(np.full_like(DATA, -1))
    gc.collect()
    assert (view == DATA[1:]).all()


def test_arrays_of_both_sides(session: nn.Session) -> None:
    bf16 = np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3)
    array = nn.asarray(bf16[::-1])
    assert array.dtype == ml_dtypes.bfloat16
    assert (np.asarray(array) == bf16[::-1]).all()
    assert nn.asarray(array) is array
    assert nn.asarray([1.5, 2]).numpy().tolist() == [1.5, 2.0]
    assert nn.asarray(3).shape == ()
    assert nn.empty((0, 3), "float16").numpy().shape == (0, 3)
    assert nn.empty(5, "float16").reshape((5, 1)).permute([1, 0]).shape == (1, 5)  # NumPy's and PyTorch's forms
    assert nn.empty((0, 3), "float16")[:, 1:].shape == (0, 2)
    assert repr(array) == "Array(bfloat16, shape=(2, 3), strides=(3, 1), simulator (gfx942))"
    other = open_device("sim", get_target("gfx942"))
    foreign = nn.array.asarray(bf16, other)  # type: ignore[attr-defined]
    with pytest.raises(DeviceError, match="is of another device"):
        nn.asarray(foreign)
    with pytest.raises(DeviceError, match="x: an array of another device than the session's"):
        nn.softmax(foreign)
    other.close()


def test_views_that_begin_within_a_vector(session: nn.Session) -> None:
    """Rows are taken as they begin; for products and attention they are copied, with their gaps, in the stream's order,
    and so is an output; one with gaps gets a copy of the result."""
    flat, rows, wide = nn.asarray(normal(4 * 64 + 1)), nn.asarray(normal(32, 64)), nn.asarray(normal(4, 72))
    view, apart = flat[1:].reshape(4, 64), wide[:, 3:67]
    for one in (view, apart):
        assert_close(nn.linear(one, rows), exact(one) @ exact(rows).T)
        assert_close(nn.linear(rows, one), exact(rows) @ exact(one).T)
    assert_close(nn.softmax(view), softmax(exact(view)))
    assert_close(nn.cast(view, "f32"), exact(view))
    assert_close(nn.elementwise("a + b", view, nn.asarray(np.zeros((4, 64), np.float32))), exact(view))
    heads = [nn.asarray(normal(4 * 64 + 1))[1:].reshape(4, 2, 32) for _ in range(3)]
    assert_close(nn.attention_varlen(*heads, [0, 4]), exact(nn.attention_varlen(*map(nn.contiguous, heads), [0, 4])))
    out = nn.asarray(normal(4 * 32 + 2))
    before = exact(out)
    nn.linear(view, rows, out=out[1:-1].reshape(4, 32))
    assert_close(out[1:-1].reshape(4, 32), exact(view) @ exact(rows).T)
    assert (exact(out)[[0, -1]] == before[[0, -1]]).all()
    before = exact(wide)
    nn.linear(view, rows, out=wide[:, 3:35])
    assert_close(wide[:, 3:35], exact(view) @ exact(rows).T)
    assert (exact(wide)[:, [*range(3), *range(35, 72)]] == before[:, [*range(3), *range(35, 72)]]).all()


@pytest.mark.parametrize("start", [0, 1])
def test_strides_that_no_kernel_takes_are_refused_wherever_a_view_begins(session: nn.Session, start: int) -> None:
    """A view that is copied, since it begins within a vector, is copied with its gaps: its strides have to be right."""
    numbers = nn.asarray(np.arange(10, dtype=np.int32).reshape(5, 2))[:, start : start + 1]
    image, weight = nn.asarray(normal(1, 3, 4, 9))[..., start : start + 4], nn.asarray(normal(5, 3, 3, 3))
    for refused in (
        lambda: nn.histogram(numbers, 8),
        lambda: nn.conv2d(image, weight),
        lambda: nn.conv2d(nn.asarray(normal(1, 3, 4, 4)), nn.asarray(normal(5, 3, 3, 9))[..., start : start + 3]),
    ):
        with pytest.raises(DeviceError, match=r"^array [xw] has strides .*; the problem asks for .* contiguous copy$"):
            refused()
    assert (nn.histogram(nn.contiguous(numbers), 8).numpy().sum(axis=1) == (exact(numbers)[:, 0] < 8)).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "make",
    [
        lambda torch: torch.arange(8.0).expand(4, 8),
        lambda torch: torch.arange(12.0).reshape(3, 1, 4).expand(3, 5, 4),
        lambda torch: torch.arange(10.0).unfold(0, 4, 1),
        lambda torch: torch.arange(6.0)[:, None].expand(6, 7),
    ],
)
def test_arrays_that_repeat(session: nn.Session, make: Any) -> None:
    """What PyTorch expands or unfolds is copied, permuted and computed with; of the device, where no kernel can, the
    error says so."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: its tensors are not given")
    x = make(torch)
    for found, wanted in (
        (nn.contiguous(x), x),
        (nn.cast(x, "float16"), x),
        (nn.permute(x, tuple(range(x.ndim))[::-1]), x.permute(*reversed(range(x.ndim)))),
        (nn.elementwise("a * 2 + b", x, x), 3 * x),
    ):
        assert found.shape == wanted.shape and (found.float() == wanted).all()
    whole = x.contiguous()
    there = nn.asarray(whole)
    weight = torch.ones(3, x.shape[-1])
    beside = {torch.Tensor: weight, nn.Array: nn.asarray(weight)}
    for function in (nn.softmax, nn.reduce, lambda x: nn.linear(x, beside[type(x)])):
        assert torch.equal(function(x), function(whole))
        with pytest.raises(DeviceError, match=r"^x: .*; make a contiguous copy first"):
            function(there.strided(x.shape, x.stride()))
