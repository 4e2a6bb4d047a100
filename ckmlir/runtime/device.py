"""What a device can do, whatever runs the code: memory, code objects, launches, streams and events.

The protocol has the shape of HIP's. Launches, copies, fills and host functions are queued on a stream and done in their
order; streams do not wait for each other, unless one is told to wait for an event. The default stream is `None`: what
is queued on it follows everything queued before on any stream, and everything queued later follows it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from ckmlir.errors import CkmlirError

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]
Extent = tuple[int, int, int]
"""Along x, y and z."""


class DeviceError(CkmlirError):
    """A device is absent, or refuses what is asked of it; the text says which and why."""


class KernelFault(CkmlirError):
    """A kernel misbehaved while it ran: an access out of bounds, an instruction that cannot be executed."""


class DeviceProperties(Struct, frozen=True):
    """What a device is.

    Attributes:
        name: for people, for example "simulator (gfx942)".
        target: the chip whose code it runs, "gfx942".
        lds_bytes: most LDS of a workgroup.
        workgroup_size: most work-items of a workgroup.
        target_id: chip and settings, "gfx942:sramecc+:xnack-"; empty where any setting will do.
        memory_bytes: of the device; 0 where it is the host's.
        cache_bytes: of the largest cache that all compute units share; 0 where there is none.
        clock_megahertz: the highest of the compute units; 0 where nobody says.
    """

    name: str
    target: str
    compute_units: int
    wave_size: int
    lds_bytes: int
    workgroup_size: int
    target_id: str = ""
    memory_bytes: int = 0
    cache_bytes: int = 0
    clock_megahertz: float = 0.0


class Memory(Protocol):
    """Memory of a device."""

    @property
    def address(self) -> int:
        """Of the first byte."""

    @property
    def size(self) -> int:
        """In bytes."""


class Allocation:
    """What `Device.allocate` gives: bytes, which remember what was put there last.

    Attributes:
        dtype: what the host or the call of an operator wrote, as NumPy and ml_dtypes call it; None where that was
            nothing, or where a fill, a copy or a launch of the user's may have written since.
    """

    __slots__ = ("dtype",)

    def __init__(self) -> None:
        self.dtype: str | None = None


def remember(memory: object, dtype: str | None) -> None:
    """Note what memory holds, if it is a whole allocation."""
    if isinstance(memory, Allocation):
        memory.dtype = dtype


class MemoryPart(Struct, frozen=True):
    """`size` bytes of device memory from `offset` on; it stands wherever memory does, but is not given back."""

    whole: Memory
    offset: int
    size: int

    def __post_init__(self) -> None:
        if not hasattr(self.whole, "size"):
            raise DeviceError(f"a part of memory is one of what allocate gave, not of {type(self.whole).__name__}")
        for name in ("offset", "size"):
            given = getattr(self, name)
            try:
                force_setattr(self, name, operator.index(given))  # NumPy's integers become Python's
            except TypeError:
                raise DeviceError(f"{name} of a part of memory: expected a whole number, got {given!r}") from None
        if self.offset < 0 or self.size < 0 or self.offset + self.size > self.whole.size:
            raise DeviceError(f"bytes {self.offset} to {self.offset + self.size} are not within {self.whole.size}")

    @property
    def address(self) -> int:
        """Of the first byte."""
        return self.whole.address + self.offset


class HostMemory(Protocol):
    """Memory of the host that a device copies from and to without waiting (pinned)."""

    @property
    def bytes(self) -> Array:
        """Its contents, as an array of uint8 that shares the memory."""

    @property
    def size(self) -> int:
        """In bytes."""


def is_of_host(memory: Memory | HostMemory) -> TypeGuard[HostMemory]:
    """Whether memory is the host's, a device's own or somebody else's."""
    return hasattr(memory, "bytes")


Argument = Memory | np.int32 | np.int64 | np.float32 | np.float64
"""A kernel argument: memory is passed by address, scalars by value in their own size."""


class Module(Protocol):
    """A code object that a device has loaded."""

    @property
    def kernels(self) -> Sequence[str]:
        """The names of its kernels."""


