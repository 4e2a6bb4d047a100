"""What is in flight at a point of a program: for each counter, the accesses that may not have completed.

The state of a path is exact: an access has an age, the number of younger events of its counter, and after
s_waitcnt vmcnt(n) an access of age n or more is complete. Where paths meet, an access that is in flight on either is,
at its lower age; so what the state calls complete is complete on every path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ckmlir.sim.analysis.effects import OUT_OF_ORDER, Counter, Kind
from ckmlir.sim.decode.operands import WAIT_COUNTS

COUNTER_MAXIMUM: Final = {counter: WAIT_COUNTS[counter.value] for counter in Counter}


class Access(NamedTuple):
    """An access in flight: the site of its instruction, and that of the last barrier it was in flight at, or -1."""

    site: int
    barrier: int = -1


class Queue:
    """The accesses of one counter that may be in flight, with their ages."""

    __slots__ = ("counter", "issued", "number")

    def __init__(self, counter: Counter, ages: dict[Access, int] | None = None) -> None:
        self.counter = counter
        self.issued = 0
        self.number = {access: -age for access, age in (ages or {}).items()}

    def issue(self, site: int) -> None:
        """Another event. An older one of the same instruction is complete whenever this is, so it is forgotten,
        unless other waves have passed a barrier since."""
        self.issued += 1
        self.number[Access(site)] = self.issued

    def age(self, access: Access) -> int:
        """Younger events of the counter, at most as many as the counter can tell apart."""
        return min(self.issued - self.number[access], COUNTER_MAXIMUM[self.counter] - 1)

    def ages(self) -> dict[Access, int]:
        """All accesses in flight with their ages."""
        return {access: self.age(access) for access in self.number}

    def in_order(self, kind_of: Callable[[int], Kind]) -> bool:
        """Whether the accesses in flight complete in the order of issue: all are of one kind that does."""
        kinds = {kind_of(access.site) for access in self.number}
        return len(kinds) < 2 and not kinds & OUT_OF_ORDER

    def wait(self, count: int, kind_of: Callable[[int], Kind]) -> list[Access]:
        """Wait until at most `count` events are outstanding; returns the accesses that are complete by that."""
        if count >= COUNTER_MAXIMUM[self.counter] or not self.number:
            return []
        if count == 0:
            complete = list(self.number)
        elif self.in_order(kind_of):
            complete = [access for access in self.number if self.age(access) >= count]
        else:
            return []
        return self._complete(complete)

    def overflow(self, kind_of: Callable[[int], Kind]) -> list[Access]:
        """Accesses that are complete because the counter cannot count more: the next of them would have had to wait.

        LLVM's SIInsertWaitcnts relies on that too: it puts no wait before a use that has 63 younger loads.
        """
        uncounted = self.issued - COUNTER_MAXIMUM[self.counter]
        complete = [access for access, number in self.number.items() if number <= uncounted]
        return self._complete(complete) if complete and self.in_order(kind_of) else []

    def _complete(self, accesses: list[Access]) -> list[Access]:
        for access in accesses:
            del self.number[access]
        return accesses

    def cross(self, barrier: int, relevant: Callable[[int], bool]) -> None:
        """A barrier: the relevant accesses in flight are so while other waves go on."""
        for access in [item for item in self.number if item.barrier != barrier and relevant(item.site)]:
            late = Access(access.site, barrier)
            number = self.number.pop(access)
            self.number[late] = max(number, self.number.get(late, number))


class Pending:
    """The state between two instructions.

    Attributes:
        queues: By counter.
        late: Accesses to LDS that completed after a barrier which they should have preceded; other waves may not
            know that they are complete until the next barrier.
    """

    __slots__ = ("late", "queues")

    def __init__(self, ages: dict[Counter, dict[Access, int]] | None = None, late: Iterable[Access] = ()) -> None:
        self.queues = {counter: Queue(counter, (ages or {}).get(counter)) for counter in Counter}
        self.late = set(late)

    def snapshot(self) -> Snapshot:
        """The state as plain values, which compare."""
        return Snapshot({counter: queue.ages() for counter, queue in self.queues.items()}, frozenset(self.late))


class Snapshot(NamedTuple):
    """A state at the end or the beginning of a block."""

    ages: dict[Counter, dict[Access, int]]
    late: frozenset[Access]

    def restore(self) -> Pending:
        """A state to go on from."""
        return Pending(self.ages, self.late)

    def join(self, other: Snapshot) -> Snapshot:
        """The state where two paths meet."""
        ages: dict[Counter, dict[Access, int]] = {}
        for counter, mine in self.ages.items():
            merged = ages[counter] = dict(mine)
            for access, age in other.ages[counter].items():
                merged[access] = min(age, merged.get(access, age))
        return Snapshot(ages, self.late | other.late)


NOTHING: Final = Pending().snapshot()
