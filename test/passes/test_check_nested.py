"""Kernels with loops in loops are proved, also where lengths and pointers come from memory, and refused once broken."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from nested_kernels import AHEAD, KERNELS
from schedule_mutations import EXPECTED, MUTATIONS

from ckmlir.dialect.context import shared_context
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Kernel, Tile, Window, i32, kernel, load, loop, ptr, stage, store, to_lds, view, while_loop
from ckmlir.mlir import ir
from ckmlir.passes.check_schedule import check_module
from ckmlir.passes.pipeline import PIPELINE, run_pipeline
from ckmlir.passes.proof.dependences import check_dependences
from ckmlir.passes.walk import functions, operations
from ckmlir.targets import get_target

CHIPS = ("gfx90a", "gfx942", "gfx950")
SCHEDULED = PIPELINE[: [str(step.run) for step in PIPELINE].index("ck-lower-fragments")]
SCHEDULES = [(name, schedule) for name, (_, schedules) in KERNELS.items() for schedule in schedules]


@cache
def texts(name: str, chip: str, schedule: str) -> tuple[str, str]:
    """A kernel's fragments, and what the scheduling passes make of them."""
    made = KERNELS[name][0](chip, schedule)
    with made.module.context:
        run = run_pipeline(made.module, SCHEDULED, keep=("fragments", "scheduled"), dump_on_failure=False)
    return run.artifacts["fragments"], run.artifacts["scheduled"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "schedule"), SCHEDULES)
def test_loops_in_loops_are_proved(name: str, schedule: str) -> None:
    chip = CHIPS[SCHEDULES.index((name, schedule)) % len(CHIPS)]
    with shared_context():
        before, after = map(ir.Module.parse, texts(name, chip, schedule))
        assert [str(finding) for finding in check_module(after, before)] == []


SUBJECTS = [
    ("grouped", "gfx942", "compv4"),
    ("grouped", "gfx950", "async"),
    ("attention", "gfx90a", "qr"),
    ("backward", "gfx942", AHEAD),
]
HARMLESS = {("backward", "barrier removed"): {3}, ("backward", "wait removed"): {3}, ("backward", "wait weakened"): {3}}
"""Changes that break nothing: waves write and read rows of probabilities of their own, and the pass, which looks at
whole tensors, has put a barrier between.
"""
MOST = 3


