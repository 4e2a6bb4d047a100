"""Schedules whose groups of waves run out of phase, broken in every place: the schedule checker refuses what the
simulator's checkers or the numbers show to be wrong, and what it accepts is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from broken_schedules import (
    WATCHING,
    Broken,
    Change,
    DeepGemm,
    Subject,
    bench,
    broken,
    kernel_operations,
    seen_running,
)

from ckmlir.dialect.build import integer, integer_of
from ckmlir.mlir import ir
from ckmlir.passes.check_schedule import check_module

SUBJECTS = [
    Subject("gemm", "gfx942", "compv5"),
    DeepGemm("gemm", "gfx90a", "ping_pong"),
    DeepGemm("gemm", "gfx950", "ping_pong_async"),
    Subject("fmha_fwd", "gfx950", "qr_async_ping_pong", "fp8"),
]
STEPS = range(1, 6)


def removed(name: str) -> Callable[[list[ir.Operation]], Iterator[Change]]:
    def found(ops: list[ir.Operation]) -> Iterator[Change]:
        for number, op in enumerate(ops):
            if op.name == name:
                yield Change(number, lambda copy: copy.erase())

    return found


def wait_weakened(ops: list[ir.Operation]) -> Iterator[Change]:
    for number, op in enumerate(ops):
        for counter in ("copies", "lds"):
            if op.name == "ck.wait" and counter in op.attributes:

                def edit(wait: ir.Operation, counter: str = counter) -> None:
                    wait.attributes[counter] = integer(integer_of(wait, counter) + 1)

                yield Change(number, edit)


def moved_up(*names: str) -> Callable[[list[ir.Operation]], Iterator[Change]]:
    """Accesses of the loop a phase earlier: before the barrier behind which they stand, and its wait."""

    def found(ops: list[ir.Operation]) -> Iterator[Change]:
        for number, op in enumerate(ops):
            barrier = barrier_before(op) if op.name in names and "ck.stage" in op.attributes else None
            if barrier is not None and not depends_on_what_is_between(op, barrier):
                yield Change(number, lambda copy: copy.move_before(barrier_before(copy)))

    return found


def barrier_before(op: ir.Operation) -> ir.Operation | None:
    """The last barrier before an operation in its block, or the wait right before that."""
    before = [one.operation for one in op.block]
    before = before[: before.index(op)]
    places = [number for number, one in enumerate(before) if one.name == "ck.barrier"]
    if not places:
        return None
    wait = before[places[-1] - 1] if places[-1] else None
    return wait if wait is not None and wait.name == "ck.wait" else before[places[-1]]


def depends_on_what_is_between(op: ir.Operation, barrier: ir.Operation) -> bool:
    every = [one.operation for one in op.block]
    between = every[every.index(barrier) : every.index(op)]
    return any(not isinstance(one.owner, ir.Block) and one.owner in between for one in op.operands)


MUTATIONS = {
    "barrier removed": removed("ck.barrier"),
    "arrival of one group removed": removed("ck.group_barrier"),
    "wait removed": removed("ck.wait"),
    "wait weakened": wait_weakened,
    "read a phase earlier": moved_up("ck.lds_read"),
    "write a phase earlier": moved_up("ck.lds_write", "ck.copy_fragment"),
}
ALWAYS_WRONG = {"arrival of one group removed": {"uniform"}}


def changes(subject: Subject, kind: str) -> list[Change]:
    one, _, after = bench(subject)
    with one.context:
        module = ir.Module.parse(after)
        return list(MUTATIONS[kind](kernel_operations(module)))


def findings(subject: Subject, change: Callable[[list[ir.Operation]], None]) -> list[Any]:
    """What the schedule checker says of a change."""
    one, before, after = bench(subject)
    with one.context:
        reference, module = ir.Module.parse(before), ir.Module.parse(after)
        change(kernel_operations(module))
        assert module.operation.verify()
        return [(finding.check, str(finding)) for finding in check_module(module, reference)]


def cases(most: int) -> Iterator[Any]:
    """Every subject and kind; all changes with the marker `full`, else so many of two kernels."""
    for number, subject in enumerate(SUBJECTS):
        for kind in MUTATIONS:
            if number < 2:
                yield pytest.param(subject, kind, most, id=f"{subject}-{kind}-some")
            yield pytest.param(subject, kind, None, id=f"{subject}-{kind}", marks=pytest.mark.full)


@pytest.mark.parametrize(("subject", "kind", "most"), list(cases(2)))
def test_the_checker_and_the_simulator_agree(subject: Subject, kind: str, most: int | None) -> None:
    """Refused or right; only waits that LLVM makes up for are known to the schedule checker alone. A read that moves up
    may stay right: some groups of waves read what they have written themselves.
    """
    every = changes(subject, kind)
    if not every:
        pytest.skip("nothing of the kind in this kernel")
    some = every if most is None else every[:: max(1, len(every) // most)]
    counts = {"both refuse": 0, "refused, made up for": 0, "both accept": 0}
    for change in some:
        made = broken(subject, change.apply)
        seen = seen_running(subject, made.kernel, STEPS, (*WATCHING, "wait"))
        assert ALWAYS_WRONG.get(kind, set()) <= set(made.refusals)
        counts[verdict(kind, made, seen)] += 1
    print(subject, kind, counts)


def verdict(kind: str, made: Broken, seen: str) -> str:
    """How the checkers' verdicts of one change fit together; fences are about the order that was asked for only."""
    refusals = set(made.refusals) - {"fence"}
    if not refusals:
        assert seen == "", f"accepted, and {seen}"
        return "both accept"
    if seen:
        return "both refuse"
    assert "wait" in kind and refusals <= {"wait", "hazard"}, f"{refusals} refused, and nothing is seen"
    return "refused, made up for"


