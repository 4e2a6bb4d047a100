"""Schedules of one kernel changed and found: legal ones are proved and give right numbers, broken ones are refused."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.dialect.schedule import Schedule
from ckmlir.ops import find_operator
from ckmlir.passes.pipeline import PipelineFailure
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Move, Scheduled, Workbench, apply, evaluate, find_scheduler, legal_moves, objection
from ckmlir.scheduling.graph import broken_links, links_between_fragments
from ckmlir.scheduling.moves import Legality
from ckmlir.scheduling.steps import places_of, schedule_of_places
from ckmlir.sim.checks.finding import parse_checks
from ckmlir.targets import get_target

GEMM = find_operator("gemm")
TARGET = get_target("gfx942")
ALL = parse_checks("all")
KEYS = {"m": 64, "n": 64, "block": "64x64x32", "schedule": "compv3"}


@lru_cache(maxsize=1)
def bench() -> Workbench:
    return Workbench.of(GEMM, GEMM.spec(GEMM.problem(**KEYS, k=256), TARGET), TARGET)


def start() -> Schedule:
    return bench().listed(bench().schedule)


def numbers_are_right(schedule: Schedule, k: int, made: Scheduled | None = None) -> bool:
    """Whether the GEMM under a schedule agrees with NumPy on the simulator, where no checker may find anything; `made`:
    its code, if there is any yet.
    """
    made = made or bench().compile(schedule)
    assert made.findings == ()
    problem = GEMM.problem(**KEYS, k=k)
    arrays = GEMM.inputs(problem, TARGET)
    result = run_operator(GEMM, problem, arrays, TARGET, SimulatorDevice(TARGET, checks=ALL), compiled=made.compiled)
    return all(one.ok for one in check_outputs(GEMM, problem, arrays, result.outputs, TARGET))


def walked(seed: int, steps: int) -> Schedule:
    chance, schedule = random.Random(seed), start()
    for _ in range(steps):
        schedule = apply(schedule, chance.choice(legal_moves(bench().problem, schedule)))
    return schedule


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 9))
def test_legal_moves_are_proved_and_compute_the_same(seed: int, steps: int, trips: int) -> None:
    assert numbers_are_right(walked(seed, steps), 32 * trips)


SOME = [("list", 1), ("modulo", 2), ("four_waves", 1)]
REST = [(name, n) for name in ("source", "list", "modulo", "interleave", "four_waves") for n in (1, 2, 3)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "buffers"), [*SOME, *(pytest.param(*one, marks=pytest.mark.full) for one in REST if one not in SOME)]
)
def test_found_schedules_are_proved_and_compute_the_same(name: str, buffers: int) -> None:
    schedule = find_scheduler(name).solve(bench().problem.with_buffers(buffers)).schedule
    made = bench().compile(schedule)
    assert all(numbers_are_right(schedule, 32 * trips, made) for trips in (1, 2, 5))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 20))
def test_moves_that_are_not_legal_are_refused(seed: int, steps: int) -> None:
    """Swaps and iterations ahead that `legal_moves` leaves out break a dependence, and no code comes of them."""
    schedule, chance = walked(seed, steps), random.Random(seed)
    legal = set(legal_moves(bench().problem, schedule))
    places = places_of(schedule)
    moves = [Move("swap", at) for at in range(len(places) - 1)]
    moves += [Move("ahead", at, place.ahead + 1) for at, place in enumerate(places) if place.ahead < 8]
    illegal = [move for move in moves if move not in legal]
    if not illegal:
        return
    broken = apply(schedule, chance.choice(illegal))
    problem = bench().problem.with_buffers(broken.buffers)
    assert broken_links(problem, links_between_fragments(problem), broken)
    with pytest.raises(PipelineFailure):
        bench().compile(broken, code=False)


def test_neighbours_change_places_where_no_dependence_forbids_it() -> None:
    kept = []
    for schedule in (start(), *(walked(seed, 20) for seed in range(4))):
        rules = Legality.of(bench().problem, schedule)
        for at, (first, second) in enumerate(pairwise(places_of(schedule))):
            swapped = apply(schedule, Move("swap", at))
            kept.append(rules.in_order(first, second))
            assert kept[-1] == bool(broken_links(rules.problem, rules.links, swapped)), (first, second)
    assert 0 < sum(kept) < len(kept)


def test_rules_are_those_of_the_schedule() -> None:
    """Whichever was asked for before."""
    schedule = start()
    other = replace(schedule, buffers=schedule.buffers + 1)
    for one in (schedule, other, schedule):
        rules = Legality.of(bench().problem, one)
        assert rules.problem.edges == bench().problem.with_buffers(one.buffers, {}).edges
        assert Legality.of(bench().problem, replace(one, groups=2)) is rules


def test_moves_are_a_fixed_list_and_say_what_they_do() -> None:
    moves = legal_moves(bench().problem, start())
    assert moves == legal_moves(bench().problem, start())
    assert {move.kind for move in moves} >= {"swap", "ahead", "buffers", "fences"}
    assert str(Move("ahead", 3, 2)) == "ahead 3 to 2" and str(Move("swap", 1)) == "swap 1"
    with pytest.raises(ValueError, match="the step has 12 items"):
        apply(start(), Move("swap", 11))


def test_moves_need_a_legal_schedule() -> None:
    backwards = schedule_of_places("backwards", 1, reversed(places_of(start())))
    with pytest.raises(ValueError, match=r"is not legal itself: .* would run before"):
        legal_moves(bench().problem, backwards)


def test_evaluation_repeats() -> None:
    assert evaluate(bench(), start()) == evaluate(bench(), start())
    listed, named = evaluate(bench(), start()), evaluate(bench(), bench().schedule)
    assert (listed.loop, listed.vector_registers) == (named.loop, named.vector_registers)


def test_stages_that_run_ahead_by_tensor_have_to_be_listed() -> None:
    """Which fragments `load.a` means is known to the loop, not to the text: nothing is taken for what it is not."""
    by_tensor = Schedule.parse("schedule s 1; ahead load 1, load.a 2; step load.0-1, math")
    with pytest.raises(ValueError, match=r"runs 'load\.a' ahead.*'load'.*Workbench\.listed writes the schedule out"):
        objection(bench().problem, by_tensor)
    explicit = Schedule.parse("schedule s 1; ahead load 1, load.a 2; step load.0+1, math")
    with pytest.raises(ValueError, match="does not list"):
        objection(bench().problem, explicit)
