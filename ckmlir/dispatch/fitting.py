"""Which of a registry's kernels compute a problem, found as far as they are asked for.

Whether a kernel computes a problem takes some 20 µs to say, and there may be thousands: whoever takes the first that
fits does not wait for the others. What was read of specifications decides (`Remembered`): of those with the same
signature that agree in these fields, one is asked.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, SupportsIndex, overload

from msgspec import Struct

from ckmlir.dispatch.identity import Kernel
from ckmlir.ops.operator import Operator
from ckmlir.ops.remembered import Remembered
from ckmlir.ops.spec import Spec
from ckmlir.targets import Target

REMEMBERED_FROM = 3
"""Kernel of a signature: one of the first often fits, and to find out what is read takes as long again."""


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
        self._judged: dict[int, Remembered[Spec, tuple[bool, bool]]] = {}
        """What `_judged` says of the kernels of a group."""
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
        kernel = entry.kernel
        asked = self._asked[group] = self._asked.get(group, 0) + 1
        if asked == REMEMBERED_FROM:
            judge = partial(_judged, kernel.operator, self._problem, kernel.target)
            self._judged[group] = Remembered(judge, same=kernel.operator.spec_type.decisive())
        known = self._judged.get(group)
        if known is None:
            fits, out = _judged(kernel.operator, self._problem, kernel.target, kernel.spec)
        else:
            fits, out = known(kernel.spec)
        if out:
            self._out.add(group)
        return fits


def _judged(operator: Operator[Any, Any], problem: Any, target: Target, spec: Spec) -> tuple[bool, bool]:
    """Whether a kernel computes a problem, and whether it is known that none of its signature does
    (`Spec.decisive`).
    """
    reasons = operator.mismatches(problem, spec, target)
    decisive = operator.spec_type.decisive() if reasons else frozenset()
    return not reasons, any(reason.field in decisive for reason in reasons)
