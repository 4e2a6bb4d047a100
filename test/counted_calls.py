"""How many functions are called: what takes microseconds is held by this count, which is the same on every machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType


def counted_calls(call: Callable[[], object]) -> int:
    """Functions of Python and built-in ones that this thread calls until `call` returns; nothing is collected, which
    would call others' finalisers."""
    count = 0

    def see(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return count
