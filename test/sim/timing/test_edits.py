"""Edits change what they say of a copy and nothing else; what they cannot do they refuse with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic_timeline import STEP_OF_LOOP, synthetic

from ckmlir.errors import CkmlirError
from ckmlir.sim.timing.edits import (
    Case,
    ChangeWait,
    Edit,
    EditError,
    NoBankConflicts,
    Remove,
    ScaleParameter,
    SetParameter,
    apply_edits,
    parse_scale,
    parse_set,
    parse_wait,
)

BARRIERS = [number for number, kind in enumerate(STEP_OF_LOOP) if kind.words == (0xBF8A0000,)]


@pytest.fixture(scope="module")
def case() -> Case:
    timeline = synthetic(waves=4, steps=3)
    return Case(timeline.trace, timeline.parameters)


def test_parameters_are_set_and_scaled_by_name_and_pattern(case: Case) -> None:
    assert apply_edits(case, [SetParameter("lds.latency", "80")]).parameters.integer("lds.latency") == 80
    before = case.parameters
    after = apply_edits(case, [parse_scale("lds.latency=2"), parse_scale("*.latency=0.5")]).parameters
    assert after.number("lds.latency") == before.number("lds.latency")
    assert after.number("smem.latency") == before.number("smem.latency") / 2
    assert after["lds.latency"].status == "given" and before["lds.latency"].status != "given"


def test_removed_instructions_are_not_executed(case: Case) -> None:
    trace = apply_edits(case, [Remove("s_barrier")]).trace
    assert not np.isin(trace.steps["instruction"], BARRIERS).any()
    assert len(trace.steps) == len(case.trace.steps) - 4 * 3 * len(BARRIERS)
    for wave in range(4):
        assert set(trace.steps_of(wave)["wave"].tolist()) == {wave}
        expected = [one for one in case.trace.steps_of(wave)["instruction"].tolist() if one not in BARRIERS]
        assert trace.steps_of(wave)["instruction"].tolist() == expected


def test_one_barrier_by_its_offset(case: Case) -> None:
    offset = case.trace.program[BARRIERS[0]].address
    trace = apply_edits(case, [Remove(f"0x{offset:x}")]).trace
    assert len(trace.steps) == len(case.trace.steps) - 4 * 3


def test_waits_allow_what_they_are_told_to(case: Case) -> None:
    trace = apply_edits(case, [parse_wait("s_waitcnt vmcnt(0):vmcnt=3,lgkmcnt=none")]).trace
    changed = [one for one in trace.program if one.mnemonic == "s_waitcnt" and one.instruction.modifiers["vmcnt"] == 3]
    assert len(changed) == 1 and changed[0].instruction.modifiers["lgkmcnt"] == 15
    assert "vmcnt(3)" not in " ".join(one.instruction.text for one in case.trace.program)


@pytest.mark.parametrize(
    "edit",
    [SetParameter("lds.latency", 1), ScaleParameter("*.latency", 2), Remove("s_barrier"), NoBankConflicts(),
     ChangeWait("s_waitcnt*", (("vmcnt", 63),))],
)  # fmt: skip
def test_the_base_is_left_as_it_was(case: Case, edit: Edit) -> None:
    before = [array.copy() for array in (case.trace.steps, case.trace.addresses, case.trace.wave_first)]
    texts = [one.instruction.modifiers.copy() for one in case.trace.program]
    values = {name: one.value for name, one in case.parameters.items()}
    edit.apply(case)
    for array, kept in zip((case.trace.steps, case.trace.addresses, case.trace.wave_first), before, strict=True):
        assert (array == kept).all()
    assert [one.instruction.modifiers for one in case.trace.program] == texts
    assert {name: one.value for name, one in case.parameters.items()} == values


@pytest.mark.parametrize(
    ("text", "reason"),
    [("lds.latency", "scales nothing"), ("lds.latency=twice", "scales nothing"), ("lds.latency=-1", "scales nothing")],
)
def test_malformed_scales(text: str, reason: str) -> None:
    with pytest.raises(EditError, match=reason):
        parse_scale(text)


@pytest.mark.parametrize("text", ["s_waitcnt*", "s_waitcnt*:vmcnt", "s_waitcnt*:vscnt=1", "x:vmcnt=64", ":vmcnt=1"])
def test_malformed_waits(text: str) -> None:
    with pytest.raises(EditError, match="write PLACE:vmcnt=3"):
        parse_wait(text)


def test_malformed_values() -> None:
    with pytest.raises(EditError, match="write NAME=VALUE"):
        parse_set("lds.latency")


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (ScaleParameter("lds.latensy", 2), "did you mean lds.latency"),
        (ScaleParameter("lds.phases.read_16", 2), "cannot be scaled: it is a text"),
        (SetParameter("lds.latency", "many"), "is not a number"),
        (Remove("s_branch*"), "no instruction's mnemonic or text matches"),
        (Remove("0x3"), "no instruction starts at offset 0x3"),
        (Remove("example.py:99"), "lines of example.py with instructions: 11"),
        (ChangeWait("s_barrier", (("vmcnt", 0),)), "there is no s_waitcnt at s_barrier"),
    ],
)
def test_what_cannot_be_changed_is_refused(case: Case, edit: Edit, reason: str) -> None:
    with pytest.raises(CkmlirError, match=reason):
        edit.apply(case)
