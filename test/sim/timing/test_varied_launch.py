"""Launches whose workgroups are not alike: held to simulating all of them, and to what the chip can do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from all_workgroups import cycles_of_all
from hypothesis import given
from hypothesis import strategies as st
from made_timelines import loop_timeline
from msgspec.structs import replace

from ckmlir.ops import find_operator
from ckmlir.runtime.recording import record_operator
from ckmlir.runtime.timing import OperatorModel
from ckmlir.sim.timing.grid import estimate_grid, within_peaks
from ckmlir.sim.timing.launch_model import model_launch
from ckmlir.sim.timing.lengths import Lengths
from ckmlir.sim.timing.memory_shares import hbm_bytes_per_cycle
from ckmlir.sim.timing.parameters import Parameters, load
from ckmlir.sim.timing.report import report
from ckmlir.sim.timing.roofline import MatrixWork
from ckmlir.sim.timing.varied_grid import SampleTimes, choose_samples, estimate_varied_grid
from ckmlir.targets import get_target

ATTENTION = find_operator("fmha_fwd")


def small_chip(chip: str, compute_units: int, on_die: int) -> Parameters:
    """The chip with fewer compute units, so that a launch whose workgroups can all be simulated is a large one."""
    dies = load(chip).integer("chip.dies")
    return load(chip, overrides=[f"chip.compute_units={compute_units * dies}", f"memory.l2.compute_units={on_die}"])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("chip", "keys", "compute_units", "on_die"),
    [
        ("gfx942", {"h": 4, "sq": 1536, "d": 128, "mask": "top_left"}, 12, 6),
        ("gfx950", {"h": 6, "hk": 2, "sq": 1000, "sk": 1300, "d": 128, "mask": "bottom_right", "dtype": "bf16"}, 6, 3),
        ("gfx90a", {"b": 2, "h": 3, "sq": 1024, "d": 64, "mask": "top_left"}, 8, 8),
        # Two on a compute unit, of which the older goes first: 1.16 if both took as long as the younger.
        ("gfx950", {"b": 2, "h": 3, "sq": 1100, "d": 64, "mask": "top_left"}, 6, 6),
    ],
    ids=str,
)
def test_causal_attention_is_close_to_simulating_all(
    chip: str, keys: dict[str, object], compute_units: int, on_die: int
) -> None:
    target, parameters = get_target(chip), small_chip(chip, compute_units, on_die)
    problem = ATTENTION.problem(**keys)
    launch = ATTENTION.launch(problem, ATTENTION.spec(problem, target), target)
    whole = record_operator(ATTENTION, problem, target, workgroups=math.prod(launch.grid))
    for mode in ("analytic", "sampled"):
        found = OperatorModel(ATTENTION, problem, target, parameters, mode=mode).under(parameters)  # type: ignore[arg-type]
        assert found.grid.spread is not None
        assert found.grid.workgroups > 2 * compute_units
        assert found.grid.cycles == pytest.approx(cycles_of_all(whole, parameters, found.sharing), rel=0.15)
        # Where all are taken to be as number 0, the longest, it takes longer.
        if mode == "analytic":
            first = model_launch(replace(whole, lengths=None), parameters).grid.cycles
            assert first > found.grid.cycles


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx950"])
def test_causal_attention_keeps_below_the_peak(chip: str) -> None:
    """A large one, on the whole chip; the work counted is that of the tiles below the diagonal."""
    target, parameters = get_target(chip), load(chip)
    problem = ATTENTION.problem(b=1, h=16, sq=4096, d=128, dtype="bf16", mask="top_left")
    launch = OperatorModel(ATTENTION, problem, target, parameters).under(parameters)
    grid = launch.grid
    assert grid.spread is not None and grid.spread.longest > 8 * grid.spread.shortest
    assert 0.05 < grid.matrix_share < 1 and grid.roofline.achieved < grid.roofline.peak
    whole = ATTENTION.flops(ATTENTION.problem(b=1, h=16, sq=4096, d=128, dtype="bf16"))
    assert 0.5 * whole < grid.roofline.operations < 0.6 * whole
    shown = report(launch.timeline, grid).to_text()
    assert "dealt out in launch order" in shown and "rounds" not in shown
    assert "dealt out" not in report(launch.timeline, replace(grid, spread=None)).to_text()


def test_the_typical_length_is_one_that_most_have() -> None:
    """Not the mean, which lies nearest to workgroups that are exceptions."""
    every = np.array([1000.0] * 60 + [800.0] * 20 + [976.0] * 20)
    samples = choose_samples(Lengths((100,), (tuple(range(100)),), every), 2)
    assert samples.samples[samples.typical].length == 1000
    assert samples.base == 0


def test_the_shortest_do_not_say_what_longer_ones_share() -> None:
    """Most of the time may go to workgroups that only store zeros, and read nothing."""
    every = np.array([1000.0] * 25 + [334.0] * 75)
    samples = choose_samples(Lengths((100,), (tuple(range(100)),), every), 2)
    assert samples.samples[samples.typical].length == 334
    assert samples.base == 0


def test_no_launch_is_faster_than_its_work() -> None:
    parameters = load("gfx942")
    cores, rate = 4 * parameters.integer("chip.compute_units"), hbm_bytes_per_cycle(parameters)
    assert within_peaks(parameters, 100, MatrixWork(1, 50 * cores), 20 * rate) == 100
    assert within_peaks(parameters, 100, MatrixWork(1, 500 * cores), 20 * rate) == 500
    assert within_peaks(parameters, 100, MatrixWork(0, 0), 300 * rate) == pytest.approx(300)


@given(
    cycles=st.integers(1, 500),
    hbm=st.integers(0, 1 << 22),
    workgroups=st.integers(1, 5000),
    trips=st.sampled_from([None, 1.0, 8.0, 500.0]),
    longest=st.floats(1.0, 1e4),
)
def test_no_figure_is_above_the_peak(
    cycles: int, hbm: int, workgroups: int, trips: float | None, longest: float
) -> None:
    """Whatever a sample says of the rest: also where it took far too short for what it did."""
    parameters = load("gfx942")
    timeline = loop_timeline(vector_registers=512, bytes={"hbm": hbm})
    scale = cycles / max(1, int(timeline.wave_end.max()))
    timeline = replace(
        timeline, wave_start=(timeline.wave_start * scale).astype(int), wave_end=(timeline.wave_end * scale).astype(int)
    )
    grids = [estimate_grid(timeline, workgroups=workgroups, trips=trips)]
    if workgroups > 1:
        lengths = Lengths((workgroups,), ((0, workgroups - 1),), np.array([1.0, longest]))
        samples = choose_samples(lengths, 1)
        times = [SampleTimes(timeline, timeline) for _ in samples.samples]
        grids.append(estimate_varied_grid(lengths, samples, times, parameters, 1))
    for grid in grids:
        assert grid.matrix_share <= 1 + 1e-9 and grid.bandwidth_share <= 1 + 1e-9
        assert grid.roofline.share <= 1 + 1e-9
        assert grid.roofline.achieved <= grid.roofline.peak * (1 + 1e-9)
