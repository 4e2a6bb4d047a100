"""Streams and events of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckmlir.runtime.device import DeviceError, Event, Stream
from ckmlir.runtime.hip.errors import NotReady

if TYPE_CHECKING:
    from ckmlir.runtime.hip.device import HipDevice


class HipStream:
    """A queue of a GPU, made here or by the user's framework.

    Attributes:
        handle: what hip-python takes for a stream.
    """

    def __init__(self, device: HipDevice, handle: Any, *, foreign: bool = False) -> None:
        self.device = device
        self.handle = handle
        self.ticket = 0 if foreign else device.resources.add(self, "hipStreamDestroy", handle)

    def synchronize(self) -> None:
        """See `Stream`."""
        self.device.call("hipStreamSynchronize", self.handle)
        self.device.host_functions.raise_failures()

    def is_done(self) -> bool:
        """See `Stream`."""
        return _is_ready(self.device, "hipStreamQuery", self.handle)

    def wait(self, event: Event) -> None:
        """See `Stream`."""
        self.device.call("hipStreamWaitEvent", self.handle, self.device.event_handle(event), 0)

    def close(self) -> None:
        """See `Stream`; a foreign stream stays as it is."""
        if self.ticket:
            self.device.give_back(self.ticket)


class HipEvent:
    """A point in a stream of a GPU, with its time."""

    def __init__(self, device: HipDevice, handle: Any) -> None:
        self.device = device
        self.handle = handle
        self.ticket = device.resources.add(self, "hipEventDestroy", handle)
        self._is_recorded = False

    def record(self, stream: Stream | None = None) -> None:
        """See `Event`."""
        self.device.call("hipEventRecord", self.handle, self.device.stream_handle(stream))
        self._is_recorded = True

    def synchronize(self) -> None:
        """See `Event`."""
        self.device.call("hipEventSynchronize", self.handle)
        self.device.host_functions.raise_failures()

    def is_reached(self) -> bool:
        """See `Event`."""
        return _is_ready(self.device, "hipEventQuery", self.handle)

    def seconds_since(self, earlier: Event) -> float:
        """See `Event`. HIP's events count microseconds or finer. Raises DeviceError where one was never recorded."""
        other = self.device.event_handle(earlier)
        if not self._is_recorded or (isinstance(earlier, HipEvent) and not earlier._is_recorded):
            raise DeviceError("an event that was never recorded on this device has no time")
        return float(self.device.call("hipEventElapsedTime", other, self.handle)) / 1e3

    def close(self) -> None:
        """See `Event`."""
        self.device.give_back(self.ticket)


def _is_ready(device: HipDevice, query: str, handle: Any) -> bool:
    try:
        device.call(query, handle)
    except NotReady:
        return False
    return True


def foreign_address(foreign: object) -> int:
    """The HIP stream of a framework's object, or of a number. Raises DeviceError for anything else."""
    if isinstance(foreign, int) and not isinstance(foreign, bool):
        return foreign
    for attribute in ("cuda_stream", "ptr"):
        address = getattr(foreign, attribute, None)
        if isinstance(address, int):
            return address
    protocol = getattr(foreign, "__cuda_stream__", None)
    if protocol is not None:
        _, address = protocol()
        return int(address)
    raise DeviceError(
        f"{type(foreign).__name__} is no stream; pass one of this device, a HIP stream's address, or an object with "
        "cuda_stream (PyTorch), ptr (CuPy) or __cuda_stream__"
    )
