"""Schedules as text: both ways, and every mistake named."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.dialect.schedule import UNPIPELINED, Schedule, ScheduleError
from ckmlir.dialect.schedule_items import MASKS, RESERVED, Barrier, Fence, Fragments, Priority, Wait
from ckmlir.dialect.schedule_problems import ELEMENTS, FENCES, MIX_KINDS, ORDERS, PATHS, WAITS

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(lambda name: name not in RESERVED)


def named(values: st.SearchStrategy[Any], names: st.SearchStrategy[str] = NAMES) -> st.SearchStrategy[Any]:
    """Sorted (name, value) pairs."""
    return st.dictionaries(names, values, max_size=3).map(lambda found: tuple(sorted(found.items())))


@st.composite
def items(draw: st.DrawFn) -> tuple[Any, ...]:
    """Of a step: every stage once, whole or in pieces, with markers between."""
    found: list[Any] = []
    for stage in draw(st.lists(NAMES, unique=True, max_size=3)):
        ends = sorted(draw(st.sets(st.integers(0, 20), max_size=3)))
        ahead = draw(st.none() | st.integers(0, 8))
        found += [Fragments(stage, first, last - 1, ahead) for first, last in itertools.pairwise(ends)]
        found += [] if len(ends) > 1 else [Fragments(stage, None, None, ahead)]
        masks = st.lists(st.sampled_from(MASKS), unique=True, min_size=1, max_size=2).map("|".join)
        found += draw(
            st.lists(
                st.just(Barrier()) | st.builds(Priority, st.integers(0, 3)) | st.builds(Wait, st.integers(0, 62))
                | st.builds(Fence, st.just("none") | masks),
                max_size=2,
            )
        )
    return tuple(found)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    order = draw(st.sampled_from(ORDERS))
    fences = draw(st.sampled_from(FENCES))
    mix: Any = ()
    if fences == "none":
        rounds = st.lists(st.tuples(st.sampled_from(MIX_KINDS), st.integers(1, 64)), max_size=3)
        mix = draw(st.just((("hot_loop", 0),)) | rounds.map(lambda one: (("mfma", 1), *one)))
    woven = order == "weave"
    slots, groups = draw(st.sampled_from(("unrolled", "carried"))), draw(st.integers(1, 2))
    stages = st.lists(NAMES, unique=True, min_size=1, max_size=3).map(lambda one: tuple(map(Fragments, one)))
    return Schedule(
        name=draw(NAMES),
        ahead=draw(named(st.integers(0, 8), NAMES | st.tuples(NAMES, NAMES).map(".".join))),
        buffers=draw(st.integers(1, 8)),
        step=draw(stages) if woven else draw(items()) if order == "source" else (),
        order=order,
        lead=draw(st.integers(1, 32)) if woven else 4,
        spacing=draw(st.integers(0, 32)) if woven else 0,
        elements=draw(st.sampled_from(ELEMENTS[1:] if woven else ELEMENTS)),
        fences=fences,
        path=draw(st.sampled_from(PATHS)),
        paths=draw(named(st.sampled_from(PATHS))),
        tensor_buffers=draw(named(st.integers(1, 8))),
        reads=draw(st.integers(0, 1)),
        mix=mix,
        priority=draw(named(st.integers(1, 3))),
        groups=groups,
        unroll=draw(st.integers(1, 8)),
        slots=slots,
        last=draw(st.integers(0, 16)) if slots == "carried" and groups == 1 else 0,
        apart=draw(st.just(()) | st.sets(NAMES, min_size=2, max_size=3).map(lambda one: tuple(sorted(one)))),
        waits=draw(st.sampled_from(WAITS)),
        occupancy=draw(st.integers(0, 8)),
    )


@settings(deadline=None)
@given(schedules())
def test_text_round_trips(schedule: Schedule) -> None:
    """On one line, as a file, with comments and odd spaces."""
    assert Schedule.parse(str(schedule)) == schedule
    assert Schedule.parse(schedule.pretty) == schedule
    assert Schedule.parse(str(schedule).replace("; ", "\n  ") + "  # a comment\n\n") == schedule


def test_what_a_schedule_says_of_stages_and_tensors() -> None:
    schedule = Schedule.parse(
        "schedule s 1; ahead load 2, to_lds 1; step math, load; buffers 2, v 3; path direct, b straight"
    )
    assert [schedule.ahead_of(stage) for stage in ("load", "to_lds", "math", "other")] == [2, 1, 0, 0]
    assert schedule.stages == ("load", "to_lds", "math")
    assert [schedule.buffers_of(tensor) for tensor in "av"] == [2, 3]
    assert [schedule.path_of(tensor) for tensor in "ab"] == ["direct", "straight"]
    assert schedule.tensors == ("v", "b")
    apart = Schedule.parse("schedule s 1; ahead load 1, load.a 2")
    assert [apart.ahead_of("load", tensor) for tensor in ("a", "b", "")] == [2, 1, 1]
    assert (apart.stages, apart.tensors) == (("load",), ("a",))
    assert str(UNPIPELINED) == "schedule unpipelined 1"


def test_items_of_a_step() -> None:
    schedule = Schedule.parse(
        "schedule s 1\nstep from_lds.0-3+1, fence, math.0, priority(1), math.1-2, fence(valu|salu), barrier, load"
    )
    assert schedule.step == (
        Fragments("from_lds", 0, 3, 1), Fence(), Fragments("math", 0, 0), Priority(1), Fragments("math", 1, 2),
        Fence("valu|salu"), Barrier(), Fragments("load"),
    )  # fmt: skip


def test_the_line_of_a_mistake_is_named() -> None:
    """Of text that cannot be read, and of a statement that makes no sense."""
    with pytest.raises(ScheduleError, match=r"schedule, line 3: buffers takes a number, not 'x'"):
        Schedule.parse("schedule s 1\n# two lines on:\nbuffers x")
    with pytest.raises(ScheduleError, match=r"line 2 of schedule 's': 9 LDS buffers; 1 to 8 make sense"):
        Schedule.parse("schedule s 1\nbuffers 9\norder source")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schedule s 1; order weave", "order 'weave' needs a step: each product, followed by the stages that lie"),
        ("schedule s 1; order weave; step a", "takes arithmetic apart; say how many elements a piece has: elements 2"),
        ("schedule s 1; order weave; elements 2; step a.0-3", "its step lists whole stages, not 'a.0-3'"),
        ("schedule s 1; order weave; elements 2; step a, fence", "its step lists whole stages, not 'fence'"),
        ("schedule s 1; order weave; elements 2; step a; lead 33", "lead 33; 1 to 32 make sense"),
        ("schedule s 1; order weave; elements 2; step a; spacing 33", "spacing 33; 1 to 32 make sense, and 0 for even"),
        ("schedule s 1; spacing 8", "order 'source' has no spacing; it is for order 'weave'"),
        ("schedule s 1; lead 8", "order 'source' has no lead; it is for orders 'weave' and 'interleave'"),
        ("schedule s 1; elements 3", "elements 3; 0, 1, 2, 4, 8, 16 make sense"),
        ("", "a schedule begins with 'schedule NAME 1'; the text is empty"),
        ("ahead load 1", "line 1: a schedule begins with 'schedule NAME 1', not 'ahead'"),
        ("schedule s 2", "a schedule begins with 'schedule NAME 1', not 'schedule s 2'"),
        ("schedule two words 1", "a schedule begins with 'schedule NAME 1'"),
        ("schedule 9s 1", "its name is not an identifier: '9s'"),
        ("schedule s 1; speed 4", "unknown statement 'speed'; there are schedule, ahead, path, buffers, step, order"),
        ("schedule s 1; buffers 2; buffers 2", "'buffers' is given twice"),
        ("schedule s 1; buffers", "'buffers' needs a value"),
        ("schedule s 1; buffers two", "buffers takes a number, not 'two'"),
        ("schedule s 1; buffers 9", "9 LDS buffers; 1 to 8 make sense"),
        ("schedule s 1; buffers 0", "0 LDS buffers; 1 to 8 make sense"),
        ("schedule s 1; buffers -1", "buffers takes a number, not '-1'"),
        ("schedule s 1; ahead load", "ahead takes 'STAGE ITERATIONS, …', not 'load'"),
        ("schedule s 1; ahead load x", "ahead takes a number, not 'x'"),
        ("schedule s 1; ahead load 9", "stage 'load' runs 9 iterations ahead; 0 to 8 make sense"),
        ("schedule s 1; ahead load 1, load 2", "stages must be sorted and named once"),
        ("schedule s 1; ahead load. 1", "'load.' is neither STAGE nor STAGE.TENSOR"),
        ("schedule s 1; ahead load.a.b 1", "'load.a.b' is neither STAGE nor STAGE.TENSOR"),
        ("schedule s 1; step a, b, a", "a stage or fragment stands twice in the step: a"),
        ("schedule s 1; step a,,b", "step has nothing between two commas"),
        ("schedule s 1; order random", "order 'random' is not one of source, interleave"),
        ("schedule s 1; order interleave; step a, b", "finds the step's order itself; leave 'step' out"),
        ("schedule s 1; fences all", "fences 'all' is not one of none, memory"),
        ("schedule s 1; buffers ²", "buffers takes a number, not '²'"),
        ("schedule s 1; buffers 1, k 2, k 3", "tensors must be sorted and named once: k, k"),
        ("schedule s 1; buffers 1, 2", "buffers takes 'TENSOR NUMBER, …', not '2'"),
        ("schedule s 1; path sideways", "path 'sideways' is not one of through, direct, straight"),
        ("schedule s 1; path a sideways", "path 'sideways' of 'a' is not one of through, direct, straight"),
        ("schedule s 1; step load.x", "'load.x' is none of STAGE, STAGE.NUMBER, STAGE.FIRST-LAST"),
        ("schedule s 1; step load.3-1", "'load.3-1' ends before it begins; write load.1-3"),
        ("schedule s 1; step load.0-3, load.2", "a stage or fragment stands twice in the step: load.2"),
        ("schedule s 1; step load+9", "'load+9' runs 9 iterations ahead; 0 to 8 make sense"),
        ("schedule s 1; step fence(sometimes)", "'sometimes' is not a kind of instruction; there are non_mem"),
        ("schedule s 1; step priority(4)", "'priority(4)' has to be priority(0), (1), (2) or (3)"),
        ("schedule s 1; step barrier(1)", "a barrier takes nothing in parentheses"),
        ("schedule s 1; mix mfma", "mix takes 'KIND COUNT, …', not 'mfma'"),
        ("schedule s 1; mix ds_read 2", "a round holds at least one mfma"),
        ("schedule s 1; mix mfma 0", "0 instructions 'mfma'; 1 to 64 make sense"),
        ("schedule s 1; mix tea 1", "'tea' is not a kind of instruction"),
        ("schedule s 1; mix mfma 1; fences memory", "leave the backend nothing to mix"),
        ("schedule s 1; priority math 4", "priority 4 of stage 'math'; 1 to 3 make sense"),
        ("schedule s 1; groups 5", "groups 5; 1 to 4 make sense"),
        ("schedule s 1; reads 2", "reads 2; 0 to 1 make sense"),
        ("schedule s 1; unroll 0", "unroll 0; 1 to 8 make sense"),
        ("schedule s 1; slots rotating", "slots 'rotating' is not one of unrolled, carried"),
        ("schedule s 1; last 4", "a last step that is apart takes its slots as numbers: slots carried, not 'unrolled'"),
        ("schedule s 1; last 4; slots carried; groups 2", "2 groups of waves do not come to the last step together"),
        ("schedule s 1; last 17; slots carried", "last 17; 0 to 16 make sense"),
        ("schedule s 1; apart k", "takes two or more tensors"),
        ("schedule s 1; waits never", "waits 'never' is not one of counted, drain"),
        ("schedule s 1; occupancy 9", "occupancy 9; 0 to 8 make sense"),
        ("schedule s 1; step wait", "'wait' has to be wait(COUNT), of 0 to 62 accesses left outstanding"),
        ("schedule s 1; step wait(63)", "'wait(63)' has to be wait(COUNT), of 0 to 62 accesses left outstanding"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Schedule.parse(text)
