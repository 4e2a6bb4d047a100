"""Operators called with arrays of other libraries: passed as they are on a GPU, copied from the host, or refused."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ckmlir.ops import find_operator
from ckmlir.ops.arrays import array_spec
from ckmlir.runtime import Device, DeviceError, check_outputs, open_device
from ckmlir.runtime.arguments import view_of
from ckmlir.runtime.compile_cache import compile_cached
from ckmlir.runtime.executable import Executable
from ckmlir.targets import get_target

GFX942 = get_target("gfx942")
LAYERNORM = find_operator("layernorm2d")
PROBLEM = LAYERNORM.problem(m=6, n=64, dtype="f16", stride=72)
CHANNELS = ("gamma", "beta")


class Torch:
    """What of a PyTorch tensor on a GPU is looked at."""

    def __init__(self, address: int, shape: Any, strides: Any, dtype: str = "float16", device: str = "cuda:0") -> None:
        kind, _, index = device.partition(":")
        self.device = SimpleNamespace(type=kind, index=int(index or 0))
        self.dtype, self.shape, self._strides, self._address = f"torch.{dtype}", tuple(shape), tuple(strides), address

    def data_ptr(self) -> int:
        return self._address

    def stride(self) -> tuple[int, ...]:
        return self._strides


class Interface:
    """An array with __cuda_array_interface__, as CuPy's."""

    def __init__(self, address: int, shape: Any, strides: Any, **changes: Any) -> None:
        described = {"data": (address, False), "shape": tuple(shape), "typestr": "<f2", "version": 3}
        steps = None if strides is None else tuple(2 * one for one in strides)
        self.__cuda_array_interface__ = {**described, "strides": steps, **changes}


class Dlpack:
    """An array with __dlpack__; the tensor is made of NumPy's capsule by changing what it says."""

    def __init__(
        self, address: int, shape: Any, strides: Any, device: tuple[int, int] = (10, 0), code: int = 2
    ) -> None:
        self.arguments = address, tuple(shape), tuple(strides)
        self.device, self.code = device, code

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self) -> Any:
        from ckmlir.runtime.dlpack import _get_pointer, _Tensor

        address, shape, strides = self.arguments
        capsule = np.lib.stride_tricks.as_strided(np.zeros(1000, np.float16), shape, [2 * one for one in strides])
        capsule = capsule.__dlpack__()
        tensor = _Tensor.from_address(_get_pointer(capsule, b"dltensor"))
        tensor.data, tensor.byte_offset, tensor.code = address - 32, 32, self.code
        return capsule


@pytest.fixture(params=["sim", "hip"])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    if request.param == "hip":
        request.getfixturevalue("driver")
    device = open_device(request.param, GFX942, seed=3)
    yield device
    device.close()


@pytest.fixture
def gpu(driver: Any) -> Iterator[Device]:
    device = open_device("hip", GFX942)
    yield device
    device.close()


@pytest.fixture(scope="module")
def compiled() -> Any:
    return compile_cached(LAYERNORM, LAYERNORM.spec(PROBLEM, GFX942), GFX942)


