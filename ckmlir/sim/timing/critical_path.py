"""Why a run ends when it does: from its last cycle back through what each step waited for.

At every step the walk asks what the instruction needed last before it could be issued: a result, a counter, a unit,
the other waves at a barrier, or merely its turn. The answer is an earlier instruction, and the walk goes on there. So
the path is a chain of stretches without gap or overlap from cycle 0 to the end, and its length is that of the run;
shortening what is not on it does not shorten the run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ckmlir.sim.analysis.effects import effects_of
from ckmlir.sim.timing.events import UNIT_BUSY, Reason, Timeline, Unit
from ckmlir.sim.timing.labels import Label, in_wave_order, labels_of, stalls_in_wave_order


class Part(Enum):
    """What a stretch of the path is, besides the reasons for which instructions are not issued."""

    START = "the wave's start"
    ISSUE = "issue"
    RESULT = "until the result is there"
    END = "until the run has ended"


@dataclass(frozen=True, slots=True)
class Segment:
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


@dataclass(frozen=True)
class CriticalPath:
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
    """What an event waited for last: the event that let it go, whether by its result, and the reason that is told."""

    event: int
    by_result: bool
    reason: Part | Reason


_WAITS: Final = {Reason.WAIT_VMEM: Unit.VMEM, Reason.WAIT_LDS: Unit.LDS, Reason.WAIT_SMEM: Unit.SMEM}
_DEPENDENCIES: Final = (Reason.DEPENDENCY_VALU, Reason.DEPENDENCY_MFMA, Reason.DEPENDENCY_TRANS)
_PER_SIMD: Final = (Unit.MFMA, Unit.VALU, Unit.TRANS)


class _Walk:
    """The walk backwards; all that it looks up is prepared once."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline, self.events = timeline, timeline.events
        self.order, self.offsets = in_wave_order(timeline)
        self.place = np.argsort(self.order)
        self.reach = np.concatenate([
            np.maximum.accumulate(self.events["done"][self._of_wave(wave)]) for wave in range(len(self.offsets) - 1)
        ])  # fmt: skip
        stall_order, self.stall_offsets = stalls_in_wave_order(timeline)
        self.stalls = timeline.stalls[stall_order]
        self.effects = [effects_of(entry.instruction) for entry in timeline.trace.program]
        self.mnemonics = [entry.instruction.mnemonic for entry in timeline.trace.program]
        self.simds = timeline.wave_simd[self.events["wave"]]

    def _of_wave(self, wave: int) -> npt.NDArray[np.intp]:
        return self.order[self.offsets[wave] : self.offsets[wave + 1]]

    def segments(self) -> Iterator[Segment]:
        """The stretches, last first."""
        done = self.events["done"]
        event = int(np.argmax(done))
        end = self.timeline.cycles
        if done[event] < end:
            yield Segment(event, int(done[event]), end, Part.END)
        end = min(int(done[event]), end)
        if self._issue(event) < end:
            yield Segment(event, self._issue(event), end, Part.RESULT)
        while True:
            at, cause = self._issue(event), self._cause(event)
            if cause is None:
                if at > 0:
                    yield Segment(event, 0, at, Part.START)
                return
            begin = self._issue(cause.event)
            ready = min(max(int(done[cause.event]), begin), at) if cause.by_result else begin
            if ready < at:
                # What keeps the event waiting; where it merely follows, the cycles are those of the one before.
                owner = cause.event if cause.reason is Part.ISSUE else event
                yield Segment(owner, ready, at, cause.reason)
            if begin < ready:
                yield Segment(cause.event, begin, ready, Part.RESULT)
            event = cause.event

    def _issue(self, event: int) -> int:
        return int(self.events["issue"][event])

    def _cause(self, event: int) -> _Cause | None:
        """What let an event be issued; None at the beginning. Always an event that was issued before."""
        reason = self._last_reason(event)
        found: _Cause | None = None
        if reason in _DEPENDENCIES:
            found = self._producer(event, reason)
        elif reason in _WAITS:
            found = self._latest_result(event, _WAITS[reason], reason)
        elif reason is Reason.BARRIER:
            found = self._last_arrival(event)
        elif reason in (Reason.ARBITRATION, Reason.QUEUE_FULL) or reason >= UNIT_BUSY:
            found = self._occupant(event, reason)
        if found is not None and self._issue(found.event) < self._issue(event):
            return found
        return self._predecessor(event, reason)

    def _last_reason(self, event: int) -> Reason:
        """The reason of the stretch in which the wait for `event` ended."""
        row = self.events[event]
        if not row["stall"]:
            return Reason.NOT_STALLED
        low, high = self.stall_offsets[row["wave"]], self.stall_offsets[row["wave"] + 1]
        own = self.stalls[low:high]
        last = int(np.searchsorted(own["first"], row["issue"], "left")) - 1
        if last >= 0 and own["first"][last] >= row["issue"] - row["stall"]:
            return Reason(int(own["reason"][last]))
        return Reason(int(row["reason"]))

    def _predecessor(self, event: int, reason: Reason) -> _Cause | None:
        """The instruction before it in its wave; for a wave's first the last one of a wave that made room."""
        told = Part.ISSUE if reason is Reason.NOT_STALLED else reason
        place, wave = int(self.place[event]), int(self.events["wave"][event])
        if place > self.offsets[wave]:
            return _Cause(int(self.order[place - 1]), False, told)
        starts, ends = self.timeline.wave_start, self.timeline.wave_end
        before = np.flatnonzero((ends <= starts[wave]) & (np.diff(self.offsets) > 0))
        if not starts[wave] or not len(before):
            return None
        room = int(before[np.argmax(ends[before])])
        last = int(self.order[self.offsets[room + 1] - 1])
        return _Cause(last, False, Reason.NO_WAVE) if self._issue(last) < self._issue(event) else None

    def _earlier(self, event: int) -> Iterator[int]:
        """Events of the same wave, latest first, until none can have been unfinished when `event` was next."""
        place, wave = int(self.place[event]), int(self.events["wave"][event])
        since = self._issue(event) - int(self.events["stall"][event])
        while place > self.offsets[wave] and self.reach[place - 1] >= since:
            place -= 1
            yield int(self.order[place])

    def _producer(self, event: int, reason: Reason) -> _Cause | None:
        """The instruction whose result, or whose use of the registers, `event` waited for."""
        own = self.effects[int(self.events["instruction"][event])]
        needed, best = own.reads | own.writes, -1
        for earlier in self._earlier(event):
            written = self.effects[int(self.events["instruction"][earlier])].writes
            if written & needed:
                best = earlier if best < 0 or self.events["done"][earlier] > self.events["done"][best] else best
                needed &= ~written
        return None if best < 0 else _Cause(best, True, reason)

    def _latest_result(self, event: int, unit: Unit, reason: Reason) -> _Cause | None:
        """The access that came back last before `event` was issued."""
        limit, best = self._issue(event), -1
        for earlier in self._earlier(event):
            row: Any = self.events[earlier]
            if row["unit"] == unit and row["done"] <= limit and (best < 0 or row["done"] > self.events["done"][best]):
                best = earlier
        return None if best < 0 else _Cause(best, True, reason)

    def _occupant(self, event: int, reason: Reason) -> _Cause | None:
        """The instruction that had the unit before."""
        unit = Unit(reason - UNIT_BUSY) if reason >= UNIT_BUSY else Unit(int(self.events["unit"][event]))
        index = event - 1
        while index >= 0:
            same_place = unit not in _PER_SIMD or self.simds[index] == self.simds[event]
            if self.events["unit"][index] == unit and same_place and self._issue(index) < self._issue(event):
                return _Cause(index, False, reason)
            index -= 1
        return None

    def _last_arrival(self, event: int) -> _Cause | None:
        """The barrier of the wave of the same workgroup that came last."""
        groups = self.timeline.trace.groups
        group, index = groups[self.events["wave"][event]], event - 1
        while index >= 0:
            row: Any = self.events[index]
            if groups[row["wave"]] == group and self.mnemonics[int(row["instruction"])] == "s_barrier":
                return _Cause(index, False, Reason.BARRIER)
            index -= 1
        return None
