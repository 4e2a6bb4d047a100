"""Schedules whose groups of waves run out of phase: what only they can get wrong is refused, and seen by the simulator.

What any schedule can get wrong is tried in `test_checkers_agree.py`, for these too.
"""

from __future__ import annotations

import pytest
from broken_schedules import DeepGemm, Subject, bench, broken, changes, kernel_operations, seen_running

from ckmlir.mlir import ir

SUBJECTS = [
    Subject("gemm", "gfx942", "compv5"),
    DeepGemm("gemm", "gfx90a", "ping_pong"),
    DeepGemm("gemm", "gfx950", "ping_pong_async"),
    Subject("fmha_fwd", "gfx950", "qr_async_ping_pong", "fp8"),
]


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


@pytest.mark.one_in(2)
@pytest.mark.parametrize("subject", [one for one in SUBJECTS if one.schedule != "ping_pong_async"], ids=str)
def test_every_barrier_of_the_tightest_schedule_matters(subject: Subject) -> None:
    """Where no phase is to spare (the two LDS buffers of ping_pong_async leave some), each barrier removed is a hazard
    that names both groups; but in the step behind the last turn, where nothing is put into LDS any more, it may be one
    that nobody needs.
    """
    for change in changes(subject, "barrier removed"):
        found = broken(subject, change.apply)
        if not found.refusals and change.number in barriers_of_last_steps(subject):
            continue
        assert "hazard" in found.refusals, change.number
        assert any("of the waves" in text or "no barrier" in text for text in found.messages)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_a_group_one_phase_further_behind_is_refused(subject: Subject) -> None:
    """All arrive equally often at the end, but on the way two phases lie between the groups."""

    def twice(ops: list[ir.Operation]) -> None:
        for op in [op for op in ops if op.name == "ck.group_barrier"]:
            with ir.InsertionPoint(op):
                op.clone()

    found = broken(subject, twice)
    assert found.refusals == ("hazard",)
    assert all("of the waves is" in text and "is here" in text for text in found.messages)
    assert seen_running(subject, found.kernel)


@pytest.mark.parametrize("subject", [SUBJECTS[0], SUBJECTS[2]], ids=str)
def test_a_dropped_buffer_is_refused(subject: Subject) -> None:
    """Both slots of a tensor in the same bytes."""

    def dropped(ops: list[ir.Operation]) -> None:
        slots = [op for op in ops if op.name == "ck.lds_alloc" and str(op.attributes.get("name", "")) == '"a"']
        slots[1].attributes["offset"] = slots[0].attributes["offset"]

    found = broken(subject, dropped)
    assert "hazard" in found.refusals
    assert seen_running(subject, found.kernel)
