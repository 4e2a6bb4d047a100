"""Kernels with loops in loops are proved, also where lengths and pointers come from memory, and refused once broken."""

from __future__ import annotations

from functools import cache

import pytest
from nested_kernels import AHEAD, KERNELS
from schedule_mutations import EXPECTED, MUTATIONS

from ckmlir.dialect.context import shared_context
from ckmlir.mlir import ir
from ckmlir.passes.check_schedule import check_module
from ckmlir.passes.pipeline import PIPELINE, run_pipeline
from ckmlir.passes.proof.dependences import check_dependences
from ckmlir.passes.walk import functions, operations

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


# -- an end


def test_a_proof_ends_when_its_work_is_done() -> None:
    with shared_context():
        before, after = map(ir.Module.parse, texts("grouped", "gfx942", "compv4"))
        (function,), (reference,) = map(list, (functions(after), functions(before)))
        (finding,) = check_dependences(function, reference, work=1)
        assert "not proved within" in finding.message
        assert "does not settle" in finding.message
        assert check_dependences(function, reference) == []
