"""A computation in a copy of this process, so that a library that gives up takes only the copy with it.

LLVM checks some of its own results and ends the process where they are wrong: seen where matrix instructions leave so
few registers that its allocator splits and spills nearly everything.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from ckmlir.errors import CkmlirError

RETURNED, RAISED = b"r", b"e"

_forking = threading.Lock()
"""So that no copy inherits the pipe of another: its reader would wait for both."""


class ChildEnded(CkmlirError):
    """The copy of the process ended before it had a result; the text says by which signal or with which status.

    `printed` are the lines that it wrote to standard error.
    """

    def __init__(self, text: str, printed: list[str]) -> None:
        super().__init__(text)
        self.printed = printed


class Answer(NamedTuple):
    """What the function returned, and the lines that went to standard error meanwhile."""

    content: bytes
    printed: list[str]


def in_child_process(function: Callable[[], bytes]) -> Answer:
    """What `function` returns when a copy of this process calls it; nothing else that it does reaches this process.

    The copy has the calling thread only, so `function` must not wait for others. Several threads may have a copy each,
    which then run side by side.

    Raises:
        ChildEnded: The copy ended without returning.
        CkmlirError: `function` raised one; it has the same text.
    """
    with tempfile.TemporaryFile() as printed:
        with _forking:
            reader, writer = os.pipe()
            child = _fork()
            if not child:
                _run(function, writer, printed.fileno())
            os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        printed.seek(0)
        lines = printed.read().decode(errors="replace").splitlines()
    if answer[:1] == RETURNED:
        return Answer(answer[1:], lines)
    if answer[:1] == RAISED:
        raise CkmlirError(answer[1:].decode())
    if os.WIFSIGNALED(status):
        raise ChildEnded(f"ended by {signal.Signals(os.WTERMSIG(status)).name}", lines)
    raise ChildEnded(f"ended with status {os.WEXITSTATUS(status)}", lines)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns where other threads live. What they hold is theirs: the copy runs `function` alone.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _run(function: Callable[[], bytes], writer: int, standard_error: int) -> NoReturn:
    """Run and answer; leaves without Python's clean-up, which is the other process's to do.

    Takes no lock that a thread which is not here may hold, such as that of Python's own standard error.
    """
    os.dup2(standard_error, 2)
    faulthandler.disable()  # how it ends is told by the error
    signal.signal(signal.SIGABRT, signal.SIG_DFL)
    try:
        answer = RETURNED + function()
    except CkmlirError as error:
        answer = RAISED + str(error).encode()
    except BaseException:
        os._exit(1)
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(answer)
    os._exit(0)
