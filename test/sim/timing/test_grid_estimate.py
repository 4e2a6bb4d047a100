"""From a workgroup to a launch: rounds, sharing of a compute unit, other trip counts, and the place under the roof."""

from __future__ import annotations

import math

import pytest
from made_timelines import PRODUCT_CYCLES, PRODUCT_OPERATIONS, loop_timeline, made_timeline, made_trace

from ckmlir.errors import CkmlirError
from ckmlir.sim.decode import decode
from ckmlir.sim.timing.events import Unit
from ckmlir.sim.timing.grid import estimate_grid, estimate_workgroup
from ckmlir.sim.timing.memory_shares import hbm_bytes_per_cycle
from ckmlir.sim.timing.parameters import load
from ckmlir.sim.timing.roofline import MatrixWork, matrix_operations, roofline

UNITS = 304
DELAY = load("gfx942").integer("compute_unit.workgroup_start_delay")
CYCLES = 100 + 8 * 40 + 60
ALONE = {"vector_registers": 512, "lds_bytes": 60000}  # one workgroup fits


def test_wave_quantisation_has_steps() -> None:
    timeline = loop_timeline(**ALONE)
    times = {count: estimate_grid(timeline, workgroups=count).cycles for count in (1, 303, 304, 305, 608, 609, 6080)}
    assert times[1] == times[303] == times[304] == CYCLES
    assert times[305] == times[608] == 2 * CYCLES + DELAY
    assert times[609] == 3 * CYCLES + 2 * DELAY
    assert times[6080] == 20 * CYCLES + 19 * DELAY
    fills = {count: estimate_grid(timeline, workgroups=count).fill for count in (304, 305, 1)}
    assert fills == {304: 1, 305: pytest.approx(305 / 608), 1: pytest.approx(1 / 304)}


def test_cycles_never_fall_with_more_workgroups() -> None:
    timeline = loop_timeline(vector_registers=128, unit_busy={Unit.LDS: 200})
    times = [estimate_grid(timeline, workgroups=count).cycles for count in range(1, 4000, 37)]
    assert times == sorted(times)


@pytest.mark.parametrize("busy", [10, 100, 300])
def test_workgroups_that_share_a_unit_take_as_long_as_one_or_as_what_they_need_together(busy: int) -> None:
    """Analytic: four workgroups of one wave each, of which one was simulated."""
    timeline = loop_timeline(vector_registers=512, unit_busy={Unit.LDS: busy})
    grid = estimate_grid(timeline, workgroups=4 * UNITS)
    assert (grid.mode, grid.workgroups_a_unit, grid.rounds) == ("analytic", 4, 1)
    assert grid.cycles == {10: CYCLES, 100: CYCLES, 300: 4 * 300}[busy]
    assert grid.workgroup.limiter == (("lds", busy) if busy >= 64 else ("mfma", 8 * PRODUCT_CYCLES / 4))


def test_memory_is_a_unit_too() -> None:
    timeline = loop_timeline(vector_registers=512, bytes={"hbm": 10_000})
    share = hbm_bytes_per_cycle(load("gfx942")) / UNITS
    grid = estimate_grid(timeline, workgroups=4 * UNITS)
    assert grid.workgroup.limiter == ("hbm", pytest.approx(10_000 / share))
    assert grid.cycles == pytest.approx(4 * 10_000 / share)
    assert grid.bandwidth_share == pytest.approx(1)
    assert grid.bytes["hbm"] == 4 * UNITS * 10_000


def test_small_launches_use_all_units_before_they_share_one() -> None:
    grid = estimate_grid(loop_timeline(vector_registers=128), workgroups=500)
    assert grid.workgroups_a_unit == 2
    assert (grid.rounds, grid.fill) == (1, pytest.approx(500 / 608))


