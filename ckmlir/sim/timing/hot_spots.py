"""Where the cycles go: stalls by reason, by instruction and by line of Python."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from ckmlir.sim.timing.events import Reason, Timeline
from ckmlir.sim.timing.steady_loop import words_of


class HotSpot(Struct, frozen=True):
    """Cycles that waves stalled at a place.

    Attributes:
        place: "0x1a40" and the instruction, or "file:line".
        cycles: Of all waves together. issues: How often it was issued.
        reasons: The same cycles by reason in words, the largest first.
    """

    place: str
    cycles: int
    issues: int
    reasons: dict[str, int]


def stall_cycles(timeline: Timeline) -> dict[str, int]:
    """Stall cycles of all waves together by reason in words, the largest first."""
    return _by_reason(
        np.bincount(timeline.stalls["reason"], weights=timeline.stalls["cycles"], minlength=256).astype(np.int64)
    )


def by_instruction(timeline: Timeline, most: int = 20) -> list[HotSpot]:
    """The instructions at which waves stalled longest."""
    program = timeline.trace.program
    names = [f"0x{one.address:x} {one.mnemonic}" for one in program]
    return _hottest(timeline, names, range(len(program)), most)


def by_line(timeline: Timeline, most: int = 20) -> list[HotSpot]:
    """The lines of source, usually Python, at whose instructions waves stalled longest."""
    sources = [one.source for one in timeline.trace.program]
    lines = sorted({source for source in sources if source is not None})
    number = {source: index for index, source in enumerate(lines)}
    names = [*(f"{file}:{line}" for file, line in lines), "(no line)"]
    return _hottest(
        timeline, names, (number.get(source, len(lines)) if source else len(lines) for source in sources), most
    )


def _hottest(timeline: Timeline, names: list[str], place_of: Iterable[int], most: int) -> list[HotSpot]:
    """The places with most stall cycles; `place_of` has the place of each instruction of the program."""
    places = np.array(list(place_of), np.int64)
    table = np.zeros((len(names), 256), np.int64)
    stalls = timeline.stalls
    np.add.at(table, (places[stalls["instruction"]], stalls["reason"]), stalls["cycles"])
    issues = np.bincount(places[timeline.events["instruction"]], minlength=len(names))
    totals = table.sum(axis=1)
    order = np.argsort(-totals, kind="stable")[:most]
    return [
        HotSpot(names[place], int(totals[place]), int(issues[place]), _by_reason(table[place]))
        for place in order.tolist()
        if totals[place]
    ]


def _by_reason(sums: np.ndarray) -> dict[str, int]:
    found = {words_of(reason): int(sums[reason]) for reason in Reason if sums[reason]}
    return dict(sorted(found.items(), key=lambda item: -item[1]))
