"""Candidates timed in turns: who wins, who leaves when, and how sure that is; on a device whose clock is scripted."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from ckmlir.runtime import interleaved
from ckmlir.runtime.interleaved import Candidate, Timing, time_interleaved


class Clock:
    """A device, stream and event in one: launches advance its time, events note it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.open = 0

    def create_stream(self) -> Any:
        self.open += 1
        return self

    def create_event(self) -> Any:
        self.open += 1
        return Event(self)

    def synchronize(self) -> None:
        return

    def close(self) -> None:
        self.open -= 1


class Event:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def record(self, stream: Clock) -> None:
        self.at = stream.now

    def seconds_since(self, earlier: Event) -> float:
        return self.at - earlier.at

    def close(self) -> None:
        self.clock.open -= 1


def taking(clock: Clock, seconds: Callable[[], float], order: list[int] | None = None, place: int = 0) -> Candidate:
    def launch(stream: Any) -> None:
        assert stream is clock
        clock.now += seconds()
        if order is not None:
            order.append(place)

    return launch


def test_the_fastest_stays_and_the_others_leave_as_soon_as_that_is_known() -> None:
    clock, drawn = Clock(), random.Random(1)
    found = time_interleaved(
        [taking(clock, lambda base=base: base * drawn.uniform(0.98, 1.02)) for base in (3.0, 1.0, 1.005, 2.0)],  # type: ignore[misc]
        clock,  # type: ignore[arg-type]
    )
    assert (found[0].left, found[3].left) == (interleaved.LEAST_ROUNDS, interleaved.LEAST_ROUNDS)
    assert found[1].left is None and (found[2].left or 99) > interleaved.LEAST_ROUNDS
    for one, base in zip(found, (3.0, 1.0, 1.005, 2.0), strict=True):
        assert one.low <= one.times.median <= one.high
        assert one.times.median == pytest.approx(base, rel=0.02)
    assert clock.open == 0


def test_a_clock_that_drifts_changes_nothing() -> None:
    """Each launch takes longer than the one before: whoever is timed last alone would seem slow."""
    clock = Clock()
    order: list[int] = []

    def drifting(base: float) -> Callable[[], float]:
        return lambda: base * (1 + 0.002 * len(order))

    candidates = [taking(clock, drifting(base), order, place) for place, base in enumerate((1.00, 0.97, 1.1))]
    found = time_interleaved(candidates, clock)  # type: ignore[arg-type]
    medians = [one.times.median for one in found]
    assert medians[1] < medians[0] < medians[2]
    assert found[2].left and medians[2] / medians[1] == pytest.approx(1.1 / 0.97, rel=0.02)
    turns = order[:: interleaved.LAUNCHES + 1]
    rounds = [tuple(turns[place : place + 3]) for place in range(0, 15, 3)]
    assert all(sorted(one) == [0, 1, 2] for one in rounds) and len(set(rounds)) > 1


def test_what_is_the_same_stays_and_all_is_told() -> None:
    clock = Clock()
    told: dict[int, Timing] = {}
    found = time_interleaved(
        [taking(clock, lambda: 1.0) for _ in range(3)], clock, report=lambda place, one: told.update({place: one})  # type: ignore[arg-type]
    )
    assert [one.left for one in found] == [None] * 3
    assert [told[place] for place in range(3)] == found
    assert len(found[0].times.seconds) == interleaved.MOST_ROUNDS * interleaved.LAUNCHES


def test_time_that_is_up() -> None:
    clock = Clock()
    found = time_interleaved([taking(clock, lambda: 1.0) for _ in range(2)], clock, deadline=0.0)  # type: ignore[arg-type]
    assert [len(one.times.seconds) for one in found] == [interleaved.LAUNCHES] * 2  # one round
    assert time_interleaved([], clock) == []  # type: ignore[arg-type]


def test_streams_and_events_are_given_back_after_a_fault() -> None:
    clock = Clock()

    def fault(stream: Any) -> None:
        raise ValueError

    with pytest.raises(ValueError):
        time_interleaved([taking(clock, lambda: 1.0), fault], clock)  # type: ignore[arg-type]
    assert clock.open == 0


@pytest.mark.parametrize("count", [20, 41, 100])
def test_how_sure_a_median_is(count: int) -> None:
    """The interval has the median of what is drawn from, in about 95 of 100 cases, and is not all of the samples."""
    drawn = random.Random(count)
    within = 0
    for _ in range(1000):
        samples = [drawn.expovariate(1.0) for _ in range(count)]
        low, high = interleaved._interval(samples)
        within += low <= 0.6931471805599453 <= high
        assert min(samples) < low and high < max(samples)
    assert 940 <= within <= 990
