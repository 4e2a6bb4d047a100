"""What instructions of a trace are called where people read them: pages, lists and traces."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ckmlir.sim.timing.events import Timeline

if TYPE_CHECKING:
    from ckmlir.sim.timing.recording import Trace

LAST_ISSUE = 4
"""Cycles shown for the issue of a wave's last instruction, which no other follows: CDNA3 ISA, 'Wavefront'."""


class Label(NamedTuple):
    """One instruction as text.

    Attributes:
        address: Byte offset from the kernel's start.
        mnemonic, operands: Its assembly.
        source: "folder/file.py:12", "" where unknown.
        tile_op: The operation of tile code that it came from, "" where unknown.
    """

    address: int
    mnemonic: str
    operands: str
    source: str
    tile_op: str

    @property
    def place(self) -> str:
        """The source line without its folders, or the address where there is none."""
        return self.source.rsplit("/", 1)[-1] or f"0x{self.address:x}"


def labels_of(trace: Trace) -> list[Label]:
    """The label of every instruction in `trace.program`."""
    found = []
    for entry in trace.program:
        mnemonic, _, operands = entry.instruction.text.strip().partition(" ")
        source = "{}:{}".format(*entry.source) if entry.source else ""
        found.append(Label(entry.address, mnemonic, operands.strip(), source, entry.tile_op or ""))
    return found


def source_text(source: str) -> str:
    """The line that "file.py:12" names, without indentation; "" where the file is not there."""
    file, _, line = source.rpartition(":")
    return linecache.getline(file, int(line)).strip() if file and line.isdigit() else ""


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


def unit_intervals(timeline: Timeline, unit: int) -> dict[int, npt.NDArray[np.int64]]:
    """For each SIMD the stretches [from, to) in which it had instructions on `unit`: rows of an (n, 2) array."""
    chosen = timeline.events[timeline.events["unit"] == unit]
    simds = timeline.wave_simd[chosen["wave"]]
    return {
        int(simd): _union(chosen["issue"][simds == simd], chosen["done"][simds == simd]) for simd in np.unique(simds)
    }


def _union(begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    order = np.argsort(begin, kind="stable")
    begin, reach = begin[order], np.maximum.accumulate(end[order])
    starts = np.flatnonzero(np.r_[True, begin[1:] > reach[:-1]])
    return np.stack([begin[starts], reach[np.r_[starts[1:] - 1, len(reach) - 1]]], axis=1)
