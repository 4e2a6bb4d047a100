"""The simulator as a device: what it promises as a `Device`, with real code objects."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from small_kernels import scale_code

from ckmlir.runtime import Device, KernelFault, open_device
from ckmlir.runtime.device import DeviceError, Memory
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.targets import TARGETS, get_target


@pytest.fixture(params=TARGETS)
def chip(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def device(chip: str) -> Device:
    return open_device("auto", get_target(chip), seed=3)


@pytest.fixture
def code(chip: str) -> bytes:
    return scale_code(chip)


def upload(device: Device, array: np.ndarray) -> Memory:
    memory = device.allocate(array.nbytes)
    device.write(memory, array)
    return memory


def test_a_kernel_runs(device: Device, code: bytes, chip: str) -> None:
    module = device.load(code)
    assert tuple(module.kernels) == ("scale",)
    x = np.arange(192, dtype=np.float32)
    memory = upload(device, x)
    assert memory.address % 256 == 0
    start, end = device.create_event(), device.create_event()
    stream = device.create_stream()
    start.record(stream)
    arguments = (memory, np.float32(2), np.int64(2**33))
    device.launch(module, "scale", (3, 1, 1), (64, 1, 1), arguments, stream=stream)
    end.record(stream)
    stream.synchronize()
    device.synchronize()
    end.synchronize()
    assert end.seconds_since(start) > 0
    found = np.empty_like(x)
    device.read(found, memory)
    np.testing.assert_array_equal(found, 2 * x + np.float32(2**33))
    device.free(memory)
    device.unload(module)
    assert device.properties.target == chip
    assert device.properties.name == f"simulator ({chip})"


def test_an_access_out_of_bounds_is_a_fault_that_says_where(device: Device, code: bytes) -> None:
    memory = upload(device, np.zeros(100, np.float32))
    with pytest.raises(KernelFault) as fault:
        device.launch(device.load(code), "scale", (2, 1, 1), (64, 1, 1), (memory, np.float32(1), np.int64(0)))
    assert "outside of all allocations" in str(fault.value)
    assert "scale" in str(fault.value)
    assert "\n" not in str(fault.value)


def test_memory_that_was_given_back_is_refused(device: Device, code: bytes) -> None:
    memory = upload(device, np.zeros(64, np.float32))
    device.free(memory)
    with pytest.raises(DeviceError, match="was given back"):
        device.launch(device.load(code), "scale", (1, 1, 1), (64, 1, 1), (memory, np.float32(1), np.int64(0)))
    with pytest.raises(DeviceError, match="was given back"):
        device.free(memory)
    with pytest.raises(DeviceError, match="was given back"):
        device.read(np.zeros(64, np.float32), memory)
    with pytest.raises(DeviceError, match="not of this device"):
        open_device("sim", get_target(device.properties.target)).free(device.allocate(4))


def test_requests_that_are_refused(device: Device, code: bytes, chip: str) -> None:
    memory = device.allocate(8)
    with pytest.raises(DeviceError, match="cannot allocate -1 bytes"):
        device.allocate(-1)
    with pytest.raises(DeviceError, match="a copy of 16 bytes exceeds the 8 bytes"):
        device.write(memory, np.zeros(4, np.float32))
    with pytest.raises(DeviceError, match="a copy of 16 bytes exceeds the 8 bytes"):
        device.read(np.zeros(4, np.float32), memory)
    with pytest.raises(DeviceError, match="contiguous"):
        device.write(memory, np.zeros((4, 4), np.int8)[:, 0])
    with pytest.raises(DeviceError):
        device.load(b"not a code object")
    with pytest.raises(DeviceError, match="takes 3 arguments, not 1"):
        device.launch(device.load(code), "scale", (1, 1, 1), (64, 1, 1), (memory,))
    with pytest.raises(DeviceError, match="never recorded"):
        device.create_event().seconds_since(device.create_event())
    other = next(name for name in TARGETS if name != chip)
    with pytest.raises(DeviceError, match=f"the code object is for {chip}"):
        open_device("sim", get_target(other)).load(code)


def test_memory_nobody_wrote_depends_on_the_seed(chip: str) -> None:
    contents = []
    for seed in (1, 1, 2):
        device = open_device("sim", get_target(chip), seed=seed)
        content = np.empty(4096, np.uint8)
        device.read(content, device.allocate(4096))
        contents.append(content)
    np.testing.assert_array_equal(contents[0], contents[1])
    assert (contents[0] != contents[2]).any()
    assert contents[0].any()


def test_a_stream_does_nothing_before_somebody_waits(device: Device) -> None:
    """So that a missing wait shows: work of another stream is not done by chance."""
    one, other, event = device.create_stream(), device.create_stream(), device.create_event()
    order: list[str] = []
    device.call_on_host(lambda: order.append("one"), one)
    event.record(one)
    device.call_on_host(lambda: order.append("later"), one)
    device.call_on_host(lambda: order.append("other"), other)
    assert (order, one.is_done(), event.is_reached()) == ([], False, False)
    other.synchronize()
    assert (order, one.is_done(), other.is_done()) == (["other"], False, True)
    other.wait(event)
    device.call_on_host(lambda: order.append("other again"), other)
    other.synchronize()
    assert order == ["other", "one", "other again"] and event.is_reached() and not one.is_done()
    one.close()
    assert order[-1] == "later"
    with pytest.raises(DeviceError, match="was closed"):
        device.call_on_host(lambda: None, one)


def test_streams_go_on_in_an_order_of_the_seed(chip: str) -> None:
    def order_of(seed: int) -> list[int]:
        device = open_device("sim", get_target(chip), seed=seed)
        order: list[tuple[int, int]] = []
        for number, stream in enumerate([device.create_stream() for _ in range(4)]):
            for step in range(4):
                device.call_on_host(functools.partial(order.append, (number, step)), stream)
        device.synchronize()
        for stream in range(4):
            assert [step for other, step in order if other == stream] == [0, 1, 2, 3]
        return [stream for stream, _ in order]

    assert order_of(1) == order_of(1) != order_of(2)


def test_memory_that_this_machine_has_not(device: Device) -> None:
    for allocate in (device.allocate, device.allocate_host):
        with pytest.raises(DeviceError, match=r"cannot allocate .* bytes: this machine has not that much memory"):
            allocate(1 << 60)


@pytest.mark.parametrize("checks", ["all", ["all"], ["race", "wait"], "race, wait"])
def test_checkers_are_named_as_text_or_in_a_list(checks: str | list[str]) -> None:
    SimulatorDevice(get_target("gfx942"), checks=checks).close()


def test_a_checker_that_does_not_exist() -> None:
    with pytest.raises(DeviceError, match="'rece' is not a checker; choose all, or from memory"):
        SimulatorDevice(get_target("gfx942"), checks="rece")
    with pytest.raises(DeviceError, match="'rece' is not a checker"):
        open_device("auto", get_target("gfx942"), checks=["rece"])
