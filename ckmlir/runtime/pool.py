"""Memory that operators borrow for one run on a stream: pinned staging, and workspaces on the device.

A block comes back when the stream has passed its last use, which an event marks; nobody waits for that. Meanwhile the
same stream may have it again, since it keeps its order; other streams get another block. Blocks are allocated and given
back by whoever borrows next, never on the driver's own threads; also those of a pool that was garbage collected before
streams had passed them.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

from msgspec import Struct

from ckmlir.errors import CkmlirError
from ckmlir.runtime.device import Device, Event, HostMemory, Memory, Stream

Block = TypeVar("Block", bound=Memory | HostMemory)

KEPT_BYTES = 256 << 20
"""Blocks that nobody uses are kept up to this many bytes."""


class _Lent(Struct, Generic[Block], eq=False):
    """A block that a stream had; `event` is behind its last use."""

    block: Block
    stream: Stream | None
    event: Event


_left: deque[list[_Lent[Any]]] = deque()
"""What pools had lent that were garbage collected, which may happen on any thread."""


class Pool(Generic[Block]):
    """Blocks of one kind of memory of one device."""

    def __init__(
        self, device: Device, allocate: Callable[[int], Block], free: Callable[[Block], None] | None = None
    ) -> None:
        """Blocks that `allocate` gives and `free` takes back, by default the device."""
        self._device = device
        self._allocate = allocate
        self._free: Callable[[Block], None] = free or device.free
        self._lent: list[_Lent[Block]] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _left.append, self._lent).atexit = False

    @contextmanager
    def borrow(self, size: int, stream: Stream | None) -> Iterator[Block]:
        """A block of at least `size` bytes for what is queued on `stream` inside the `with` block.

        Where an exception leaves it, everything that was queued is waited for first.
        """
        block = self._take(size, stream)
        event = None
        try:
            yield block
            event = self._device.create_event()
            event.record(stream)
        except BaseException:
            with suppress(CkmlirError):
                self._device.synchronize()
            with suppress(CkmlirError):
                self._free(block)
            raise
        with self._lock:
            self._lent.append(_Lent(block, stream, event))

    def _take(self, size: int, stream: Stream | None) -> Block:
        _forget_what_is_passed()
        with self._lock:
            usable = [lent for lent in self._lent if self._is_free(lent, stream)]
            fitting = [lent for lent in usable if size <= lent.block.size <= max(4 * size, 4096)]
            chosen = min(fitting, key=lambda lent: lent.block.size, default=None)
            if chosen is not None:
                self._lent.remove(chosen)
                chosen.event.close()
                return chosen.block
            self._shrink(usable)
        return self._allocate(max(size, 256))

    def _is_free(self, lent: _Lent[Block], stream: Stream | None) -> bool:
        return lent.stream is stream or lent.event.is_reached()

    def _shrink(self, usable: list[_Lent[Block]]) -> None:
        """Give back what nobody uses, beyond what is kept."""
        for lent in usable:
            if sum(one.block.size for one in self._lent) <= KEPT_BYTES:
                return
            if lent.event.is_reached():
                self._lent.remove(lent)
                lent.event.close()
                self._free(lent.block)

    def close(self) -> None:
        """Give everything back, after waiting for it."""
        with self._lock:
            while self._lent:
                lent = self._lent[-1]
                lent.event.synchronize()
                self._free(lent.block)
                lent.event.close()
                self._lent.pop()


def _forget_what_is_passed() -> None:
    """Drop what is left of collected pools where streams have passed it."""
    for _ in range(len(_left)):
        try:
            lent = _left.popleft()
        except IndexError:  # another thread was faster
            return
        under_way = [one for one in lent if not _is_passed(one)]
        if under_way:
            _left.append(under_way)


def _is_passed(lent: _Lent[Any]) -> bool:
    try:
        reached = lent.event.is_reached()
        if reached:
            lent.event.close()
    except CkmlirError:  # the device was closed, after all its work
        return True
    return reached
