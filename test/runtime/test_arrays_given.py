"""What arrays and memory are taken for: element types, byte order, masks, outputs that are views, parts of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.runtime import Device, DeviceError, MemoryPart, open_device, run_operator
from ckmlir.runtime.arguments import view_of
from ckmlir.runtime.device_array import download, empty, typed, upload
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.selection import select_device
from ckmlir.sim import LaunchError, Simulator
from ckmlir.targets import get_target
from ckmlir.tools.arrays import npy_bytes, read_array

GFX942 = get_target("gfx942")
CAST = find_operator("cast")
PROBLEM = CAST.problem(shape=(5, 24), dtype="f16", out="f32")
X = np.random.default_rng(1).standard_normal((5, 24)).astype(np.float16)


@pytest.fixture(params=["sim", "hip"])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    if request.param == "hip":
        request.getfixturevalue("driver")
    device = open_device(request.param, GFX942)
    yield device
    device.close()


class HostTensor:
    """A PyTorch tensor on the host: what of it is looked at."""

    def __init__(self, array: np.ndarray, strides: tuple[int, ...] | None = None, shape: Any = None) -> None:
        self.array, self.shape = array, tuple(array.shape if shape is None else shape)
        self._strides = tuple(one // array.itemsize for one in array.strides) if strides is None else strides
        self.dtype, self.device = f"torch.{array.dtype.name}", type("Place", (), {"type": "cpu", "index": None})()

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def stride(self) -> tuple[int, ...]:
        return self._strides


# -- memory with a type ------------------------------------------------------------------------------------------------


def test_arrays_of_the_device_say_what_they_are(device: Device) -> None:
    """Shape, strides and type are compared with the problem; everything fits, or names what does not."""
    executable = Executable(device, CAST, PROBLEM)
    x, y = upload(device, X), empty(device, (5, 24), "float32")
    assert (x.shape, x.strides, x.dtype, x.size) == ((5, 24), (24, 1), "float16", 240)
    executable(x=x, y=y)
    np.testing.assert_array_equal(download(device, y), X.astype(np.float32))
    for wrong, words in (
        (upload(device, X.astype(np.float32)), "array x has type float32; the problem's f16 is float16"),
        (upload(device, X.T), r"array x has shape \(24, 5\)"),
        (typed(device.allocate(1000), (5, 24), "f2", (32, 1)), r"array x has strides \(32, 1\); the problem asks for"),
        (typed(device.allocate(1000), (5, 24), "f2", offset=2), "the kernel needs a multiple of 16"),
    ):
        with pytest.raises(DeviceError, match=words):
            executable(x=wrong, y=y)
    with pytest.raises(DeviceError, match="array y has type float16"):
        executable(x=x, y=empty(device, (5, 24), np.float16))
    executable.close()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fnuz, np.int8, np.float32])
def test_up_and_down_again(device: Device, dtype: Any) -> None:
    for shape in ((), (0, 3), (7,), (2, 3, 5)):
        array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        np.testing.assert_array_equal(download(device, upload(device, array)), array)
    wide = np.arange(60).reshape(6, 10).astype(dtype)
    np.testing.assert_array_equal(download(device, upload(device, wide[::2, ::3])), wide[::2, ::3])
    whole = upload(device, wide)
    part = typed(whole, (3, 4), dtype, (20, 3), offset=10 * wide.itemsize)
    np.testing.assert_array_equal(download(device, part), wide[1::2, ::3])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((100, (5, 24), "f2"), "bytes 0 to 240 are not within 100"),
        ((100, (5,), "f2", (1, 1)), "expected as many"),
        ((100, (5,), "f2", (-1,)), "none below 0"),
        ((100, (5,), "float17"), "'float17' is not an element type"),
        ((100, (5,), object), "are not numbers"),
    ],
)
def test_arrays_that_memory_cannot_hold(arguments: tuple[Any, ...], words: str) -> None:
    device = open_device("sim", GFX942)
    with pytest.raises(DeviceError, match=words):
        typed(device.allocate(arguments[0]), *arguments[1:])


def test_bare_memory_of_another_type_is_refused(device: Device) -> None:
    """What the host wrote, or an operator; bits and bytes are taken, and parts are bytes whatever was written."""
    executable = Executable(device, CAST, PROBLEM)
    x, y = device.allocate(480), device.allocate(480)
    device.write(x, X.astype(np.float32))
    with pytest.raises(DeviceError, match="array x: float32 was written to its memory; the problem's f16 is float16"):
        executable(x=x, y=y)
    executable(x=MemoryPart(x, 0, 480), y=y)
    for given in (X, X.view(np.uint16), X.view(np.uint8)):
        device.write(x, given)
        executable(x=x, y=y)
        found = np.empty((5, 24), np.float32)
        device.read(found, y)
        np.testing.assert_array_equal(found, X.astype(np.float32))
    with pytest.raises(DeviceError, match="array x: float32 was written"):
        executable(x=y, y=x)
    device.fill(y, 0, 480)
    executable(x=y, y=x)
    device.copy(y, x, 480)
    executable(x=y, y=x)
    executable.close()


def test_parts_of_memory_take_numpy_integers(device: Device) -> None:
    executable = Executable(device, CAST, PROBLEM)
    memory, y = device.allocate(1024), device.allocate(480)
    part = MemoryPart(memory, np.int64(256), np.uint8(240))
    assert (type(part.offset), type(part.size), type(part.address)) == (int, int, int)
    device.write(part, X)
    executable(x=part, y=y)
    found = np.empty((5, 24), np.float32)
    device.read(found, y)
    np.testing.assert_array_equal(found, X.astype(np.float32))
    for wrong in (1.0, "1", None, np.float32(1)):
        with pytest.raises(DeviceError, match="offset of a part of memory: expected a whole number"):
            MemoryPart(memory, wrong, 2)  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="a part of memory is one of what allocate gave, not of NoneType"):
        MemoryPart(None, 0, 1)  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="bytes -1 to 2"):
        MemoryPart(memory, np.int32(-1), 3)
    executable.close()


# -- the host's arrays -------------------------------------------------------------------------------------------------


def test_another_byte_order_is_converted_where_elements_are_copied(device: Device, tmp_path: Any) -> None:
    """In calls, in and out; in .npy files; by Device.write. Memory that is passed as it is cannot be."""
    big, y = X.astype(">f2"), np.zeros((5, 24), ">f4")
    executable = Executable(device, CAST, PROBLEM)
    executable(x=big, y=y)
    np.testing.assert_array_equal(y, X.astype(np.float32))
    memory = device.allocate(240)
    device.write(memory, big)
    little = np.empty((5, 24), np.float16)
    device.read(little, memory)
    np.testing.assert_array_equal(little, X)
    with pytest.raises(DeviceError, match="cannot be read into elements of type >f2"):
        device.read(np.empty((5, 24), ">f2"), memory)
    np.testing.assert_array_equal(download(device, upload(device, big)), X)
    (tmp_path / "x.npy").write_bytes(npy_bytes(X))
    np.save(tmp_path / "big.npy", big)
    spec = CAST.arrays(PROBLEM)[0]
    np.testing.assert_array_equal(read_array(tmp_path / "big.npy", spec, GFX942), X)
    with pytest.raises(RequestError, match="array x has type >f2"):
        run_operator(CAST, PROBLEM, {"x": big}, GFX942, device)
    executable.close()


def test_interfaces_of_another_byte_order_are_refused() -> None:
    class Interface:
        __cuda_array_interface__ = {"data": (64, False), "shape": (4,), "typestr": ">f2", "version": 3}

    with pytest.raises(DeviceError, match="elements of type >f2 have the bytes of another machine's order"):
        view_of(Interface())


@pytest.mark.parametrize("name", ["x", "y"])
def test_masked_arrays_are_refused(device: Device, name: str) -> None:
    arrays: dict[str, Any] = {"x": X, "y": np.zeros((5, 24), np.float32)}
    arrays[name] = np.ma.masked_array(arrays[name], arrays[name] > 0)
    executable = Executable(device, CAST, PROBLEM)
    with pytest.raises(DeviceError, match=r"a masked array: the mask would be ignored; pass array.filled\(value\)"):
        executable(**arrays)
    memory = device.allocate(480)
    with pytest.raises(DeviceError, match="a masked array"):
        device.write(memory, np.ma.masked_array(X))
    with pytest.raises(DeviceError, match="a masked array"):
        device.read(np.ma.masked_array(X), memory)
    with pytest.raises(RequestError, match="array x is masked"):
        run_operator(CAST, PROBLEM, {"x": np.ma.masked_array(X)}, GFX942, device)
    executable.close()


def test_the_simulator_alone() -> None:
    """Uploads and writes convert; masked arrays and reads of another byte order are refused."""
    simulator = Simulator("gfx942")
    memory = simulator.upload(X.astype(">f2"))
    np.testing.assert_array_equal(memory.read(np.float16, X.shape), X)
    memory.write(-X.astype(">f2"))
    np.testing.assert_array_equal(memory.read(np.float16, X.shape), -X)
    with pytest.raises(LaunchError, match="cannot be read as elements of type >f2"):
        memory.read(">f2")
    for put in (simulator.upload, memory.write):
        with pytest.raises(LaunchError, match="a masked array"):
            put(np.ma.masked_array(X))


def test_tensors_of_the_host_can_be_written(device: Device) -> None:
    memory, found = device.allocate(240), np.empty((5, 24), np.float16)
    device.write(memory, HostTensor(X))  # type: ignore[arg-type]  # what PyTorch's users pass
    device.read(found, memory)
    np.testing.assert_array_equal(found, X)
    with pytest.raises(DeviceError, match="copies take contiguous arrays"):
        device.write(memory, HostTensor(X[:, ::2]))  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="list is not an array"):
        device.write(memory, [1.0])  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="memory is read into NumPy's arrays, not into HostTensor"):
        device.read(HostTensor(X), memory)  # type: ignore[arg-type]
    found.flags.writeable = False
    with pytest.raises(DeviceError, match="read-only"):
        device.read(found, memory)


@pytest.mark.parametrize(
    "view",
    [
        lambda one: np.lib.stride_tricks.as_strided(one, (5, 24), (0, 4)),
        lambda one: np.lib.stride_tricks.as_strided(one, (5, 24), (4, 4)),
        lambda one: np.lib.stride_tricks.as_strided(one, (5, 24), (96, 0)),
        lambda one: np.lib.stride_tricks.as_strided(one, (5, 24), (92, 4)),
    ],
)
def test_outputs_whose_elements_share_a_place_are_refused(view: Callable[[np.ndarray], np.ndarray]) -> None:
    device = open_device("sim", GFX942)
    executable = Executable(device, CAST, PROBLEM)
    y = view(np.zeros(200, np.float32))
    with pytest.raises(
        DeviceError, match=r"array y would be written, and elements of it share a place: shape \(5, 24\)"
    ):
        executable(x=X, y=y)
    tensor = HostTensor(np.zeros(24, np.float32), (0, 1), (5, 24))
    with pytest.raises(DeviceError, match="share a place"):
        executable(x=X, y=tensor)
    executable(x=np.broadcast_to(X[0], (5, 24)), y=(y := np.zeros((24, 5), np.float32).T[:, ::-1]))
    np.testing.assert_array_equal(y, np.broadcast_to(X[0], (5, 24)).astype(np.float32))


# -- chips and keys ----------------------------------------------------------------------------------------------------


def test_devices_by_the_name_of_their_chip() -> None:
    assert select_device("sim", "gfx950").device.properties.target == "gfx950"
    assert open_device("sim", "gfx90a").properties.target == "gfx90a"
    for wrong in ("gfx1100", None, 942):
        with pytest.raises(CkmlirError):
            select_device("sim", wrong)  # type: ignore[arg-type]
    for kind in (None, 3, ["sim"]):
        with pytest.raises(DeviceError, match=r"unknown device .*; expected sim\|hip\|auto"):
            select_device(kind, "gfx942")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "keys", "plain"),
    [
        ("gemm", {"m": np.int64(96), "block": np.array([64, 64, 32]), "wave": (np.int32(2), np.uint8(1))},
         {"m": 96, "block": (64, 64, 32), "wave": (2, 1)}),
        ("reduce", {"shape": np.zeros((3, 70)).shape, "dims": np.array([1]), "atomic": np.bool_(False)},
         {"shape": (3, 70), "dims": (1,), "atomic": 0}),
        ("reduce", {"shape": np.array([3, 70], np.uint16), "dims": np.int64(1), "split": np.array(2)},
         {"shape": (3, 70), "dims": 1, "split": 2}),
        ("fmha_fwd", {"scale": np.float32(0.5), "lse": np.int64(1)}, {"scale": 0.5, "lse": 1}),
        ("ragged_tiles", {"lengths": np.array([5, 0, 17])}, {"lengths": "5,0,17"}),
    ],
)  # fmt: skip
def test_keys_take_numpy_numbers_and_arrays(name: str, keys: dict[str, Any], plain: dict[str, Any]) -> None:
    assert find_operator(name).problem(**keys) == find_operator(name).problem(**plain)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("gemm", {"m": np.float32(3)}), ("gemm", {"m": np.array([3, 4])}), ("gemm", {"m": np.array(3.0)}),
        ("gemm", {"block": np.array([64.0, 64, 32])}), ("gemm", {"block": np.array([[64, 64, 32]])}),
        ("gemm", {"m": np.bool_(True)}), ("reduce", {"shape": np.zeros((2, 2))}),
        ("reduce", {"atomic": np.array([0, 1])}), ("reduce", {"atomic": 0.0}),
        ("fmha_fwd", {"scale": np.array([1.0, 2.0])}), ("gemm", {"dtype": np.float16}),
        ("reduce", {"ops": np.array(["sum"])}), ("reduce", {"shape": object()}), ("ragged_tiles", {"lengths": 1.5}),
    ],
)  # fmt: skip
def test_what_is_no_number_is_refused(name: str, keys: dict[str, Any]) -> None:
    (key,) = keys
    with pytest.raises(RequestError, match=f"{name}: {key}="):
        find_operator(name).problem(**keys)
