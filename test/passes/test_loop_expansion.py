"""Loops before and after their schedule is applied compute the same, by interpreting both on integers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_interpreter import Machine, run

from ckmlir.dialect.context import shared_context
from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Fragments
from ckmlir.mlir import ir
from ckmlir.passes.framework import PassFailure
from ckmlir.passes.pipeline_loops import PipelineLoops

VIEW = '!ck.view<i32, "global", "d0 = embed(offset, lengths=[1024], strides=[1]); view(d0)">'
WINDOW = VIEW.replace("view<", "window<", 1).replace(">", ", [64]>")
LDS = "!ck.lds<[64], i32>"
THREAD = 'distribution = "d0: 64@lane", registers = array<i32: 0>'
CARRIED = 3


def stage_text(stage: str | None) -> str:
    return f'ck.stage = "{stage}"' if stage else ""


@dataclass
class Body:
    """Text of a loop body; every method adds operations and returns the name of their value."""

    lines: list[str] = field(default_factory=list)
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def compute(self, operation: str, left: str, right: str, stage: str | None = None) -> str:
        result = self.name()
        self.lines.append(f"{result} = arith.{operation} {left}, {right} {{{stage_text(stage)}}} : i32")
        return result

    def load(self, origin: str, stage: str | None = "load") -> str:
        window, vector, result = self.name(), self.name(), self.name()
        self.lines += [
            f'{window} = "ck.make_window"(%view, {origin}) {{{stage_text(stage)}}} : ({VIEW}, i32) -> {WINDOW}',
            f'{vector} = "ck.load_fragment"({window}) {{{THREAD}, {stage_text(stage)}}} : ({WINDOW}) -> vector<1xi32>',
            f"{result} = vector.extract {vector}[0] {{{stage_text(stage)}}} : i32 from vector<1xi32>",
        ]
        return result

    def through_lds(self, value: str, write: str | None = "to_lds", read: str | None = "from_lds") -> str:
        lds, vector, back, result = (self.name() for _ in range(4))
        layout = 'layout = "lengths 64 order 0 pitch 64"'
        self.lines += [
            f'{lds} = "ck.lds_alloc"() {{{layout}, {stage_text(write)}}} : () -> {LDS}',
            f"{vector} = vector.broadcast {value} {{{stage_text(write)}}} : i32 to vector<1xi32>",
            f'"ck.lds_write"({vector}, {lds}) {{{THREAD}, {stage_text(write)}}} : (vector<1xi32>, {LDS}) -> ()',
            f'{back} = "ck.lds_read"({lds}) {{{THREAD}, {stage_text(read)}}} : ({LDS}) -> vector<1xi32>',
            f"{result} = vector.extract {back}[0] {{{stage_text(read)}}} : i32 from vector<1xi32>",
        ]
        return result

    def module(self, yielded: list[str], schedule: Schedule) -> ir.Module:
        carried = ", ".join(f"%c{i} = %i{i}" for i in range(CARRIED))
        types = ", ".join(["i32"] * CARRIED)
        lines = [re.sub(r" \{\}|(?<=, )(?=\})|, (?=\})", "", line) for line in self.lines]
        text = f"""
