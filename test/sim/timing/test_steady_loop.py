"""The main loop: found in the code, and measured where timelines are known cycle by cycle."""

from __future__ import annotations

import pytest
from made_timelines import (
    BACK,
    END,
    LOAD,
    PRODUCT,
    READ,
    START,
    STORE,
    loop_timeline,
    made_timeline,
    made_trace,
)

from ckmlir.sim.timing.events import Reason, Unit
from ckmlir.sim.timing.steady_loop import Loop, main_loops, steady_loop, words_of

ITERATION = [LOAD, READ, PRODUCT, BACK]


@pytest.mark.parametrize(
    ("order", "loop"),
    [
        ([START, *ITERATION * 5, STORE, END], Loop(LOAD, BACK)),
        ([START, STORE, END], None),
        # A short loop within a long one: the one whose own steps are most.
        ([START, *[LOAD, *[READ, PRODUCT] * 6, BACK] * 3, END], Loop(READ, PRODUCT)),
        ([START, *[START, LOAD, *[READ] * 2, PRODUCT, BACK, STORE] * 5, END], Loop(START, STORE)),
        ([START, LOAD, LOAD, LOAD, *[PRODUCT, BACK] * 9, END], Loop(PRODUCT, BACK)),
    ],
)
def test_the_loop_with_most_steps_of_its_own_is_found(order: list[int], loop: Loop | None) -> None:
    assert main_loops(made_trace([order])) == [loop]


def test_groups_of_waves_run_copies_of_the_loop() -> None:
    """Two waves go round one loop, two another: all four count, with the iterations of their own."""
    first, second = [LOAD, READ], [PRODUCT, BACK]
    orders = [[START, *body * trips, STORE, END] for body, trips in ((first, 8), (first, 8), (second, 6), (second, 6))]
    trace = made_trace(orders, threads=256)
    issue = [
        cycle
        for trips, iteration in ((8, 40), (8, 40), (6, 60), (6, 60))
        for cycle in [0, *(100 + iteration * trip + 4 * step for trip in range(trips) for step in range(2)), 460, 500]
    ]
    assert main_loops(trace) == [Loop(LOAD, READ)] * 2 + [Loop(PRODUCT, BACK)] * 2
    steady = steady_loop(made_timeline(trace, issue))
    assert steady is not None
    assert steady.loops == (Loop(LOAD, READ), Loop(PRODUCT, BACK))
    assert (steady.trips, steady.cycles_per_iteration) == (7, 50)
    assert steady.prologue == 100
    assert (steady.begin, steady.end) == (160, 380)


def test_waves_that_only_run_a_short_loop_have_no_copy() -> None:
    orders = [[START, *ITERATION * 9, END], [START, *[STORE, START] * 2, END], [START, *ITERATION, END]]
    loop = Loop(LOAD, BACK)
    assert main_loops(made_trace(orders)) == [loop, None, loop]
    assert main_loops(made_trace(orders[::-1])) == [loop, None, loop]


def test_iterations_prologue_and_epilogue() -> None:
    steady = steady_loop(loop_timeline(trips=8, before=100, iteration=40, after=60))
    assert steady is not None
    assert (steady.trips, steady.cycles_per_iteration, steady.steps_per_iteration) == (8, 40, 4)
    assert (steady.prologue, steady.epilogue) == (100, 60)
    assert steady.cycles(8) == 100 + 8 * 40 + 60
    assert steady.cycles(1000) == 100 + 1000 * 40 + 60


def test_what_the_first_iterations_take_longer_is_no_part_of_the_steady_ones() -> None:
    steady = steady_loop(loop_timeline(trips=8, iteration=40, first_extra=500))
    assert steady is not None
    assert steady.cycles_per_iteration == 40
    assert steady.cycles(8) == 100 + 8 * 40 + 500 + 60


@pytest.mark.parametrize(("trips", "extra"), [(3, 0), (4, 0), (2, 500)])
def test_the_first_iteration_is_no_steady_one_where_there_are_others(trips: int, extra: int) -> None:
    """However few there are. Of two iterations the time of the first alone is known."""
    steady = steady_loop(loop_timeline(trips=trips, iteration=40, first_extra=500))
    assert steady is not None
    assert steady.cycles_per_iteration == 40 + extra


