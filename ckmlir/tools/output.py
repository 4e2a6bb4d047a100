"""How the commands end: at once, and when standard output does, by a reader that has gone or a full disk."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

BAD_REQUEST = 2
READER_GONE = 128 + signal.SIGPIPE
"""What a shell reports of a program that SIGPIPE ended, as it does `yes | head -1`."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class PrintingParser(argparse.ArgumentParser):
    """argparse, whose help ends as other output does where it cannot be written; it would end with 0."""

    def _print_message(self, message: str, file: Any = None) -> None:
        def work() -> int:
            print(message, end="", file=file or sys.stderr)
            return 0

        if status := with_standard_output(self.prog, work):
            sys.exit(status)


def with_standard_output(tool: str, work: Callable[[], int]) -> int:
    """The exit status of `work`, which prints; everything printed has left the process when this returns.

    A reader that has gone ends the tool as SIGPIPE would. Output that finds no room is one message and status 2. Where
    whoever started the tool has closed standard output or standard error, what goes there goes nowhere. Characters that
    the output's encoding lacks become question marks.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 -- for the rest of the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        status = work()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _discard_output()
        return READER_GONE
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _discard_output()
        print(f"{tool}: error: cannot write the output: {error.strerror}", file=sys.stderr)
        return BAD_REQUEST


def leave(status: int) -> NoReturn:
    """End the process of a command, behind `with_standard_output`.

    Python would take apart everything that it and the MLIR bindings have made: a tenth of what a command takes, and
    more. What was registered for the end (`atexit`) is called. `python -m ckmlir` ends as Python does, for profilers.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(status)


def _discard_output() -> None:
    """Send what is still buffered nowhere; the interpreter flushes it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
