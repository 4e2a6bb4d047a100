"""What a command is doing, on stderr: at once on a terminal, elsewhere only of what takes long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

SILENT_SECONDS = 5.0
"""What takes no longer leaves no trace where stderr is not a terminal."""


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Say `text` while the block runs.

    A terminal shows it at once, with the seconds that it has taken so far, and it is gone afterwards. Anything else, as
    a file of a batch system, gets one line once the block has taken `SILENT_SECONDS`.
    """
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
    if not over.wait(SILENT_SECONDS):
        print(f"ckmlir: {text} …", file=stream, flush=True)
