"""Arrays of the host that do not lie as kernels want them: they are copied to the device anyhow, so without gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from common import Array, as_tensor, exact, normal, on_host

from ckmlir import nn
from ckmlir.runtime.device import DeviceError

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its tensors are not given")

X, WIDE, Q = normal(6, 64), normal(6, 128), normal(2, 9, 2, 64)
PUT = {"NumPy": on_host, "PyTorch": as_tensor}


@pytest.fixture(scope="module")
def session() -> Iterator[nn.Session]:
    with nn.Session("gfx942", "sim") as session:
        yield session


def spread(array: Any, *shape: int) -> Any:
    return np.broadcast_to(array, shape) if isinstance(array, np.ndarray) else array.expand(shape)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "every other column": lambda wide: wide[:, ::2],
    "part of the columns": lambda wide: wide[::2, 3:67],
    "turned": lambda wide: wide.T[:64],
    "spread": lambda wide: spread(wide[0, :64], 4, 64),
    "no rows": lambda wide: wide[:0, ::2],
    "one row": lambda wide: wide[2:3, 1::2],
}
CALLS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda x: nn.linear(x, x),
    "layer_norm": nn.layer_norm,
    "softmax": nn.softmax,
    "elementwise": lambda x: nn.elementwise("a * 2 + b", x, x[:1]),
}


@pytest.mark.one_in(16)
@pytest.mark.parametrize("function", CALLS)
@pytest.mark.parametrize("view", VIEWS)
def test_tensors_with_gaps_are_as_good_as_arrays_with_gaps(session: nn.Session, view: str, function: str) -> None:
    """Bit for bit what the packed array gives, of both libraries."""
    packed = np.ascontiguousarray(VIEWS[view](WIDE))
    expected = exact(CALLS[function](packed))
    for put in PUT.values():
        given = VIEWS[view](put(WIDE))
        found = CALLS[function](given)
        assert type(found) is type(given)
        np.testing.assert_array_equal(exact(found), expected)


def test_attention_on_turned_tensors(session: nn.Session) -> None:
    turned = np.ascontiguousarray(np.swapaxes(Q, 1, 2))
    expected = exact(nn.attention(Q, Q, Q))
    for put in PUT.values():
        one = put(turned).swapaxes(1, 2)
        np.testing.assert_array_equal(exact(nn.attention(one, one, one)), expected)


def test_outputs_are_written_as_they_lie(session: nn.Session) -> None:
    """A tensor with gaps is written between its gaps; one whose elements share places is refused."""
    wide = torch.full((6, 80), 7, dtype=torch.float16)
    nn.layer_norm(as_tensor(X), out=wide[:, 3:67])
    np.testing.assert_array_equal(exact(wide[:, 3:67]), exact(nn.layer_norm(X)))
    assert (wide[:, :3] == 7).all() and (wide[:, 67:] == 7).all()
    with pytest.raises(DeviceError, match="out would be written, and elements of it share places"):
        nn.layer_norm(as_tensor(X), out=torch.zeros(64, dtype=torch.float16).expand(6, 64))


def test_tensors_that_are_negated_when_they_are_read(session: nn.Session) -> None:
    """The imaginary part of a conjugate shares its memory, and has other signs."""
    imaginary = torch.complex(torch.ones(4, 8), torch.arange(32.0).reshape(4, 8)).conj().imag
    assert imaginary.is_neg()
    np.testing.assert_array_equal(exact(nn.elementwise("a + 0", imaginary)), exact(imaginary.resolve_neg()))
    with pytest.raises(DeviceError, match=r"negated or conjugated when it is read; pass resolve_neg\(\)"):
        nn.asarray(imaginary)
    with pytest.raises(DeviceError, match="negated or conjugated"):
        nn.softmax(torch.ones(4, 8), out=imaginary)


def traced(transform: Any) -> Any:
    return lambda: transform(lambda x: nn.softmax(x).sum())(torch.ones(4, 8))


def faked() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return nn.softmax(torch.ones(4, 8))


@pytest.mark.one_in(8)
@pytest.mark.parametrize("call, message", [
    (traced(torch.vmap), "a tensor without memory"), (traced(torch.func.grad), "a tensor without memory"),
    (faked, "a tensor without memory"), (lambda: nn.softmax(torch.ones(2, 4, device="meta")), "an array on meta"),
    (lambda: nn.softmax(torch.eye(4).to_sparse()), "a tensor that is torch.sparse_coo: expected one with strides"),
    (lambda: nn.softmax(torch.nested.nested_tensor([torch.ones(3), torch.ones(2)])), "a tensor that is nested"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_without_elements_in_memory_are_refused(
    session: nn.Session, call: Callable[[], object], message: str
) -> None:
    with pytest.raises(DeviceError, match=message):
        call()


def test_fields_of_records(session: nn.Session) -> None:
    """Their strides are no whole elements; what is copied need not have any."""
    records = np.zeros((3, 64), [("name", "i1"), ("value", "f2")])
    records["value"] = X[:3]
    np.testing.assert_array_equal(exact(nn.softmax(records["value"])), exact(nn.softmax(X[:3])))
    np.testing.assert_array_equal(nn.asarray(records["value"]).numpy(), X[:3])
    for strange in (records, np.zeros(3, "M8[s]"), np.array(["a"])):
        with pytest.raises(DeviceError, match="are not numbers"):
            nn.asarray(strange)


class Exported:
    """An array that only DLPack tells of."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("view", [
    lambda x: x[::-1], lambda x: x[::-1, ::-1], lambda x: x[:, ::-2], lambda x: x.T, lambda x: x[1:1],
    lambda x: x[::2, 3:9],
])  # fmt: skip
def test_arrays_by_dlpack(session: nn.Session, view: Callable[[Array], Array]) -> None:
    """With gaps, turned, and backwards."""
    np.testing.assert_array_equal(nn.asarray(Exported(view(X))).numpy(), view(X))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("length", [0, 1, 3])
def test_dimensions_without_neighbours_have_any_stride(session: nn.Session, length: int) -> None:
    """Backwards, or repeated: NumPy and PyTorch call an array contiguous whatever such a stride is."""
    a = X[:4, :length].copy()[:, ::-1]
    np.testing.assert_allclose(exact(nn.einsum("mk,nk->mn", a, a)), exact(a) @ exact(a).T, rtol=1e-2, atol=1e-2)
    repeated = as_tensor(X[:4, :1]).expand(4, 1).as_strided((4, 1), (1, 0))
    np.testing.assert_allclose(exact(nn.einsum("mk,nk->mn", repeated, repeated)), exact(repeated) @ exact(repeated).T,
                               rtol=1e-2, atol=1e-2)  # fmt: skip