@pytest.mark.parametrize("trips", [0, 1])
def test_without_two_iterations_there_is_no_steady_loop(trips: int) -> None:
    assert steady_loop(loop_timeline(trips=trips)) is None


def test_units_and_stalls_in_the_steady_part() -> None:
    """Iterations of 40 cycles with a PRODUCT of 32 on one of four SIMDs, and a READ that keeps LDS busy for 8."""
    stalls = [
        (0, READ, Reason.WAIT_VMEM, 0, 50),  # before the loop
        (0, PRODUCT, Reason.WAIT_LDS, 200, 60),
        (0, BACK, Reason.UNIT_BUSY_MFMA, 300, 10),
    ]
    timeline = loop_timeline(trips=8, before=100, iteration=40, stalls=stalls)
    steady = steady_loop(timeline)
    assert steady is not None
    assert (steady.begin, steady.end) == (100 + 40, 100 + 7 * 40)  # without a quarter of seven steps
    assert steady.busy["mfma"] == pytest.approx(32 / 40 / 4)
    assert steady.busy["lds"] == pytest.approx(8 / 40)
    assert steady.busy["vmem"] == pytest.approx(4 / 40)
    assert steady.busy["trans"] == 0
    assert steady.stalls == {"wait lds": pytest.approx(60 / 240), "unit busy mfma": pytest.approx(10 / 240)}
    assert list(steady.stalls) == ["wait lds", "unit busy mfma"]


def test_stalls_count_as_far_as_they_lie_in_the_steady_part() -> None:
    timeline = loop_timeline(trips=8, before=100, iteration=40, stalls=[(0, LOAD, Reason.BARRIER, 130, 20)])
    steady = steady_loop(timeline)
    assert steady is not None
    assert steady.stalls == {"barrier": pytest.approx(10 / 240)}


def test_a_loop_that_is_entered_twice_is_measured_without_the_way_between() -> None:
    order = [START, *ITERATION * 4, STORE, START, *ITERATION * 4, STORE, END]
    issue = [0, *(10 + 40 * trip + 4 * step for trip in range(4) for step in range(4)), 200]
    issue += [1000 + cycle for cycle in issue] + [1300]
    steady = steady_loop(made_timeline(made_trace([order]), issue))
    assert steady is not None
    assert (steady.trips, steady.cycles_per_iteration) == (8, 40)
    assert steady.prologue + 8 * 40 + steady.epilogue == 1300


def test_waves_and_workgroups_are_averaged() -> None:
    order = [START, *ITERATION * 4, END]

    def issue(start: int, iteration: int) -> list[int]:
        at = [start + 20 + iteration * trip + 4 * step for trip in range(4) for step in range(4)]
        return [start, *at, start + 20 + 4 * iteration + 30]

    trace = made_trace([order] * 4, groups=[0, 0, 1, 1], grid=(2, 1, 1), threads=128)
    cycles = [*issue(0, 40), *issue(0, 40), *issue(8, 60), *issue(8, 60)]
    steady = steady_loop(made_timeline(trace, cycles))
    assert steady is not None
    assert steady.cycles_per_iteration == 50
    assert steady.prologue == 20
    assert steady.cycles(4) == pytest.approx((210 + 290) / 2)


def test_the_busy_units_of_a_timeline_are_those_of_its_loop() -> None:
    """A kernel that is nothing but its loop: shares of the loop are shares of the whole."""
    timeline = loop_timeline(trips=200, before=4, iteration=40, after=8)
    steady = steady_loop(timeline)
    assert steady is not None
    for unit, instances in ((Unit.MFMA, 4), (Unit.LDS, 1)):
        whole = timeline.unit_busy[unit] / timeline.cycles / instances
        assert steady.busy[unit.name.lower()] == pytest.approx(whole, rel=0.02)


def test_reasons_have_words() -> None:
    assert words_of(Reason.UNIT_BUSY_LDS) == "unit busy lds"
