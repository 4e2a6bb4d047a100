"""What every device promises, tried on the simulator and on a GPU behind the real hip-python."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from small_kernels import scale_code, scale_last_code

from ckmlir.runtime import Device, DeviceError, KernelFault, Memory, MemoryPart, Module, open_device
from ckmlir.targets import get_target

GFX942 = get_target("gfx942")


@pytest.fixture(params=["sim", "hip"])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    if request.param == "hip":
        request.getfixturevalue("driver")
    device = open_device(request.param, GFX942, seed=3)
    yield device
    device.close()


@pytest.fixture
def module(device: Device) -> Module:
    return device.load(scale_code("gfx942"))


def upload(device: Device, array: np.ndarray) -> Memory:
    memory = device.allocate(array.nbytes)
    device.write(memory, array)
    return memory


def download(device: Device, memory: Memory) -> np.ndarray:
    found = np.empty(memory.size // 4, np.float32)
    device.read(found, memory)
    return found


def scale(device: Device, module: Module, memory: Memory, factor: float, shift: int = 0, **options: object) -> None:
    grid = (memory.size // 256, 1, 1)
    device.launch(module, "scale", grid, (64, 1, 1), (memory, np.float32(factor), np.int64(shift)), **options)


def test_a_launch_on_the_default_stream(device: Device, module: Module) -> None:
    x = np.arange(192, dtype=np.float32)
    memory = upload(device, x)
    assert memory.address % 256 == 0
    assert tuple(module.kernels) == ("scale",)
    scale(device, module, memory, 2, 2**33)
    np.testing.assert_array_equal(download(device, memory), 2 * x + np.float32(2**33))
    device.free(memory)
    device.unload(module)


def test_a_stream_keeps_its_order(device: Device, module: Module) -> None:
    """Copies, fills, launches and host functions, one after another; nothing waits for the host."""
    x = np.arange(64, dtype=np.float32)
    stream, start, end = device.create_stream(), device.create_event(), device.create_event()
    memory, other, pinned = device.allocate(256), device.allocate(256), device.allocate_host(256)
    pinned.bytes[:] = x.view(np.uint8)
    seen: list[float] = []
    start.record(stream)
    device.copy(memory, pinned, 256, stream)
    scale(device, module, memory, 3, stream=stream)
    device.copy(other, memory, 256, stream)
    device.fill(memory, 0, 128, stream)
    device.copy(pinned, other, 256, stream)
    device.call_on_host(lambda: seen.append(float(pinned.bytes.view(np.float32).sum())), stream)
    end.record(stream)
    end.synchronize()
    assert seen == [3 * x.sum()]
    assert stream.is_done() and end.is_reached()
    assert end.seconds_since(start) > 0
    np.testing.assert_array_equal(download(device, memory), np.where(np.arange(64) < 32, 0, 3 * x))
    for thing in (stream, start, end):
        thing.close()
        thing.close()


def test_the_source_of_a_write_may_change_at_once(device: Device) -> None:
    stream, x = device.create_stream(), np.ones(64, np.float32)
    memory = device.allocate(256)
    device.write(memory, x, stream)
    x[:] = 7
    stream.synchronize()
    assert (download(device, memory) == 1).all()


def test_streams_meet_at_events(device: Device, module: Module) -> None:
    """Every stream scales after the one before it; any other order gives another number."""
    memory = upload(device, np.ones(64, np.float32))
    streams = [device.create_stream() for _ in range(4)]
    for number, stream in enumerate(streams):
        scale(device, module, memory, 2, number, stream=stream)
        event = device.create_event()
        event.record(stream)
        streams[(number + 1) % 4].wait(event)
    device.synchronize()
    assert (download(device, memory) == (((1 * 2) * 2 + 1) * 2 + 2) * 2 + 3).all()


def test_the_default_stream_meets_all_others(device: Device, module: Module) -> None:
    memory, stream = upload(device, np.ones(64, np.float32)), device.create_stream()
    scale(device, module, memory, 3, 1, stream=stream)
    scale(device, module, memory, 5)
    scale(device, module, memory, 1, 2, stream=stream)
    assert (download(device, memory) == (3 + 1) * 5 + 2).all()


def test_parts_of_memory(device: Device, module: Module) -> None:
    whole = upload(device, np.ones(192, np.float32))
    scale(device, module, MemoryPart(whole, 256, 256), 4)
    device.fill(MemoryPart(whole, 512, 256), 0, 256)
    np.testing.assert_array_equal(download(device, whole), np.repeat([1, 4, 0], 64))
    with pytest.raises(DeviceError, match="bytes 512 to 1024 are not within 768"):
        MemoryPart(whole, 512, 512)


@pytest.mark.parametrize("memory_first", [True, False])
def test_a_prepared_launch(device: Device, memory_first: bool) -> None:
    """The memory stands where the kernel has it; everything else was checked before."""
    module = device.load(scale_code("gfx942") if memory_first else scale_last_code("gfx942"))
    scalars = np.float32(3), np.int64(2)
    arguments = (None, *scalars) if memory_first else (*scalars, None)
    launch = device.prepare(module, "scale", (1, 1, 1), (64, 1, 1), arguments)
    memories, stream = [upload(device, np.full(64, number, np.float32)) for number in range(3)], device.create_stream()
    for memory in memories:
        launch([memory], stream)
    stream.synchronize()
    for number, memory in enumerate(memories):
        assert (download(device, memory) == 3 * number + 2).all()
    launch([memories[1]], stream, launch.sized((1, 1, 1), (7, 1)))
    launch([memories[2]], stream)
    stream.synchronize()
    assert (download(device, memories[1]) == 7 * 5 + 1).all() and (download(device, memories[2]) == 3 * 8 + 2).all()
    with pytest.raises(OverflowError):
        launch.sized((1, 1, 1), (7, 1 << 63))
    with pytest.raises(DeviceError, match="1 memories are needed, not 2"):
        launch([memories[0], memories[1]])
    device.free(memories[0])
    with pytest.raises(DeviceError, match="given back"):
        launch([memories[0]])
    with pytest.raises(DeviceError, match="a workgroup of 4096 work-items"):
        device.prepare(module, "scale", (1, 1, 1), (4096, 1, 1), arguments)([memories[1]])


def test_threads_launch_on_their_streams(device: Device, module: Module) -> None:
    """Each thread has a stream and memory of its own; argument structures are not shared."""
    memories = [upload(device, np.full(64, number, np.float32)) for number in range(4)]
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            stream = device.create_stream()
            for step in range(8):
                scale(device, module, memories[number], 1, number + step, stream=stream)
            stream.synchronize()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for number, memory in enumerate(memories):
        assert (download(device, memory) == number + 8 * number + 28).all()


def test_what_a_host_function_raises_arrives(device: Device) -> None:
    """At the next synchronisation, once; a host function must not use the device."""
    stream = device.create_stream()
    device.call_on_host(lambda: [][0], stream)
    with pytest.raises(DeviceError, match="a host function raised IndexError") as raised:
        stream.synchronize()
    assert isinstance(raised.value.__cause__, IndexError)
    device.synchronize()
    device.call_on_host(lambda: device.synchronize(), stream)
    with pytest.raises(DeviceError, match="must not use a device"):
        stream.synchronize()


def test_a_fault_arrives_at_the_latest_when_synchronised(device: Device, module: Module) -> None:
    """And the device can be used afterwards."""
    memory, stream = upload(device, np.zeros(64, np.float32)), device.create_stream()
    with pytest.raises(KernelFault):
        device.launch(module, "scale", (2, 1, 1), (64, 1, 1), (memory, np.float32(1), np.int64(0)), stream=stream)
        stream.synchronize()
    scale(device, module, memory, 1, 5)
    assert (download(device, memory) == 5).all()


def test_wrong_requests(device: Device, module: Module) -> None:
    memory = device.allocate(8)
    for size in (-1, 3.5, None, "4"):
        with pytest.raises(DeviceError, match=f"cannot allocate {size} bytes; expected a whole number"):
            device.allocate(size)  # type: ignore[arg-type]
        with pytest.raises(DeviceError, match=f"cannot allocate {size} bytes; expected a whole number"):
            device.allocate_host(size)  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="an array of Python's objects"):
        device.write(memory, np.array([device]))
    with pytest.raises(DeviceError, match="a copy of 16 bytes exceeds the 8 bytes"):
        device.write(memory, np.zeros(4, np.float32))
    with pytest.raises(DeviceError, match="contiguous"):
        device.write(memory, np.zeros((4, 4), np.int8)[:, 0])
    with pytest.raises(DeviceError, match="a copy of 9 bytes, from 8 to 16"):
        device.copy(device.allocate(16), memory, 9)
    with pytest.raises(DeviceError, match="a copy of None bytes, from 8 to 8"):
        device.copy(memory, memory, None)  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="memory of the device, or what allocate_host gave, is copied; got 'x'"):
        device.copy(memory, "x", 4)  # type: ignore[arg-type]
    for wrong in (None, "x", 8):
        for action in (
            lambda wrong=wrong: device.write(wrong, np.zeros(4, np.float32)),
            lambda wrong=wrong: device.read(np.zeros(4, np.float32), wrong),
            lambda wrong=wrong: device.fill(wrong, 0, 1),
        ):
            with pytest.raises(DeviceError, match="expected memory of the device, as allocate gives it, not"):
                action()
    with pytest.raises(DeviceError, match="a code object is bytes or the name of a file, not NoneType"):
        device.load(None)  # type: ignore[arg-type]
    for byte, size in ((0, 9), (256, 8), (0, None)):
        with pytest.raises(DeviceError, match=f"cannot fill {size} of 8 bytes with {byte}"):
            device.fill(memory, byte, size)  # type: ignore[arg-type]
    for grid in (None, 1, (1.5, 1, 1), ("1", 1, 1)):
        with pytest.raises(DeviceError, match=r"grid .*, block .* must be whole numbers"):
            device.launch(module, "scale", grid, (64, 1, 1), (memory, np.float32(1), np.int64(0)))  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="takes 3 arguments, not 1"):
        device.launch(module, "scale", (1, 1, 1), (64, 1, 1), (memory,))
    with pytest.raises(DeviceError, match=r"argument 0 is memory of the device, got list"):
        device.launch(module, "scale", (1, 1, 1), (64, 1, 1), ([], np.float32(1), np.int64(0)))
    with pytest.raises(DeviceError, match=r"argument 1 is a scalar \(int32, int64, float32, float64\), got 1.0"):
        device.launch(module, "scale", (1, 1, 1), (64, 1, 1), (memory, 1.0, np.int64(0)))
    with pytest.raises(DeviceError, match=r"at most (1024|256)"):
        device.launch(module, "scale", (1, 1, 1), (2048, 1, 1), (memory, np.float32(1), np.int64(0)))
    with pytest.raises(DeviceError, match="never recorded"):
        device.create_event().seconds_since(device.create_event())
    with pytest.raises(DeviceError, match="no kernel other; it has scale"):
        device.launch(module, "other", (1, 1, 1), (64, 1, 1), ())
    with pytest.raises(DeviceError, match="the code object is for gfx950"):
        device.load(scale_code("gfx950"))
    with pytest.raises(DeviceError):
        device.load(b"not a code object")


def test_what_was_given_back_is_refused(device: Device, module: Module) -> None:
    memory, pinned = upload(device, np.zeros(64, np.float32)), device.allocate_host(256)
    device.free(memory)
    device.free(pinned)
    for use in (
        lambda: scale(device, module, memory, 1),
        lambda: device.free(memory),
        lambda: device.read(np.zeros(4, np.float32), memory),
        lambda: pinned.bytes,
    ):
        with pytest.raises(DeviceError, match="given back"):
            use()


def test_memory_of_another_device(device: Device, module: Module) -> None:
    stranger = open_device("sim", GFX942).allocate(256)
    with pytest.raises(DeviceError, match=r"not of this device|was not allocated by this device"):
        device.free(stranger)


@pytest.mark.one_in(2)
def test_what_is_forgotten_is_given_back(device: Device, module: Module) -> None:
    """Also a stream whose work is not done; the work is."""
    memory = upload(device, np.ones(64, np.float32))
    stream, event = device.create_stream(), device.create_event()
    scale(device, module, memory, 2, stream=stream)
    event.record(stream)
    del stream, event
    temporary = device.allocate(1 << 20)
    address = temporary.address
    del temporary
    gc.collect()
    device.synchronize()
    assert (download(device, memory) == 2).all()
    assert isinstance(address, int)


@pytest.mark.parametrize("first", ["device", "parts"])
def test_closing_in_any_order(device: Device, module: Module, first: str) -> None:
    stream, event, memory = device.create_stream(), device.create_event(), device.allocate(64)
    device.allocate_host(64)
    if first == "device":
        device.close()
        device.close()
        stream.close()
        event.close()
        with pytest.raises(DeviceError, match=r"was closed|given back|not of this device"):
            device.free(memory)
    else:
        event.close()
        stream.close()
        device.unload(module)
        device.free(memory)
        device.close()
    with pytest.raises(DeviceError, match="was closed"):
        device.allocate(4)
    with pytest.raises(DeviceError, match=r"was closed|not a stream of this device"):
        device.fill(memory, 0, 4, stream) if first == "device" else device.create_event()