func.func @f(%lower: i32, %upper: i32, %step: i32, %i0: i32, %i1: i32, %i2: i32, %p: i32) -> ({types})
    attributes {{ck.waves = 1 : i32}} {{
  %pointer = llvm.inttoptr %p : i32 to !llvm.ptr<1>
  %view = "ck.make_view"(%pointer) : (!llvm.ptr<1>) -> {VIEW}
  %r:{CARRIED} = scf.for %i = %lower to %upper step %step iter_args({carried}) -> ({types}) : i32 {{
    {chr(10).join(lines)}
    scf.yield {", ".join(yielded)} : {types}
  }} {{ck.schedule = "{schedule}"}}
  return %r#0, %r#1, %r#2 : {types}
}}"""
        return ir.Module.parse(text)


def check_same(body: Body, yielded: list[str], schedule: Schedule) -> ir.Module:
    """Apply the schedule and compare results for trip counts of 0 to 7; PassFailure where it is refused."""
    source, expanded = body.module(yielded, schedule), body.module(yielded, schedule)
    PipelineLoops().apply(expanded)
    expanded.operation.verify()
    assert "scf.for" not in str(expanded)
    for trips in range(8):
        for lower, step in ((0, 1), (5, 3)):
            initial = [101, 202, 303]
            wanted, _ = run(source, lower, trips, step, initial)
            assert run(expanded, lower, trips, step, initial)[0] == wanted, f"{trips} iterations"
    return expanded


@pytest.fixture(autouse=True)
def _context(context: ir.Context) -> None:
    pass


# -- every body and schedule that is accepted


@st.composite
def bodies(draw: st.DrawFn) -> tuple[Body, list[str], Schedule]:
    body = Body()
    pool = ["%i", "%c0", "%c1", "%c2", "%i0"]
    stages: set[str] = set()

    def operand() -> str:
        return draw(st.sampled_from(pool))

    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["compute", "compute", "load", "lds", "load_lds"]))
        if kind == "compute":
            stage = draw(st.sampled_from([None, None, "math"]))
            stages |= {stage} if stage else set()
            pool.append(body.compute(draw(st.sampled_from(["addi", "muli", "xori"])), operand(), operand(), stage))
        elif kind == "lds":
            stages |= {"to_lds", "from_lds"}
            pool.append(body.through_lds(operand()))
        elif kind == "load":
            stages.add("load")
            pool.append(body.load("%i"))
        else:
            stages |= {"load", "to_lds", "from_lds"}
            pool.append(body.through_lds(body.load("%i")))
    yielded = [draw(st.sampled_from(pool)) for _ in range(CARRIED)]
    load, write, read = sorted(draw(st.tuples(*[st.integers(0, 3)] * 3)), reverse=True)
    ahead = {"load": load, "to_lds": write, "from_lds": read, "math": draw(st.integers(0, 1))}
    step = draw(st.permutations(sorted(stages)).map(tuple) | st.just(()))
    schedule = Schedule(
        "drawn",
        tuple(sorted((stage, ahead[stage]) for stage in stages)),
        draw(st.integers(1, 4)),
        tuple(map(Fragments, step)) if draw(st.booleans()) else (),
    )
    return body, yielded, schedule


@settings(max_examples=150)
@given(bodies())
def test_any_schedule_that_is_accepted_keeps_the_results(drawn: tuple[Body, list[str], Schedule]) -> None:
    with shared_context():
        try:
            check_same(*drawn)
        except PassFailure as refusal:
            assert "schedule 'drawn'" in str(refusal)


# -- bodies that must be accepted


def staged_sum(body: Body) -> list[str]:
    """Load, through LDS, add to a carried sum."""
    return [body.compute("addi", "%c0", body.through_lds(body.load("%i")), "math"), "%c1", "%c2"]


def swapped(body: Body) -> list[str]:
    """Two carried values change places; the third takes one of them."""
    return ["%c1", "%c0", body.compute("xori", "%c2", "%c0")]


def delayed(body: Body) -> list[str]:
    """A value is used two iterations after it was loaded."""
    return [body.load("%i"), "%c0", body.compute("addi", "%c1", "%c2", "math")]


def carried_origin(body: Body) -> list[str]:
    """What a load that runs ahead needs is carried, and so is computed ahead as well."""
    value = body.load("%c0")
    return [body.compute("addi", "%c0", "%step"), body.compute("addi", "%c1", value, "math"), "%c0"]


def delayed_origin(body: Body) -> list[str]:
    """What a load that runs ahead needs is handed on through another carried value."""
    value = body.load("%c2")
    next_origin = body.compute("addi", "%c0", "%step")
    return [next_origin, body.compute("xori", "%c1", value, "math"), "%c0"]


def unchanged(body: Body) -> list[str]:
    """A carried value stays what it was, the loop index and a value from outside are handed on."""
    return ["%c0", "%i", "%i2" if body.load("%i") else ""]


def stages(*names: str) -> tuple[Fragments, ...]:
    """Whole stages, as the items of a step."""
    return tuple(map(Fragments, names))


AHEAD = (("load", 2), ("to_lds", 1))
SCHEDULES = {
    "unpipelined": Schedule("unpipelined"),
    "one ahead": Schedule("one", (("load", 1),)),
    "two ahead": Schedule("two", (("load", 2),)),
}
STAGED = {
    **SCHEDULES,
    "one buffer": Schedule("one_buffer", (("load", 1), ("to_lds", 1)), 1, stages("load", "from_lds", "to_lds", "math")),
    "two buffers": Schedule("double", AHEAD, 2),
    "three buffers, two ahead": Schedule("triple", (("load", 3), ("to_lds", 2)), 3),
    "read ahead": Schedule("read_ahead", (("from_lds", 1), ("load", 3), ("to_lds", 2)), 2),
}
BODIES = [(staged_sum, STAGED), (swapped, SCHEDULES), (delayed, SCHEDULES), (unchanged, SCHEDULES)]


@pytest.mark.parametrize(
    ("make", "schedule"),
    [
        pytest.param(make, schedule, id=f"{make.__name__} {name}")
        for make, schedules in BODIES
        for name, schedule in schedules.items()
        if make not in (swapped,) or name == "unpipelined"
    ],
)
def test_accepted(make: Any, schedule: Schedule) -> None:
    body = Body()
    check_same(body, make(body), schedule)


@pytest.mark.parametrize("make", [carried_origin, delayed_origin])
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_what_a_load_ahead_needs_is_computed_ahead(make: Any, schedule: Schedule) -> None:
    """Compared by hand: the origins come from the carried values, which may leave the tensor when nobody looks."""
    body = Body()
    yielded = make(body)
    source, expanded = body.module(yielded, schedule), body.module(yielded, schedule)
    PipelineLoops().apply(expanded)
    for trips in range(6):
        results = []
        for module in (source, expanded):
            machine = Machine(range(1000))
            function = module.body.operations[0].operation
            results.append(machine.call(function, [0, trips, 1, 100, 200, 300, 0]))
        assert results[0] == results[1]


def test_loads_run_as_far_ahead_as_the_schedule_says_and_never_beyond_the_last() -> None:
    body = Body()
    expanded = body.module(staged_sum(body), STAGED["two buffers"])
    PipelineLoops().apply(expanded)
    _, machine = run(expanded, 0, 5, 1, [0, 0, 0])
    assert [origin for _, origin in machine.order] == [0, 1, 2, 3, 4, 4], "the step behind two turns loads nothing"
    _, machine = run(expanded, 0, 4, 1, [0, 0, 0])
    assert [origin for _, origin in machine.order] == [0, 1, 2, 3, 3, 3]
    assert expanded.operation.verify()


@pytest.mark.parametrize("buffers", [1, 2, 3, 4])
def test_the_steady_loop_is_unrolled_as_often_as_buffers_rotate(buffers: int) -> None:
    body = Body()
    step = stages("load", "from_lds", "to_lds", "math") if buffers == 1 else ()
    expanded = body.module(staged_sum(body), Schedule("s", (("load", 1), ("to_lds", 1)), buffers, step))
    PipelineLoops().apply(expanded)
    function = expanded.body.operations[0].operation
    loops = [
        [op.operation.name for op in block]
        for block in function.regions[0]
        if any(block == successor for op in block for successor in op.operation.successors)
    ]
    assert len(loops) == 1
    assert loops[0].count("ck.lds_read") == buffers
    assert str(expanded).count("ck.lds_alloc") == buffers


def test_a_loop_inside_an_unpipelined_loop_is_expanded_too() -> None:
    module = nested_loops("schedule outer 1", "schedule inner 1; ahead load 1")
    source = nested_loops("schedule outer 1", "schedule inner 1; ahead load 1")
    PipelineLoops().apply(module)
    assert module.operation.verify() and "scf.for" not in str(module)
    for outer in range(4):
        for inner in range(4):
            results = [
                Machine(range(100)).call(one.body.operations[0].operation, [outer, inner, 7, 0])
                for one in (source, module)
            ]
            assert results[0] == results[1]


def nested_loops(outer: str, inner: str) -> ir.Module:
    """An LDS tensor that the outer loop writes and the inner one reads."""
    return ir.Module.parse(f"""
