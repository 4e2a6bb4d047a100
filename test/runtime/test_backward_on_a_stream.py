"""Attention backward by workgroups that stay, prepared in the stream's order; memory from the caller's allocators."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from driver_double import DriverDouble

from ckmlir.ops import find_operator
from ckmlir.ops.operator import Operator
from ckmlir.runtime import Device, DeviceError, Memory, check_outputs, open_device
from ckmlir.runtime.compile_cache import compile_cached
from ckmlir.runtime.executable import Executable
from ckmlir.targets import get_target

GFX942 = get_target("gfx942")
FMHA: Operator[Any, Any] = find_operator("fmha_bwd")
SUMS: Operator[Any, Any] = find_operator("ragged_row_sums")
KEYS = {"mode": "group", "seqlens_q": (340, 0, 3), "seqlens_k": (140, 5, 30), "d": 32, "h": 2, "workgroups": 3,
        "deterministic": 1, "persistent": 1}  # fmt: skip
SENDING = ("hipMemcpyAsync", "hipMemsetAsync", "hipLaunchHostFunc", "hipModuleLaunchKernel")
"""Calls that queue work; a list of them is the stream's order."""
WAITING = ("hipMalloc", "hipFree", "hipHostMalloc", "hipHostFree", "hipMemcpy", "hipMemset", "hipDeviceSynchronize",
           "hipStreamSynchronize", "hipEventSynchronize", "hipStreamWaitEvent")  # fmt: skip


@pytest.fixture(scope="module")
def compiled() -> dict[Any, Any]:
    return {}


