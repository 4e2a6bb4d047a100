"""What a device can do, whatever runs the code: memory, code objects, launches, streams and events.

The protocol has the shape of HIP's: launches and copies are queued on a stream and done when it is synchronised; the
default stream is `None`. A device that works at once, as the simulator does, has nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ckmlir.errors import CkmlirError
from ckmlir.targets import Target

Array = npt.NDArray[Any]
Extent = tuple[int, int, int]
"""Along x, y and z."""


class DeviceError(CkmlirError):
    """A device is absent, or refuses what is asked of it; the text says which and why."""


class KernelFault(CkmlirError):
    """A kernel misbehaved while it ran: an access out of bounds, an instruction that cannot be executed."""


@dataclass(frozen=True)
class DeviceProperties:
    """What a device is.

    Attributes:
        name: for people, for example "simulator (gfx942)".
        target: the chip whose code it runs, "gfx942".
        lds_bytes: most LDS of a workgroup.
        workgroup_size: most work-items of a workgroup.
    """

    name: str
    target: str
    compute_units: int
    wave_size: int
    lds_bytes: int
    workgroup_size: int


class Memory(Protocol):
    """Memory of a device."""

    @property
    def address(self) -> int:
        """Of the first byte."""

    @property
    def size(self) -> int:
        """In bytes."""


Argument = Memory | np.int32 | np.int64 | np.float32
"""A kernel argument: memory is passed by address, scalars by value in their own size."""


class Module(Protocol):
    """A code object that a device has loaded."""

    @property
    def kernels(self) -> Sequence[str]:
        """The names of its kernels."""


class Stream(Protocol):
    """A queue of work."""

    def synchronize(self) -> None:
        """Return when everything queued so far is done. Raises KernelFault for a launch that went wrong."""


class Event(Protocol):
    """A point in a stream."""

    def record(self, stream: Stream | None = None) -> None:
        """Mark the point behind everything queued so far."""

    def synchronize(self) -> None:
        """Return when the marked point is reached."""

    def seconds_since(self, earlier: Event) -> float:
        """Time from another event's point to this one's, both reached."""


class Device(Protocol):
    """A device. All methods raise DeviceError for requests that it refuses."""

    @property
    def properties(self) -> DeviceProperties:
        """What the device is."""

    def allocate(self, size: int) -> Memory:
        """Memory of at least `size` bytes, aligned to 256; `size` 0 is allowed."""

    def free(self, memory: Memory) -> None:
        """Give memory back; it must not be in use."""

    def write(self, destination: Memory, source: Array, stream: Stream | None = None) -> None:
        """Copy a contiguous array to the start of device memory; the array may be changed afterwards."""

    def read(self, destination: Array, source: Memory, stream: Stream | None = None) -> None:
        """Copy from the start of device memory into a contiguous array, and wait until it is there."""

    def load(self, code_object: bytes) -> Module:
        """Load a code object for the device's chip."""

    def unload(self, module: Module) -> None:
        """Forget a module; none of its kernels may be running."""

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
        """Run `grid` workgroups of `block` work-items of a kernel. Raises KernelFault when it is known to go wrong."""

    def synchronize(self) -> None:
        """Return when all work is done. Raises KernelFault for a launch that went wrong."""

    def create_stream(self) -> Stream:
        """A new stream."""

    def create_event(self) -> Event:
        """A new event."""


DEVICES = ("sim", "hip", "auto")


def open_device(kind: str, target: Target, *, seed: int = 0) -> Device:
    """A device that runs code for `target`: "sim", "hip", or "auto" for whatever is there.

    The seed varies what the simulator leaves open: the content of memory nobody wrote, the order of waves.
    Raises DeviceError when there is no such device; "auto" finds the simulator.
    """
    if kind not in DEVICES:
        raise DeviceError(f"unknown device {kind!r}; expected {'|'.join(DEVICES)}")
    if kind == "hip":
        raise DeviceError("device hip: running on a GPU through hip-python is not supported yet; use sim")
    from ckmlir.runtime.simulator_device import SimulatorDevice

    return SimulatorDevice(target, seed=seed)