@pytest.mark.one_in(12)
@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize(("name", "chip", "schedule"), SUBJECTS)
def test_broken_loops_in_loops_are_refused(name: str, chip: str, schedule: str, mutation: str) -> None:
    with shared_context():
        before, after = map(ir.Module.parse, texts(name, chip, schedule))
        changes = list(MUTATIONS[mutation](kernel_operations(after)))
        if not changes:
            pytest.skip("nothing of the kind in this kernel")
        for number in range(0, len(changes), max(1, len(changes) // MOST)):
            if number in HARMLESS.get((name, mutation), ()):
                continue
            broken = ir.Module.parse(texts(name, chip, schedule)[1])
            changes[number](kernel_operations(broken))
            assert broken.operation.verify()
            found = {finding.check for finding in check_module(broken, before)}
            assert found, "a broken schedule was accepted"
            assert EXPECTED.get(mutation, found) & found


def kernel_operations(module: ir.Module) -> list[ir.Operation]:
    return list(operations(next(functions(module))))


# -- what goes round


LIES = coalesced((256,), 2, 0, 2)


def row(pointer: Any, number: int) -> Window:
    return view(pointer, (64, 256), (256, 1)).freeze(0, number).window((256,), (0,))


def carrying(chip: str, inside: Callable[[Any, list[Tile]], list[Tile]]) -> Kernel:
    """Three rows go round a loop, in which `inside` has them go round another one."""

    @kernel("carrying", target=get_target(chip), waves=2, arguments={"x": ptr("f32"), "y": ptr("f32"), "n": i32})
    def traced(given: Any) -> None:
        rows = [load(row(given.x, number), LIES) for number in range(3)]
        with loop(0, given.n, 1, carry=rows) as outer:
            found = inside(given, list(outer.carried))
            outer.carry(found[1], found[0], found[2])
        for number, result in enumerate(outer.results):
            store(result, row(given.y, number))

    return traced


def nothing_changes(given: Any, rows: list[Tile]) -> list[Tile]:
    with loop(0, given.n, 1, carry=rows) as step:
        step.carry(*step.carried)
    return list(step.results)


def one_changes(given: Any, rows: list[Tile]) -> list[Tile]:
    with loop(0, given.n, 1, carry=rows) as step:
        a, b, c = step.carried
        step.carry(a + to_lds(b).read(LIES), b, c)
    return list(step.results)


def they_rotate(given: Any, rows: list[Tile]) -> list[Tile]:
    with loop(0, given.n, 1, carry=rows) as step:
        a, b, c = step.carried
        step.carry(b, c, a)
    return list(step.results)


def another_loop(given: Any, rows: list[Tile]) -> list[Tile]:
    with loop(0, given.n, 1, carry=rows) as step:
        a, b, c = one_changes(given, list(step.carried))
        step.carry(b, a, c + 1.0)
    return list(step.results)


def another_loop_without_change(given: Any, rows: list[Tile]) -> list[Tile]:
    with loop(0, given.n, 1, carry=rows) as step:
        a, b, c = nothing_changes(given, list(step.carried))
        step.carry(a, b, c + b)
    return list(step.results)


INSIDE = [nothing_changes, one_changes, they_rotate, another_loop, another_loop_without_change]


@pytest.mark.parametrize("inside", INSIDE)
def test_what_loops_carry_settles(inside: Callable[[Any, list[Tile]], list[Tile]]) -> None:
    """Values that go round unchanged, or in turns, are known in all iterations at once: little work is enough."""
    made = carrying("gfx942", inside)
    with made.module.context:
        run = run_pipeline(made.module, SCHEDULED, keep=("fragments", "scheduled"), dump_on_failure=False)
        before, after = (ir.Module.parse(run.artifacts[name]) for name in ("fragments", "scheduled"))
        (source,), (scheduled,) = functions(before), functions(after)
        assert check_dependences(scheduled, source, work=20) == []
        branches = [op for op in operations(scheduled) if op.name == "cf.cond_br" and len(op.operands) > 4]
        assert branches
        for branch in branches:
            first, second = branch.operands[2], branch.operands[3]
            branch.operands[2], branch.operands[3] = second, first
            assert check_dependences(scheduled, source, work=20) != []
            branch.operands[2], branch.operands[3] = first, second


# -- bounds from memory


def sum_of_row(given: Any, number: Any, total: Tile, schedule: str, *, end_first: bool) -> Tile:
    """A row of which memory has the begin; that of the next row is its end."""
    places = (number + 1, number) if end_first else (number, number + 1)
    found = {place is number: given.begins.scalar(place) for place in places}
    begin, end = found[True], found[False]
    with loop(begin, end, 256, carry=[total], schedule=Schedule.parse(schedule)) as step:
        with stage("load"):
            part = load(view(given.x, (end,), (1,)).pad(256).window((256,), (step.index,)), LIES)
        with stage("math"):
            step.carry(step.carried[0] + part)
    return step.results[0]


def rows_of_a_table(*, end_first: bool, counted: bool, schedule: str) -> Kernel:
    """Sums over rows, in a loop with an index or one that decides each time."""

    @kernel("rows", target=get_target("gfx942"), waves=2, arguments={"x": ptr("f32"), "begins": ptr("i32"), "n": i32})
    def traced(given: Any) -> None:
        nothing = load(row(given.x, 0), LIES)
        if counted:
            with loop(0, given.n, 1, carry=[nothing]) as outer:
                outer.carry(sum_of_row(given, outer.index, outer.carried[0], schedule, end_first=end_first))
        else:
            with while_loop(lambda number, total: number < given.n, carry=[given.n - 5, nothing]) as outer:
                number, total = outer.carried
                outer.carry(number + 1, sum_of_row(given, number, total, schedule, end_first=end_first))
        store(outer.results[-1], row(given.x, 1))

    return traced


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("end_first", [False, True])
@pytest.mark.parametrize("schedule", ["schedule s 1", "schedule s 1; ahead load 2"])
def test_rows_of_a_table_are_proved(schedule: str, *, end_first: bool, counted: bool) -> None:
    made = rows_of_a_table(end_first=end_first, counted=counted, schedule=schedule)
    with made.module.context:
        run = run_pipeline(made.module, SCHEDULED, keep=("fragments", "scheduled"), dump_on_failure=False)
        before, after = (ir.Module.parse(run.artifacts[name]) for name in ("fragments", "scheduled"))
        assert [str(finding) for finding in check_module(after, before)] == []
        for op in kernel_operations(after):
            user = next((use.owner.operation for result in op.results for use in result.uses), None)
            if op.name == "arith.addi" and user is not None and user.name == "arith.extsi":
                op.operands[1] = op.operands[0]  # twice the index, not the next one
        assert check_module(after, before) != []


# -- an end


def test_a_proof_ends_when_its_work_is_done() -> None:
    with shared_context():
        before, after = map(ir.Module.parse, texts("grouped", "gfx942", "compv4"))
        (function,), (reference,) = map(list, (functions(after), functions(before)))
        (finding,) = check_dependences(function, reference, work=1)
        assert "not proved within" in finding.message
        assert "does not settle" in finding.message
        assert check_dependences(function, reference) == []
