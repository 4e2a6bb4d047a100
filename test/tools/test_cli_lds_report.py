"""`ckmlir compile … --report lds`: every buffer's bytes, neighbours, layout and conflicts; and the same as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckmlir.ops import find_operator
from ckmlir.scheduling import lds_report
from ckmlir.targets import get_target
from ckmlir.tools.cli import main

GEMM = find_operator("gemm")


def test_the_report_of_a_kernel(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    keys = ["m=128", "n=128", "k=256", "schedule=compv4"]
    assert main(["compile", "gemm", *keys, "--arch", "gfx942", "-o", str(tmp_path / "a.hsaco"), "--report", "lds"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "65536 of 65536 bytes of LDS (100 %), 0 conflict cycles predicted" in lines[1]
    assert any("b 2/2" in line and "16384 bytes at 49152" in line and "128x64 f16" in line for line in lines)
    assert any("shares bytes with a 1/2, a 2/2, b 1/2" in line for line in lines)  # C, on its way out
    assert any("8 cycles each, 0 of them conflicts  (stage to_lds, gemm_kernel.py:" in line for line in lines)


def test_numbers_agree_with_the_code_object_and_each_other() -> None:
    target = get_target("gfx950")
    report = lds_report(GEMM, GEMM.spec(GEMM.problem(m=128, n=128, k=256, schedule="async"), target), target)
    assert (report.limit, report.bytes) == (160 * 1024, max(one.offset + one.bytes for one in report.buffers))
    assert [one.name for one in report.buffers if one.tensor == "a"] == ["a 1/3", "a 2/3", "a 3/3"]
    for one in report.buffers:
        for other in report.buffers:
            meet = one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes
            assert (other.name in one.shares_with) == (meet and one is not other)
        kinds = {access.kind for access in one.accesses}
        assert kinds == ({"copy", "read"} if one.tensor in "ab" else {"write", "read"})
    assert json.loads(json.dumps(report.to_dict()))["buffers"][0]["accesses"][0]["kind"] == "copy"


def test_conflicts_are_counted_access_by_access() -> None:
    """The one default kernel family that has some (docs/testing.md): V of fp8 attention with 32 channels on gfx950."""
    fmha, target = find_operator("fmha_fwd"), get_target("gfx950")
    report = lds_report(fmha, fmha.spec(fmha.problem(d=32, dtype="fp8"), target), target)
    (v,) = [one for one in report.buffers if one.tensor == "v"]
    assert (
        report.conflict_cycles == v.conflict_cycles == sum(one.count * one.conflict_cycles for one in v.accesses) == 4
    )
    assert "of them conflicts" in str(report) and "4 conflict cycles predicted" in str(report)


def test_an_unknown_report_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "a.hsaco"
    assert main(["compile", "gemm", "--arch", "gfx942", "-o", str(output), "--report", "vgpr"]) == 2
    assert "lds" in capsys.readouterr().err and not output.exists()
