"""The simulator as a device: in this process, without a GPU. Everything is done at once; streams never wait."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ckmlir.codeobject import CodeObject, CodeObjectError
from ckmlir.runtime.device import (
    Argument,
    Array,
    DeviceError,
    DeviceProperties,
    Event,
    Extent,
    KernelFault,
    Memory,
    Module,
    Stream,
)
from ckmlir.runtime.launch_check import check_launch, check_target
from ckmlir.sim import DeviceMemory, LaunchError, RunStatistics, SimulationError, Simulator
from ckmlir.targets import Target


@dataclass(frozen=True)
class SimulatorModule:
    """A code object that the simulator runs kernels of."""

    code_object: CodeObject

    @property
    def kernels(self) -> Sequence[str]:
        return tuple(self.code_object.kernels)


class SimulatorStream:
    """A stream on which everything is done already."""

    def synchronize(self) -> None:
        """Nothing is pending."""


class SimulatorEvent:
    """A moment of the host's clock."""

    def __init__(self) -> None:
        self._time: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """The moment is now: everything queued before is done."""
        self._time = time.perf_counter()

    def synchronize(self) -> None:
        """Nothing is pending."""

    def seconds_since(self, earlier: Event) -> float:
        """Raises DeviceError when one of the events was never recorded."""
        if not isinstance(earlier, SimulatorEvent) or earlier._time is None or self._time is None:
            raise DeviceError("an event that was never recorded on this device has no time")
        return self._time - earlier._time


class SimulatorDevice:
    """A `Device` for one chip on `ckmlir.sim`."""

    def __init__(self, target: Target, *, seed: int = 0) -> None:
        self._target = target
        self._simulator = Simulator(target=target.name, seed=seed)
        self._live: set[DeviceMemory] = set()
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

    def allocate(self, size: int) -> Memory:
        if size < 0:
            raise DeviceError(f"cannot allocate {size} bytes")
        memory = self._simulator.allocate(size)
        self._live.add(memory)
        return memory

    def free(self, memory: Memory) -> None:
        own = self._own(memory)
        own.free()
        self._live.remove(own)

    def write(self, destination: Memory, source: Array, stream: Stream | None = None) -> None:
        _check_copy(destination, source)
        self._own(destination).write(source)

    def read(self, destination: Array, source: Memory, stream: Stream | None = None) -> None:
        _check_copy(source, destination)
        destination[...] = self._own(source).read(destination.dtype, destination.shape)

    def _own(self, memory: Memory) -> DeviceMemory:
        if not isinstance(memory, DeviceMemory) or memory not in self._live:
            raise DeviceError(f"memory at 0x{memory.address:x} is not of this device, or was given back")
        return memory

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
        if not isinstance(module, SimulatorModule):
            raise DeviceError(f"{type(module).__name__} was not loaded by this device")
        check_launch(module.code_object, kernel, grid, block, arguments, dynamic_lds, self.properties)
        try:
            passed = [argument if isinstance(argument, np.generic) else self._own(argument) for argument in arguments]
            self.last_statistics = self._simulator.launch(
                module.code_object, kernel, grid=grid, block=block, arguments=passed, dynamic_lds=dynamic_lds
            )
        except LaunchError as error:
            raise DeviceError(f"{kernel}: {error}") from error
        except SimulationError as error:
            raise KernelFault(" ".join(str(error).split())) from error

    def synchronize(self) -> None:
        """Nothing is pending."""

    def create_stream(self) -> Stream:
        return SimulatorStream()

    def create_event(self) -> Event:
        return SimulatorEvent()


def _check_copy(memory: Memory, array: Array) -> None:
    if not array.flags.c_contiguous:
        raise DeviceError("copies take contiguous arrays")
    if array.nbytes > memory.size:
        raise DeviceError(f"a copy of {array.nbytes} bytes exceeds the {memory.size} bytes of device memory")
