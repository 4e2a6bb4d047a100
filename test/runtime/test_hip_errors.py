"""Every error code at every call: the right exception, nothing leaked, the device usable afterwards."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from driver_double import SIGNATURES, DriverDouble
from small_kernels import scale_code

from ckmlir.runtime import Device, DeviceError, KernelFault
from ckmlir.runtime.hip import discovery, errors
from ckmlir.runtime.hip.device import HipDevice
from ckmlir.runtime.hip.host_functions import waiting

CODES = {
    1: errors.InvalidRequest, 2: errors.OutOfMemory, 9: errors.InvalidLaunch, 35: errors.LibraryTooOld,
    100: errors.NoDevice, 101: errors.NoDevice, 200: errors.InvalidCodeObject, 209: errors.InvalidCodeObject,
    218: errors.InvalidCodeObject, 400: errors.InvalidHandle, 500: errors.KernelNotFound, 600: errors.NotReady,
    700: errors.GpuFault, 701: errors.InvalidLaunch, 719: errors.GpuFault, 801: errors.NotSupported,
}  # fmt: skip
UNLISTED = {999: errors.HipError, 304: errors.HipError, 31337: errors.HipError}
"""hipErrorUnknown, hipErrorOperatingSystem, and a number that the enumeration does not have."""

SYMBOL = {"hipGetDevicePropertiesR0600": "hipGetDeviceProperties"}
UNUSED = {"hipRuntimeGetVersion", "hipDriverGetVersion", "hipMemset", "hipGetDevice", "hipSetDevice"}
"""Functions that a run on the only GPU does not call: the versions are the doctor's, the others are tried below."""

EXERCISED = sorted(set(SIGNATURES) - UNUSED)


def exercise(device: Device) -> None:
    """Call everything once, and check the outcome."""
    module = device.load(scale_code("gfx942"))
    memory, pinned = device.allocate(256), device.allocate_host(256)
    stream, other, start, end = device.create_stream(), device.create_stream(), *(device.create_event() for _ in "ab")
    device.write(memory, np.ones(64, np.float32))
    pinned.bytes[:] = 0
    start.record(stream)
    device.fill(memory, 0, 128, stream)
    device.launch(module, "scale", (1, 1, 1), (64, 1, 1), (memory, np.float32(2), np.int64(1)), stream=stream)
    device.copy(pinned, memory, 256, stream)
    device.call_on_host(lambda: None, stream)
    end.record(stream)
    other.wait(end)
    other.synchronize()
    end.synchronize()
    assert stream.is_done() and end.is_reached()
    assert end.seconds_since(start) > 0
    device.synchronize()
    np.testing.assert_array_equal(pinned.bytes.view(np.float32), np.repeat([1, 3], 32))
    for thing in (stream, other, start, end):
        thing.close()
    device.free(memory)
    device.free(pinned)
    device.unload(module)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("function", EXERCISED)
def test_every_code_at_every_call(driver: DriverDouble, function: str) -> None:
    for code, kind in {**CODES, **UNLISTED}.items():
        if (function, code) in {("hipStreamQuery", 600), ("hipEventQuery", 600)}:
            continue  # there it is an answer
        device = None
        driver.inject(function, code)
        with pytest.raises(kind) as raised:
            device = HipDevice(discovery.find_gpus()[0])
            exercise(device)
        error = raised.value
        assert isinstance(error, errors.HipError) and isinstance(error, DeviceError)
        assert isinstance(error, KernelFault) == (code in (700, 719))
        expected = "hipGetDeviceProperties" if function.startswith("hipGetDeviceProperties") else function
        assert (error.code, error.call) == (code, expected), str(error)
        assert ";" in str(error) and "\n" not in str(error)
        if device is not None:
            if code in (1, 719):
                exercise(device)
            memory = device.allocate(4)
            device.write(memory, np.ones(1, np.float32))
            del memory
            device.close()
        assert driver.live() == {} and waiting() == 0, code
    assert driver.calls[function] >= len(CODES)


def test_the_exercise_calls_everything(driver: DriverDouble) -> None:
    device = HipDevice(discovery.find_gpus()[0])
    exercise(device)
    device.close()
    assert set(SIGNATURES) - set(driver.calls) == UNUSED


