"""LDS in the timing model: bank rules, what conflicts cost, the rate of 128 bytes a cycle."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_traces import lane_after_lane, time_of, trace_of

from ckmlir.passes.bank_conflicts import _cycles_by_wave
from ckmlir.sim.chips import TARGETS
from ckmlir.sim.timing.events import Timeline, Unit
from ckmlir.sim.timing.lds_banks import WIDTHS, bank_cycles, lds_costs, phases_of, room_for_words
from ckmlir.sim.timing.parameters import ParameterError, load
from ckmlir.targets import get_target


@pytest.mark.parametrize("chip", TARGETS)
def test_phases_are_those_the_compiler_plans_layouts_with(chip: str) -> None:
    accesses = get_target(chip).lds_accesses
    assert {(one.kind, one.bytes) for one in accesses} == set(product(("read", "write"), WIDTHS))
    for one in accesses:
        banks, phase = phases_of(load(chip), one.kind, one.bytes)
        lanes = {tuple(np.flatnonzero(phase == number).tolist()) for number in set(phase.tolist())}
        assert (banks, lanes) == (one.banks, {tuple(sorted(phase)) for phase in one.phases})


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(TARGETS), st.sampled_from(["read", "write"]), st.sampled_from([4, 8, 12, 16]),
    st.integers(0, 2**32), st.sampled_from([4, 16, 64, 128, 272]),
)  # fmt: skip
def test_bank_cycles_are_those_the_compiler_predicts(chip: str, kind: str, width: int, seed: int, stride: int) -> None:
    random = np.random.default_rng(seed)
    offsets = random.integers(0, 64, 64) * stride
    access = get_target(chip).lds_access(kind, width)
    expected = _cycles_by_wave(offsets[None, :], np.array(access.phases), width // 4, access.banks)[0]
    banks, phase = phases_of(load(chip), kind, width)
    needed, free = bank_cycles(offsets.astype(np.uint64), width, phase, banks, room_for_words())
    assert (needed, free) == (expected, len(access.phases))


@pytest.mark.parametrize("way", [1, 2, 4, 8, 16, 32])
def test_an_n_way_conflict_takes_n_times_as_long(way: int) -> None:
    """ds_read_b32 on 32 banks: lanes that are `way` dwords apart meet in as many banks fewer."""
    trace = trace_of("gfx942", "ds_read_b32 v0, v5", addresses=lane_after_lane(4 * way))
    cycles, conflicts = lds_costs(trace, load("gfx942"))
    assert (cycles[0], conflicts[0]) == (2 * way, 2 * way - 2)


def test_lanes_that_read_one_dword_do_not_conflict() -> None:
    trace = trace_of("gfx942", "ds_read_b32 v0, v5", addresses=lambda wave, number: [64] * 64)
    assert [int(one[0]) for one in lds_costs(trace, load("gfx942"))] == [2, 0]


def test_conflicts_of_moved_accesses_are_found_anew() -> None:
    """An access that is not just the one before it, of the same instruction, some dwords further on."""
    places = [[0, 4 * 32], [132, 132 + 4 * 32], [0, 4], [4, 8 * 32 + 4], [0, 127], [1, 128], [0, 128, 256]]
    trace = trace_of("gfx942", "ds_read_b32 v0, v5", waves=7, addresses=lambda wave, number: places[wave])
    assert lds_costs(trace, load("gfx942"))[1].tolist() == [1, 1, 0, 1, 0, 1, 2]


def bytes_per_cycle(timeline: Timeline) -> float:
    events = timeline.events[timeline.events["unit"] == Unit.LDS]
    return timeline.bytes["lds"] / float(events["done"].max() - events["done"].min())


@pytest.mark.parametrize("chip", TARGETS)
@pytest.mark.parametrize("operation", ["ds_read_b128 v[0:3], v5", "ds_read_b64 v[0:1], v5"])
def test_reads_of_all_simds_get_128_bytes_a_cycle(chip: str, operation: str) -> None:
    width = 16 if "b128" in operation else 8
    text = "\n".join(([operation] * 12 + ["s_waitcnt lgkmcnt(4)"]) * 8)
    timeline = time_of(chip, text, waves=8, addresses=lane_after_lane(width))
    assert bytes_per_cycle(timeline) == pytest.approx(128, rel=0.03)


def test_two_simds_share_a_bus_of_64_bytes() -> None:
    """ROCm Compute Profiler documentation: one wave, or the waves of one pair of SIMDs, get half of the rate."""
    text = "\n".join(([*["ds_read_b128 v[0:3], v5"] * 12, "s_waitcnt lgkmcnt(4)"]) * 8)
    timeline = time_of("gfx942", text, waves=1, addresses=lane_after_lane(16))
    assert bytes_per_cycle(timeline) == pytest.approx(64, rel=0.03)


@pytest.mark.parametrize(("operation", "width", "cycles"), [("b32", 4, 8), ("b128", 16, 20)])
def test_writes_take_the_published_cycles(operation: str, width: int, cycles: int) -> None:
    """ROCm Compute Profiler documentation, 'Local data share': 8 cycles for a store of b32, 20 for b128."""
    data = "v1" if width == 4 else "v[0:3]"
    timeline = time_of("gfx942", f"ds_write_{operation} v5, {data}\n" * 10, addresses=lane_after_lane(width))
    done = timeline.events["done"][timeline.events["unit"] == Unit.LDS]
    assert np.diff(done)[2:].tolist() == [cycles] * 7


def test_conflicts_slow_down_what_is_bound_by_lds() -> None:
    text = "\n".join(([*["ds_read_b32 v0, v5"] * 12, "s_waitcnt lgkmcnt(4)"]) * 8)
    free = time_of("gfx942", text, waves=8, addresses=lane_after_lane(4))
    worst = time_of("gfx942", text, waves=8, addresses=lane_after_lane(128))
    assert worst.conflicts.sum() == 8 * 12 * 8 * 62
    assert worst.cycles > 8 * free.cycles


@pytest.mark.parametrize(
    ("phases", "message"),
    [("0-31", "lane 32 is in no phase"), ("0-40 | 30-63", "in two phases"), ("0-31 | x", "'x' is not a range")],
)
def test_wrong_phases_are_refused(phases: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        phases_of(load("gfx942", overrides=[f"lds.phases.read_4={phases}"]), "read", 4)
