"""`ckmlir compile … --report lds`: every buffer's bytes, neighbours, layout and conflicts; and the same as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckmlir.mlir import ir
from ckmlir.ops import find_operator
from ckmlir.passes.allocate_lds import AllocateLds
from ckmlir.passes.framework import PassFailure
from ckmlir.passes.lds_report import reports_of
from ckmlir.scheduling import lds_report
from ckmlir.targets import get_target
from ckmlir.tools.cli import main

GEMM = find_operator("gemm")


def test_the_report_of_a_kernel(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    keys = ["m=128", "n=128", "k=256", "schedule=compv4"]
    assert main(["compile", "gemm", *keys, "--arch", "gfx942", "-o", str(tmp_path / "a.hsaco"), "--report", "lds"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "chosen: block=128x128x64, wave=2x2, mfma=32x32x8, epilogue=cshuffle"
    assert "65536 of 65536 bytes of LDS (100 %), 0 conflict cycles predicted" in lines[2]
    assert any("b 2/2" in line and "16384 bytes at 49152" in line and "128x64 f16" in line for line in lines)
    assert any("shares bytes with a 1/2, a 2/2, b 1/2" in line for line in lines)  # C, on its way out
    assert any("8 cycles each, 0 of them conflicts  (stage to_lds, loop_kernel.py:" in line for line in lines)


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


COLUMNS = """module attributes {ck.target = "gfx942"} {
func.func @columns(%v: vector<1xf32>) attributes {ck.waves = 1 : i32} {
  %t = "ck.lds_alloc"() {layout = "lengths 64x32 order 0,1 pitch 32", name = "t"} : () -> !ck.lds<[64, 32], f32>
  "ck.lds_write"(%v, %t) {distribution = "d0: 32@y0 2@lane, d1: 32@lane", registers = array<i32: 0>} :
    (vector<1xf32>, !ck.lds<[64, 32], f32>) -> ()
  "ck.lds_read"(%t) {distribution = "d0: 64@lane, d1: 32@y0", registers = array<i32: 0>} :
    (!ck.lds<[64, 32], f32>) -> vector<1xf32>
  return
}
}"""
"""Lanes write rows and read columns of single elements."""


def test_conflicts_are_counted_access_by_access(context: ir.Context) -> None:
    module = ir.Module.parse(COLUMNS)
    AllocateLds(padding=False).apply(module)
    (report,) = reports_of(module)
    (tensor,) = report.buffers
    cost = {access.kind: access.conflict_cycles for access in tensor.accesses}
    assert report.conflict_cycles == tensor.conflict_cycles == sum(cost.values()) > 0
    assert f"{report.conflict_cycles} conflict cycles predicted" in str(report)
    padded = ir.Module.parse(COLUMNS)
    AllocateLds().apply(padded)
    assert reports_of(padded)[0].conflict_cycles == 0


def test_lds_must_be_allocated(context: ir.Context) -> None:
    with pytest.raises(PassFailure, match="has no LDS allocated; run ck-allocate-lds before asking for a report"):
        reports_of(ir.Module.parse(COLUMNS))


def test_an_unknown_report_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "a.hsaco"
    assert main(["compile", "gemm", "--arch", "gfx942", "-o", str(output), "--report", "vgpr"]) == 2
    assert "lds" in capsys.readouterr().err and not output.exists()