@pytest.mark.parametrize(("query", "answer"), [("hipStreamQuery", "is_done"), ("hipEventQuery", "is_reached")])
def test_not_ready_is_an_answer(driver: DriverDouble, query: str, answer: str) -> None:
    device = HipDevice(discovery.find_gpus()[0])
    asked = device.create_stream() if answer == "is_done" else device.create_event()
    driver.inject(query, 600)
    assert getattr(asked, answer)() is False
    assert getattr(asked, answer)() is True
    device.close()


@pytest.mark.parametrize(
    "function", ["hipFree", "hipHostFree", "hipStreamDestroy", "hipEventDestroy", "hipModuleUnload"]
)
def test_closing_the_device_tries_everything_and_can_be_repeated(driver: DriverDouble, function: str) -> None:
    """Where one thing cannot be given back, all others still are."""
    device = HipDevice(discovery.find_gpus()[0])
    kept = [device.load(scale_code("gfx942")), device.allocate(4), device.allocate_host(4)]
    kept += [device.create_stream(), device.create_event()]
    driver.inject(function, 1)
    with pytest.raises(errors.InvalidRequest, match=function):
        device.close()
    assert sum(driver.live().values()) == 1
    device.close()
    assert driver.live() == {}


def test_what_is_forgotten_is_given_back_once_hip_takes_it(driver: DriverDouble) -> None:
    device = HipDevice(discovery.find_gpus()[0])
    device.allocate(4)
    gc.collect()
    driver.inject("hipFree", 719)
    with pytest.raises(errors.GpuFault):
        device.synchronize()
    assert driver.live() == {"memory": 1}
    device.synchronize()
    assert driver.live() == {}
    device.close()


def test_a_wrong_code_object_is_told_with_both_targets(driver: DriverDouble) -> None:
    device = HipDevice(discovery.find_gpus()[0])
    driver.inject("hipModuleLoadData", 209)
    with pytest.raises(errors.InvalidCodeObject, match=r"is for gfx942, GPU 0 .* runs gfx942:sramecc\+:xnack-"):
        device.load(scale_code("gfx942"))
    device.close()


def test_the_bytes_of_a_module_live_as_long_as_it(driver: DriverDouble) -> None:
    """The double compares them at every launch and when they are unloaded."""
    device = HipDevice(discovery.find_gpus()[0])
    module = device.load(bytes(bytearray(scale_code("gfx942"))))
    gc.collect()
    memory = device.allocate(256)
    device.launch(module, "scale", (1, 1, 1), (64, 1, 1), (memory, np.float32(1), np.int64(0)))
    del module  # it may be running
    gc.collect()
    device.synchronize()
    assert driver.live() == {"memory": 1}
    device.close()


def test_several_gpus(driver: DriverDouble) -> None:
    """Each call happens on the device's own GPU, and the user's current one stays."""
    from hip import hip

    driver.stop()
    driver.start(["gfx942:sramecc+:xnack-", "gfx950:sramecc+:xnack-", "gfx942:sramecc+:xnack-"])
    gpus = discovery.find_gpus()
    assert [gpu.properties.target for gpu in gpus] == ["gfx942", "gfx950", "gfx942"]
    hip.hipSetDevice(1)
    devices = [HipDevice(gpus[ordinal], several=True) for ordinal in (0, 2)]
    for device in devices:
        exercise(device)
    assert [launch[3] for launch in driver.launches] == [0, 2]
    assert hip.hipGetDevice()[1] == 1
    driver.inject("hipSetDevice", 101)
    with pytest.raises(errors.NoDevice):
        devices[0].allocate(4)
    driver.inject("hipGetDevice", 35)
    with pytest.raises(errors.LibraryTooOld):
        devices[0].allocate(4)
    memory, stream = devices[0].allocate(4), devices[0].create_stream()
    with pytest.raises(DeviceError, match="not a stream of this device"):
        devices[1].fill(devices[1].allocate(4), 0, 4, stream)
    with pytest.raises(DeviceError, match="not of this device"):
        devices[1].free(memory)
    for device in devices:
        device.close()
    with pytest.raises(errors.NoDevice, match="there is no GPU 3; there are 3"):
        discovery.find_gpu(3)