def test_as_many_as_fit_simulated_together_are_a_sample() -> None:
    order = [0, *[1, 2, 3, 4] * 4, 6]
    issue = [0, *(20 + 50 * trip + 4 * step for trip in range(4) for step in range(4)), 300]
    trace = made_trace([order] * 4, groups=[0, 1, 2, 3], grid=(5000, 1, 1), vector_registers=512)
    timeline = made_timeline(trace, issue * 4)
    grid = estimate_grid(timeline)
    assert (grid.mode, grid.workgroups, grid.workgroups_a_unit) == ("sampled", 5000, 4)
    assert grid.round_cycles == 300
    assert grid.rounds == math.ceil(5000 / (4 * UNITS))
    assert grid.cycles == grid.rounds * 300 + (grid.rounds - 1) * DELAY
    tail = made_timeline(made_trace([order], grid=(5000, 1, 1), vector_registers=512), [cycle // 2 for cycle in issue])
    assert estimate_grid(timeline, workgroups=4 * UNITS + 1, tail=tail).cycles == 300 + 150 + DELAY


def test_other_trip_counts() -> None:
    timeline = loop_timeline(bytes={"hbm": 800, "l1": 1600})
    one = estimate_workgroup(timeline, trips=80)
    assert one.cycles == 100 + 80 * 40 + 60
    assert one.trips == 80
    growth = (1 + 80 * 4 + 2) / (1 + 8 * 4 + 2)
    assert one.work.cycles == pytest.approx(8 * PRODUCT_CYCLES * growth)
    assert one.bytes == {"hbm": pytest.approx(800 * growth), "l1": pytest.approx(1600 * growth)}
    assert estimate_workgroup(timeline, trips=8).cycles == estimate_workgroup(timeline).cycles == CYCLES
    assert estimate_grid(timeline, trips=80).cycles == one.cycles


def test_what_cannot_be_estimated_is_refused() -> None:
    with pytest.raises(CkmlirError, match="cannot be carried over to 80"):
        estimate_grid(loop_timeline(trips=1), trips=80)
    with pytest.raises(CkmlirError, match="0 workgroups has nothing"):
        estimate_grid(loop_timeline(), workgroups=0)
    with pytest.raises(CkmlirError, match="bytes of LDS does not fit on gfx942"):
        estimate_grid(loop_timeline(lds_bytes=100_000))


# -- the roof --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "target", "operations"),
    [
        ((0xD3CC0072, 0x05CB1990), "gfx942", 2 * 32 * 32 * 8),  # v_mfma_f32_32x32x8_f16
        ((0xD3EE8000, 0x04021508), "gfx942", 2 * 16 * 16 * 4 * 1),  # v_mfma_f64_16x16x4_f64
    ],
)
def test_operations_of_matrix_instructions(words: tuple[int, ...], target: str, operations: int) -> None:
    one = decode(b"".join(word.to_bytes(4, "little") for word in words), 0, target)
    assert matrix_operations(one) == operations


def test_matrix_cores_that_are_always_busy_reach_the_published_peak() -> None:
    for target, peak, product in (("gfx90a", 383.0 / 2, 64), ("gfx942", 1307.4, 32)):
        place = roofline(load(target), MatrixWork(PRODUCT_OPERATIONS * 1e6, product * 1e6), 1e6, 1e9)
        assert place.peak / 1e12 == pytest.approx(peak, rel=0.01), target


def test_places_under_the_roof() -> None:
    parameters = load("gfx942")
    hertz = parameters.number("chip.clock") * 1e6
    cores = UNITS * 4
    work = MatrixWork(PRODUCT_OPERATIONS * 1e6, PRODUCT_CYCLES * 1e6)
    ideal = PRODUCT_CYCLES * 1e6 / cores
    computing = roofline(parameters, work, 1e6, 2 * ideal)
    assert computing.bound == "matrix cores"
    assert computing.share == pytest.approx(0.5)
    assert computing.attainable == computing.peak
    moving = roofline(parameters, work, 1e9, 4 * 1e9 / hbm_bytes_per_cycle(parameters))
    assert moving.bound == "memory"
    assert moving.share == pytest.approx(0.25)
    assert moving.moved == pytest.approx(moving.bandwidth / 4)
    assert moving.intensity < moving.ridge < computing.intensity
    copy = roofline(parameters, MatrixWork(0, 0), 1e6, 1e6)
    assert (copy.bound, copy.peak, copy.achieved) == ("memory", 0, 0)
    assert copy.share == pytest.approx(hertz / copy.bandwidth)
