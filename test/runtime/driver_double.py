"""A HIP library in Python, under the real hip-python: GPUs that are simulators, and every failure on demand.

`libamdhip64.so` is written as an ELF file whose functions jump to Python (see `stub_library`) and is loaded before
hip-python looks for it, under the name that it looks for. The double keeps account of everything that HIP hands out,
complains about calls that HIP forbids, does work on a thread of its own in any order that HIP allows, and runs kernels
on the simulator.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import random
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stub_library import NOTHING, SLOTS, make_library

from ckmlir.codeobject import CodeObject, CodeObjectError
from ckmlir.sim import SimulationError, Simulator
from ckmlir.targets import get_target

P, U, I, Z, S = ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p  # noqa: E741

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "hipGetDeviceCount": (P,), "hipGetDevice": (P,), "hipSetDevice": (I,), "hipDeviceSynchronize": (),
    "hipGetDevicePropertiesR0600": (P, I), "hipRuntimeGetVersion": (P,), "hipDriverGetVersion": (P,),
    "hipMalloc": (P, Z), "hipFree": (P,), "hipHostMalloc": (P, Z, U), "hipHostFree": (P,),
    "hipMemcpy": (P, P, Z, I), "hipMemcpyAsync": (P, P, Z, I, P), "hipMemset": (P, I, Z),
    "hipMemsetAsync": (P, I, Z, P),
    "hipStreamCreateWithFlags": (P, U), "hipStreamDestroy": (P,), "hipStreamSynchronize": (P,), "hipStreamQuery": (P,),
    "hipStreamWaitEvent": (P, P, U),
    "hipEventCreateWithFlags": (P, U), "hipEventDestroy": (P,), "hipEventRecord": (P, P), "hipEventSynchronize": (P,),
    "hipEventQuery": (P,), "hipEventElapsedTime": (P, P, P),
    "hipModuleLoadData": (P, P), "hipModuleUnload": (P,), "hipModuleGetFunction": (P, P, S),
    "hipModuleLaunchKernel": (P, U, U, U, U, U, U, U, P, P, P), "hipLaunchHostFunc": (P, P, P),
}  # fmt: skip
"""The functions of the library with the types of their arguments; all return hipError_t (HIP, hip_runtime_api.h)."""

SUCCESS, INVALID_VALUE, NO_DEVICE, INVALID_DEVICE, INVALID_IMAGE, NO_BINARY = 0, 1, 100, 101, 200, 209
INVALID_HANDLE, NOT_FOUND, NOT_READY, LAUNCH_FAILURE = 400, 500, 600, 719
RUNTIME_VERSION = 7_15_12345
BUFFER_POINTER, BUFFER_SIZE, END = 1, 2, 3
"""HIP_LAUNCH_PARAM_BUFFER_POINTER and its companions."""


class Refusal(Exception):
    """The error code that a call returns."""


@dataclass(eq=False)
class Event:
    """An event: `item` is what marks its point, None before it is recorded."""

    item: Item | None = None


@dataclass(eq=False)
class Item:
    """Work in a stream. `after` is an event's work that it waits for."""

    number: int
    stream: int
    run: Callable[[], None]
    after: Item | None = None
    time: float | None = None


@dataclass(eq=False)
class Module:
    """A loaded code object, read again at every launch: its bytes must still be there."""

    address: int
    content: bytes
    code_object: CodeObject
    functions: dict[int, str] = field(default_factory=dict)