func.func @f(%n: i32, %m: i32, %start: i32, %p: i32) -> i32 attributes {{ck.waves = 1 : i32}} {{
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %pointer = llvm.inttoptr %p : i32 to !llvm.ptr<1>
  %view = "ck.make_view"(%pointer) : (!llvm.ptr<1>) -> {VIEW}
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %start) -> (i32) : i32 {{
    %lds = "ck.lds_alloc"() {{layout = "lengths 64 order 0 pitch 64"}} : () -> {LDS}
    %vector = vector.broadcast %c : i32 to vector<1xi32>
    "ck.lds_write"(%vector, %lds) {{{THREAD}, ck.stage = "to_lds"}} : (vector<1xi32>, {LDS}) -> ()
    %s = scf.for %j = %zero to %m step %one iter_args(%d = %c) -> (i32) : i32 {{
      %window = "ck.make_window"(%view, %j) : ({VIEW}, i32) -> {WINDOW}
      %loaded = "ck.load_fragment"(%window) {{{THREAD}, ck.stage = "load"}} : ({WINDOW}) -> vector<1xi32>
      %x = vector.extract %loaded[0] : i32 from vector<1xi32>
      %back = "ck.lds_read"(%lds) {{{THREAD}}} : ({LDS}) -> vector<1xi32>
      %y = vector.extract %back[0] : i32 from vector<1xi32>
      %xy = arith.xori %x, %y : i32
      %next = arith.addi %d, %xy : i32
      scf.yield %next : i32
    }} {{ck.schedule = "{inner}"}}
    scf.yield %s : i32
  }} {{ck.schedule = "{outer}"}}
  return %r : i32
}}""")


# -- refusals: (body, what it hands on, schedule, what is said)


def refused(make: Any, schedule: Schedule) -> str:
    body = Body()
    with pytest.raises(PassFailure) as caught:
        PipelineLoops().apply(body.module(make(body), schedule))
    return str(caught.value)


def slow_origin(body: Body) -> list[str]:
    """A load whose origin another load has fetched in the iteration before."""
    body.load("%c0")
    return [body.load("%i", "slow"), "%c1", "%c2"]


def handed_index(body: Body) -> list[str]:
    """A load at the index of the iteration before."""
    return [body.load("%c1"), "%i", "%c2"]


@pytest.mark.parametrize(
    ("make", "schedule", "message"),
    [
        (staged_sum, Schedule("s", (("to_lds", 1),)), "before what it uses (stage 'to_lds' 1 ahead, stage 'load' 0"),
        (staged_sum, Schedule("s", (("from_lds", 1),)), "reads an LDS tensor before it is written"),
        (staged_sum, Schedule("s", (), 1, stages("from_lds", "load", "to_lds")), "an LDS tensor before it is written"),
        (staged_sum, Schedule("s", (), 1, stages("math", "from_lds")), "runs this before what it uses"),
        (staged_sum, Schedule("s", (("load", 1), ("to_lds", 1))), "1 iterations ahead of the read into 1 buffer; 2"),
        (staged_sum, Schedule("s", (("load", 3), ("to_lds", 3)), 2), "3 iterations ahead of the read into 2 buffers"),
        (slow_origin, Schedule("s", (("load", 2),)), "stage 'slow' 0 ahead)"),
        (slow_origin, Schedule("s", (("load", 1),), 1, stages("load", "slow")), "runs this before what it uses"),
        (handed_index, Schedule("s", (("load", 1),)), "before the loop hands on the index"),
        (staged_sum, Schedule("s", (("store", 1),)), "speaks of stage 'store'; the loop has from_lds, load"),
    ],
)  # fmt: skip
def test_refused(make: Any, schedule: Schedule, message: str) -> None:
    assert message in refused(make, schedule)


def test_a_schedule_of_a_loop_with_a_loop_inside_is_refused() -> None:
    with pytest.raises(PassFailure, match="pipelines a loop that holds another loop; only innermost loops can be"):
        PipelineLoops().apply(nested_loops("schedule outer 1; ahead to_lds 1; buffers 2", "schedule inner 1"))


def test_lds_from_outside_the_loop_keeps_the_order_of_its_accesses() -> None:
    def module(schedule: str) -> ir.Module:
        return ir.Module.parse(f"""
