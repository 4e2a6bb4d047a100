"""The initialisation checker on small kernels: undefined values count where they matter, and not before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checked_kernels import STORE_ID, STORE_V, kernel, run, simulator

from ckmlir.sim import Finding

LDS_READ = """  %a = getelementptr i32, ptr addrspace(3) @lds, i32 %tid
  %v = load volatile i32, ptr addrspace(3) %a
"""


def initialisation(body: str, contents: np.ndarray | None = None, **options: Any) -> list[Finding]:
    sim = simulator("initialisation")
    memory = sim.allocate(4096, "p") if contents is None else sim.upload(contents, "p")
    return run(kernel(body), "initialisation", [memory], sim, **options)


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_lds_that_nobody_wrote(target: str) -> None:
    (finding,) = initialisation(LDS_READ + STORE_V, target=target)
    assert finding.message == "an undefined value is stored"
    assert finding.lanes == tuple(range(64)) and (finding.allocation, finding.memory_address) == ("p", 0)
    written = LDS_READ.replace("%v = load", "store volatile i32 7, ptr addrspace(3) %a\n  %v = load")
    assert initialisation(written + STORE_V, target=target) == []


def test_reading_undefined_memory_is_no_finding_until_the_value_matters() -> None:
    assert initialisation(LDS_READ + "  ret void") == []
    masked = LDS_READ.replace("%v =", "%u =") + "  %v = and i32 %u, 0\n" + STORE_V
    assert initialisation(masked) == []
    chosen = LDS_READ.replace("%v =", "%u =") + "  %c = icmp ult i32 %tid, 64\n  %v = select i1 %c, i32 5, i32 %u\n"
    assert initialisation(chosen + STORE_V) == []


def test_only_undefined_bits_count() -> None:
    """A byte of four was written."""
    body = """  %a = getelementptr i32, ptr addrspace(3) @lds, i32 %tid
  store volatile i8 3, ptr addrspace(3) %a, align 4
  %u = load volatile i32, ptr addrspace(3) %a, align 4
"""
    assert initialisation(body + "  %v = and i32 %u, 255\n" + STORE_V) == []
    assert len(initialisation(body + "  %v = and i32 %u, 511\n" + STORE_V)) == 1
    assert initialisation(body + "  %v = shl i32 %u, 24\n" + STORE_V) == []
    assert len(initialisation(body + "  %v = shl i32 %u, 23\n" + STORE_V)) == 1


def test_global_memory_that_nobody_wrote_and_that_the_host_wrote() -> None:
    body = """  %i = add i32 %id, 512
  %s = getelementptr i32, ptr addrspace(1) %p, i32 %i
  %v = load i32, ptr addrspace(1) %s
"""
    assert len(initialisation(body + STORE_V)) == 1
    assert initialisation(body + STORE_V, np.zeros(1024, np.uint32)) == []


def test_a_kernel_defines_memory_for_the_next() -> None:
    sim = simulator("initialisation")
    memory = sim.allocate(1024, "p")
    copy = """  %i = xor i32 %id, 1
  %s = getelementptr i32, ptr addrspace(1) %p, i32 %i
  %v = load i32, ptr addrspace(1) %s
"""
    assert run(kernel(STORE_ID), "initialisation", [memory], sim, block=256) == []
    assert run(kernel(copy + STORE_V), "initialisation", [memory], sim) == []


def test_undefined_addresses_conditions_and_lane_masks() -> None:
    address = (
        LDS_READ.replace("%v =", "%u =")
        + """  %w = and i32 %u, 63
  %s = getelementptr i32, ptr addrspace(1) %p, i32 %w
  store i32 1, ptr addrspace(1) %s
  ret void"""
    )
    assert [one.message for one in initialisation(address)] == ["an undefined value is used as an address"]
    lanes = (
        LDS_READ.replace("%v =", "%u =")
        + """  %c = icmp ugt i32 %u, 9
  br i1 %c, label %yes, label %no
yes:
  store i32 1, ptr addrspace(1) %p
  br label %no
no:
  ret void"""
    )
    assert "an undefined value decides which lanes go on" in [one.message for one in initialisation(lanes)]
    uniform = (
        LDS_READ.replace("%v =", "%u =")
        + """  %f = call i32 @llvm.amdgcn.readfirstlane(i32 %u)
  %c = icmp ugt i32 %f, 9
  br i1 %c, label %yes, label %no
yes:
  store i32 1, ptr addrspace(1) %p
  br label %no
no:
  ret void"""
    )
    text = "declare i32 @llvm.amdgcn.readfirstlane(i32)\n" + kernel(uniform)
    sim = simulator("initialisation")
    found = run(text, "initialisation", [sim.allocate(256)], sim)
    assert "a branch depends on an undefined value" in [one.message for one in found]
