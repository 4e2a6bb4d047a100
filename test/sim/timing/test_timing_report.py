"""The report: every number where it belongs, in text and JSON, and both say that it is a model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from made_timelines import LOAD, PRODUCT, READ, START, loop_timeline
from msgspec.structs import force_setattr
from synthetic_traces import time_of

from ckmlir.sim.timing.events import Reason
from ckmlir.sim.timing.hot_spots import by_instruction, by_line, stall_cycles
from ckmlir.sim.timing.parameters import load
from ckmlir.sim.timing.report import report

STALLS = [
    (0, LOAD, Reason.UNIT_BUSY_VMEM, 110, 5),
    (0, PRODUCT, Reason.WAIT_LDS, 120, 30),
    (0, PRODUCT, Reason.BARRIER, 160, 10),
    (0, READ, Reason.WAIT_LDS, 170, 7),
    (0, START, Reason.INSTRUCTION_FETCH, 0, 3),
]


def test_stalls_by_reason_instruction_and_line() -> None:
    timeline = loop_timeline(stalls=STALLS)
    assert list(stall_cycles(timeline).items()) == [
        ("wait lds", 37), ("barrier", 10), ("unit busy vmem", 5), ("instruction fetch", 3)
    ]  # fmt: skip
    hottest = by_instruction(timeline)
    assert [spot.cycles for spot in hottest] == [40, 7, 5, 3]
    assert hottest[0].place.endswith("v_mfma_f32_32x32x8_f16")
    assert hottest[0].issues == 8
    assert hottest[0].reasons == {"wait lds": 30, "barrier": 10}
    lines = by_line(timeline)
    assert [spot.place for spot in lines] == [f"kernel.py:{10 + PRODUCT}", "kernel.py:12", "kernel.py:11", "(no line)"]
    assert sum(spot.cycles for spot in lines) == sum(spot.cycles for spot in hottest) == 55
    assert [spot.cycles for spot in by_instruction(timeline, most=1)] == [40]


def test_instructions_of_one_line_are_summed() -> None:
    timeline = loop_timeline(stalls=STALLS)
    program = tuple(one._replace(source=("one.py", 1)) for one in timeline.trace.program)
    force_setattr(timeline.trace, "program", program)
    (spot,) = by_line(timeline)
    assert (spot.place, spot.cycles) == ("one.py:1", 55)
    assert spot.issues == len(timeline.events)


def test_the_report_of_a_kernel() -> None:
    timeline = loop_timeline(stalls=STALLS, bytes={"hbm": 4096, "lds": 512}, grid=(608, 1, 1))
    found = report(timeline)
    assert (found.cycles, found.waves, found.workgroups, found.wave_cycles) == (480, 1, 1, 480)
    assert found.busy["mfma"] == pytest.approx(8 * 32 / 480 / 4)
    assert found.busy["lds"] == pytest.approx(8 * 8 / 480)
    assert found.issued["vmem"] == 9
    assert found.conflict_cycles == 2 * 8
    assert found.occupancy.limiter == "vector registers"
    assert found.grid.workgroups == 608
    assert found.given == {}
    assert set(found.parameters) == {"published", "assumed"}


def test_text_and_json_say_that_it_is_a_model() -> None:
    parameters = load("gfx942", overrides=["memory.hbm.latency=900"])
    timeline = loop_timeline(stalls=STALLS, bytes={"hbm": 4096}, parameters=parameters)
    timeline.memory["l1_hit_rate"] = float("nan")
    timeline.memory["lines"] = np.int64(3)
    found = report(timeline)
    text = found.to_text()
    assert text.splitlines()[0] == "kernel on gfx942: model (no GPU was timed)"
    for part in (
        "given: memory.hbm.latency=900",
        "4 waves a SIMD, 16 workgroups a compute unit, limited by vector registers",
        "main loop: 8 iterations of 40.0 cycles, 100 before and 60 after",
        "bank conflicts: 16 cycles",
        "(wait lds)",
        f"kernel.py:{10 + PRODUCT}",
        "launch, sampled: 1 workgroup,",
        "bound by",
    ):
        assert part in text, part
    read = json.loads(found.to_json())
    assert read["model"] == "model (no GPU was timed)"
    assert read["memory"] == {"l1_hit_rate": None, "lines": 3}
    assert read["grid"]["workgroup"]["steady"]["cycles_per_iteration"] == 40
    assert read["grid"]["roofline"]["bound"] in ("memory", "matrix cores")
    assert read["given"] == {"memory.hbm.latency": 900}
    assert read["parameters"]["given"] == 1


def test_lines_below_the_current_directory_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = loop_timeline(stalls=STALLS)
    program = tuple(one._replace(source=(str(tmp_path / "ops" / "one.py"), 7)) for one in timeline.trace.program)
    force_setattr(timeline.trace, "program", program)
    assert f"{tmp_path}/ops/one.py:7" in report(timeline).to_text()
    monkeypatch.chdir(tmp_path)
    assert "  ops/one.py:7  (" in report(timeline).to_text()


@pytest.mark.parametrize("line", ["s_add_u32 s0, s1, s2", "s_nop 0"])
def test_no_unit_takes_more_than_its_time(line: str) -> None:
    """Waves on every SIMD issue a scalar instruction each turn: that is what the scalar unit takes, and no more. The
    launch takes no longer than it was simulated to take.
    """
    timeline = time_of("gfx942", "\n".join([line] * 200), waves=8)
    found = report(timeline)
    assert all(0 <= share <= 1 for share in found.busy.values())
    assert (found.busy["salu"] > 0.7) == line.startswith("s_add")
    assert found.grid.workgroup.limiter[1] <= timeline.cycles


def test_a_kernel_without_loop_or_matrix_instructions_has_a_report() -> None:
    timeline = loop_timeline(trips=0, bytes={"hbm": 64})
    text = report(timeline).to_text()
    assert "main loop" not in text
    assert "no matrix operations" in text
    assert "instructions that waves wait at" not in text


def test_shares_are_of_the_time_and_no_more() -> None:
    found = report(loop_timeline(stalls=STALLS))
    assert sum(found.stalls.values()) <= found.wave_cycles
    assert all(0 <= share <= 1 for share in found.busy.values())
    assert all(spot.cycles <= found.wave_cycles for spot in found.instructions)
