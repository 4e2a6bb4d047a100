"""What a device has handed out and not taken back: one register for memory, streams, events and modules.

Whatever is handed out may be closed by the user, be garbage collected, or outlive the device; the order does not
matter, and everything is given back to HIP once. Garbage is collected at any moment and on any thread, also on the
driver's own, where HIP must not be called: so a collected owner only leaves a note, and the next call that may do so
gives the resource back.
"""

from __future__ import annotations

import itertools
import weakref
from collections import Counter, deque
from typing import Any

from ckmlir.runtime.hip.binding import Binding
from ckmlir.runtime.hip.errors import HipError

_UNUSED_FIRST = ("hipEventDestroy", "hipStreamDestroy", "hipModuleUnload", "hipHostFree", "hipFree")
_tickets = itertools.count(1)  # of all devices, so that none takes another's for its own


class Resources:
    """The register of one device.

    Attributes:
        live: ticket -> what gives it back, its handle, and what is kept alive with it.
    """

    def __init__(self, hip: Binding) -> None:
        self._hip = hip
        self.live: dict[int, tuple[str, Any, Any]] = {}
        self._abandoned: deque[int] = deque()

    def add(self, owner: object, destroyer: str, handle: Any, keep: Any = None) -> int:
        """Enter what `destroyer` will give back, together with something to keep alive until then.

        Returns the ticket for `give_back`. When `owner` is garbage collected, it is given back at the next occasion.
        """
        ticket = next(_tickets)
        self.live[ticket] = (destroyer, handle, keep)
        weakref.finalize(owner, self._abandoned.append, ticket).atexit = False
        return ticket

    def give_back(self, ticket: int) -> None:
        """Give back one resource, unless that has happened. Raises HipError, and keeps it, where HIP refuses."""
        entry = self.live.pop(ticket, None)
        if entry is None:
            return
        try:
            self._hip.call(entry[0], entry[1])
        except HipError:
            self.live[ticket] = entry
            raise

    def is_live(self, ticket: int) -> bool:
        """Whether a resource has not been given back."""
        return ticket in self.live

    def collect(self) -> None:
        """Give back what was garbage collected. Modules wait for all work of the device: it may be running them."""
        while self._abandoned:
            ticket = self._abandoned.popleft()
            entry = self.live.get(ticket)
            if entry is None:
                continue
            try:
                if entry[0] == "hipModuleUnload":
                    self._hip.call("hipDeviceSynchronize")
                self.give_back(ticket)
            except HipError:
                self._abandoned.append(ticket)
                raise

    def give_back_all(self) -> None:
        """Give back everything. Raises the first error after all have been tried; what HIP refused is kept."""
        errors = []
        for destroyer in _UNUSED_FIRST:
            for ticket in [ticket for ticket, entry in self.live.items() if entry[0] == destroyer]:
                try:
                    self.give_back(ticket)
                except HipError as error:
                    errors.append(error)
        if errors:
            raise errors[0]

    def counts(self) -> Counter[str]:
        """How many there are, by the function that gives them back."""
        return Counter(destroyer for destroyer, _, _ in self.live.values())