@pytest.fixture(autouse=True)
def _compiled_once(compiled: dict[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def once(operator: Any, spec: Any, target: Any) -> Any:
        if (operator.name, spec) not in compiled:
            compiled[operator.name, spec] = compile_cached(operator, spec, target)
        return compiled[operator.name, spec]

    monkeypatch.setattr(sys.modules["ckmlir.runtime.operator_kernels"], "compile_cached", once)


def upload(device: Device, operator: Any, problem: Any) -> tuple[dict[str, Any], dict[str, Memory]]:
    """Inputs, and memory for all arrays."""
    arrays = operator.inputs(problem, GFX942, 5)
    memories = {array.name: device.allocate(array.nbytes) for array in operator.arrays(problem)}
    for name, array in arrays.items():
        device.write(memories[name], array)
    return arrays, memories


def expect(device: Device, operator: Any, problem: Any, arrays: Any, memories: dict[str, Memory]) -> None:
    """The outputs agree with the reference."""
    dtypes = {"f16": np.float16, "f32": np.float32}
    found = {}
    for array in operator.arrays(problem):
        if array.role == "out":
            found[array.name] = np.empty(array.shape, dtypes[array.dtype])
            device.read(found[array.name], memories[array.name])
    assert all(one.ok for one in check_outputs(operator, problem, arrays, found, GFX942))


@pytest.mark.parametrize("pack", ["host", "device"])
@pytest.mark.parametrize("ranges", ["steps", "blocks"])
def test_what_is_queued(driver: DriverDouble, pack: str, ranges: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's calls of a run, counted while nothing of it is done: lengths to the host, a host function, costs
    back to the device, kernels; or kernels alone. Nothing waits, and from the second run on nothing is allocated."""
    device = open_device("hip", GFX942)
    problem = FMHA.problem(**KEYS, pack=pack, ranges=ranges)
    arrays, memories = upload(device, FMHA, problem)
    executable, stream = Executable(device, FMHA, problem), device.create_stream()
    executable(stream=stream, **memories)
    order: list[str] = []
    queue = driver._queue

    def noted(*given: Any, **more: Any) -> Any:
        order.append(sys._getframe(1).f_code.co_name)
        return queue(*given, **more)

    monkeypatch.setattr(driver, "_queue", noted)
    driver.hold()
    before = driver.calls.copy()
    executable(stream=stream, **memories)
    calls = driver.calls - before
    driver.release()
    assert not any(calls[name] for name in WAITING), calls
    sent = [name for name in order if name in SENDING]
    kernel = "hipModuleLaunchKernel"
    packed = ["hipMemcpyAsync", "hipMemcpyAsync", "hipLaunchHostFunc", "hipMemcpyAsync"] if pack == "host" else [kernel]
    # rowsum(dO·O) first; then the gradients, the sum of slots, and dK and dV of blocks that two workgroups share
    shared = {"steps": [*packed, kernel, kernel, kernel, kernel], "blocks": ["hipMemsetAsync", *packed, kernel, kernel]}
    assert sent == [kernel, *shared[ranges]]
    assert sum(calls[name] for name in SENDING) == len(sent)
    expect(device, FMHA, problem, arrays, memories)
    executable.close()
    device.close()


class Lender:
    """An allocator that counts what is alive, and notes on which thread the last reference to it goes."""

    def __init__(self) -> None:
        self.alive = 0
        self.threads: list[str] = []

    def __call__(self, size: int) -> Any:
        memory = np.full(size + 16, 0xA5, np.uint8)
        begin = -memory.ctypes.data % 16
        self.alive += 1
        weakref.finalize(memory, self._gone)
        return memory[begin : begin + size]

    def _gone(self) -> None:
        self.alive -= 1
        self.threads.append(threading.current_thread().name)


def test_the_callers_pinned_memory_outlives_the_executable(driver: DriverDouble) -> None:
    """The executable is forgotten while all of its work is still to be done; its buffers are not, until the stream has
    passed them, and then they go on a thread of the program."""
    device, lender = open_device("hip", GFX942), Lender()
    problem = SUMS.problem(rows=6, total=1500)
    arrays, memories = upload(device, SUMS, problem)
    stream = device.create_stream()
    executable = Executable(device, SUMS, problem, allocate_host=lender)
    pinned = driver.live().get("pinned", 0)
    driver.hold()
    executable(stream=stream, **memories)
    del executable
    gc.collect()
    assert lender.alive == 2
    assert driver.live().get("pinned", 0) == pinned  # none of the device's own
    driver.release()
    expect(device, SUMS, problem, arrays, memories)
    again = Executable(device, SUMS, problem, allocate_host=lender)
    again(stream=stream, **memories)
    device.synchronize()
    gc.collect()
    assert lender.alive == 2  # those of the second one
    again.close()
    assert lender.alive == 0
    assert "driver" not in lender.threads
    device.close()


@pytest.mark.parametrize("kind", ["sim", "hip"])
def test_workspaces_from_the_caller(kind: str, request: pytest.FixtureRequest) -> None:
    """Workspaces and staging, closed first and done afterwards."""
    if kind == "hip":
        request.getfixturevalue("driver")
    device, lender = open_device(kind, GFX942), Lender()
    given: list[Memory] = []

    def workspace(size: int) -> Memory:
        given.append(device.allocate(size))
        return given[-1]

    problem = FMHA.problem(**KEYS, pack="host")
    arrays, memories = upload(device, FMHA, problem)
    executable = Executable(device, FMHA, problem, allocate=workspace, allocate_host=lender)
    executable(**memories)
    executable.close()
    expect(device, FMHA, problem, arrays, memories)
    assert [one.size for one in given] == [max(one.nbytes, 256) for one in executable.plan.workspaces]
    assert lender.alive == 0
    device.close()


@pytest.mark.parametrize(("array", "why"), [
    (np.zeros(3, np.uint8), "gave 3 bytes; expected at least"),
    (np.zeros(4096, np.float32), "gave an array of float32; expected bytes"),
    (np.zeros(8192, np.uint8)[::2], "gave an array of uint8; expected bytes .uint8., one behind the other"),
])  # fmt: skip
def test_other_memory_is_refused(array: Any, why: str) -> None:
    """Before anything is queued."""
    device = open_device("sim", GFX942)
    problem = SUMS.problem(rows=6, total=1500)
    _, memories = upload(device, SUMS, problem)
    executable = Executable(device, SUMS, problem, allocate_host=lambda size: array)
    with pytest.raises(DeviceError, match=f"allocate_host {why}"):
        executable(**memories)
    device.close()
