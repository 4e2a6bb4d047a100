"""Operators are recorded as they run, with the tile operations of their instructions."""

from __future__ import annotations

import numpy as np
import pytest

from ckmlir.compiler import compile_kernel, tile_operations
from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.runtime import run_operator
from ckmlir.runtime.recording import Recorded, RecordingDevice, record_operator, with_tile_operations
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.sim.checks import CHECKERS, layout
from ckmlir.sim.checks.variants import flags_of
from ckmlir.sim.library import HandlerLibrary
from ckmlir.sim.memory import MemoryTable
from ckmlir.sim.program import Program
from ckmlir.sim.step_recording import run_starts
from ckmlir.targets import get_target

TARGET = get_target("gfx942")


def test_a_recording_has_the_instructions_of_a_run() -> None:
    operator = find_operator("gemm")
    problem = operator.problem(m=128, n=64, k=64, block="64x64x32")
    trace = record_operator(operator, problem, TARGET, workgroups=2)
    device = SimulatorDevice(TARGET)
    run_operator(operator, problem, operator.inputs(problem, TARGET), TARGET, device)
    assert device.last_statistics is not None
    assert len(trace.steps) == device.last_statistics.wave_instructions
    assert trace.workgroups == (0, 1) and trace.grid == (2, 1, 1)


def test_a_recording_is_short_where_waves_repeat_themselves() -> None:
    """What a recording costs beside a plain run: a row for many steps, and hardly a pattern for all accesses."""
    problem = find_operator("gemm").problem(m=128, n=128, k=1024, block="128x128x64")
    trace = record_operator(find_operator("gemm"), problem, TARGET)
    assert len(trace.accesses) > 2000 and len(trace.patterns) <= 40
    runs = np.isin(trace.steps["instruction"], run_starts([one.instruction for one in trace.program]))
    assert runs.sum() * 30 < len(trace.steps)


def test_known_patterns_are_found_again() -> None:
    """Four waves take turns at the same instructions, each with patterns of its own."""
    operator = find_operator("fmha_fwd")
    trace = record_operator(operator, operator.problem(b=1, h=1, sq=128, sk=1024, d=128), TARGET)
    assert len(np.unique(trace.patterns, axis=0)) == len(trace.patterns) < len(trace.accesses) / 50


def test_instructions_know_their_tile_operation() -> None:
    operator = find_operator("gemm")
    problem = operator.problem(m=64, n=64, k=64, block="64x64x32")
    spec = operator.spec(problem, TARGET)
    trace = record_operator(operator, problem, TARGET)
    assert all(one.tile_op is None for one in trace.program)
    named = with_tile_operations(trace, tile_operations(operator, spec, TARGET)).program
    operations = {one.mnemonic: one.tile_op for one in named}
    assert operations["v_mfma_f32_32x32x8_f16"] == "mma 64x64 f32 (stage math)"
    loads = {one.tile_op for one in named if one.mnemonic.startswith("buffer_load")}
    assert loads == {"load 64x32 f16 (stage load)"}


def test_what_prepares_workspaces_runs_and_is_not_recorded() -> None:
    operator = find_operator("ragged_row_sums")
    trace = record_operator(operator, operator.problem(), TARGET)
    assert trace.kernel.startswith("ragged_row_sums") and len(trace.steps) > 0


@pytest.mark.parametrize("workgroups", [0, 3])
def test_more_workgroups_than_there_are(workgroups: int) -> None:
    operator = find_operator("gemm")
    problem = operator.problem(m=128, n=64, k=64, block="64x64x32")
    with pytest.raises(CkmlirError, match=f"{workgroups} workgroups cannot be recorded; the launch has 2"):
        record_operator(operator, problem, TARGET, workgroups=workgroups)


def test_other_kernels_run_as_ever() -> None:
    operator = find_operator("copy")
    problem = operator.problem()
    device = RecordingDevice(TARGET, {7: Recorded(range(1))})
    run_operator(operator, problem, operator.inputs(problem, TARGET), TARGET, device)
    assert device.traces == {}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("flags", [0, layout.RECORDING, flags_of(CHECKERS)])
def test_all_handlers_of_a_kernel_compile_in_one_module(flags: int) -> None:
    """As when a cache is empty: helpers and handlers of all kinds meet."""
    operator = find_operator("fmha_fwd")
    problem = operator.problem(sq=64, sk=64, d=32, mask="top_left")
    code_object = compile_kernel(operator, operator.spec(problem, TARGET), TARGET).code_object
    handlers = HandlerLibrary(None)
    Program(code_object, code_object.kernel(None), handlers, MemoryTable(bool(flags & layout.INITIALISATION)), flags)
    assert handlers.compiled > 50
