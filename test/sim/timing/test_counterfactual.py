"""Counterfactuals of real kernels: what changes may do to the modelled cycles, and the critical path of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from synthetic_timeline import synthetic
from test_critical_path import check_laws

from ckmlir.ops import find_operator
from ckmlir.runtime.timing import OperatorModel
from ckmlir.sim.timing.access_patterns import set_lanes
from ckmlir.sim.timing.counterfactual import Comparison, Outcome, base_outcome, changed_outcome, path_text
from ckmlir.sim.timing.critical_path import Part, critical_path
from ckmlir.sim.timing.edits import (
    Case,
    ChangeWait,
    NoBankConflicts,
    Remove,
    ScaleParameter,
    SetParameter,
    apply_edits,
)
from ckmlir.sim.timing.events import Reason, Unit
from ckmlir.sim.timing.lds_banks import lds_costs
from ckmlir.sim.timing.parameters import load
from ckmlir.sim.timing.recording import ACCESS, NO_ADDRESS, AccessKind
from ckmlir.targets import get_target

SLACK = 1.03
"""A change may make waves meet at another time, and cost a little where it saves elsewhere: scheduling anomalies."""
KERNELS = {
    "gemm": ("gemm", "gfx942", {"m": 64, "n": 128, "k": 192, "block": "64x64x32"}, 2),
    "gemm direct": ("gemm", "gfx950", {"m": 64, "n": 64, "k": 256, "block": "64x64x64", "schedule": "async"}, 1),
    "attention": ("fmha_fwd", "gfx942", {"h": 1, "hk": 1, "sq": 128, "sk": 128}, 1),
    "layernorm": ("layernorm2d", "gfx90a", {"m": 8, "n": 512}, 2),
}


@cache
def case_of(name: str) -> Case:
    operator_name, chip, keys, workgroups = KERNELS[name]
    operator = find_operator(operator_name)
    model = OperatorModel(operator, operator.problem(**keys), get_target(chip), load(chip), mode=workgroups)
    return Case(model.trace, load(chip), model.mode, tuple(model.shape))


@cache
def base_of(name: str) -> Outcome:
    return base_outcome(case_of(name))


def test_like_is_compared_with_like_where_residency_differs() -> None:
    """A kernel with less LDS, of which two workgroups are on a compute unit where one was: cycles are for each."""
    case = case_of("gemm")
    changed = base_outcome(case._replace(mode=1))
    full = case._replace(trace=replace(case.trace, lds_bytes=65536))
    assert changed_outcome(full, [ScaleParameter("lds.latency", 2.0)]).remark == ""

    @dataclass(frozen=True)
    class Less:
        remark: str = "less LDS"

        def __str__(self) -> str:
            return "less"

        def apply(self, other: Case) -> Case:
            return other._replace(trace=replace(other.trace, lds_bytes=16384))

    less = changed_outcome(full, [Less()])
    assert less.remark == "less LDS; 4 workgroups on a compute unit at a time instead of 1"
    assert (less.workgroups, changed.workgroups) == (2, 1)
    text = Comparison("t", (changed, less)).text()
    assert "less: 2 workgroups were simulated; its change of cycles is that for each workgroup" in text
    assert f"{100 * (less.cycles / 2 / changed.cycles - 1):+.1f} %" in text


kernels = pytest.mark.parametrize("name", KERNELS)
names = st.sampled_from(sorted(KERNELS))


@kernels
def test_the_critical_path_of_a_kernel_is_as_long_as_its_run(name: str) -> None:
    timeline = base_of(name).timeline
    path = critical_path(timeline)
    check_laws(path, timeline)
    for segment in path.segments[:-1]:
        row = timeline.events[segment.event]
        if segment.cause is Part.RESULT and row["unit"] == Unit.VMEM:
            assert segment.end == row["done"]  # what is waited for is waited for to the end
    # Nothing is waited for after the last wave has come to a barrier but the barrier itself, and then a turn.
    rules = timeline.parameters
    longest = max((one.cycles for one in path.segments if one.cause is Reason.BARRIER), default=0)
    assert longest <= rules.integer("barrier.cycles") + rules.integer("compute_unit.turn")
    assert "critical path" in path_text(path, 3)


@settings(max_examples=12, deadline=None)
@given(name=names, pattern=st.sampled_from(["lds.latency", "memory.*latency", "smem.latency", "*.latency"]),
       factor=st.floats(1.0, 8.0))  # fmt: skip
def test_longer_latencies_never_help(name: str, pattern: str, factor: float) -> None:
    slower = changed_outcome(case_of(name), [ScaleParameter(pattern, factor)])
    assert slower.cycles * SLACK >= base_of(name).cycles


@settings(max_examples=12, deadline=None)
@given(
    name=names, removed=st.sampled_from(["s_barrier", "s_waitcnt*", "s_nop*", "s_setprio*"]), only=st.integers(0, 40)
)
def test_leaving_out_what_only_waits_never_costs(name: str, removed: str, only: int) -> None:
    case = case_of(name)
    places = [one.address for one in case.trace.program if one.mnemonic == removed.rstrip("*")]
    if places:
        without = changed_outcome(case, [Remove(f"0x{places[only % len(places)]:x}")])
        assert without.cycles <= base_of(name).cycles * SLACK
        assert "timing only" in without.remark


@kernels
def test_waits_that_allow_everything_never_cost(name: str) -> None:
    free = changed_outcome(case_of(name), [ChangeWait("s_waitcnt*", (("vmcnt", 63), ("lgkmcnt", 15)))])
    assert free.cycles <= base_of(name).cycles * SLACK
    assert not {Reason.WAIT_VMEM, Reason.WAIT_LDS, Reason.WAIT_SMEM} & set(free.stalls)


@kernels
def test_bank_conflicts_are_gone_and_never_helped(name: str) -> None:
    ideal = changed_outcome(case_of(name), [NoBankConflicts()])
    assert ideal.conflict_cycles == 0 and ideal.cycles <= base_of(name).cycles * SLACK


@kernels
def test_no_change_changes_nothing(name: str) -> None:
    same = changed_outcome(case_of(name), [ScaleParameter("lds.latency", 1.0), SetParameter("mfma.pass", 4)])
    assert same.cycles == base_of(name).cycles and same.stalls == base_of(name).stalls
    assert (same.timeline.events == base_of(name).timeline.events).all()


def test_barriers_that_are_gone_hold_nobody_up() -> None:
    without = changed_outcome(case_of("gemm"), [Remove("s_barrier")])
    assert Reason.BARRIER in base_of("gemm").stalls and Reason.BARRIER not in without.stalls


def test_a_slower_memory_shows_in_its_waits() -> None:
    slower = changed_outcome(case_of("gemm"), [ScaleParameter("memory.*latency", 4)])
    assert slower.cycles > base_of("gemm").cycles * 1.2
    assert slower.stalls[Reason.WAIT_VMEM] > base_of("gemm").stalls[Reason.WAIT_VMEM] * 1.5


def test_matrix_units_are_busy_as_long_as_their_instructions_take() -> None:
    outcome = base_of("gemm")
    products = (outcome.timeline.events["unit"] == Unit.MFMA).sum()
    assert outcome.matrix_busy == pytest.approx(32 * products / (4 * outcome.cycles))


def test_table_and_json() -> None:
    case = case_of("gemm")
    edits = [[ScaleParameter("lds.latency", 2.0)], [Remove("s_barrier"), NoBankConflicts()]]
    comparison = Comparison("a kernel", (base_of("gemm"), *(changed_outcome(case, one) for one in edits)))
    title, head, base, slower, both, about, note, remark, *rest = comparison.text().splitlines()
    assert title == "a kernel" and head.split()[:3] == ["launch", "change", "2"] and base.split()[0] == "base"
    assert (
        slower.startswith("lds.latency × 2")
        and "+" in slower
        and both.startswith("without s_barrier, no bank conflicts")
    )
    assert "cycles of the launch and of 2 workgroups" in about and note == "model, not hardware" and not rest
    assert remark.endswith("such a kernel would not be correct; timing only: no such machine")
    rows = comparison.to_dict()["outcomes"]
    assert [row["change_cycles"] for row in rows] == [
        one.cycles - base_of("gemm").cycles for one in comparison.outcomes
    ]
    assert rows[0]["stall_cycles_a_wave"]["BARRIER"] > 0 and rows[1]["name"] == "lds.latency × 2"


@settings(max_examples=15, deadline=None)
@given(
    width=st.sampled_from([4, 8, 12, 16]),
    store=st.booleans(),
    target=st.sampled_from(["gfx90a", "gfx942", "gfx950"]),
    stride=st.integers(1, 64),
    active=st.lists(st.booleans(), min_size=64, max_size=64),
)
def test_no_bank_conflicts_are_left(width: int, store: bool, target: str, stride: int, active: list[bool]) -> None:
    trace = synthetic(waves=1, steps=1).trace
    one = next(number for number, entry in enumerate(trace.program) if entry.mnemonic.startswith("ds_"))
    steps = trace.steps[trace.steps["instruction"] == one]
    steps["access"] = 0
    addresses = np.where(active, np.arange(64, dtype=np.uint64) * np.uint64(4 * stride), np.uint64(NO_ADDRESS))[None]
    accesses = np.array([(0, 0, width, AccessKind.LDS, store)], ACCESS)
    patterns = set_lanes(accesses, addresses)
    before = Case(replace(trace, steps=steps, accesses=accesses, patterns=patterns), load(target))
    after = apply_edits(before, [NoBankConflicts()])
    needed, conflicts = lds_costs(after.trace, after.parameters)
    assert conflicts.tolist() == [0] and needed <= lds_costs(before.trace, before.parameters)[0]
    assert ((after.trace.addresses == NO_ADDRESS) == (addresses == NO_ADDRESS)).all()


def test_modelling_twice_gives_the_same() -> None:
    changed_outcome(case_of("gemm"), [Remove("s_barrier")])
    again = base_outcome(case_of("gemm"))
    assert (again.timeline.events == base_of("gemm").timeline.events).all()
    assert again.launch_cycles == base_of("gemm").launch_cycles
