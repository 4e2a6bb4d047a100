"""Schedules with groups of waves out of phase, changed move by move and found by schedulers.

What `legal_moves` allows is proved by the schedule checker, which follows the groups' arrivals at barriers by itself,
and gives right numbers without a finding of the simulator's checkers; what it leaves out is refused with a reason, by
`objection` and by the pass.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from broken_schedules import DeepGemm, Subject, bench, seen_running
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Barrier
from ckmlir.passes.pipeline import PipelineFailure
from ckmlir.scheduling import Move, Workbench, apply, evaluate, legal_moves, objection
from ckmlir.scheduling.steps import WHOLE, Place, entries_of

MATRIX = ("math", "qk", "pv")


class Workgroup(Subject):
    """A GEMM with eight waves; its schedule is found for four groups of them."""

    def keys(self, steps: int) -> dict[str, Any]:
        return {**super().keys(steps), "m": 128, "n": 128, "k": 32 * steps, "block": "128x128x32", "wave": "2x4"}


SUBJECTS = [
    Subject("gemm", "gfx942", "compv5"),
    DeepGemm("gemm", "gfx90a", "ping_pong"),
    DeepGemm("gemm", "gfx950", "ping_pong_async"),
    Subject("fmha_fwd", "gfx950", "qr_async_ping_pong", "fp8"),
    Subject("fmha_fwd", "gfx942", "qr_async_ping_pong"),
    Workgroup("gemm", "gfx942", "compv4"),
]


def each(default: int, full: int) -> Any:
    """Every subject, with so many examples by default and with the marker `full`."""
    few = [pytest.param(one, default, id=f"{one}-some") for one in SUBJECTS if one.dtype == "f16"]
    many = [pytest.param(one, full, id=str(one), marks=pytest.mark.full) for one in SUBJECTS]
    return pytest.mark.parametrize(("subject", "examples"), [*few, *many])


def start(subject: Subject) -> tuple[Workbench, Schedule]:
    one, _, _ = bench(subject)
    four = isinstance(subject, Workgroup)
    return one, one.solve("interleave", groups=4).schedule if four else one.listed(one.schedule)


def walked(subject: Subject, chance: random.Random, steps: int) -> tuple[Schedule, list[Move]]:
    one, schedule = start(subject)
    moves = []
    for _ in range(steps):
        moves.append(chance.choice(legal_moves(one.problem, schedule)))
        schedule = apply(schedule, moves[-1])
    return schedule, moves


@pytest.mark.one_in(4)
@each(2, 20)
def test_legal_moves_are_proved_and_compute_the_same(subject: Subject, examples: int) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(examples):
        chance = random.Random(f"{subject} {seed}")
        schedule, moves = walked(subject, chance, chance.randrange(1, 60 if subject.operator == "gemm" else 20))
        kinds.update(move.kind for move in moves)
        made = start(subject)[0].compile(schedule)
        assert made.findings == () and made.compiled is not None, schedule
        assert seen_running(subject, made.compiled, [chance.randrange(1, 8)]) == "", schedule
    print(subject, examples, "schedules, moves:", dict(kinds))


def all_moves(schedule: Schedule) -> list[Move]:
    """Legal or not; not of what the pass lets follow its users, other than `legal_moves`: stages that are listed as a
    whole, and how far ahead matrix instructions run.
    """
    entries = entries_of(schedule)
    fixed = [isinstance(entry, Place) and entry.number == WHOLE for entry in entries]
    moves = [
        Move("swap", at)
        for at in range(len(entries) - 1)
        if entries[at] != entries[at + 1] and not fixed[at] and not fixed[at + 1]
    ]
    for at, entry in enumerate(entries):
        if isinstance(entry, Place) and not fixed[at] and entry.stage not in MATRIX and entry.ahead < 8:
            moves.append(Move("ahead", at, entry.ahead + 1))
        if isinstance(entry, Barrier):
            moves.append(Move("barrier", at, 0))
    return [*moves, *(Move("groups", amount=groups) for groups in (2, 3, 4) if groups != schedule.groups)]


@pytest.mark.one_in(4)
@each(4, 40)
def test_moves_that_are_not_legal_are_refused_with_a_reason(subject: Subject, examples: int) -> None:
    reasons: Counter[str] = Counter()
    for seed in range(examples):
        chance = random.Random(f"{subject} {seed}")
        schedule, _ = walked(subject, chance, chance.randrange(0, 12))
        one, _ = start(subject)
        legal = set(legal_moves(one.problem, schedule))
        kind = chance.choice(["swap", "ahead", "barrier", "groups"])
        illegal = [move for move in all_moves(schedule) if move not in legal and move.kind == kind]
        if illegal:
            broken = apply(schedule, chance.choice(illegal))
            assert objection(one.problem, broken), broken
            with pytest.raises(PipelineFailure):
                one.compile(broken, code=False)
            reasons[kind] += 1
    print(subject, dict(reasons))
    assert reasons["barrier"] + reasons["groups"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("subject", SUBJECTS[:-1], ids=str)
def test_a_listed_schedule_is_the_schedule(subject: Subject) -> None:
    """With its groups, barriers and priorities; only where what is not a fragment stands may change."""
    one, listed = start(subject)
    assert listed.groups == one.schedule.groups == 2 and objection(one.problem, listed) == ""
    assert listed.priority == one.schedule.priority
    named, numbered = evaluate(one, one.schedule), evaluate(one, listed)
    assert numbered.findings == ()
    for kind in ("mfma", "vmem", "barrier") if subject.operator == "fmha_fwd" else named.loop:
        assert numbered.loop[kind] == named.loop[kind], kind


def test_reasons_name_both_ends_and_the_barriers() -> None:
    one, listed = start(SUBJECTS[0])
    entries = entries_of(listed)
    first = entries.index(Barrier())
    without = apply(listed, Move("barrier", first, 0))
    assert objection(one.problem, without) == "too few barriers cut its step into phases for 2 groups of waves: 1"
    assert objection(one.problem, replace(listed, groups=3)) == "4 waves do not form 3 groups of equal size"
    reads = next(at for at, entry in enumerate(entries) if isinstance(entry, Place) and entry.stage == "from_lds")
    close = apply(apply(listed, Move("barrier", first, 0)), Move("barrier", reads, 1))
    reason = objection(one.problem, close)
    assert "1 barrier lies between from_lds.0 (" in reason and " and to_lds.0 of 2 iterations later (" in reason
    assert "which meet in LDS tensor 'a'; 2 groups of waves need 2" in reason
    with pytest.raises(ValueError, match="'compv5' is not legal itself: 1 barrier lies between"):
        legal_moves(one.problem, close)
    with pytest.raises(ValueError, match=r"move 'barrier removed at 0': at this place stands to_lds.0\+1"):
        apply(listed, Move("barrier", 0, 0))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 30))
def test_a_barrier_more_is_always_legal(seed: int, steps: int) -> None:
    schedule, _ = walked(SUBJECTS[0], random.Random(seed), steps)
    one, _ = start(SUBJECTS[0])
    barriers = [move for move in legal_moves(one.problem, schedule) if move.kind == "barrier" and move.amount]
    expected = sum(isinstance(entry, Place) for entry in entries_of(schedule)) if schedule.groups > 1 else 0
    assert len(barriers) == expected


SOME = [("list", 1, 2), ("modulo", 1, 4), ("interleave", 2, 4), ("source", 3, 2)]
GRID = [(name, buffers, groups) for name in ("source", "list", "modulo", "interleave", "exact") for buffers in (1, 2, 3)
        for groups in (2, 4)]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("name", "buffers", "groups"),
    [*SOME, *(pytest.param(*one, marks=pytest.mark.full) for one in GRID if one not in SOME)],
)
def test_found_schedules_are_proved_and_compute_the_same(name: str, buffers: int, groups: int) -> None:
    """Every scheduler cuts what it finds into phases for the problem's groups of waves, two or four; chips change."""
    if name == "exact":
        pytest.importorskip("ortools", reason="the exact scheduler's solver is not installed")
    subject = Workgroup("gemm", ("gfx90a", "gfx942", "gfx950")[buffers - 1], "compv4")
    one, _, _ = bench(subject)
    schedule = one.solve(name, buffers=buffers, groups=groups).schedule
    assert schedule.groups == groups and objection(one.problem, schedule) == ""
    for at, entry in enumerate(entries_of(schedule)):
        if isinstance(entry, Barrier) and name != "source":
            fewer = apply(schedule, Move("barrier", at, 0))
            assert objection(one.problem, fewer), "no barrier is to spare"
    made = one.compile(schedule)
    assert made.findings == () and made.compiled is not None
    assert seen_running(subject, made.compiled, (1, 2, 5)) == ""


def test_three_groups_are_refused() -> None:
    """Operators have 2^n waves, which do not form three groups of equal size; the pass says so too."""
    one, listed = start(Workgroup("gemm", "gfx942", "compv4"))
    three = replace(listed, groups=3)
    assert objection(one.problem, three) == "8 waves do not form 3 groups of equal size"
    with pytest.raises(PipelineFailure, match="asks for 3 groups of waves; 8 waves do not form groups of equal size"):
        one.compile(three, code=False)
