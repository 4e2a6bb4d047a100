"""Python functions on a stream.

The driver calls one C function, which is never freed, with the number of a Python function; the Python function is kept
until then. hip-python passes the C function on by address only (a function object of ctypes would crash).
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections import deque
from collections.abc import Callable

from ckmlir.runtime.device import DeviceError
from ckmlir.runtime.hip.binding import Binding

_numbers = itertools.count(1)
_waiting: dict[int, tuple[Callable[[], None], deque[BaseException]]] = {}
_running = threading.local()


def _run(number: int | None) -> None:
    function, failures = _waiting.pop(number or 0)
    _running.here = True
    try:
        function()
    except BaseException as error:  # it must not reach the driver
        failures.append(error)
    finally:
        _running.here = False


_TRAMPOLINE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_run)
_ADDRESS = ctypes.cast(_TRAMPOLINE, ctypes.c_void_p)


def in_host_function() -> bool:
    """Whether this thread is running a host function, where HIP must not be called."""
    return getattr(_running, "here", False)


class HostFunctions:
    """The host functions of one device."""

    def __init__(self, hip: Binding) -> None:
        self._hip = hip
        self._failures: deque[BaseException] = deque()

    def queue(self, function: Callable[[], None], stream: object) -> None:
        """Queue a function on a HIP stream. Raises HipError where HIP refuses; the function is forgotten then."""
        number = next(_numbers)
        _waiting[number] = (function, self._failures)
        try:
            self._hip.call("hipLaunchHostFunc", stream, _ADDRESS, ctypes.c_void_p(number))
        except BaseException:
            _waiting.pop(number, None)
            raise

    def raise_failures(self) -> None:
        """Raise DeviceError where a function raised since the last time."""
        if self._failures:
            error = self._failures.popleft()
            self._failures.clear()
            raise DeviceError(f"a host function raised {type(error).__name__}: {error}") from error


def waiting() -> int:
    """How many functions are queued and have not run."""
    return len(_waiting)