class PreparedLaunch(Protocol):
    """A launch with everything fixed but its memory, and its size if need be."""

    def __call__(self, memories: Sequence[Memory], stream: Stream | None = None, size: Any = None) -> None:
        """Queue it, with another `size` where one is given, of `sized`. Raises as `Device.launch`."""

    def sized(self, grid: Extent, scalars: Sequence[int | float]) -> Any:
        """Another size: a grid, and values of the scalars, in their order.

        Raises DeviceError for a grid that the device refuses, OverflowError for a value that its type does not hold.
        """


class Stream(Protocol):
    """A queue of work."""

    def synchronize(self) -> None:
        """Return when everything queued so far is done.

        Raises KernelFault for a launch that went wrong, DeviceError for a host function that raised.
        """

    def is_done(self) -> bool:
        """Whether everything queued so far is done, without waiting."""

    def wait(self, event: Event) -> None:
        """What is queued from now on follows the point that `event` last marked."""

    def close(self) -> None:
        """Give the stream back; what is queued will still be done. Again: nothing."""


class Event(Protocol):
    """A point in a stream."""

    def record(self, stream: Stream | None = None) -> None:
        """Mark the point behind everything queued so far."""

    def synchronize(self) -> None:
        """Return when the marked point is reached."""

    def is_reached(self) -> bool:
        """Whether the marked point is reached, without waiting; also where nothing was ever marked."""

    def seconds_since(self, earlier: Event) -> float:
        """Time from another event's point to this one's, both reached."""

    def close(self) -> None:
        """Give the event back. Again: nothing."""


class Device(Protocol):
    """A device. All methods raise DeviceError for requests that it refuses.

    Memory, modules, streams and events that are garbage collected are given back, as is everything when the device is
    closed or Python ends.
    """

    @property
    def properties(self) -> DeviceProperties:
        """What the device is."""

    def allocate(self, size: int) -> Memory:
        """Memory of at least `size` bytes, aligned to 256; `size` 0 is allowed."""

    def allocate_host(self, size: int) -> HostMemory:
        """Pinned memory of the host, of at least `size` bytes."""

    def free(self, memory: Memory | HostMemory) -> None:
        """Give memory back; it must not be in use."""

    def write(self, destination: Memory, source: Array, stream: Stream | None = None) -> None:
        """Copy a contiguous array of the host to the start of device memory; it may be changed afterwards.

        Arrays of NumPy, PyTorch and others (`ckmlir.runtime.arguments`); of another byte order than this machine's they
        are converted, masked ones are refused.
        """

    def read(self, destination: Array, source: Memory, stream: Stream | None = None) -> None:
        """Copy from the start of device memory into a contiguous NumPy array of this machine's byte order, and wait
        until it is there.
        """

    def copy(
        self, destination: Memory | HostMemory, source: Memory | HostMemory, size: int, stream: Stream | None = None
    ) -> None:
        """Queue a copy of the first `size` bytes, in any direction; both must live until it is done."""

    def fill(self, destination: Memory, byte: int, size: int, stream: Stream | None = None) -> None:
        """Queue setting the first `size` bytes of device memory to a byte."""

    def call_on_host(self, function: Callable[[], None], stream: Stream | None = None) -> None:
        """Queue a Python function. It runs on any thread and must not use a device.

        What it raises is raised, inside a DeviceError, when the stream or the device is synchronised.
        """

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

    def prepare(
        self, module: Module, kernel: str, grid: Extent, block: Extent, arguments: Sequence[np.generic | None]
    ) -> PreparedLaunch:
        """A launch that is repeated: all is checked now but the memories, which stand for each None, in their order."""

    def synchronize(self) -> None:
        """Return when all work is done. Raises KernelFault for a launch that went wrong."""

    def create_stream(self) -> Stream:
        """A new stream."""

    def stream_of(self, foreign: object) -> Stream | None:
        """The user's own stream, for use here: one of this device, None, a HIP stream's address, or an object of
        PyTorch (`cuda_stream`), CuPy (`ptr`) or with `__cuda_stream__`.
        """

    def create_event(self) -> Event:
        """A new event."""

    def close(self) -> None:
        """Wait for all work and give everything back; the device cannot be used any more. Again: nothing."""


@runtime_checkable
class LabelsMemory(Protocol):
    """A device that names memory in its reports and watches what kernels may not write."""

    def label(self, memory: Memory, name: str, is_output: bool) -> None:
        """What reports call this memory. A kernel that writes to it is at fault unless it is an output, and one that
        uses the contents of an output before it has written them."""
