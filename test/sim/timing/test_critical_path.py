"""The critical path: without gaps, as long as the run, and through what really held it up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from synthetic_timeline import BARRIER_CYCLES, synthetic

from ckmlir.sim.timing.critical_path import CriticalPath, Part, critical_path
from ckmlir.sim.timing.events import Reason, Timeline, Unit


def check_laws(path: CriticalPath, timeline: Timeline) -> None:
    """What holds of every critical path."""
    assert path.cycles == timeline.cycles
    assert path.segments[0].begin == 0 and path.segments[-1].end == timeline.cycles
    for before, after in zip(path.segments, path.segments[1:]):
        assert before.end == after.begin
    for segment in path.segments:
        assert segment.cycles > 0
        if segment.cause is Part.RESULT:
            row = timeline.events[segment.event]
            assert row["issue"] == segment.begin and segment.end <= row["done"]
    assert sum(share.cycles for share in path.by_line()) == timeline.cycles
    assert sum(share.cycles for share in path.by_instruction()) == timeline.cycles


@settings(max_examples=25, deadline=None)
@given(waves=st.integers(1, 6), steps=st.integers(1, 5), groups=st.integers(1, 3))
def test_laws(waves: int, steps: int, groups: int) -> None:
    timeline = synthetic(waves, steps, groups)
    check_laws(critical_path(timeline), timeline)


def test_a_load_that_all_wait_for_is_on_it_in_every_step() -> None:
    timeline = synthetic(waves=4, steps=8)
    results: dict[int, int] = {}
    for segment in critical_path(timeline).segments:
        unit = int(timeline.events["unit"][segment.event])
        if segment.cause is Part.RESULT:
            results[unit] = results.get(unit, 0) + segment.cycles
    assert results[Unit.VMEM] == 8 * 500
    assert critical_path(timeline).by_line()[0].place == "example.py:11"


def test_products_that_wait_for_the_unit_follow_each_other() -> None:
    timeline = synthetic(waves=1, steps=1)
    path = critical_path(timeline)
    causes = [segment.cause for segment in path.segments]
    assert causes.count(Reason.UNIT_BUSY_MFMA) == 7 and path.segments[-1].cause is Part.RESULT


def test_nothing_issued_has_no_path() -> None:
    timeline = synthetic(1, 1)
    empty = replace(timeline, events=timeline.events[:0], stalls=timeline.stalls[:0], cycles=0)
    assert critical_path(empty).segments == () and critical_path(empty).by_line() == []


@pytest.mark.parametrize("groups", [1, 2])
def test_barriers_cost_what_is_left_after_the_last_wave_has_come(groups: int) -> None:
    timeline = synthetic(waves=4, steps=3, groups=groups)
    waited = timeline.stalls["cycles"][timeline.stalls["reason"] == Reason.BARRIER]
    path = critical_path(timeline)
    assert (
        {one.cycles for one in path.segments if one.cause is Reason.BARRIER} == {BARRIER_CYCLES} < set(waited.tolist())
    )


def test_results_on_the_path_are_waited_for_to_the_end() -> None:
    timeline = synthetic(waves=4, steps=3)
    for segment in critical_path(timeline).segments:
        row = timeline.events[segment.event]
        if segment.cause is Part.RESULT and row["unit"] == Unit.VMEM:
            assert segment.cycles == row["done"] - row["issue"]
