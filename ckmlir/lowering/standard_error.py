"""What a C++ library writes to the process's standard error, caught so that it can become an exception.

LLVM's backend reports some errors (too much LDS, no registers left) there only, and then carries on with wrong code.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import IO, Any

_lock = threading.Lock()


@contextmanager
def captured_standard_error() -> Iterator[list[str]]:
    """Collect everything written to file descriptor 2 inside the `with` block, by whatever library.

    Yields a list that holds the lines after the block. One thread at a time may be inside; others wait. If the process
    is aborted inside, as LLVM does for an instruction that it cannot select, what was collected is printed first.
    """
    lines: list[str] = []
    with _lock, _kept(2) as real, _file_in_memory() as file:
        if sys.stderr is not None:
            sys.stderr.flush()

        def release() -> str:
            """Give standard error back; what was written meanwhile."""
            os.dup2(real, 2)
            return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")

        def on_abort(_: int) -> None:
            # Called by abort() itself, at a known place of the same thread, so Python code may run here.
            os.write(real, release().encode())

        handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(on_abort)
        set_handler = _set_handler()
        before = set_handler(signal.SIGABRT, ctypes.cast(handler, ctypes.c_void_p))
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        finally:
            lines += release().splitlines()
            set_handler(signal.SIGABRT, before)


def _file_in_memory() -> IO[bytes]:
    """A file without a name: in memory where the system has such, which takes a tenth of the time."""
    try:
        return open(os.memfd_create("ckmlir-standard-error"), "wb", buffering=0)
    except (AttributeError, OSError):
        return tempfile.TemporaryFile()


@cache
def _set_handler() -> Any:
    """C's `signal`."""
    found = ctypes.CDLL(None).signal
    found.restype, found.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
    return found


@contextmanager
def _kept(descriptor: int) -> Iterator[int]:
    """A copy of a descriptor; of nowhere for one that the process has closed, as daemons do, which then stays open."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        copy = os.dup(descriptor)
    try:
        yield copy
    finally:
        os.close(copy)
