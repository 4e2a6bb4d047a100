"""When waves and matrix units are busy, read off the arrays of a timeline."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ckmlir.sim.analysis.effects import effects_of
from ckmlir.sim.analysis.hazard_rule import Described
from ckmlir.sim.timing.events import Timeline, Unit

LAST_ISSUE = 4
"""Cycles shown for the issue of a wave's last instruction, which no other follows: CDNA3 ISA, 'Wavefront'."""

Intervals: TypeAlias = npt.NDArray[np.int64]
"""Rows of [from, to), ascending and apart."""


def in_wave_order(timeline: Timeline) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
    """(indices of events, offsets): events of wave w, in order of issue, are indices[offsets[w]:offsets[w + 1]]."""
    return _grouped(timeline.events["wave"], len(timeline.wave_start))


def stalls_in_wave_order(timeline: Timeline) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
    """The same of stalls."""
    return _grouped(timeline.stalls["wave"], len(timeline.wave_start))


def _grouped(waves: npt.NDArray[np.uint32], count: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
    order = np.argsort(waves, kind="stable")
    return order, np.searchsorted(waves[order], np.arange(count + 1)).astype(np.int64)


def issue_cycles(timeline: Timeline) -> npt.NDArray[np.int64]:
    """For each event the cycles from its issue until its wave could think of the next instruction, 1 at least."""
    events = timeline.events
    order, _ = in_wave_order(timeline)
    busy = np.full(len(events), LAST_ISSUE, np.int64)
    here, after = order[:-1], order[1:]
    same = events["wave"][here] == events["wave"][after]
    gaps = events["issue"][after] - events["stall"][after] - events["issue"][here]
    busy[here[same]] = np.maximum(gaps[same], 1)
    return busy


def matrix_intervals(timeline: Timeline) -> dict[int, Intervals]:
    """For each SIMD that executes matrix instructions the stretches [from, to) in which its matrix unit was busy."""
    described = [Described(entry.instruction, effects_of(entry.instruction)) for entry in timeline.trace.program]
    cycles = timeline.parameters.integer("mfma.pass")
    busy = [one.passes * cycles if one.is_matrix else 0 for one in described]
    chosen = timeline.events[timeline.events["unit"] == Unit.MFMA]
    begin = chosen["issue"]
    end = begin + np.array(busy, np.int64)[chosen["instruction"]]
    simds = timeline.wave_simd[chosen["wave"]]
    return {int(simd): _union(begin[simds == simd], end[simds == simd]) for simd in np.unique(simds)}


def matrix_share(timeline: Timeline) -> float:
    """The share of the cycles in which the matrix units of the compute unit were busy, on average of them."""
    available = timeline.cycles * timeline.parameters.integer("compute_unit.simds")
    busy = sum(int(np.diff(rows, axis=1).sum()) for rows in matrix_intervals(timeline).values())
    return busy / available if available else 0.0


def _union(begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> Intervals:
    order = np.argsort(begin, kind="stable")
    begin, reach = begin[order], np.maximum.accumulate(end[order])
    starts = np.flatnonzero(np.r_[True, begin[1:] > reach[:-1]])
    return np.stack([begin[starts], reach[np.r_[starts[1:] - 1, len(reach) - 1]]], axis=1)
