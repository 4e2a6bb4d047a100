"""A computation in a copy of this process, so that a library that gives up takes only the copy with it.

LLVM checks some of its own results and ends the process where they are wrong: seen where matrix instructions leave so
few registers that its allocator splits and spills nearly everything.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import warnings
from collections.abc import Callable
from typing import NoReturn

from ckmlir.errors import CkmlirError

RETURNED, RAISED = b"r", b"e"


class ChildEnded(CkmlirError):
    """The copy of the process ended before it had a result; the text says by which signal or with which status."""


def in_child_process(function: Callable[[], bytes]) -> bytes:
    """What `function` returns when a copy of this process calls it; nothing else that it does reaches this process.

    The copy has the calling thread only, so `function` must not wait for others.

    Raises:
        ChildEnded: The copy ended without returning.
        CkmlirError: `function` raised one; it has the same text.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns where other threads live. What they hold is theirs: the copy runs `function` alone.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        _run(function, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if answer[:1] == RETURNED:
        return answer[1:]
    if answer[:1] == RAISED:
        raise CkmlirError(answer[1:].decode())
    if os.WIFSIGNALED(status):
        raise ChildEnded(f"ended by {signal.Signals(os.WTERMSIG(status)).name}")
    raise ChildEnded(f"ended with status {os.WEXITSTATUS(status)}")


def _run(function: Callable[[], bytes], writer: int) -> NoReturn:
    """Run and answer; leaves without Python's clean-up, which is the other process's to do."""
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
