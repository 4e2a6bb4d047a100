"""Whole launches by engine and memory model together: streams, sharing, and the two ways to a round's cycles."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from synthetic_traces import trace_of

from ckmlir.errors import CkmlirError
from ckmlir.sim.timing.launch_model import LaunchModel, model_launch, residents, workgroups_to_record
from ckmlir.sim.timing.memory_shares import hbm_bytes_per_cycle
from ckmlir.sim.timing.parameters import load
from ckmlir.sim.timing.recording import Trace
from ckmlir.sim.timing.report import report

UNITS = 304
PIECES = 6
COPY = "\n".join(
    ["global_load_dwordx4 v[4:7], v[2:3], off", "s_waitcnt vmcnt(0)", "global_store_dwordx4 v[2:3], v[4:7], off"]
    * PIECES
)


def copied(wave: int, number: int) -> list[int]:
    """A stream of a kilobyte a load, and the same elsewhere for the store after it."""
    place = (wave * PIECES + number // 2) * 1024 + (number % 2 << 34)
    return [place + 16 * lane for lane in range(64)]


def copy_trace(recorded: int, workgroups: int, waves: int = 4, vector_registers: int = 64) -> Trace:
    """The first workgroups of a compute unit, of a launch of `workgroups`."""
    trace = trace_of("gfx942", COPY, waves, recorded, copied, vector_registers=vector_registers)
    return replace(trace, grid=(workgroups, 1, 1), groups=trace.groups * UNITS)


@pytest.fixture(scope="module")
def sampled() -> LaunchModel:
    return model_launch(copy_trace(8, 8 * UNITS), load("gfx942"), "sampled")


def test_a_copy_kernel_reaches_the_modelled_bandwidth(sampled: LaunchModel) -> None:
    grid = sampled.grid
    assert (grid.mode, grid.rounds, grid.workgroups_a_unit) == ("sampled", 1, 8)
    assert grid.bytes["hbm_read"] == grid.bytes["hbm_written"] == 8 * UNITS * 4 * PIECES * 1024
    assert 0.9 < grid.bandwidth_share <= 1 + 1e-9
    # The compute unit itself: stores are acknowledged before they are in memory, so it may seem a little faster.
    parameters = sampled.timeline.parameters
    rate = sampled.timeline.bytes["hbm"] / sampled.timeline.cycles
    assert rate == pytest.approx(hbm_bytes_per_cycle(parameters) / UNITS, rel=0.1)
    assert grid.roofline.bound == "memory"
    assert "no matrix operations" in report(sampled.timeline, grid).to_text()


def test_one_workgroup_carried_over_agrees_with_the_sample_where_memory_limits(sampled: LaunchModel) -> None:
    analytic = model_launch(copy_trace(1, 8 * UNITS), load("gfx942"), "analytic").grid
    assert analytic.mode == "analytic"
    assert analytic.workgroup.limiter[0] == "hbm"
    assert analytic.cycles == pytest.approx(sampled.grid.cycles, rel=0.1)


def cycles_of(waves: int, *overrides: str) -> float:
    """Of a launch that gives each compute unit so many workgroups of one wave."""
    trace = copy_trace(waves, waves * UNITS, 1)
    return model_launch(trace, load("gfx942", overrides=overrides), "sampled").grid.cycles


def test_more_waves_hide_more_latency_until_memory_is_used_up() -> None:
    cycles = {waves: cycles_of(waves) for waves in (1, 2, 4, 8, 16, 32)}
    rate = {waves: waves / count for waves, count in cycles.items()}
    assert list(rate.values()) == sorted(rate.values())
    assert rate[2] > 1.7 * rate[1]
    assert rate[4] > 1.3 * rate[2]
    assert rate[32] < 1.05 * rate[16]


def test_latency_and_bandwidth_of_memory_show_where_they_should() -> None:
    """One wave of each compute unit waits for latency; many wait for bandwidth."""
    slow, narrow = "memory.hbm.latency=1520", "memory.hbm.bandwidth=2650"
    assert cycles_of(32, narrow) == pytest.approx(2 * cycles_of(32), rel=0.05)
    assert cycles_of(32, slow) < 1.1 * cycles_of(32)
    assert cycles_of(1, slow) > 1.5 * cycles_of(1)
    assert cycles_of(1, narrow) < 1.5 * cycles_of(1)


def test_the_last_round_has_the_workgroups_that_are_left() -> None:
    """Twelve workgroups for each compute unit, of which eight fit: a round of eight and one of four."""
    parameters = load("gfx942")
    launch = model_launch(copy_trace(8, 12 * UNITS), parameters, "sampled").grid
    eight = model_launch(copy_trace(8, 8 * UNITS), parameters, "sampled").grid
    four = model_launch(copy_trace(4, 4 * UNITS), parameters, "sampled").grid
    delay = parameters.integer("compute_unit.workgroup_start_delay")
    assert launch.rounds == 2
    assert launch.cycles == pytest.approx(eight.round_cycles + four.cycles + delay, rel=1e-3)


def test_small_launches_have_the_device_to_themselves() -> None:
    parameters = load("gfx942")
    few = model_launch(copy_trace(1, 38), parameters).grid
    many = model_launch(copy_trace(1, UNITS), parameters).grid
    assert few.cycles < many.cycles
    assert few.workgroups_a_unit == many.workgroups_a_unit == 1


def test_what_neighbours_share_makes_memory_faster() -> None:
    """All workgroups read the same: what one fetches serves its die."""

    def same(wave: int, number: int) -> list[int]:
        return copied(wave % 4, number)

    text = COPY.replace("global_store_dwordx4 v[2:3], v[4:7], off", "s_nop 0")
    shared = replace(trace_of("gfx942", text, 4, 2, same, vector_registers=512), grid=(UNITS, 1, 1))
    apart = replace(trace_of("gfx942", text, 4, 2, copied, vector_registers=512), grid=(UNITS, 1, 1))
    parameters = load("gfx942")
    together, alone = model_launch(shared, parameters), model_launch(apart, parameters)
    assert (together.sharing.l2, together.sharing.mall) == (38, 8)
    assert (alone.sharing.l2, alone.sharing.mall) == (1, 1)
    assert together.grid.cycles < alone.grid.cycles
    assert together.grid.bytes["hbm"] == pytest.approx(alone.grid.bytes["hbm"] / UNITS, rel=0.01)


@pytest.mark.parametrize(
    ("count", "fitting", "mode", "expected"),
    [
        (5000, 4, "sampled", (0, 304, 608, 912)),
        (5000, 4, "analytic", (0,)),
        (400, 4, "sampled", (0, 304)),
        (3, 4, "sampled", (0,)),
    ],
)
def test_the_workgroups_of_one_compute_unit(count: int, fitting: int, mode: str, expected: tuple[int, ...]) -> None:
    parameters = load("gfx942")
    assert residents(count, parameters, fitting, mode) == expected  # type: ignore[arg-type]
    wanted = workgroups_to_record((count,), parameters, fitting, mode)  # type: ignore[arg-type]
    assert set(wanted) == {*expected, 1}


def test_workgroups_that_were_not_recorded_are_missed() -> None:
    with pytest.raises(CkmlirError, match="workgroup 304 was not recorded"):
        model_launch(copy_trace(1, 8 * UNITS), load("gfx942"), "sampled")
