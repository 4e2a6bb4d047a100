"""Named schedules with one edit: neighbouring clusters swapped, a buffer fewer, a stage one iteration further ahead.

The pass says which edits are legal. What it accepts, the schedule checker proves, and the numbers are right without a
finding. What it refuses is applied nevertheless, by the pass without its checks: then the schedule checker refuses it,
and a run shows it, by a finding of the simulator's checkers or by wrong numbers. Where a fragment would use a value
that is not there yet, there is no program that could be run.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from broken_schedules import Subject, bench, seen_reading, seen_running

from ckmlir.dialect.schedule import Schedule
from ckmlir.passes.pipeline import PipelineFailure
from ckmlir.scheduling import Scheduled, Workbench
from ckmlir.scheduling.steps import places_of, schedule_of_places

CHIPS = ("gfx90a", "gfx942", "gfx950")
GEMM = (
    "unpipelined",
    "v1",
    "v2",
    "mem2",
    "mem3_interwave",
    "compv3",
    "compv4",
    "compv6",
    "hot_loop",
    "async",
    "async_double",
)
DEFAULT = {
    ("v2", "clusters swapped"),
    ("v2", "further ahead"),
    ("async", "further ahead"),
    ("async_double", "buffer dropped"),
}
STEPS = range(1, 8)


def clusters_swapped(listed: Schedule) -> Iterator[Schedule]:
    """Every two neighbouring runs of fragments of one stage and iteration in each other's place."""
    groups = [list(group) for _, group in itertools.groupby(places_of(listed), lambda one: (one.stage, one.ahead))]
    for at in range(len(groups) - 1):
        order = [*groups[:at], groups[at + 1], groups[at], *groups[at + 2 :]]
        swapped = schedule_of_places(listed.name, listed.buffers, [place for group in order for place in group])
        yield replace(listed, step=swapped.step)


def buffer_dropped(listed: Schedule) -> Iterator[Schedule]:
    """One LDS buffer fewer."""
    if listed.buffers > 1:
        yield replace(listed, buffers=listed.buffers - 1)


def further_ahead(listed: Schedule) -> Iterator[Schedule]:
    """All fragments of a stage one iteration more ahead."""
    places = places_of(listed)
    for stage in dict.fromkeys(place.stage for place in places):
        moved = [place._replace(ahead=place.ahead + 1) if place.stage == stage else place for place in places]
        yield replace(listed, step=schedule_of_places(listed.name, listed.buffers, moved).step)


EDITS = {"clusters swapped": clusters_swapped, "buffer dropped": buffer_dropped, "further ahead": further_ahead}


def cases() -> Iterator[Any]:
    for number, schedule in enumerate(GEMM):
        for kind in EDITS:
            marks = () if (schedule, kind) in DEFAULT else pytest.mark.full
            yield pytest.param(Subject("gemm", CHIPS[number % 3], schedule), kind, marks=marks, id=f"{schedule}-{kind}")


def compiled(one: Workbench, schedule: Schedule) -> Scheduled | str:
    """The kernel under a schedule, or why a pass refuses it."""
    try:
        return one.compile(schedule)
    except PipelineFailure as failure:
        return str(failure)


@pytest.mark.parametrize(("subject", "kind"), list(cases()))
def test_edits(subject: Subject, kind: str, request: pytest.FixtureRequest) -> None:
    one, _, _ = bench(subject)
    edited = list(EDITS[kind](one.listed(one.schedule)))
    refused = []
    for schedule in edited:
        made = compiled(one, schedule)
        if isinstance(made, str):
            refused.append((schedule, made))
            continue
        assert made.compiled is not None
        assert made.findings == ()
        assert not seen_reading(made.compiled), schedule
        assert seen_running(subject, made.compiled, STEPS) == "", schedule
    request.getfixturevalue("credulous")
    how = Counter(refusal(subject, one, *each) for each in refused)
    print(subject, kind, {"accepted": len(edited) - len(refused), "refused": len(refused), **how})


def refusal(subject: Subject, one: Workbench, schedule: Schedule, why: str) -> str:
    """How a run shows that a refused schedule is wrong; raises AssertionError where nothing does."""
    made = compiled(one, schedule)
    if isinstance(made, str):
        assert "runs this before what it uses" in why, "only a value that is not there yet cannot be written down"
        return "no such program"
    assert made.findings and made.compiled is not None, schedule
    seen = seen_running(subject, made.compiled, STEPS) or ("wait" if seen_reading(made.compiled) else "")
    assert seen, f"{schedule}\nis refused ({made.findings[0]}), and no run shows why"
    return seen
