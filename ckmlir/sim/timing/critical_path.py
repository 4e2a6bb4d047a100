"""Why a run ends when it does: from its last cycle back through what each step waited for.

At every step the walk asks what the instruction needed last before it could be issued: a result, a counter, a unit,
the other waves at a barrier, or merely its turn. The answer is an earlier instruction, and the walk goes on there. So
the path is a chain of stretches without gap or overlap from cycle 0 to the end, and its length is that of the run;
shortening what is not on it does not shorten the run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from ckmlir.sim.analysis.effects import effects_of
from ckmlir.sim.timing.activity import in_wave_order, stalls_in_wave_order
from ckmlir.sim.timing.events import UNIT_BUSY, Reason, Timeline, Unit
from ckmlir.sim.timing.labels import Label, labels_of


class Part(Enum):
    """What a stretch of the path is, besides the reasons for which instructions are not issued."""

    START = "the wave's start"
    ISSUE = "issue"
    RESULT = "until the result is there"
    END = "until the run has ended"


class Segment(Struct, frozen=True):
    """A stretch [begin, end) of cycles that belongs to one event: it was executing, or it was kept waiting.

    Attributes:
        event: Index in `timeline.events`.
        cause: Part or Reason.
    """

    event: int
    begin: int
    end: int
    cause: Part | Reason

    @property
    def cycles(self) -> int:
        return self.end - self.begin


class Share(NamedTuple):
    """Cycles of the path that a place in the program is responsible for, `times` stretches in sum."""

    place: str
    text: str
    cause: str
    cycles: int
    times: int


class CriticalPath(Struct, frozen=True, dict=True):
    """The chain of stretches, in order of time; together they are all cycles of the run."""

    segments: tuple[Segment, ...]
    timeline: Timeline

    @property
    def cycles(self) -> int:
        return sum(segment.cycles for segment in self.segments)

    @cached_property
    def _labels(self) -> list[Label]:
        return labels_of(self.timeline.trace)

    def _label(self, segment: Segment) -> Label:
        return self._labels[int(self.timeline.events["instruction"][segment.event])]

    def by_line(self) -> list[Share]:
        """Cycles by source line, most first, each with the mnemonic and the cause that have the largest part of it."""
        return self._shares(lambda label: (label.place,))

    def by_instruction(self) -> list[Share]:
        """Cycles by instruction and cause, most first."""
        return self._shares(lambda label: (label.place, f"{label.address:x} {label.mnemonic} {label.operands}"), True)

    def _shares(self, key: Callable[[Label], tuple[str, ...]], each_cause: bool = False) -> list[Share]:
        found: dict[tuple[str, ...], dict[tuple[str, str], list[int]]] = {}
        for segment in self.segments:
            label, cause = self._label(segment), name_of(segment.cause)
            parts = found.setdefault((*key(label), cause) if each_cause else key(label), {})
            sums = parts.setdefault((f"{label.mnemonic} {label.operands}".strip(), cause), [0, 0])
            sums[0] += segment.cycles
            sums[1] += 1
        shares = []
        for (place, *_), parts in found.items():
            text, cause = max(parts, key=lambda part: parts[part][0])
            cycles, times = (sum(sums[i] for sums in parts.values()) for i in (0, 1))
            shares.append(Share(place, text, cause, cycles, times))
        return sorted(shares, key=lambda share: -share.cycles)


def name_of(cause: Part | Reason) -> str:
    """A cause as people read it: "wait vmem", "until the result is there"."""
    return cause.value if isinstance(cause, Part) else cause.name.lower().replace("_", " ")


def critical_path(timeline: Timeline) -> CriticalPath:
    """The critical path of a run; empty when nothing was issued."""
    if not len(timeline.events):
        return CriticalPath((), timeline)
    return CriticalPath(tuple(_Walk(timeline).segments())[::-1], timeline)


class _Cause(NamedTuple):
    """What let an event go on at a cycle.

    Attributes:
        event: The event on which the walk goes on.
        ready: The cycle from which nothing but `reason` was in the way.
        reached: The cycle at which the walk goes on; between it and `ready` the event was executing.
        reason: What is told of the cycles from `ready` on.
    """

    event: int
    reached: int
    ready: int
    reason: Part | Reason


_WAITS: Final = {Reason.WAIT_VMEM: Unit.VMEM, Reason.WAIT_LDS: Unit.LDS, Reason.WAIT_SMEM: Unit.SMEM}
_DEPENDENCIES: Final = (Reason.DEPENDENCY_VALU, Reason.DEPENDENCY_MFMA, Reason.DEPENDENCY_TRANS)
_VECTOR: Final = (Unit.MFMA, Unit.VALU, Unit.TRANS)
_SCALAR: Final = (Unit.SALU, Unit.SMEM)
"""Units of which only one takes an instruction in a SIMD's turn: ROCm Compute Profiler documentation, 'Scheduler'."""


