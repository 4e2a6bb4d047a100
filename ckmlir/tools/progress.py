"""What a command is doing, on stderr: at once on a terminal, elsewhere only when it has said nothing for long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

SILENT_SECONDS = 5.0
"""So long may a command say nothing where stderr is not a terminal."""
SHORT = 0.2
"""What takes no longer than this share of it leaves no trace, however long the silence before."""


class _Silence:
    """When the command last said something, or began."""

    since: float | None = None


def begin_silence() -> None:
    """A command begins: from here on its silence counts, whatever the steps that make it up."""
    _Silence.since = time.monotonic()


@contextmanager
def progress(text: str, *, printing: bool = False) -> Iterator[None]:
    """Say `text` while the block runs; nothing where the block is `printing` there, as IR that can be read back.

    A terminal shows it at once, with the seconds that it has taken so far, and it is gone afterwards. Anything else, as
    a file of a batch system, gets one line once there was silence for `SILENT_SECONDS`: several blocks that each take a
    little less must not add up to a command that seems to hang.
    """
    if printing:
        yield
        return
    over = threading.Event()
    show = _on_terminal if sys.stderr.isatty() else _in_file
    thread = threading.Thread(target=show, args=(text, over, sys.stderr), name="ckmlir progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _on_terminal(text: str, over: threading.Event, stream: TextIO) -> None:
    begin = time.monotonic()
    seconds = 0
    while True:
        passed = f" {seconds} s" if seconds else ""
        print(f"\r{text} …{passed}", end="", file=stream, flush=True)
        if over.wait(1.0):
            break
        seconds = round(time.monotonic() - begin)
    print("\r\033[K", end="", file=stream, flush=True)


def _in_file(text: str, over: threading.Event, stream: TextIO) -> None:
    begin = time.monotonic()
    silent = 0.0 if _Silence.since is None else begin - _Silence.since
    if not over.wait(max(SILENT_SECONDS - silent, SHORT * SILENT_SECONDS)):
        print(f"ckmlir: {text} …", file=stream, flush=True)
        _Silence.since = time.monotonic()
