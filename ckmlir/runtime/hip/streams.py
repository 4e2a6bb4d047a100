"""Streams and events of a GPU."""

from __future__ import annotations

from typing import Any

from ckmlir.runtime.device import DeviceError, Event, Stream
from ckmlir.runtime.hip.driver import Driver
from ckmlir.runtime.hip.errors import NotReady


class HipStream:
    """A queue of a GPU, made here or by the user's framework.

    Attributes:
        handle: what hip-python takes for a stream.
    """

    def __init__(self, driver: Driver, handle: Any, *, foreign: bool = False) -> None:
        self.driver = driver
        self.handle = handle
        self.ticket = 0 if foreign else driver.resources.add(self, "hipStreamDestroy", handle)

    def synchronize(self) -> None:
        """See `Stream`."""
        self.driver.call("hipStreamSynchronize", self.handle)
        self.driver.host_functions.raise_failures()

    def is_done(self) -> bool:
        """See `Stream`."""
        return _is_ready(self.driver, "hipStreamQuery", self.handle)

    def wait(self, event: Event) -> None:
        """See `Stream`."""
        self.driver.call("hipStreamWaitEvent", self.handle, event_handle(self.driver, event), 0)

    def close(self) -> None:
        """See `Stream`; a foreign stream stays as it is."""
        if self.ticket:
            self.driver.give_back(self.ticket)


class HipEvent:
    """A point in a stream of a GPU, with its time."""

    def __init__(self, driver: Driver, handle: Any) -> None:
        self.driver = driver
        self.handle = handle
        self.ticket = driver.resources.add(self, "hipEventDestroy", handle)
        self._is_recorded = False

    def record(self, stream: Stream | None = None) -> None:
        """See `Event`."""
        self.driver.call("hipEventRecord", self.handle, stream_handle(self.driver, stream))
        self._is_recorded = True

    def synchronize(self) -> None:
        """See `Event`."""
        self.driver.call("hipEventSynchronize", self.handle)
        self.driver.host_functions.raise_failures()

    def is_reached(self) -> bool:
        """See `Event`."""
        return _is_ready(self.driver, "hipEventQuery", self.handle)

    def seconds_since(self, earlier: Event) -> float:
        """See `Event`. HIP's events count microseconds or finer. Raises DeviceError where one was never recorded."""
        other = event_handle(self.driver, earlier)
        if not self._is_recorded or (isinstance(earlier, HipEvent) and not earlier._is_recorded):
            raise DeviceError("an event that was never recorded on this device has no time")
        return float(self.driver.call("hipEventElapsedTime", other, self.handle)) / 1e3

    def close(self) -> None:
        """See `Event`."""
        self.driver.give_back(self.ticket)


def stream_handle(driver: Driver, stream: Stream | None) -> Any:
    """What hip-python takes for a stream. Raises DeviceError for one of another device, or closed."""
    if stream is None:
        return None
    if not isinstance(stream, HipStream) or stream.driver is not driver:
        raise DeviceError(f"{type(stream).__name__} is not a stream of this device; see stream_of")
    if stream.ticket and not driver.resources.is_live(stream.ticket):
        raise DeviceError("the stream was closed")
    return stream.handle


def event_handle(driver: Driver, event: Event) -> Any:
    """What hip-python takes for an event. Raises DeviceError for one of another device, or closed."""
    if not isinstance(event, HipEvent) or event.driver is not driver:
        raise DeviceError(f"{type(event).__name__} is not an event of this device")
    if not driver.resources.is_live(event.ticket):
        raise DeviceError("the event was closed")
    return event.handle


def _is_ready(driver: Driver, query: str, handle: Any) -> bool:
    try:
        driver.call(query, handle)
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
        f"{type(foreign).__name__} is not a stream; pass one of this device, a HIP stream's address, or an object with "
        "cuda_stream (PyTorch), ptr (CuPy) or __cuda_stream__"
    )
