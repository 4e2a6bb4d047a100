"""Interrupts that wait for what must not be left halfway."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Inside, an interrupt is kept; what handles it is called behind the block.

    For imports of extensions written in C++: one that KeyboardInterrupt leaves halfway ends the process, or cannot be
    imported again. Nothing changes outside the main thread, which alone handles signals, and where none would raise.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    kept: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: kept.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if kept:
            handler(*kept[0])