def barriers_of_last_steps(subject: Subject) -> list[int]:
    """The barriers in blocks that multiply and put nothing into LDS."""
    one, _, after = bench(subject)
    with one.context:
        module = ir.Module.parse(after)
        ops = kernel_operations(module)
        names = {op.block: {other.operation.name for other in op.block} for op in ops if op.name == "ck.mfma"}
        last = [block for block, found in names.items() if not found & {"ck.lds_write", "ck.copy_fragment"}]
        assert len(last) <= 1
        return [number for number, op in enumerate(ops) if op.name == "ck.barrier" and op.block in last]


@pytest.mark.parametrize("subject", [one for one in SUBJECTS if one.schedule != "ping_pong_async"], ids=str)
def test_every_barrier_of_the_tightest_schedule_matters(subject: Subject) -> None:
    """Where no phase is to spare (the two LDS buffers of ping_pong_async leave some), each barrier removed is a hazard
    that names both groups; but in the step behind the last turn, where nothing is put into LDS any more, it may be one
    that nobody needs.
    """
    for change in changes(subject, "barrier removed"):
        found = findings(subject, change.apply)
        if not found and change.number in barriers_of_last_steps(subject):
            continue
        assert any(check == "hazard" for check, _ in found), change.number
        assert any("of the waves" in text or "no barrier" in text for _, text in found)


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_a_group_one_phase_further_behind_is_refused(subject: Subject) -> None:
    """All arrive equally often at the end, but on the way two phases lie between the groups."""

    def twice(ops: list[ir.Operation]) -> None:
        for op in [op for op in ops if op.name == "ck.group_barrier"]:
            with ir.InsertionPoint(op):
                op.clone()

    found = findings(subject, twice)
    assert {check for check, _ in found} == {"hazard"}
    assert all("of the waves is" in text and "is here" in text for _, text in found)
    assert seen_running(subject, broken(subject, twice).kernel, STEPS)


@pytest.mark.parametrize("subject", [SUBJECTS[0], SUBJECTS[2]], ids=str)
def test_a_dropped_buffer_is_refused(subject: Subject) -> None:
    """Both slots of a tensor in the same bytes."""

    def dropped(ops: list[ir.Operation]) -> None:
        slots = [op for op in ops if op.name == "ck.lds_alloc" and str(op.attributes.get("name", "")) == '"a"']
        slots[1].attributes["offset"] = slots[0].attributes["offset"]

    found = findings(subject, dropped)
    assert "hazard" in {check for check, _ in found}
    assert seen_running(subject, broken(subject, dropped).kernel, STEPS)
