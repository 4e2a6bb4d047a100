"""Races that are advice: equal stores, what atomic accesses order, loops of compare and swap. And each of them again
with something broken, where it is a fault."""

from __future__ import annotations

import numpy as np
import pytest
from llvm_kernels import compile_kernel

from ckmlir.sim import CheckFailure, Finding, Simulator

KERNEL = """
@lds = internal addrspace(3) global [64 x i32] undef, align 16
define amdgpu_kernel void @k(ptr addrspace(1) %data, ptr addrspace(1) %flag) #0 {{
entry:
  %tid = call i32 @llvm.amdgcn.workitem.id.x()
  %wg = call i32 @llvm.amdgcn.workgroup.id.x()
  %wave = lshr i32 %tid, 6
  %mine = getelementptr i32, ptr addrspace(1) %data, i32 %wg
  %next = add i32 %wg, 63
  %place = and i32 %next, 63
  %other = getelementptr i32, ptr addrspace(1) %data, i32 %place
{body}
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="1,256" "uniform-work-group-size"="true" }}
"""


def looked_at(body: str, target: str = "gfx942", block: int = 64) -> tuple[list[Finding], list[Finding]]:
    """Faults and remarks of a run of three workgroups."""
    simulator = Simulator(checks=["race"])
    memory = [simulator.upload(np.zeros(256, np.uint32), name) for name in ("data", "flag")]
    try:
        simulator.launch(compile_kernel(KERNEL.format(body=body), target), "k", (3, 1, 1), (block, 1, 1), memory)
    except CheckFailure as failure:
        return list(failure.findings), list(failure.remarks)
    return [], list(simulator.remarks)


