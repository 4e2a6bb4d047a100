"""Named schedules with one edit: neighbouring clusters swapped, a buffer fewer, a stage one iteration further ahead;
and with many random ones, all legal.

The pass says which edits are legal. What it accepts, the schedule checker proves, and the numbers are right without a
finding. What it refuses is applied nevertheless, by the pass without its checks: then the schedule checker refuses it,
and a run shows it, by a finding of the simulator's checkers or by wrong numbers. Where a fragment would use a value
that is not there yet, there is no program that could be run. Loops of more than 16 steps are not wrong, only too long.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from broken_schedules import Subject, bench, seen_running, subjects

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import MOST_AHEAD
from ckmlir.passes.pipeline import PipelineFailure
from ckmlir.scheduling import Scheduled, Workbench, apply, legal_moves
from ckmlir.scheduling.steps import Entry, Place, entries_of, places_of, step_of

DEFAULT = {
    ("gemm v2", "clusters swapped"),
    ("gemm v2", "further ahead"),
    ("gemm async", "further ahead"),
    ("gemm async_double", "buffer dropped"),
}


def clusters_swapped(listed: Schedule) -> Iterator[Schedule]:
    """Every two neighbouring runs of fragments of one stage and iteration in each other's place. Fences and barriers
    stay where they are between them.
    """
    entries = entries_of(listed)
    runs = [list(run) for _, run in itertools.groupby(entries, cluster_of)]
    clusters = [at for at, run in enumerate(runs) if isinstance(run[0], Place)]
    for first, second in itertools.pairwise(clusters):
        order = list(runs)
        order[first], order[second] = runs[second], runs[first]
        yield replace(listed, step=step_of(itertools.chain.from_iterable(order)))


def cluster_of(entry: Entry) -> object:
    """What neighbours of one cluster have in common; what stands between clusters has nothing in common."""
    return (entry.stage, entry.ahead) if isinstance(entry, Place) else object()


def buffer_dropped(listed: Schedule) -> Iterator[Schedule]:
    """One LDS buffer fewer, of every tensor that has several."""
    own = dict(listed.tensor_buffers)
    if listed.buffers > 1:
        yield replace(listed, buffers=listed.buffers - 1)
    for tensor, buffers in own.items():
        if buffers > 1:
            yield replace(listed, tensor_buffers=tuple({**own, tensor: buffers - 1}.items()))


def further_ahead(listed: Schedule) -> Iterator[Schedule]:
    """All fragments of a stage one iteration more ahead, if that can be said."""
    entries = entries_of(listed)
    for stage in dict.fromkeys(place.stage for place in places_of(listed) if place.ahead < MOST_AHEAD):
        moved = [
            entry._replace(ahead=entry.ahead + 1) if isinstance(entry, Place) and entry.stage == stage else entry
            for entry in entries
        ]
        yield replace(listed, step=step_of(moved))


WALKED_BY_DEFAULT = ("gemm v1", "gemm async", "gemm straight", "fmha_fwd qr_async")
EDITS = {"clusters swapped": clusters_swapped, "buffer dropped": buffer_dropped, "further ahead": further_ahead}


def cases() -> Iterator[Any]:
    for subject in subjects():
        for kind in EDITS:
            marks = () if (subject.name, kind) in DEFAULT else pytest.mark.full
            yield pytest.param(subject, kind, marks=marks, id=f"{subject}-{kind}")


def compiled(one: Workbench, schedule: Schedule) -> Scheduled | str:
    """The kernel under a schedule, or why a pass refuses it."""
    try:
        return one.compile(schedule)
    except PipelineFailure as failure:
        return str(failure)


@pytest.mark.one_in(4)
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
        assert seen_running(subject, made.compiled) == "", schedule
    request.getfixturevalue("credulous")
    how = Counter(refusal(subject, one, *each) for each in refused)
    print(subject, kind, {"accepted": len(edited) - len(refused), "refused": len(refused), **how})


def refusal(subject: Subject, one: Workbench, schedule: Schedule, why: str) -> str:
    """How a run shows that a refused schedule is wrong; raises AssertionError where nothing does."""
    made = compiled(one, schedule)
    if isinstance(made, str):
        if "at most 16" in why:
            return "too many steps"
        assert "runs this before what it uses" in why, "only a value that is not there yet cannot be written down"
        return "no such program"
    assert made.compiled is not None
    seen = seen_running(subject, made.compiled)
    if not made.findings:  # the pass looks at tensors, the proof at the bytes of each wave
        assert "2 groups need 2" in why and seen == "", f"{schedule}\nis accepted, and {seen or 'nothing'} is seen"
        return "right for these waves"
    assert seen, f"{schedule}\nis refused ({made.findings[0]}), and no run shows why"
    return seen


def walks() -> Iterator[Any]:
    """Schedules whose waves are in phase, and random walks of each; `test_group_moves.py` has the others."""
    for subject in subjects():
        if "ping_pong" not in subject.schedule and subject.schedule != "compv5":
            if subject.name in WALKED_BY_DEFAULT:
                yield pytest.param(subject, 1, id=f"{subject}-some")
            yield pytest.param(subject, 10, marks=pytest.mark.full, id=str(subject))


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("subject", "count"), list(walks()))
def test_random_legal_edits(subject: Subject, count: int) -> None:
    """Both checkers accept what legal moves make of a schedule, and the numbers stay right."""
    one, _, _ = bench(subject)
    made = Counter[str]()
    for seed in range(count):
        chance = random.Random(f"{subject} {seed}")
        schedule = one.listed(one.schedule)
        for _ in range(chance.randrange(1, 40 if subject.operator == "gemm" else 20)):
            move = chance.choice(legal_moves(one.problem, schedule))
            schedule = apply(schedule, move)
            made[move.kind] += 1
        kernel = one.compile(schedule)
        assert kernel.findings == () and kernel.compiled is not None, schedule
        assert seen_running(subject, kernel.compiled) == "", schedule
    print(subject, count, "schedules, moves:", dict(made))
