"""Schedules as text: both ways, and every mistake named."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckmlir.dialect.schedule import FENCES, ORDERS, UNPIPELINED, Schedule

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
AHEAD = st.dictionaries(NAMES, st.integers(0, 8), max_size=4).map(lambda stages: tuple(sorted(stages.items())))


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    order = draw(st.sampled_from(ORDERS))
    step = draw(st.lists(NAMES, unique=True, max_size=4)) if order == "source" else []
    return Schedule(
        draw(NAMES), draw(AHEAD), draw(st.integers(1, 8)), tuple(step), order, draw(st.sampled_from(FENCES))
    )


@given(schedules())
def test_text_round_trips(schedule: Schedule) -> None:
    assert Schedule.parse(str(schedule)) == schedule
    assert Schedule.parse(str(schedule).replace("; ", "\n  ") + "  # a comment\n\n") == schedule


def test_what_a_schedule_says_of_a_stage() -> None:
    schedule = Schedule.parse("schedule s 1; ahead load 2, to_lds 1; step math, load")
    assert [schedule.ahead_of(stage) for stage in ("load", "to_lds", "math", "other")] == [2, 1, 0, 0]
    assert schedule.stages == ("load", "to_lds", "math")
    assert str(UNPIPELINED) == "schedule unpipelined 1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a schedule begins with 'schedule NAME 1', not 'schedule'"),
        ("schedule s 2", "a schedule begins with 'schedule NAME 1', not 'schedule s 2'"),
        ("schedule two words 1", "a schedule begins with 'schedule NAME 1'"),
        ("schedule 9s 1", "schedule name '9s' is not an identifier"),
        ("schedule s 1; speed 4", "unknown statement 'speed'; there are schedule, ahead, buffers, step, order, fences"),
        ("schedule s 1; buffers 2; buffers 2", "'buffers' is given twice"),
        ("schedule s 1; buffers", "'buffers' needs a value"),
        ("schedule s 1; buffers two", "buffers takes a number, not 'two'"),
        ("schedule s 1; buffers 9", "9 LDS buffers; 1 to 8 make sense"),
        ("schedule s 1; buffers 0", "0 LDS buffers; 1 to 8 make sense"),
        ("schedule s 1; buffers -1", "buffers takes a number, not '-1'"),
        ("schedule s 1; ahead load", "'ahead' takes 'STAGE ITERATIONS, …', not 'load'"),
        ("schedule s 1; ahead load x", "ahead load takes a number, not 'x'"),
        ("schedule s 1; ahead load 9", "stage 'load' runs 9 iterations ahead; 0 to 8 make sense"),
        ("schedule s 1; ahead load 1, load 2", "stages must be sorted and named once"),
        ("schedule s 1; step a, b, a", "a stage stands twice in the step: a, b, a"),
        ("schedule s 1; step a,,b", "a stage of the step has no name"),
        ("schedule s 1; order random", "order 'random' is not one of source, interleave"),
        ("schedule s 1; order interleave; step a, b", "finds the step's order itself; leave 'step' out"),
        ("schedule s 1; fences all", "fences 'all' is not one of none, memory"),
        ("schedule s 1; buffers ²", "buffers takes a number, not '²'"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Schedule.parse(text)
