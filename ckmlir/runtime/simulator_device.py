"""The simulator as a device: in this process, without a GPU; for its streams see `simulator_streams`."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.codeobject import CodeObject, CodeObjectError
from ckmlir.runtime.device import (
    Allocation,
    Argument,
    Array,
    DeviceError,
    DeviceProperties,
    Event,
    Extent,
    HostMemory,
    KernelFault,
    Memory,
    MemoryPart,
    Module,
    PreparedLaunch,
    Stream,
    is_of_host,
    remember,
)
from ckmlir.runtime.findings import FindingsFault
from ckmlir.runtime.launch_check import (
    check_destination,
    check_fill,
    check_launch,
    check_move,
    check_size,
    check_target,
    source_of_copy,
)
from ckmlir.runtime.simulator_streams import Queues, SimulatorEvent, SimulatorStream
from ckmlir.sim import CheckFailure, DeviceMemory, LaunchError, RunStatistics, SimulationError, Simulator
from ckmlir.sim.runner import Observer
from ckmlir.targets import Target


class SimulatorModule(Struct, frozen=True):
    """A code object that the simulator runs kernels of."""

    code_object: CodeObject

    @property
    def kernels(self) -> Sequence[str]:
        return tuple(self.code_object.kernels)


class SimulatorMemory(Allocation):
    """Memory of the simulator. What is queued keeps it alive; when nobody does, it is given back.

    Attributes:
        contents: the simulator's own allocation.
    """

    def __init__(self, contents: DeviceMemory) -> None:
        super().__init__()
        self.contents = contents

    @property
    def address(self) -> int:
        """Of the first byte."""
        return self.contents.address

    @property
    def size(self) -> int:
        """In bytes."""
        return self.contents.size


class SimulatorHostMemory:
    """Memory of the host; the simulator needs no pinning.

    Attributes:
        size: bytes.
    """

    def __init__(self, size: int) -> None:
        self._bytes: Array | None = np.zeros(size, np.uint8)
        self.size = size

    @property
    def bytes(self) -> Array:
        """Its contents, shared. Raises DeviceError after it was given back."""
        if self._bytes is None:
            raise DeviceError(f"this pinned memory of {self.size} bytes was given back")
        return self._bytes

    def forget(self) -> None:
        """There are no contents any more."""
        self._bytes = None


class SimulatorDevice:
    """A `Device` for one chip on `ckmlir.sim`.

    `checks` are names of checkers (`ckmlir.sim.checks.CHECKERS`), or "all"; a launch that they find something wrong
    with raises FindingsFault. `jobs` threads share the workgroups of a launch. Raises DeviceError for an unknown name,
    or no job. Without `poison` what nobody has written is zero.
    """

    def __init__(
        self,
        target: Target,
        *,
        seed: int = 0,
        checks: str | Iterable[str] = (),
        jobs: int = 1,
        poison: bool = True,
    ) -> None:
        self._target = target
        try:
            self._simulator = Simulator(target=target.name, seed=seed, poison=poison, checks=checks, jobs=jobs)
        except LaunchError as error:
            raise DeviceError(str(error)) from error
        self._live: weakref.WeakSet[SimulatorMemory] = weakref.WeakSet()
        self._abandoned: deque[DeviceMemory] = deque()
        self._queues = Queues(seed)
        self._is_closed = False
        self.last_statistics: RunStatistics | None = None
        """What the simulator counted in the last launch."""

    @property
    def properties(self) -> DeviceProperties:
        target = self._target
        return DeviceProperties(
            name=f"simulator ({target.name})",
            target=target.name,
            compute_units=target.compute_units,
            wave_size=target.wave_size,
            lds_bytes=target.lds_bytes,
            workgroup_size=target.workgroup_size,
        )

    def observe(self, observer: Observer | None) -> None:
        """Let a trace (`ckmlir.sim.debugging.Tracer`) take part in all launches from now on; None is nobody."""
        self._simulator.observer = observer

    def allocate(self, size: int) -> Memory:
        """See `Device`."""
        self._check_usable(size)
        while self._abandoned:  # not freed where they were collected: that may be anywhere
            self._abandoned.popleft().free()
        try:
            memory = SimulatorMemory(self._simulator.allocate(size))
        except LaunchError as error:
            raise DeviceError(str(error)) from None
        weakref.finalize(memory, self._abandoned.append, memory.contents).atexit = False
        self._live.add(memory)
        return memory

    def allocate_host(self, size: int) -> HostMemory:
        """See `Device`."""
        self._check_usable(size)
        try:
            return SimulatorHostMemory(size)
        except (MemoryError, ValueError):
            raise DeviceError(f"cannot allocate {size} bytes: this machine has not that much memory") from None

    def _check_usable(self, size: int = 0) -> None:
        if self._is_closed:
            raise DeviceError(f"the {self.properties.name} was closed")
        self._queues.check_thread()
        check_size(size)

    def free(self, memory: Memory | HostMemory) -> None:
        """See `Device`."""
        if isinstance(memory, SimulatorHostMemory):
            memory.forget()
            return
        own, _ = self._locate(memory)
        own.contents.free()
        self._live.remove(own)

    def write(self, destination: Memory, source: Array, stream: Stream | None = None) -> None:
        """See `Device`."""
        given = source_of_copy(destination, source)
        own, offset = self._locate(destination)
        contents = given if stream is None else given.copy()
        remember(destination, given.dtype.name)
        self._queues.submit(lambda: own.contents.write(contents, offset), stream)

    def read(self, destination: Array, source: Memory, stream: Stream | None = None) -> None:
        """See `Device`."""
        check_destination(source, destination)
        own, offset = self._locate(source)

        def copy() -> None:
            destination[...] = own.contents.read(destination.dtype, destination.shape, offset)

        self._queues.submit(copy, stream)
        if stream is not None:
            stream.synchronize()

    def copy(
        self, destination: Memory | HostMemory, source: Memory | HostMemory, size: int, stream: Stream | None = None
    ) -> None:
        """See `Device`."""
        check_move(destination, source, size)
        for memory in (destination, source):
            if not is_of_host(memory):
                self._locate(memory)
        remember(destination, None)
        self._queues.submit(lambda: self._put(destination, self._bytes(source, size)), stream)

    def _bytes(self, memory: Memory | HostMemory, size: int) -> Array:
        if is_of_host(memory):
            return memory.bytes[:size]
        own, offset = self._locate(memory)
        return own.contents.read(np.uint8, size, offset)

    def _put(self, memory: Memory | HostMemory, contents: Array) -> None:
        if is_of_host(memory):
            memory.bytes[: contents.size] = contents
        else:
            own, offset = self._locate(memory)
            own.contents.write(contents, offset)

    def fill(self, destination: Memory, byte: int, size: int, stream: Stream | None = None) -> None:
        """See `Device`."""
        check_fill(destination, byte, size)
        own, offset = self._locate(destination)
        remember(destination, None)
        self._queues.submit(lambda: own.contents.write(np.full(size, byte, np.uint8), offset), stream)

    def _locate(self, memory: Memory | HostMemory) -> tuple[SimulatorMemory, int]:
        """The allocation that memory is or lies in, and where. Raises DeviceError where it is not of this device."""
        self._check_usable()
        if isinstance(memory, MemoryPart):
            own, offset = self._locate(memory.whole)
            return own, offset + memory.offset
        if not isinstance(memory, SimulatorMemory) or memory not in self._live:
            where = f"memory at 0x{memory.address:x}" if hasattr(memory, "address") else type(memory).__name__
            raise DeviceError(f"{where} is not of this device, or was given back")
        return memory, 0

    def label(self, memory: Memory, name: str, is_output: bool) -> None:
        """What reports call memory; contents of an output are undefined until a kernel writes them, the rest is
        read-only. Only checkers care."""
        own, _ = self._locate(memory)

        def act() -> None:
            own.contents.label(name, read_only=not is_output)
            if is_output:
                own.contents.forget()

        self._queues.submit(act, None)

    def load(self, code_object: bytes) -> Module:
        try:
            parsed = CodeObject.parse(code_object)
        except CodeObjectError as error:
            raise DeviceError(str(error)) from error
        check_target(parsed, self.properties)
        return SimulatorModule(parsed)

    def unload(self, module: Module) -> None:
        """Nothing is kept."""

    def launch(
        self,
        module: Module,
        kernel: str,
        grid: Extent,
        block: Extent,
        arguments: Sequence[Argument],
        *,
        dynamic_lds: int = 0,
        stream: Stream | None = None,
    ) -> None:
        self._launch(module, kernel, grid, block, arguments, dynamic_lds, stream)
        for argument in arguments:
            remember(argument, None)  # the kernel may write anything

    def _launch(
        self,
        module: Module,
        kernel: str,
        grid: Extent,
        block: Extent,
        arguments: Sequence[Argument],
        dynamic_lds: int,
        stream: Stream | None,
    ) -> None:
        if not isinstance(module, SimulatorModule):
            raise DeviceError(f"{type(module).__name__} was not loaded by this device")
        check_launch(module.code_object, kernel, grid, block, arguments, dynamic_lds, self.properties)
        kept = [one if isinstance(one, np.generic) else self._locate(one) for one in arguments]

        def run() -> None:
            # What is given back meanwhile is refused by the simulator's table of memory.
            passed = [one if isinstance(one, np.generic) else _pointer(*one) for one in kept]
            self._run(module.code_object, kernel, grid, block, passed, dynamic_lds)

        self._queues.submit(run, stream)

    def prepare(
        self, module: Module, kernel: str, grid: Extent, block: Extent, arguments: Sequence[np.generic | None]
    ) -> PreparedLaunch:
        """See `Device`; the simulator checks every launch."""
        return _PreparedLaunch(partial(self._launch, module, kernel), grid, block, arguments)

    def _run(
        self,
        code_object: CodeObject,
        kernel: str,
        grid: Extent,
        block: Extent,
        arguments: Sequence[np.generic | DeviceMemory | int],
        dynamic_lds: int,
    ) -> None:
        try:
            self.last_statistics = self._simulator.launch(
                code_object, kernel, grid=grid, block=block, arguments=arguments, dynamic_lds=dynamic_lds
            )
        except LaunchError as error:
            raise DeviceError(f"{kernel}: {error}") from error
        except CheckFailure as error:
            self.last_statistics = error.statistics
            raise FindingsFault(f"{kernel}: {error}", error.findings) from error
        except SimulationError as error:
            raise KernelFault(" ".join(str(error).split())) from error

    def call_on_host(self, function: Callable[[], None], stream: Stream | None = None) -> None:
        """See `Device`."""
        self._check_usable()
        self._queues.submit(lambda: self._queues.run_host_function(function), stream)

    def synchronize(self) -> None:
        """See `Device`."""
        self._queues.finish_all()

    def create_stream(self) -> Stream:
        """See `Device`."""
        self._check_usable()
        return self._queues.create()

    def stream_of(self, foreign: object) -> Stream | None:
        """See `Device`; there are no streams but the simulator's own."""
        if foreign is None or isinstance(foreign, SimulatorStream):
            return foreign
        raise DeviceError(f"the {self.properties.name} has no streams but its own, got {type(foreign).__name__}")

    def create_event(self) -> Event:
        """See `Device`."""
        self._check_usable()
        return SimulatorEvent(self._queues)

    def close(self) -> None:
        """See `Device`."""
        if not self._is_closed:
            try:
                self._queues.finish_all()
            finally:
                for memory in list(self._live):
                    memory.contents.free()
                self._live.clear()
                self._is_closed = True


def _pointer(memory: SimulatorMemory, offset: int) -> DeviceMemory | int:
    """What the simulator takes for an address."""
    return memory.contents if offset == 0 else memory.address + offset


class _PreparedLaunch:
    """See `Device.prepare`."""

    def __init__(
        self, launch: Callable[..., None], grid: Extent, block: Extent, arguments: Sequence[np.generic | None]
    ) -> None:
        self._launch, self._block, self._arguments = launch, block, arguments
        self._size = (grid, arguments)

    def __call__(self, memories: Sequence[Memory], stream: Stream | None = None, size: Any = None) -> None:
        """See `PreparedLaunch`."""
        needed = self._arguments.count(None)
        if len(memories) != needed:
            raise DeviceError(f"{needed} memories are needed, not {len(memories)}")
        grid, arguments = size or self._size
        rest = iter(memories)
        given = [next(rest) if one is None else one for one in arguments]
        self._launch(grid, self._block, given, 0, stream)

    def sized(self, grid: Extent, scalars: Sequence[int | float]) -> Any:
        """See `PreparedLaunch`."""
        rest = iter(scalars)
        return grid, [None if one is None else type(one)(next(rest)) for one in self._arguments]