def on_device(device: Device) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Inputs, and their memory on the device with the rows of x further apart than they are long."""
    inputs = LAYERNORM.inputs(PROBLEM, GFX942)
    memories = {array.name: device.allocate(array.nbytes) for array in LAYERNORM.arrays(PROBLEM)}
    padded = np.zeros((6, 72), np.float16)
    padded[:, :64] = inputs["x"]
    device.write(memories["x"], padded.ravel()[: 5 * 72 + 64])
    for name in CHANNELS:
        device.write(memories[name], inputs[name])
    return inputs, memories


def expect(inputs: dict[str, np.ndarray], y: np.ndarray) -> None:
    assert all(one.ok for one in check_outputs(LAYERNORM, PROBLEM, inputs, {"y": y}, GFX942))


def test_numpy_arrays_are_copied_in_and_out(device: Device, compiled: Any) -> None:
    """Whatever their strides; what lies between the rows of an output stays."""
    inputs = LAYERNORM.inputs(PROBLEM, GFX942)
    wide = np.full((12, 65), 7, np.float16)
    arrays = {**inputs, "x": np.asfortranarray(inputs["x"]), "y": wide[::2, 1:]}
    executable = Executable(device, LAYERNORM, PROBLEM, compiled=compiled)
    for stream in (None, device.create_stream()):
        executable(stream=stream, **arrays)
        expect(inputs, wide[::2, 1:].copy())
        assert (wide[1::2] == 7).all() and (wide[:, 0] == 7).all()
        wide[:] = 7
    executable.close()


def test_memory_of_the_device(device: Device, compiled: Any) -> None:
    inputs, memories = on_device(device)
    executable = Executable(device, LAYERNORM, PROBLEM, compiled=compiled)
    executable(**memories)
    y = np.empty((6, 64), np.float16)
    device.read(y, memories["y"])
    expect(inputs, y)
    memories["y"] = device.allocate(100)
    with pytest.raises(DeviceError, match="array y takes 768 bytes, its memory has 100"):
        executable(**memories)
    executable.close()


def test_a_tensor_of_the_host_on_the_simulator(compiled: Any) -> None:
    """As PyTorch's CPU build has them; NumPy has no DLPack of bf16, but its memory can be shared."""
    device = open_device("sim", GFX942)
    inputs = LAYERNORM.inputs(PROBLEM, GFX942)
    y = np.zeros((6, 64), np.float16)
    arrays = {
        name: Torch(array.ctypes.data, array.shape, [one // 2 for one in array.strides], device="cpu")
        for name, array in {**inputs, "y": y}.items()
    }
    Executable(device, LAYERNORM, PROBLEM, compiled=compiled)(**arrays)
    expect(inputs, y)


@pytest.mark.parametrize("kind", [Torch, Interface, Dlpack])
def test_arrays_on_the_gpu_pass_as_they_are(gpu: Any, driver: Any, compiled: Any, kind: Any) -> None:
    """Views with strides too; nothing is copied."""
    inputs, memories = on_device(gpu)
    specs = {array.name: array for array in LAYERNORM.arrays(PROBLEM)}
    arrays = {name: kind(memory.address, specs[name].shape, specs[name].strides) for name, memory in memories.items()}
    executable = Executable(gpu, LAYERNORM, PROBLEM, compiled=compiled)
    executable(**arrays)
    driver.calls.clear()
    for _ in range(3):
        executable(**arrays)
    assert dict(driver.calls) == {"hipModuleLaunchKernel": 3}
    y = np.empty((6, 64), np.float16)
    gpu.read(y, memories["y"])
    expect(inputs, y)
    executable.close()


@pytest.mark.parametrize("attribute", ["number", "cuda_stream", "ptr", "protocol"])
def test_the_users_stream(gpu: Any, driver: Any, compiled: Any, attribute: str) -> None:
    """The launch waits for what the user queued there; the stream remains the user's."""
    from hip import hip

    handle = hip.hipStreamCreateWithFlags(0)[1]
    stream: Any = int(handle)
    if attribute == "protocol":
        stream = SimpleNamespace(__cuda_stream__=lambda: (0, int(handle)))
    elif attribute != "number":
        stream = SimpleNamespace(**{attribute: int(handle)})
    _, memories = on_device(gpu)
    order: list[str] = []
    driver.hold()
    gpu.call_on_host(lambda: order.append("user's"), gpu.stream_of(stream))
    executable = Executable(gpu, LAYERNORM, PROBLEM, compiled=compiled)
    executable(stream=stream, **memories)
    assert len(driver.items[int(handle)]) == 2
    driver.release()
    gpu.stream_of(stream).synchronize()
    gpu.stream_of(stream).close()
    assert order == ["user's"] and gpu.stream_of(0) is None
    assert driver.live()["streams"] == 1
    hip.hipStreamDestroy(handle)
    executable.close()
    with pytest.raises(DeviceError, match="SimpleNamespace is not a stream"):
        gpu.stream_of(SimpleNamespace())
    with pytest.raises(DeviceError, match="no streams but its own"):
        open_device("sim", GFX942).stream_of(stream)


def wrong(memories: dict[str, Any], **changes: Any) -> Torch:
    given = {"address": memories["x"].address, "shape": (6, 64), "strides": (72, 1), **changes}
    return Torch(**given)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shape": (6, 32)}, r"array x has shape \(6, 32\); the problem asks for \(6, 64\)"),
        ({"dtype": "float32"}, "array x has type float32; the problem's f16 is float16"),
        ({"dtype": "bfloat16"}, "array x has type bfloat16"),
        ({"strides": (64, 1)}, r"array x has strides \(64, 1\); the problem asks for \(72, 1\)"),
        ({"strides": (1, 6)}, r"array x has strides \(1, 6\)"),
        ({"offset": 2}, "the kernel needs a multiple of 16"),
        ({"device": "cuda:1"}, "array x is on GPU 1, the kernel runs on GPU 0"),
        ({"device": "cpu"}, r"array x is on the host, GPU 0 .* is not: move it there"),
        ({"device": "xpu:0"}, "expected the host or a GPU of HIP"),
    ],
)
def test_arrays_that_do_not_fit(gpu: Any, driver: Any, compiled: Any, changes: dict[str, Any], words: str) -> None:
    """Also after right ones, which are remembered; nothing is launched."""
    _, memories = on_device(gpu)
    executable = Executable(gpu, LAYERNORM, PROBLEM, compiled=compiled)
    offset = changes.pop("offset", 0)
    if offset:
        changes["address"] = memories["x"].address + offset
    for right_first in (False, True):
        if right_first:
            executable(**{**memories, "x": wrong(memories)})
        driver.launches.clear()
        with pytest.raises(DeviceError, match=words):
            executable(**{**memories, "x": wrong(memories, **changes)})
        assert driver.launches == []
    changes["offset"] = offset  # parameters are shared between runs
    changes.pop("address", None)
    executable.close()