class _Walk:
    """The walk backwards, from one (event, cycle) to another; all that it looks up is prepared once.

    An event may be waiting at the cycle: then the question is what let it get as far as that.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline, self.events = timeline, timeline.events
        self.order, self.offsets = in_wave_order(timeline)
        self.place = np.argsort(self.order)
        waves = range(len(self.offsets) - 1)
        own = [self.events["done"][self.order[self.offsets[wave] : self.offsets[wave + 1]]] for wave in waves]
        self.reach = np.concatenate([np.maximum.accumulate(done) for done in own])
        stall_order, self.stall_offsets = stalls_in_wave_order(timeline)
        self.stalls = timeline.stalls[stall_order]
        self.effects = [effects_of(entry.instruction) for entry in timeline.trace.program]
        self.simds = timeline.wave_simd[self.events["wave"]]
        self.barriers = self._barriers()

    def _barriers(self) -> dict[int, list[int]]:
        """For each s_barrier that was executed all that belong to it, one of each wave of the workgroup."""
        names = np.array([entry.mnemonic == "s_barrier" for entry in self.timeline.trace.program], np.bool_)
        together: dict[tuple[int, int], list[int]] = {}
        for wave in range(len(self.offsets) - 1):
            events = self.order[self.offsets[wave] : self.offsets[wave + 1]]
            group = int(self.timeline.trace.groups[wave])
            for ordinal, event in enumerate(events[names[self.events["instruction"][events]]].tolist()):
                together.setdefault((group, ordinal), []).append(event)
        return {event: events for events in together.values() for event in events}

    def segments(self) -> Iterator[Segment]:
        """The stretches, last first."""
        done = self.events["done"]
        event = int(np.argmax(done))
        end = min(int(done[event]), self.timeline.cycles)
        if end < self.timeline.cycles:
            yield Segment(event, end, self.timeline.cycles, Part.END)
        at = self._issue(event)
        if at < end:
            yield Segment(event, at, end, Part.RESULT)
        while (cause := self._cause(event, at)) is not None:
            if cause.ready < at:
                # Where an event merely follows, the cycles are those of the one before.
                yield Segment(cause.event if cause.reason is Part.ISSUE else event, cause.ready, at, cause.reason)
            if cause.reached < cause.ready:
                yield Segment(cause.event, cause.reached, cause.ready, Part.RESULT)
            event, at = cause.event, cause.reached
        if at > 0:
            yield Segment(event, 0, at, Part.START)

    def _issue(self, event: int) -> int:
        return int(self.events["issue"][event])

    def _next_at(self, event: int) -> int:
        """From when on an event was the next of its wave."""
        return self._issue(event) - int(self.events["stall"][event])

    def _cause(self, event: int, at: int) -> _Cause | None:
        """What let an event go on at a cycle, always something earlier; None at the beginning."""
        reason = self._reason_before(event, at)
        found: _Cause | None = None
        if reason in _DEPENDENCIES:
            found = self._producer(event, at, reason)
        elif reason in _WAITS or reason is Reason.QUEUE_FULL:
            found = self._latest_result(event, at, reason)
        elif reason is Reason.BARRIER:
            found = self._last_arrival(event, at)
        elif reason is Reason.ARBITRATION or reason >= UNIT_BUSY:
            found = self._occupant(event, at, reason)
        if found is not None and found.reached < at:
            return found
        return self._predecessor(event, at, reason)

    def _reason_before(self, event: int, at: int) -> Reason:
        """The reason of the stretch of waiting for `event` that ended at a cycle."""
        wave = self.events["wave"][event]
        own = self.stalls[self.stall_offsets[wave] : self.stall_offsets[wave + 1]]
        last = int(np.searchsorted(own["first"], at, "left")) - 1
        if last >= 0 and own["first"][last] >= self._next_at(event):
            return Reason(int(own["reason"][last]))
        return Reason.NOT_STALLED

    def _predecessor(self, event: int, at: int, reason: Reason) -> _Cause | None:
        """The instruction before it in its wave; for a wave's first the last one of a wave that made room."""
        told = Part.ISSUE if reason is Reason.NOT_STALLED else reason
        place, wave = int(self.place[event]), int(self.events["wave"][event])
        if place > self.offsets[wave]:
            before = int(self.order[place - 1])
            return _Cause(before, self._issue(before), self._issue(before), told)
        starts, ends = self.timeline.wave_start, self.timeline.wave_end
        earlier = np.flatnonzero((ends <= starts[wave]) & (np.diff(self.offsets) > 0))
        if not len(earlier):
            return None
        room = int(earlier[np.argmax(ends[earlier])])
        last = int(self.order[self.offsets[room + 1] - 1])
        issue = self._issue(last)
        return _Cause(last, issue, issue, Reason.NO_WAVE) if issue < at else None

    def _earlier(self, event: int) -> Iterator[int]:
        """Events of the same wave, latest first, until none can have been unfinished when `event` was next."""
        place, wave = int(self.place[event]), int(self.events["wave"][event])
        since = self._next_at(event)
        while place > self.offsets[wave] and self.reach[place - 1] >= since:
            place -= 1
            yield int(self.order[place])

    def _after_result(self, event: int, at: int, reason: Reason) -> _Cause:
        issue = self._issue(event)
        return _Cause(event, issue, min(max(int(self.events["done"][event]), issue), at), reason)

    def _producer(self, event: int, at: int, reason: Reason) -> _Cause | None:
        """The instruction whose result, or whose use of the registers, `event` waited for."""
        own = self.effects[int(self.events["instruction"][event])]
        needed, best = own.reads | own.writes, -1
        for earlier in self._earlier(event):
            written = self.effects[int(self.events["instruction"][earlier])].writes
            if written & needed:
                best = earlier if best < 0 or self.events["done"][earlier] > self.events["done"][best] else best
                needed &= ~written
        return None if best < 0 else self._after_result(best, at, reason)

    def _latest_result(self, event: int, at: int, reason: Reason) -> _Cause | None:
        """The access that came back last before a cycle."""
        unit, best = _WAITS.get(reason, Unit(int(self.events["unit"][event]))), -1
        for earlier in self._earlier(event):
            row: Any = self.events[earlier]
            if row["unit"] == unit and row["done"] <= at and (best < 0 or row["done"] > self.events["done"][best]):
                best = earlier
        return None if best < 0 else self._after_result(best, at, reason)

    def _occupant(self, event: int, at: int, reason: Reason) -> _Cause | None:
        """The instruction that had the unit, or this wave's turn, before."""
        units: tuple[Unit, ...]
        own = Unit(int(self.events["unit"][event]))
        if reason is Reason.ARBITRATION:
            units = next((together for together in (_VECTOR, _SCALAR) if own in together), (own,))
        else:
            busy = Unit(reason - UNIT_BUSY)
            units = _VECTOR if busy in (Unit.VALU, Unit.TRANS) else (busy,)
        shared = reason is not Reason.ARBITRATION and units[0] not in _VECTOR
        for index in range(int(np.searchsorted(self.events["issue"], at, "left")) - 1, -1, -1):
            if self.events["unit"][index] in units and (shared or self.simds[index] == self.simds[event]):
                return _Cause(index, self._issue(index), self._issue(index), reason)
        return None

    def _last_arrival(self, event: int, at: int) -> _Cause | None:
        """The wave that came last to a barrier: the walk goes on at its arrival."""
        arrivals = {one: self._arrival(one) for one in self.barriers.get(event, ())}
        last = max(arrivals, key=lambda one: arrivals[one], default=event)
        arrival = arrivals.get(last, at)
        return _Cause(last, arrival, arrival, Reason.BARRIER) if arrival < at else None

    def _arrival(self, event: int) -> int:
        """The cycle at which a wave stood at a barrier."""
        wave = self.events["wave"][event]
        own = self.stalls[self.stall_offsets[wave] : self.stall_offsets[wave + 1]]
        low, high = np.searchsorted(own["first"], [self._next_at(event), self._issue(event)])
        waits = own["first"][low:high][own["reason"][low:high] == Reason.BARRIER]
        return int(waits[0]) if len(waits) else self._issue(event)