class DriverDouble:
    """The library and its state. `live`, `calls` and `complaints` are for tests to look at."""

    def __init__(self, missing: Sequence[str] = ()) -> None:
        """`missing` functions are not in the library, as in one that is too old."""
        names = [name for name in SIGNATURES if name not in missing]
        self.directory = tempfile.TemporaryDirectory(prefix="driver-double-")
        path = Path(self.directory.name, "libamdhip64.so")
        path.write_bytes(make_library(names, path.name))
        self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        self._slots = (ctypes.c_void_p * len(names)).in_dll(self._library, SLOTS)
        self._callbacks: dict[str, Any] = {}
        self._numbers = {name: number for number, name in enumerate(names)}
        for name in names:
            self._callbacks[name] = ctypes.CFUNCTYPE(I, *SIGNATURES[name])(functools.partial(self._enter, name))
            self.restore(name)
        self.change = threading.Condition(threading.RLock())
        self._worker: threading.Thread | None = None
        self._reset([])

    # -- for tests -----------------------------------------------------------------------------------------------------

    def start(self, target_ids: Sequence[str], seed: int = 0) -> None:
        """Begin anew, as a machine with these GPUs."""
        self._reset(target_ids, seed)
        self._worker = threading.Thread(target=self._work, name="driver", daemon=True)
        self._worker.start()

    def stop(self) -> None:
        """Become a machine without GPUs."""
        with self.change:
            worker, self._worker = self._worker, None
            self.change.notify_all()
        if worker is not None:
            worker.join(timeout=30)
            assert not worker.is_alive(), "the driver's thread hangs"
        self._reset([])

    def _reset(self, target_ids: Sequence[str], seed: int = 0) -> None:
        self.target_ids = list(target_ids)
        self.simulators = [Simulator(target=one.partition(":")[0], seed=seed) for one in target_ids]
        self.current = threading.local()
        self.memory: dict[int, Any] = {}
        self.pinned: dict[int, Any] = {}
        self.streams: set[int] = set()
        self.events: dict[int, Event] = {}
        self.modules: dict[int, Module] = {}
        self.items: dict[int, deque[Item]] = {}
        self.host_functions = 0
        self.calls: Counter[str] = Counter()
        self.complaints: list[str] = []
        self.launches: list[tuple[str, tuple[int, ...], int, int]] = []
        self.is_held = False
        self.runs_kernels = True
        self._injected: dict[str, int] = {}
        self._failure = SUCCESS
        self._order = itertools.count()
        self._random = random.Random(seed)

    def inject(self, function: str, code: int) -> None:
        """The next call of a function does nothing and returns this code."""
        self._injected[function] = code

    def do_nothing(self, function: str) -> None:
        """Let a function return success at once, without entering Python."""
        address = ctypes.cast(getattr(self._library, NOTHING), ctypes.c_void_p).value
        self._slots[self._numbers[function]] = address

    def restore(self, function: str) -> None:
        """Undo `do_nothing`."""
        self._slots[self._numbers[function]] = ctypes.cast(self._callbacks[function], ctypes.c_void_p).value

    def hold(self) -> None:
        """Start no more work until `release`."""
        with self.change:
            self.is_held = True

    def release(self) -> None:
        with self.change:
            self.is_held = False
            self.change.notify_all()

    def settle(self) -> None:
        """Wait until all work is done."""
        with self.change:
            done = self.change.wait_for(lambda: not any(self.items.values()), timeout=30)
            assert done, "work is left that nothing can start"

    def live(self) -> dict[str, int]:
        """What was handed out and not taken back; empty when nothing leaked."""
        counts = {
            "memory": len(self.memory), "pinned": len(self.pinned), "streams": len(self.streams),
            "events": len(self.events), "modules": len(self.modules), "host functions": self.host_functions,
        }  # fmt: skip
        return {name: count for name, count in counts.items() if count}

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _enter(self, name: str, *arguments: Any) -> int:
        try:
            with self.change:
                self.calls[name] += 1
                if threading.current_thread() is self._worker:
                    self.complaints.append(f"{name} was called by a host function")
                if name in self._injected:
                    return self._injected.pop(name)
                if not self.target_ids:
                    return NO_DEVICE
                return getattr(self, name)(*arguments) or SUCCESS
        except Refusal as refusal:
            return int(refusal.args[0])
        except BaseException as error:  # nothing may pass through C
            self.complaints.append(f"{name} raised {error!r}")
            return 999

    def _out(self, address: int, value: int, kind: Any = ctypes.c_uint64) -> None:
        kind.from_address(address).value = value

    def _ordinal(self) -> int:
        return getattr(self.current, "ordinal", 0)

    def _new_handle(self) -> int:
        return 0x10000 + 16 * next(self._order)

    # -- devices -------------------------------------------------------------------------------------------------------

    def hipGetDeviceCount(self, result: int) -> None:
        self._out(result, len(self.target_ids), ctypes.c_int)

    def hipGetDevice(self, result: int) -> None:
        self._out(result, self._ordinal(), ctypes.c_int)

    def hipSetDevice(self, ordinal: int) -> None:
        if not 0 <= ordinal < len(self.target_ids):
            raise Refusal(INVALID_DEVICE)
        self.current.ordinal = ordinal

    def hipRuntimeGetVersion(self, result: int) -> None:
        self._out(result, RUNTIME_VERSION, ctypes.c_int)

    hipDriverGetVersion = hipRuntimeGetVersion

    def hipGetDevicePropertiesR0600(self, result: int, ordinal: int) -> None:
        if not 0 <= ordinal < len(self.target_ids):
            raise Refusal(INVALID_DEVICE)
        target = get_target(self.target_ids[ordinal].partition(":")[0])
        properties, name_place = device_properties()
        for attribute, value in {
            "totalGlobalMem": 1 << 36, "sharedMemPerBlock": target.lds_bytes, "warpSize": 64,
            "maxThreadsPerBlock": 1024, "multiProcessorCount": target.compute_units, "l2CacheSize": 4 << 20,
            "clockRate": 2_100_000,
        }.items():  # fmt: skip
            setattr(properties, attribute, value)
        ctypes.memmove(result, int(properties), properties.c_sizeof())
        for place, text in ((0, f"Double {ordinal}"), (name_place, self.target_ids[ordinal])):
            ctypes.memmove(result + place, text.encode() + b"\0", len(text) + 1)

    # -- memory --------------------------------------------------------------------------------------------------------

    def hipMalloc(self, result: int, size: int) -> None:
        memory = self.simulators[self._ordinal()].allocate(size)
        self.memory[memory.address] = memory
        self._out(result, memory.address)

    def hipFree(self, address: int) -> None:
        if address not in self.memory:
            raise Refusal(INVALID_VALUE)
        self._wait_for_all()
        self.memory.pop(address).free()

    def hipHostMalloc(self, result: int, size: int, flags: int) -> None:
        buffer = ctypes.create_string_buffer(size)
        self.pinned[ctypes.addressof(buffer)] = buffer
        self._out(result, ctypes.addressof(buffer))

    def hipHostFree(self, address: int) -> None:
        if self.pinned.get(address) is None:
            raise Refusal(INVALID_VALUE)
        self._wait_for_all()
        buffer = self.pinned.pop(address)
        ctypes.memset(address, 0xA5, len(buffer))

    def hipMemcpy(self, to: int, start: int, size: int, kind: int) -> int:
        self.hipMemcpyAsync(to, start, size, kind, None)
        return self.hipStreamSynchronize(None)

    def hipMemcpyAsync(self, to: int, start: int, size: int, kind: int, stream: int | None) -> None:
        to_device, from_device = {1: (True, False), 2: (False, True), 3: (True, True), 0: (False, False)}[kind]
        for address, on_device in ((to, to_device), (start, from_device)):
            if on_device and not self._is_device_memory(address, size):
                raise Refusal(INVALID_VALUE)
        self._queue(stream, lambda: ctypes.memmove(to, start, size))

    def hipMemset(self, to: int, value: int, size: int) -> int:
        self.hipMemsetAsync(to, value, size, None)
        return self.hipStreamSynchronize(None)

    def hipMemsetAsync(self, to: int, value: int, size: int, stream: int | None) -> None:
        if not self._is_device_memory(to, size):
            raise Refusal(INVALID_VALUE)
        self._queue(stream, lambda: ctypes.memset(to, value, size))

    def _is_device_memory(self, address: int, size: int) -> bool:
        return any(start <= address and address + size <= start + one.size for start, one in self.memory.items())

    # -- streams and events --------------------------------------------------------------------------------------------

    def hipStreamCreateWithFlags(self, result: int, flags: int) -> None:
        handle = self._new_handle()
        self.streams.add(handle)
        self._out(result, handle)

    def hipStreamDestroy(self, stream: int) -> None:
        if stream not in self.streams:
            raise Refusal(INVALID_HANDLE)
        self.streams.remove(stream)

    def hipStreamSynchronize(self, stream: int | None) -> int:
        if stream is None:
            return self.hipDeviceSynchronize()
        self._check_stream(stream)
        self._wait(lambda: not self.items.get(stream))
        return self._take_failure()

    def hipStreamQuery(self, stream: int | None) -> int:
        self._check_stream(stream)
        return NOT_READY if self.items.get(stream or 0) else self._take_failure()

    def hipStreamWaitEvent(self, stream: int | None, event: int, flags: int) -> None:
        item = self._event(event).item
        if item is not None:
            self._queue(stream, lambda: None, after=item)

    def hipDeviceSynchronize(self) -> int:
        self._wait_for_all()
        return self._take_failure()

    def hipEventCreateWithFlags(self, result: int, flags: int) -> None:
        handle = self._new_handle()
        self.events[handle] = Event()
        self._out(result, handle)

    def hipEventDestroy(self, event: int) -> None:
        self._event(event)
        del self.events[event]

    def hipEventRecord(self, event: int, stream: int | None) -> None:
        self._event(event).item = self._queue(stream, lambda: None)

    def hipEventSynchronize(self, event: int) -> int:
        item = self._event(event).item
        self._wait(lambda: item is None or item.time is not None)
        return self._take_failure()

    def hipEventQuery(self, event: int) -> int:
        item = self._event(event).item
        return SUCCESS if item is None or item.time is not None else NOT_READY

    def hipEventElapsedTime(self, result: int, start: int, end: int) -> None:
        items = [self._event(event).item for event in (start, end)]
        if None in items:
            raise Refusal(INVALID_HANDLE)
        times = [item.time for item in items if item is not None]
        if None in times:
            raise Refusal(NOT_READY)
        self._out(result, 1e3 * (times[1] - times[0]), ctypes.c_float)  # type: ignore[operator, arg-type]

    def _event(self, event: int) -> Event:
        if event not in self.events:
            raise Refusal(INVALID_HANDLE)
        return self.events[event]

    def _check_stream(self, stream: int | None) -> None:
        if stream is not None and stream not in self.streams:
            raise Refusal(INVALID_HANDLE)

    # -- code ----------------------------------------------------------------------------------------------------------

    def hipModuleLoadData(self, result: int, image: int) -> None:
        content = elf_at(image)
        try:
            code_object = CodeObject.parse(content)
        except CodeObjectError:
            raise Refusal(INVALID_IMAGE) from None
        if code_object.target != self.simulators[self._ordinal()].target:
            raise Refusal(NO_BINARY)
        handle = self._new_handle()
        self.modules[handle] = Module(image, content, code_object)
        self._out(result, handle)

    def hipModuleUnload(self, module: int) -> None:
        if module not in self.modules:
            raise Refusal(INVALID_HANDLE)
        self._wait_for_all()
        self._check_bytes(self.modules.pop(module))

    def hipModuleGetFunction(self, result: int, module: int, name: bytes) -> None:
        if module not in self.modules:
            raise Refusal(INVALID_HANDLE)
        found = self.modules[module]
        if name.decode() not in found.code_object.kernels:
            raise Refusal(NOT_FOUND)
        handle = self._new_handle()
        found.functions[handle] = name.decode()
        self._out(result, handle)

    def _check_bytes(self, module: Module) -> None:
        if ctypes.string_at(module.address, len(module.content)) != module.content:
            self.complaints.append("the bytes of a loaded code object have changed")

    def hipModuleLaunchKernel(
        self, function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, lds: int, stream: int | None,
        parameters: int | None, extra: int,
    ) -> None:  # fmt: skip
        module = next((one for one in self.modules.values() if function in one.functions), None)
        if module is None:
            raise Refusal(INVALID_HANDLE)
        self._check_bytes(module)
        name, code_object = module.functions[function], module.code_object
        key, address, size_key, size, end = (ctypes.c_uint64 * 5).from_address(extra)
        assert parameters is None and (key, size_key, end) == (BUFFER_POINTER, BUFFER_SIZE, END)
        segment = ctypes.string_at(address, ctypes.c_size_t.from_address(size).value)
        arguments = [
            int.from_bytes(segment[one.offset : one.offset + one.size], "little")
            for one in code_object.kernels[name].arguments
            if not one.is_hidden and one.value_kind != "dynamic_shared_pointer"
        ]
        ordinal = self._ordinal()
        self.launches = [*self.launches[-99:], (name, (gx, gy, gz, bx, by, bz), lds, ordinal)]

        def run() -> None:
            if self.runs_kernels:
                self.simulators[ordinal].launch(code_object, name, (gx, gy, gz), (bx, by, bz), arguments, lds)

        self._queue(stream, run)

    def hipLaunchHostFunc(self, stream: int | None, function: int, data: int) -> None:
        self.host_functions += 1

        def run() -> None:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(data)
            self.host_functions -= 1

        self._queue(stream, run)

    # -- order ---------------------------------------------------------------------------------------------------------

    def _queue(self, stream: int | None, run: Callable[[], None], after: Item | None = None) -> Item:
        self._check_stream(stream)
        item = Item(next(self._order), stream or 0, run, after)
        self.items.setdefault(item.stream, deque()).append(item)
        self.change.notify_all()
        return item

    def _may_run(self, item: Item) -> bool:
        """Blocking streams: what the default stream was given earlier comes first, and it waits for them."""
        earlier = [queue[0] for queue in self.items.values() if queue and queue[0].number < item.number]
        if item.after is not None and item.after.time is None:
            return False
        return not earlier if item.stream == 0 else all(one.stream != 0 for one in earlier)

    def _wait(self, condition: Callable[[], bool]) -> None:
        if (self.is_held and not condition()) or not self.change.wait_for(condition, timeout=60):
            self.complaints.append("a call waits for ever")
            raise Refusal(LAUNCH_FAILURE)

    def _wait_for_all(self) -> None:
        self._wait(lambda: not any(self.items.values()))

    def _take_failure(self) -> int:
        failure, self._failure = self._failure, SUCCESS
        return failure

    def _work(self) -> None:
        """The driver's thread. Work leaves its stream when it is done."""
        while True:
            with self.change:
                item = None
                while item is None:
                    if self._worker is not threading.current_thread():
                        return
                    heads = [queue[0] for queue in self.items.values() if queue]
                    ready = [] if self.is_held else [head for head in heads if self._may_run(head)]
                    if ready:
                        item = self._random.choice(ready)
                    else:
                        self.change.wait()
            try:
                item.run()
            except SimulationError:
                self._failure = LAUNCH_FAILURE
            except BaseException as error:
                self.complaints.append(f"work raised {error!r}")
            with self.change:
                item.time = time.perf_counter()
                self.items[item.stream].popleft()
                if not self.items[item.stream]:
                    del self.items[item.stream]
                self.change.notify_all()


