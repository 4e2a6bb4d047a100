"""Which of a registry's kernels compute a problem, found as far as they are asked for.

Whether a kernel computes a problem takes some 20 µs to say, and there may be thousands: whoever takes the first that
fits does not wait for the others. Where one does not fit, what was read of its specification decides (`watched`): of
those with the same signature that agree in these fields, none is asked again.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, SupportsIndex, overload

from msgspec import Struct

from ckmlir.dispatch.identity import Kernel
from ckmlir.dispatch.watching import watched

ASKED_PLAINLY = 2
"""Kernels of a signature: one of the first often fits, and being watched takes as long again."""


class Entry(Struct, frozen=True):
    """A kernel in a registry; `order` counts additions."""

    kernel: Kernel
    priority: int
    order: int
    signature: tuple[object, ...]

    @property
    def rank(self) -> tuple[int, int]:
        """The smaller, the earlier."""
        return -self.priority, self.order


class Candidates:
    """All kernels of an operator for a chip, in order."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = sorted(entries, key=lambda one: one.rank)
        groups: dict[tuple[object, ...], list[Entry]] = {}
        for entry in self.entries:
            groups.setdefault(entry.signature, []).append(entry)
        self.groups = tuple(groups.values())
        """Those of one signature together, each group in order, by their first ones."""
        self.group_of = {entry.order: number for number, group in enumerate(self.groups) for entry in group}
        self.kernels = {entry.kernel: entry for entry in self.entries}
        self._sorted: dict[Hashable, dict[Any, list[Entry]]] = {}
        self._values: dict[tuple[str, ...], dict[int, tuple[object, ...]]] = {}

    def values(self, entry: Entry, fields: tuple[str, ...]) -> tuple[object, ...]:
        """What fields of a kernel's specification hold, put together once."""
        known = self._values.setdefault(fields, {})
        found = known.get(entry.order)
        if found is None:
            found = known[entry.order] = tuple([getattr(entry.kernel.spec, name) for name in fields])
        return found

    def sorted_by(self, name: Hashable, value: Callable[[Kernel], Any]) -> dict[Any, list[Entry]]:
        """The kernels, in order, by a value that they have; None: left out. It is asked for once under a name."""
        found = self._sorted.get(name)
        if found is None:
            found = {}
            for entry in self.entries:
                own = value(entry.kernel)
                if own is not None:
                    found.setdefault(own, []).append(entry)
            self._sorted[name] = found
        return found


class Fitting(Sequence[Kernel]):
    """The kernels that compute a problem, in order. Of each it is asked once whether it does, when that is needed. Any
    number of threads may use one."""

    def __init__(self, candidates: Candidates, problem: Any) -> None:
        self._candidates, self._problem = candidates, problem
        self._fits: dict[int, bool] = {}
        self._out: set[int] = set()
        self._asked: dict[int, int] = {}
        self._answers: dict[int, dict[tuple[str, ...], dict[tuple[object, ...], bool]]] = {}
        """By group, by the fields that were read, by what they held."""
        self._found: list[Kernel] = []
        self._rest = self._in_order()
        self._lock = threading.Lock()

    def best(
        self, name: Hashable, value: Callable[[Kernel], Any], preference: Callable[[Any], Any]
    ) -> Iterator[Kernel]:
        """Those that fit by a value that they have, the one preferred least first, equal ones in order.

        Args:
            name: what the value is called: of equal names it is the same.
            value: of a kernel; None: it is left out.
            preference: of a value, to sort by.
        """
        values = self._candidates.sorted_by(name, value)
        for one in sorted(values, key=preference):
            yield from (entry.kernel for entry in values[one] if self._does_fit(entry))

    def named(self, identifiers: Sequence[str]) -> Iterator[Kernel]:
        """Those with these identifiers, in their order."""
        names = self._candidates.sorted_by("identifier", lambda kernel: kernel.identifier)
        for one in identifiers:
            yield from (entry.kernel for entry in names.get(one, ()) if self._does_fit(entry))

    def __iter__(self) -> Iterator[Kernel]:
        for place in itertools.count():
            if place == len(self._found) and not self._find():
                return
            yield self._found[place]

    def __bool__(self) -> bool:
        return bool(self._found) or self._find()

    def __len__(self) -> int:
        while self._find():
            pass
        return len(self._found)

    @overload
    def __getitem__(self, place: SupportsIndex) -> Kernel: ...
    @overload
    def __getitem__(self, place: slice) -> list[Kernel]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Kernel | list[Kernel]:
        len(self)
        return self._found[place]

    def __contains__(self, kernel: object) -> bool:
        entry = self._candidates.kernels.get(kernel) if isinstance(kernel, Kernel) else None
        return entry is not None and self._does_fit(entry)

    def _find(self) -> bool:
        """Find the next; whether there is one."""
        with self._lock:
            found = next(self._rest, None)
            if found is not None:
                self._found.append(found)
        return found is not None

    def _in_order(self) -> Iterator[Kernel]:
        """Those that fit; a group of which none does is left at its first one."""
        groups = self._candidates.groups
        heads = [(group[0].rank, number, 0) for number, group in enumerate(groups)]  # sorted, and so a heap
        while heads:
            _, number, place = heads[0]
            group = groups[number]
            if self._does_fit(group[place]):
                yield group[place].kernel
            if place + 1 < len(group) and number not in self._out:
                heapq.heapreplace(heads, (group[place + 1].rank, number, place + 1))
            else:
                heapq.heappop(heads)

    def _does_fit(self, entry: Entry) -> bool:
        known = self._fits.get(entry.order)
        if known is None:
            known = self._fits[entry.order] = self._answer(entry, self._candidates.group_of[entry.order])
        return known

    def _answer(self, entry: Entry, group: int) -> bool:
        if group in self._out:
            return False
        asked = self._asked[group] = self._asked.get(group, 0) + 1
        if asked <= ASKED_PLAINLY:
            reasons = entry.kernel.against(self._problem)
        else:
            answers = self._answers.setdefault(group, {})
            for fields, known in list(answers.items()):
                found = known.get(self._candidates.values(entry, fields))
                if found is not None:
                    return found
            spec, read = watched(entry.kernel.spec)
            reasons = entry.kernel.operator.mismatches(self._problem, spec, entry.kernel.target)
            fields = tuple(sorted(read))
            answers.setdefault(fields, {})[self._candidates.values(entry, fields)] = not reasons
        decisive = entry.kernel.operator.spec_type.decisive() if reasons else frozenset()
        if any(reason.field in decisive for reason in reasons):
            self._out.add(group)  # none of this signature does: `Spec.decisive`
        return not reasons