func.func @f(%n: i32, %start: i32) -> i32 attributes {{ck.waves = 1 : i32}} {{
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %lds = "ck.lds_alloc"() {{layout = "lengths 64 order 0 pitch 64"}} : () -> {LDS}
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %start) -> (i32) : i32 {{
    %vector = vector.broadcast %i : i32 to vector<1xi32>
    "ck.lds_write"(%vector, %lds) {{{THREAD}, ck.stage = "to_lds"}} : (vector<1xi32>, {LDS}) -> ()
    %back = "ck.lds_read"(%lds) {{{THREAD}, ck.stage = "from_lds"}} : ({LDS}) -> vector<1xi32>
    %y = vector.extract %back[0] {{ck.stage = "from_lds"}} : i32 from vector<1xi32>
    %next = arith.addi %c, %y : i32
    scf.yield %next : i32
  }} {{ck.schedule = "{schedule}"}}
  return %r : i32
}}""")

    for schedule in ("schedule s 1; ahead to_lds 1; buffers 2", "schedule s 1; step from_lds, to_lds"):
        with pytest.raises(PassFailure, match="moves this past another access to the same LDS tensor"):
            PipelineLoops().apply(module(schedule))
    kept = module("schedule s 1; ahead to_lds 1, from_lds 1")
    PipelineLoops().apply(kept)
    assert Machine(range(0)).call(kept.body.operations[0].operation, [4, 10]) == [10 + 0 + 1 + 2 + 3]
