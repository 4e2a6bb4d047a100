"""Names of checkers, the text of findings, and how they are counted."""

from __future__ import annotations

import numpy as np
import pytest
from checked_kernels import kernel, simulator
from llvm_kernels import compile_kernel

from ckmlir.sim import CheckFailure, Finding, Simulator, parse_checks
from ckmlir.sim.errors import LaunchError


def test_names_of_checkers() -> None:
    assert parse_checks("race, memory") == {"race", "memory"}
    assert {"memory", "initialisation", "race", "barrier"} <= parse_checks("all")
    assert parse_checks("all") & {"clamped", "unaligned"} == frozenset()
    with pytest.raises(ValueError, match="'rece' is not a checker; choose all, or from memory, "):
        parse_checks("rece")
    with pytest.raises(LaunchError, match="'rece' is not a checker"):
        Simulator(checks=["rece"])


def test_text_of_a_finding() -> None:
    finding = Finding(
        "race", "conflict", "gemm", 0x40, "ds_read_b32 v0, v1", ("gemm.py", 7), (1, 2, 3), 2, (0, 1, 2, 5), 16, "LDS", 9
    )
    assert str(finding) == (
        "race: conflict\n    ds_read_b32 v0, v1 at 0x40 of gemm, from gemm.py:7, workgroup (1, 2, 3), wave 2, "
        "lanes 0-2, 5, byte 16 of LDS, seen 9 times"
    )
    assert finding.to_dict()["lanes"] == (0, 1, 2, 5)


def test_findings_are_one_for_each_instruction_and_results_are_there() -> None:
    sim = simulator("race")
    memory = sim.allocate(4 * 64)
    text = kernel(
        "  %a = getelementptr i32, ptr addrspace(1) %p, i32 %tid\n  %g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
        "  %n = mul i32 %g, 64\n  %v = add i32 %n, %tid\n  store i32 %v, ptr addrspace(1) %a\n  ret void"
    )
    with pytest.raises(CheckFailure) as caught:
        sim.launch(compile_kernel(text), "k", (100, 1, 1), (64, 1, 1), [memory])
    (finding,) = caught.value.findings
    assert finding.times == 99 * 64
    assert caught.value.statistics is not None and caught.value.statistics.workgroups == 100
    assert np.array_equal(memory.read(np.uint32) % 64, np.arange(64))