@pytest.mark.parametrize("type", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize(("space", "place", "number"), [(1, "%data", "%wg"), (3, "@lds", "%wave")])
def test_stores_of_equal_values_are_apart(type: str, space: int, place: str, number: str) -> None:
    """All store the same, or each its own number, to one place in memory or LDS."""
    body = f"""  %value = {"trunc" if type in ("i8", "i16") else "zext" if type == "i64" else "add"} NUMBER
  store volatile {type} %value, ptr addrspace({space}) {place}, align 8"""
    convert = f"i32 SOURCE to {type}" if type != "i32" else "i32 SOURCE, 0"
    text = body.replace("NUMBER", convert)
    found, remarks = looked_at(text.replace("SOURCE", "7"), block=256)
    assert not found and {one.grade for one in remarks} == {"advisory"}
    assert all("store of what is there already" in one.message for one in remarks)
    found, _ = looked_at(text.replace("SOURCE", number), block=256)
    assert [one.checker for one in found] == ["race"]


def test_a_read_beside_an_equal_store_is_a_race() -> None:
    body = """  %v = load i32, ptr addrspace(1) %data
  store i32 %v, ptr addrspace(1) %mine
  store volatile i32 0, ptr addrspace(1) %data"""
    assert looked_at(body)[0]


COUNTED = """  store i32 %wg, ptr addrspace(1) %mine
  fence syncscope("agent") release
  %count = atomicrmw add ptr addrspace(1) %flag, i32 1 syncscope("agent") monotonic
  fence syncscope("agent") acquire
  %theirs = load i32, ptr addrspace(1) %other
  %copy = getelementptr i32, ptr addrspace(1) %mine, i32 64
  store i32 %theirs, ptr addrspace(1) %copy"""


def test_what_an_atomic_counter_orders_is_advice() -> None:
    """Each workgroup reads what the one before left: a race without the counter that both update."""
    found, remarks = looked_at(COUNTED)
    assert not found and {one.grade for one in remarks} == {"advisory"}
    assert "ordered by atomic accesses alone" in remarks[0].message and "global_store_dword" in remarks[0].message
    update = 'atomicrmw add ptr addrspace(1) %flag, i32 1 syncscope("agent") monotonic'
    found, remarks = looked_at(COUNTED.replace(update, "add i32 1, 1"))
    assert found and not remarks
    # an update of a place of its own tells a workgroup nothing
    found, remarks = looked_at(COUNTED.replace(update, update.replace("%flag", "%apart")).replace(
        "  fence", "  %apart = getelementptr i32, ptr addrspace(1) %flag, i32 %wg\n  fence", 1))  # fmt: skip
    assert found


LOOP = """  %first = load SEEN, ptr addrspace(1) %data
  br label %again
again:
  %seen = phi i32 [ %first, %entry ], [ %now, %again ]
  %more = add i32 %seen, 1
  %pair = cmpxchg ptr addrspace(1) %data, i32 COMPARED, i32 %more syncscope("agent") monotonic monotonic
  %now = extractvalue { i32, i1 } %pair, 0
  %ok = extractvalue { i32, i1 } %pair, 1
  br i1 %ok, label %done, label %again
done:"""


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_loops_of_compare_and_swap_may_begin_with_a_plain_load(target: str) -> None:
    found, remarks = looked_at(LOOP.replace("SEEN", "i32").replace("COMPARED", "%seen"), target)
    assert not found and remarks
    assert all("begins a loop of compare and swap" in one.message or one.grade == "advisory" for one in remarks)
    assert any("begins a loop of compare and swap" in one.message for one in remarks)


def test_a_load_that_is_not_compared_races() -> None:
    body = """  %number = load i32, ptr addrspace(1) %data
  %pair = cmpxchg ptr addrspace(1) %data, i32 5, i32 6 syncscope("agent") monotonic monotonic
  store i32 %number, ptr addrspace(1) %other"""
    found, _ = looked_at(body)
    assert any("cmpswap" in one.instruction and "a read" in one.message for one in found)


LAST = """  %sum_at = getelementptr i32, ptr addrspace(1) %flag, i32 64
  WRITE
  fence syncscope("agent") release
  %count = UPDATE
  fence syncscope("agent") acquire
  %is_last = icmp uge i32 %count, 128
  br i1 %is_last, label %last, label %done
last:
  %sum = READ
  store volatile i32 %sum, ptr addrspace(1) %sum_at
  br label %done
done:"""
"""What all write, the last workgroup of three reads: each of its 64 lanes counts."""
COUNT = 'atomicrmw add ptr addrspace(1) %flag, i32 1 syncscope("agent") monotonic'
STORE = "store i32 %wg, ptr addrspace(1) %mine"
ADD = '%old = atomicrmw add ptr addrspace(1) %mine, i32 1 syncscope("agent") monotonic'
LOAD = "load i32, ptr addrspace(1) %data"
ATOMIC_LOAD = 'load atomic i32, ptr addrspace(1) %data syncscope("one-as") monotonic, align 4'


@pytest.mark.parametrize(("write", "read"), [(STORE, LOAD), (STORE, ATOMIC_LOAD), (ADD, LOAD)])
def test_what_the_last_workgroup_reads_is_advice(write: str, read: str) -> None:
    """Whether it was written or is read atomically makes no difference; without the counter it is a race."""
    body = LAST.replace("WRITE", write).replace("READ", read)
    found, remarks = looked_at(body.replace("UPDATE", COUNT))
    assert not found and remarks
    assert all("ordered by atomic accesses alone" in one.message for one in remarks)
    assert looked_at(body.replace("UPDATE", "mul i32 %wg, 64"))[0]


def test_a_counter_that_is_read_behind_its_update_races() -> None:
    """With the next update, which nothing keeps from being in between."""
    body = f"  %count = {COUNT}\n  %sum = load i32, ptr addrspace(1) %flag\n" + (
        "  store volatile i32 %sum, ptr addrspace(1) %mine"
    )
    found, _ = looked_at(body, "gfx90a")
    assert [one.checker for one in found] == ["race"]
    assert "global_load_dword" in found[0].message and "global_atomic_add" in found[0].instruction