def test_names_and_kinds(device: Device, compiled: Any) -> None:
    inputs = {**LAYERNORM.inputs(PROBLEM, GFX942), "y": np.zeros((6, 64), np.float16)}
    executable = Executable(device, LAYERNORM, PROBLEM, compiled=compiled)
    with pytest.raises(DeviceError, match="array gamma is missing; the arrays are x, gamma, beta, y"):
        executable(**{name: array for name, array in inputs.items() if name != "gamma"})
    with pytest.raises(DeviceError, match="there is no array z"):
        executable(**inputs, z=inputs["x"])
    with pytest.raises(DeviceError, match="list is not an array"):
        executable(**{**inputs, "x": [1.0]})
    inputs["y"].flags.writeable = False
    with pytest.raises(DeviceError, match="array y is read-only"):
        executable(**inputs)
    executable.close()


def test_memory_of_a_gpu_on_the_simulator(compiled: Any) -> None:
    inputs = {**LAYERNORM.inputs(PROBLEM, GFX942), "y": np.zeros((6, 64), np.float16)}
    executable = Executable(open_device("sim", GFX942), LAYERNORM, PROBLEM, compiled=compiled)
    with pytest.raises(DeviceError, match=r"array x is memory of a GPU; simulator \(gfx942\) cannot reach it"):
        executable(**{**inputs, "x": Torch(4096, (6, 64), (72, 1))})


def test_what_arrays_say() -> None:
    """Address, shape, strides in elements, type and place, however an array says it."""
    array = np.arange(60, dtype=np.int32).reshape(6, 10)[1::2, ::3]
    found = view_of(array)
    assert (found.address, found.shape, found.strides) == (array.ctypes.data, (3, 4), (20, 3))
    assert (found.dtype, found.on_gpu, found.ordinal) == ("int32", False, None)
    capsule = view_of(SimpleNamespace(__dlpack__=array.__dlpack__, __dlpack_device__=array.__dlpack_device__))
    assert (capsule.address, capsule.shape, capsule.strides, capsule.dtype) == (
        found.address, found.shape, found.strides, "int32"
    )  # fmt: skip
    packed = view_of(Interface(64, (3, 4), None))
    assert (packed.address, packed.strides, packed.on_gpu, packed.dtype) == (64, (4, 1), True, "float16")
    for code, bits_name in ((4, "bfloat16"), (2, "float16")):
        assert view_of(Dlpack(128, (3, 4), (5, 1), code=code)).dtype == bits_name
    assert view_of(Dlpack(128, (3, 4), (5, 1), device=(10, 2))).ordinal == 2
    with pytest.raises(DeviceError, match="DLPack device 2: expected the host or ROCm"):
        view_of(Dlpack(128, (3, 4), (5, 1), device=(2, 0)))
    with pytest.raises(DeviceError, match="type code 5 of 16 bits"):
        view_of(Dlpack(128, (3, 4), (5, 1), code=5))
    with pytest.raises(DeviceError, match="element type 'wrong' is not known"):
        view_of(Interface(64, (3,), (1,), typestr="wrong"))
    with pytest.raises(DeviceError, match="masked"):
        view_of(Interface(64, (3,), (1,), mask=array))


def test_a_capsule_is_only_looked_at() -> None:
    """The tensor lives as long as the view, and whoever made it may still hand it on."""
    array = np.arange(4, dtype=np.float32)
    owner = SimpleNamespace(__dlpack__=array.__dlpack__, __dlpack_device__=array.__dlpack_device__)
    view = view_of(owner)
    del array
    assert list((ctypes.c_float * 4).from_address(view.address)) == [0, 1, 2, 3]


def test_every_dtype_has_the_name_that_pytorch_gives_it() -> None:
    """PyTorch's names, its 8-bit floats' among them, are those of ml_dtypes."""
    from ckmlir.ops.dtypes import DTYPES, numpy_dtype

    names = {numpy_dtype(name, get_target(chip)).name for name in DTYPES for chip in ("gfx942", "gfx950")}
    assert names == {
        "float16", "bfloat16", "float32", "float64", "int8", "int32", "float8_e4m3fnuz", "float8_e4m3fn",
        "float8_e5m2fnuz", "float8_e5m2",
    }  # fmt: skip
    assert np.dtype(ml_dtypes.bfloat16).name == "bfloat16"


def test_dimensions_of_one_have_any_stride(gpu: Any, compiled: Any) -> None:
    from ckmlir.runtime.arguments import check_place

    spec = array_spec("x", (1, 8), "f16", "in")
    check_place(view_of(Torch(4096, (1, 8), (999, 1))), spec, 0)
    with pytest.raises(DeviceError, match="strides"):
        check_place(view_of(Torch(4096, (1, 8), (8, 2))), spec, 0)