def elf_at(address: int) -> bytes:
    """An ELF file in memory: it ends with its section headers, as what the linker writes does. `b""` for no ELF."""
    if ctypes.string_at(address, 4) != b"\x7fELF":
        return b""
    start = ctypes.c_uint64.from_address(address + 40).value
    size, count = ctypes.c_uint16.from_address(address + 58).value, ctypes.c_uint16.from_address(address + 60).value
    return ctypes.string_at(address, start + size * count)


def device_properties() -> tuple[Any, int]:
    """hip-python's own structure of zeros, and where the chip's name lies in it: found by trying."""
    from hip import hip

    properties = hip.hipDeviceProp_t()
    size = properties.c_sizeof()
    ctypes.memset(int(properties), 0, size)
    return properties, _name_place()


@functools.cache
def _name_place() -> int:
    from hip import hip

    properties = hip.hipDeviceProp_t()
    address, size = int(properties), properties.c_sizeof()
    ctypes.memset(address, 0, size)
    for place in range(256, size, 4):
        ctypes.c_char.from_address(address + place).value = b"x"
        if properties.gcnArchName in ("x", b"x"):
            return place
        ctypes.c_char.from_address(address + place).value = b"\0"
    raise AssertionError("hipDeviceProp_t has no gcnArchName")


@functools.cache
def the_double() -> DriverDouble:
    """The one of this process: hip-python opens its library once. No GPU is there until a test starts it."""
    double = DriverDouble()
    _win_the_search()
    return double


def _win_the_search() -> None:
    """Where ROCm is installed, hip-python would find it before a library that is loaded."""
    try:
        from rocm.bindings.util import paths
    except ImportError:
        return
    found = paths.get_library_path
    paths.get_library_path = lambda name, *rest: b"libamdhip64.so" if name == "amdhip64" else found(name, *rest)
