"""More waves hide more latency until they do not; workgroups follow each other as registers and LDS allow."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from synthetic_traces import time_of, trace_of

from ckmlir.errors import CkmlirError
from ckmlir.sim.timing.compute_unit import simulate
from ckmlir.sim.timing.parameters import load

# A dependent chain: load, wait, compute.
CHAIN = "\n".join(
    ["global_load_dword v1, v[2:3], off", "s_waitcnt vmcnt(0)", *["v_add_f32_e32 v100, v1, v102"] * 40] * 4
)


def scattered(wave: int, number: int) -> list[int]:
    """Lines that nobody else wants."""
    return [(wave << 24) + (number << 16) + 4 * lane for lane in range(64)]


def test_more_waves_help_until_they_do_not() -> None:
    cycles = {
        4 * groups: time_of("gfx942", CHAIN, waves=4, workgroups=groups, addresses=scattered).cycles
        for groups in (1, 2, 4, 8)
    }
    rate = {waves: waves / count for waves, count in cycles.items()}
    assert rate[8] > 1.8 * rate[4]
    assert rate[16] > 1.4 * rate[8]
    busy = 4 * 4 * 40
    assert cycles[32] > 8 * busy, "eight waves a SIMD are bound by its vector unit"
    assert rate[32] < 1.9 * rate[16]


def test_workgroups_run_at_a_time_as_far_as_lds_allows() -> None:
    few = trace_of("gfx942", CHAIN, 4, 4, scattered, lds_bytes=40 << 10)
    many = trace_of("gfx942", CHAIN, 4, 4, scattered, lds_bytes=10 << 10)
    parameters = load("gfx942")
    one, four = simulate(few, parameters), simulate(many, parameters)
    assert (one.wave_start[4:] >= one.wave_end[:-4]).all(), "one at a time"
    assert four.wave_start.max() < four.wave_end.min(), "all four at a time"
    assert four.cycles < 0.6 * one.cycles
    assert np.bincount(four.wave_simd).tolist() == [4, 4, 4, 4]


def test_workgroups_run_at_a_time_as_far_as_registers_allow() -> None:
    parameters = load("gfx942")
    for registers, waves in ((512, 1), (256, 2), (168, 3), (128, 4), (64, 8)):
        trace = trace_of("gfx942", "s_nop 0", 4, 12, vector_registers=registers)
        timeline = simulate(trace, parameters)
        together = (timeline.wave_start == timeline.wave_start[:1] + 4 * (np.arange(48) % 4)).sum()
        assert timeline.wave_slot.max() == waves - 1, registers
        assert together >= 1


def test_residents_can_be_given_within_the_slots() -> None:
    trace = trace_of("gfx942", CHAIN, 4, 4, scattered)
    parameters = load("gfx942")
    assert simulate(trace, parameters, resident=1).cycles > simulate(trace, parameters, resident=4).cycles
    with pytest.raises(CkmlirError, match="9 workgroups of 4 waves at a time; the wave slots hold 8"):
        simulate(trace, parameters, resident=9)


def test_parameters_of_another_chip_are_refused() -> None:
    with pytest.raises(CkmlirError, match="the trace is of gfx942, the parameters are those of gfx950"):
        simulate(trace_of("gfx942", "s_nop 0"), load("gfx950"))


PLAIN = """
import sys; sys.path.insert(0, "test/sim")
import hashlib
from synthetic_traces import time_of, lane_after_lane
text = "\\n".join(["ds_read_b128 v[0:3], v5", "v_exp_f32_e32 v0, v1", "s_waitcnt lgkmcnt(0)", "s_barrier", "s_nop 2",
                  "global_load_dword v1, v[2:3], off", "s_waitcnt vmcnt(0)"] * 3)
t = time_of("gfx942", text, waves=8, workgroups=2, addresses=lane_after_lane(16))
print(t.cycles, hashlib.sha256(t.events.tobytes() + t.stalls.tobytes()).hexdigest())
"""


def test_results_are_the_same_in_every_process_and_without_compiling() -> None:
    root = Path(__file__).parents[3]

    def run(**environment: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", PLAIN], cwd=root, capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": str(root), **environment},
        ).stdout  # fmt: skip

    compiled = run()
    assert compiled == run() == run(NUMBA_DISABLE_JIT="1")
