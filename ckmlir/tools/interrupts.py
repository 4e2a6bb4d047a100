"""Interrupts that are answered at once, also while a library computes.

Python raises KeyboardInterrupt when the C function that it waits for returns, and NumPy takes half a minute for 2^30
random numbers, minutes for a product of large matrices. So a thread looks whether an interrupt was taken, and otherwise
ends the process, as SIGINT does that of a program without a handler.

Where the exception reaches nobody, as in a finaliser or a callback of a library, Python prints it and goes on. Then the
thread interrupts again.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ckmlir.tools.scripts import INTERRUPTED

PATIENCE = 0.3
"""Seconds for Python to take an interrupt."""
MOMENT = 0.02
"""Seconds until what lost an interrupt has returned."""
_END, _LOST = b"\0", b"\xff"  # no signal has these numbers


@contextmanager
def prompt_interrupts(tool: str) -> Iterator[None]:
    """Inside, an interrupt becomes KeyboardInterrupt within `PATIENCE`, or ends the process with a message.

    Nothing changes outside the main thread, and where somebody else handles interrupts or they are ignored.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    taken = threading.Event()

    def take(number: int, frame: Any) -> None:
        taken.set()
        signal.default_int_handler(number, frame)

    unraisable = sys.unraisablehook

    def told(what: sys.UnraisableHookArgs) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            os.write(writer, _LOST)
        else:
            unraisable(what)

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    sys.unraisablehook = told
    signal.signal(signal.SIGINT, take)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(tool, reader, taken), name="ckmlir interrupts", daemon=True)
    watcher.start()
    try:
        yield
    except Exception:
        if taken.is_set():  # a library made another error of it, as NumPy does while it is imported
            raise KeyboardInterrupt from None
        raise
    finally:
        sys.unraisablehook = unraisable
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.write(writer, _END)
        watcher.join()
        os.close(writer)
        os.close(reader)


def _watch(tool: str, signals: int, taken: threading.Event) -> None:
    """End the process when Python does not take an interrupt; repeat one that is lost.

    `signals` gives the number of each signal as a byte.
    """
    while (number := os.read(signals, 1)) != _END:
        if number == _LOST:
            time.sleep(MOMENT)
            taken.clear()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        elif number[0] == signal.SIGINT and not taken.wait(PATIENCE):
            begin = "\n" if sys.stderr.isatty() else ""  # behind the line of `progress`
            print(f"{begin}{tool}: interrupted", file=sys.stderr, flush=True)
            os._exit(INTERRUPTED)
