"""The memory checker on small kernels: what it must report, with its place, and the nearest that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from checked_kernels import STORE_ID, kernel, run, simulator
from llvm_kernels import compile_kernel

from ckmlir.sim import CheckFailure, parse_checks


def test_out_of_bounds_names_lane_and_allocation() -> None:
    sim = simulator("memory")
    (finding,) = run(kernel(STORE_ID), "memory", [sim.allocate(4 * 60, "the result")], sim)
    assert finding.checker == "memory" and finding.lanes == (60,)
    assert "past the end of the result of 240 bytes" in finding.message
    assert finding.instruction.startswith("global_store_dword") and finding.kernel == "k"
    assert finding.workgroup == (0, 0, 0) and finding.wave == 0


def test_an_access_somewhat_out_of_bounds_meets_no_other_allocation() -> None:
    """The host lays memory out as it likes: small allocations are next to each other, or a large one is between."""
    sim = simulator("memory")
    memories = [sim.allocate(size, f"m{size}") for size in (240, 256, 1, 4096, 240, 1 << 20, 240)]
    far = "  %q = getelementptr i8, ptr addrspace(1) %p, i64 DISTANCE\n"
    for distance in (256, 4096, 32768, -1024, -32768):
        body = far.replace("DISTANCE", str(distance)) + STORE_ID.replace("%p,", "%q,")
        for memory in memories:
            found = run(kernel(body), "memory", [memory], sim)
            beyond = [one for one in found if one.checker == "memory" and "outside of all allocations" in one.message]
            assert bool(beyond) == (not 0 <= distance <= memory.size - 256), (distance, memory.size)


def test_use_after_free_says_what_was_freed() -> None:
    sim = simulator("memory")
    memory = sim.allocate(256, "the result")
    address = memory.address
    memory.free()
    stale = kernel(STORE_ID, "i64 %raw").replace("%p,", "%q,")
    stale = stale.replace("  %tid", "  %q = inttoptr i64 %raw to ptr addrspace(1)\n  %tid", 1)
    with pytest.raises(CheckFailure, match="into the result of 256 bytes, which was freed"):
        sim.launch(compile_kernel(stale), "k", (1, 1, 1), (64, 1, 1), [np.uint64(address)])


def test_write_to_read_only_memory() -> None:
    sim = simulator("memory")
    (finding,) = run(kernel(STORE_ID), "memory", [sim.upload(np.zeros(64, np.uint32), "x", read_only=True)], sim)
    assert "read-only" in finding.message and finding.lanes == tuple(range(64))
    assert (finding.allocation, finding.memory_address) == ("x", 0)
    assert run(kernel(STORE_ID), "memory", [sim.upload(np.zeros(64, np.uint32), "x")], sim) == []


def test_misaligned_atomic() -> None:
    body = """  %a = getelementptr i8, ptr addrspace(1) %p, i32 OFFSET
  %old = atomicrmw add ptr addrspace(1) %a, i32 1 syncscope("agent") monotonic
  ret void"""
    for offset, expected in ((0, 0), (4, 0), (2, 1)):
        sim = simulator("memory")
        found = run(kernel(body.replace("OFFSET", str(offset))), "memory", [sim.upload(np.zeros(64, np.uint32))], sim)
        assert len(found) == expected, offset
        assert all("not aligned" in finding.message for finding in found)


def test_unaligned_dwords_are_reported_on_request() -> None:
    body = """  %a = getelementptr i8, ptr addrspace(1) %p, i32 %tid
  store i32 %id, ptr addrspace(1) %a, align 1
  ret void"""
    sim = simulator("unaligned")
    assert run(kernel(STORE_ID), "unaligned", [sim.allocate(512)], sim) == []
    found = run(kernel(body), "unaligned", [sim.allocate(512)], sim)
    assert "unaligned" not in parse_checks("all")
    assert [finding.checker for finding in found] in (["unaligned"], [])  # LLVM may store bytes one by one


def test_clamped_buffer_accesses_are_reported_on_request() -> None:
    body = """  %bits = ptrtoint ptr addrspace(1) %p to i64
  %low = trunc i64 %bits to i32
  %shifted = lshr i64 %bits, 32
  %high = trunc i64 %shifted to i32
  %r0 = insertelement <4 x i32> poison, i32 %low, i32 0
  %r1 = insertelement <4 x i32> %r0, i32 %high, i32 1
  %r2 = insertelement <4 x i32> %r1, i32 SIZE, i32 2
  %r = insertelement <4 x i32> %r2, i32 159744, i32 3
  %o = shl i32 %tid, 2
  call void @llvm.amdgcn.raw.buffer.store.i32(i32 %tid, <4 x i32> %r, i32 %o, i32 0, i32 0)
  ret void"""
    text = kernel(body)
    sim = simulator("clamped")
    assert run(text.replace("SIZE", "256"), "clamped", [sim.allocate(256)], sim) == []
    (finding,) = run(text.replace("SIZE", "240"), "clamped", [sim.allocate(256)], sim)
    assert finding.lanes == (60, 61, 62, 63) and "refuses" in finding.message
    sim = simulator("all")
    assert run(text.replace("SIZE", "240"), "all", [sim.allocate(256)], sim) == []


def test_lds_and_scratch_bounds() -> None:
    lds = """  %i = add i32 %tid, 1020
  %a = getelementptr i32, ptr addrspace(3) @lds, i32 %i
  store volatile i32 %id, ptr addrspace(3) %a
  ret void"""
    sim = simulator("memory")
    (finding,) = run(kernel(lds), "memory", [sim.allocate(256)], sim)
    assert finding.lanes == (4,) and "4096 bytes" in finding.message
    scratch = """  %m = alloca [8 x i32], addrspace(5)
  %far = mul i32 %tid, 40
  %a = getelementptr i32, ptr addrspace(5) %m, i32 %far
  store volatile i32 %id, ptr addrspace(5) %a
  ret void"""
    for target in ("gfx942", "gfx950"):
        (finding,) = run(kernel(scratch), "memory", [sim.allocate(256)], sim, target=target)
        assert "scratch offset" in finding.message
