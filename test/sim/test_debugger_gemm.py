"""GEMM under a trace: matrix instructions are found by their line, and products follow from traced operands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ckmlir.ops import find_operator
from ckmlir.runtime import open_device
from ckmlir.runtime.run import run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.sim.debugging import TraceEvent, Tracer
from ckmlir.targets import get_target

TARGET = get_target("gfx942")


def traced(place: str, checks: tuple[str, ...] = ()) -> list[TraceEvent]:
    """The events of a GEMM whose result is the same as without a trace."""
    operator, events, outputs = find_operator("gemm"), list[TraceEvent](), []
    problem = operator.problem(m=64, n=64, k=64)
    arrays = operator.inputs(problem, TARGET)
    for tracer in (None, Tracer(place, np.float16, events.append, limit=None, result_dtype=np.float32)):
        device = open_device("sim", TARGET, checks=checks)
        assert isinstance(device, SimulatorDevice)
        device.observe(tracer)
        outputs.append(run_operator(operator, problem, arrays, TARGET, device).outputs["c"])
    np.testing.assert_array_equal(*outputs)
    return events


@pytest.mark.parametrize("checks", [(), ("memory", "race", "initialisation")])
def test_products_follow_from_their_operands(checks: tuple[str, ...]) -> None:
    """v_mfma_f32_32x32x8_f16, whose layout is that of AMD's matrix instruction calculator."""
    events = traced("v_mfma_f32_32x32x8_f16*", checks)
    assert len(events) == 64 * 64 * 64 // (32 * 32 * 8)
    lanes, row = np.arange(64), np.arange(16)[:, None]
    rows, columns = 8 * (row // 4) + 4 * (lanes // 32) + row % 4, np.broadcast_to(lanes % 32, (16, 64))
    for event in events:
        factors = []
        for _, value in event.sources[:2]:  # [register, lane, half]: k = 4 * (lane // 32) + 2 * register + half
            whole = np.zeros((32, 8))
            for register in range(2):
                for half in range(2):
                    whole[lanes % 32, 4 * (lanes // 32) + 2 * register + half] = value[register, :, half]
            factors.append(whole)
        if event.sources[2][0] == "0":
            before = np.zeros((16, 64))
        else:
            before = event.sources[2][1].astype(np.float64)
        expected = before + (factors[0] @ factors[1].T)[rows, columns]
        np.testing.assert_allclose(event.results[0][1], expected, rtol=1e-5, atol=1e-4)


def test_a_source_line_has_its_instructions() -> None:
    first = traced("v_mfma*")[0]
    assert first.source is not None
    file, line = first.source
    by_line = traced(f"{Path(file).name}:{line}")
    assert {event.source for event in by_line} == {first.source}
    assert any(event.instruction == first.instruction for event in by_line)
