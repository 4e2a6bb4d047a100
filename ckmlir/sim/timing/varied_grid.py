"""A launch whose workgroups are not alike: some lengths are simulated, and all are dealt out in launch order.

What lies between the simulated lengths is interpolated: a loop's time grows with its iterations, and these with the
instructions that are executed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ckmlir.sim.timing.dealing import deal
from ckmlir.sim.timing.events import Timeline
from ckmlir.sim.timing.grid import GridEstimate, Spread, WorkgroupEstimate, estimate_workgroup, within_peaks
from ckmlir.sim.timing.lengths import ALIKE, Lengths
from ckmlir.sim.timing.memory_shares import device_dies, device_units
from ckmlir.sim.timing.parameters import Parameters
from ckmlir.sim.timing.roofline import MatrixWork, roofline

MOST_AT_ONCE: Final = 1 << 22
"""Workgroups dealt out one by one; longer launches are taken to go on as they began."""


class Sample(Struct, frozen=True):
    """Workgroups of about one length, the most typical first. length: of that one, in instructions."""

    length: float
    workgroups: tuple[int, ...]


class Samples(Struct, frozen=True):
    """What is simulated of a launch: samples by ascending length, and which of them most of the time goes to."""

    samples: tuple[Sample, ...]
    typical: int

    @property
    def base(self) -> int:
        """The workgroup that is compared with its neighbours: a typical one, or one of the longest where the shortest
        are, which may have nothing to do and then read nothing that others share.
        """
        return self.samples[self.typical or -1].workgroups[0]

    @property
    def workgroups(self) -> tuple[int, ...]:
        """All of them."""
        return tuple(dict.fromkeys(number for one in self.samples for number in one.workgroups))


def choose_samples(lengths: Lengths, together: int) -> Samples:
    """The shortest, the longest, the length that most of the time goes to, and one between; of each `together`
    workgroups of about that length, as far as there are."""
    every = lengths.all()
    low, high, weighted = float(every.min()), float(every.max()), _middle(every)
    samples: list[Sample] = []
    typical = 0
    for target in (low, (low + weighted) / 2, weighted, high):
        distance = np.abs(every - target)
        nearest = np.argsort(distance, kind="stable")[:together]
        length = float(every[nearest[0]])
        if not samples or length > samples[-1].length * (1 + ALIKE):
            samples.append(Sample(length, tuple(nearest.tolist())))
        if target == weighted:
            typical = len(samples) - 1
    return Samples(tuple(samples), typical)


def _middle(every: npt.NDArray[np.float64]) -> float:
    """The length below which half of all instructions are executed. A mean could be one that no workgroup has: beside
    many full workgroups and some that have nothing to do, that of one that is cut off.
    """
    ascending = np.sort(every)
    run = np.cumsum(ascending)
    return float(ascending[np.searchsorted(run, run[-1] / 2)])


class SampleTimes(Struct, frozen=True):
    """A sample, simulated: its first workgroup alone on a compute unit, and all of it together."""

    alone: Timeline
    together: Timeline


def estimate_varied_grid(
    lengths: Lengths, samples: Samples, times: Sequence[SampleTimes], parameters: Parameters, together: int
) -> GridEstimate:
    """The launch.

    Args:
        samples, times: What was chosen, and simulated with the memory that each compute unit has when all are busy.
        together: Workgroups on a compute unit at a time.
    """
    every = lengths.all()
    count, units = len(every), device_units(parameters)
    busy_units = min(units, count)
    alone = [estimate_workgroup(one.alone, None, busy_units) for one in times]
    full = [estimate_workgroup(one.together, None, busy_units) for one in times]
    known = np.array([one.length for one in samples.samples])
    ends = [_ends(one.together) for one in times]
    table = np.array([_cycles(*one) for one in zip(alone, full, ends, strict=True)])
    part = every[:MOST_AT_ONCE]
    dealt = deal(
        part, known, table, compute_units=units, dies=device_dies(parameters),
        start_delay=parameters.integer("compute_unit.workgroup_start_delay"),
    )  # fmt: skip

    def total(of_samples: Sequence[float]) -> float:
        return float(np.interp(every, known, of_samples).sum())

    work = MatrixWork(total([one.work.operations for one in full]), total([one.work.cycles for one in full]))
    moved = {level: total([one.bytes[level] for one in full]) for level in full[0].bytes}
    cycles = dealt.cycles * count / len(part) + max(one.drain for one in full)
    cycles = within_peaks(parameters, cycles, work, moved.get("hbm", 0.0))
    hertz = parameters.number("chip.clock") * 1e6
    place = roofline(parameters, work, moved.get("hbm", 0.0), cycles)
    return GridEstimate(
        mode="sampled",
        workgroups=count,
        compute_units=units,
        workgroups_a_unit=together,
        rounds=math.ceil(count / (units * together)),
        fill=dealt.filled,
        round_cycles=float(np.interp(every, known, table[:, -1]).mean()),
        cycles=cycles,
        microseconds=cycles / hertz * 1e6,
        matrix_share=place.achieved / place.peak if place.peak else 0.0,
        bandwidth_share=place.moved / place.bandwidth,
        bytes=moved,
        workgroup=full[samples.typical],
        roofline=place,
        spread=Spread(float(every.min()), float(every.max()), lengths.counted.size, len(samples.samples)),
    )


def _ends(timeline: Timeline) -> npt.NDArray[np.float64]:
    """When each workgroup of a timeline ends, ascending, in cycles since the first began."""
    groups = timeline.trace.groups
    ends = [timeline.wave_end[groups == group].max() for group in timeline.trace.workgroups]
    return np.sort(np.array(ends, dtype=np.float64)) - float(timeline.wave_start.min())


def _cycles(
    alone: WorkgroupEstimate, full: WorkgroupEstimate, ends: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Cycles of a workgroup with 0, 1, … others of its kind beside it, at most as many as `full` had.

    Linear from none to all, so that by the `ends` of those simulated together as much is done as was. They do not take
    as long as the last of them: the oldest goes first, and the last has the compute unit to itself in the end. No less
    than all that are there need of the busiest unit or of their share of memory.
    """
    beside = np.arange(len(ends))
    passed = np.diff(ends, prepend=0.0)[::-1]  # while 1, 2, … are there

    def slowed(together: float) -> npt.NDArray[np.float64]:
        return alone.cycles + (together - alone.cycles) * beside / max(1, len(ends) - 1)

    low, high = alone.cycles, max(alone.cycles, float(ends[-1]))
    while high - low > 0.5:
        middle = (low + high) / 2
        done = float((passed * (beside + 1) / slowed(middle)).sum())
        low, high = (middle, high) if done > len(ends) else (low, middle)
    found: npt.NDArray[np.float64] = np.maximum(slowed(high), (beside + 1) * full.limiter[1])
    return found
