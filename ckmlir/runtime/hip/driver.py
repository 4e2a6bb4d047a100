"""HIP as one device calls it: with its GPU current, and with everything it handed out on record.

HIP's current device belongs to the thread and is the user's: where there are several GPUs, every call makes this one
current and puts the former back.
"""

from __future__ import annotations

import atexit
import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ckmlir.errors import CkmlirError
from ckmlir.runtime.device import DeviceError
from ckmlir.runtime.hip.binding import binding
from ckmlir.runtime.hip.discovery import Gpu
from ckmlir.runtime.hip.host_functions import HostFunctions, in_host_function
from ckmlir.runtime.hip.resources import Resources

_open: weakref.WeakSet[Driver] = weakref.WeakSet()


class Driver:
    """The calls of one device. Its streams, events and launches share it and keep it alive.

    Attributes:
        hip: The functions of hip-python.
        resources: What was handed out and not taken back.
        host_functions: Python functions that wait in streams.
        launch: `hip.launch` with this GPU current; it checks nothing.
    """

    def __init__(self, gpu: Gpu, *, several: bool) -> None:
        self.gpu = gpu
        self.hip = binding()
        self.resources = Resources(self.hip)
        self.host_functions = HostFunctions(self.hip)
        self._several = several
        self.launch: Callable[..., None] = self._launch_on_this_gpu if several else self.hip.launch
        self._is_closed = False
        _open.add(self)

    def call(self, function: str, *arguments: Any, what: str = "") -> Any:
        """Call a HIP function with this GPU current; see `Binding.call`."""
        self.check_usable()
        if not self._several:
            return self.hip.call(function, *arguments, what=what)
        with self._current():
            return self.hip.call(function, *arguments, what=what)

    def check_usable(self) -> None:
        """Raise DeviceError after the device was closed, and in host functions."""
        if self._is_closed:
            raise DeviceError(f"{self.gpu.properties.name} was closed")
        if in_host_function():
            raise DeviceError("a host function must not use a device")

    def give_back(self, ticket: int) -> None:
        """Give back a resource, unless it or the whole device has been."""
        if self.resources.is_live(ticket):
            self.check_usable()
            self.resources.give_back(ticket)

    def call_on_host(self, function: Callable[[], None], stream_handle: Any) -> None:
        """Queue a Python function; see `Device.call_on_host`."""
        with self._this_gpu_current():
            self.host_functions.queue(function, stream_handle)

    def close(self) -> None:
        """Wait for all work and give everything back; again: nothing. See `Device.close`.

        Where HIP refuses to take something back, its error is raised, and it may be tried again.
        """
        if self._is_closed:
            return
        try:
            self.call("hipDeviceSynchronize")
        finally:
            with self._this_gpu_current():
                self.resources.give_back_all()
        self._is_closed = True
        self.host_functions.raise_failures()

    def _launch_on_this_gpu(self, *arguments: Any) -> None:
        with self._current():
            self.hip.launch(*arguments)

    def _this_gpu_current(self) -> contextlib.AbstractContextManager[None]:
        return self._current() if self._several else contextlib.nullcontext()

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        former = self.hip.call("hipGetDevice")
        if former == self.gpu.ordinal:
            yield
            return
        self.hip.call("hipSetDevice", self.gpu.ordinal)
        try:
            yield
        finally:
            self.hip.call("hipSetDevice", former)


@atexit.register
def _close_all() -> None:
    """Python's callbacks must not be called, nor its memory be read, by a driver that outlives it."""
    for driver in list(_open):
        with contextlib.suppress(CkmlirError):
            driver.close()
