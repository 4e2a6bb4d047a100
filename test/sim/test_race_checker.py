"""The race checker on small kernels: what it must report, and the nearest thing that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from checked_kernels import STORE_ID, STORE_V, kernel, run, simulator

from ckmlir.sim import Finding

EXCHANGE = """  %a = getelementptr i32, ptr addrspace(3) @lds, i32 %tid
  store i32 %tid, ptr addrspace(3) %a
BARRIER  %n = add i32 %tid, DISTANCE
  %m = and i32 %n, 255
  %b = getelementptr i32, ptr addrspace(3) @lds, i32 %m
  %v = load i32, ptr addrspace(3) %b
"""
FENCED_BARRIER = """  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
"""
WAVE_FENCE = '  fence syncscope("wavefront") seq_cst\n'


def race(body: str, block: int = 256, grid: int = 1, seed: int = 0) -> list[Finding]:
    sim = simulator("race", seed=seed)
    return run(kernel(body), "race", [sim.upload(np.zeros(4096, np.uint32), "p")], sim, block, grid)


@pytest.mark.parametrize("seed", range(4))
def test_exchange_between_waves_needs_a_barrier(seed: int) -> None:
    for distance in (1, 64, 100):
        text = EXCHANGE.replace("DISTANCE", str(distance)) + STORE_V
        assert race(text.replace("BARRIER", FENCED_BARRIER), seed=seed) == []
        found = race(text.replace("BARRIER", WAVE_FENCE), seed=seed)
        assert found and all(one.allocation == "LDS" and "no barrier between" in one.message for one in found)
    assert race(EXCHANGE.replace("DISTANCE", "0").replace("BARRIER", WAVE_FENCE) + STORE_V, seed=seed) == []


def test_one_wave_does_not_race_with_itself() -> None:
    text = EXCHANGE.replace("DISTANCE", "1").replace("BARRIER", WAVE_FENCE).replace("255", "63") + STORE_V
    assert race(text, block=64) == []


def test_bytes_of_one_dword_are_apart() -> None:
    body = """  %w = lshr i32 %tid, 6
  %a = getelementptr i8, ptr addrspace(3) @lds, i32 %w
  %mine = lshr i32 %tid, 6
  %byte = trunc i32 %mine to i8
  store volatile i8 %byte, ptr addrspace(3) %a
  ret void"""
    assert race(body) == []
    assert len(race(body.replace("%w = lshr i32 %tid, 6", "%w = lshr i32 %tid, 7"))) == 1


ATOMIC_ADD = '  %old = atomicrmw add ptr addrspace(1) %p, i32 1 syncscope("agent") monotonic\n'


def test_atomics_do_not_race_with_each_other_but_with_plain_accesses() -> None:
    assert race(ATOMIC_ADD + "  ret void", grid=4) == []
    plain = ATOMIC_ADD + "  store i32 5, ptr addrspace(1) %p\n  ret void"
    assert race(plain, grid=4)


def test_workgroups_race_in_global_memory_whatever_their_barriers() -> None:
    same_place = f"{FENCED_BARRIER}  %a = getelementptr i32, ptr addrspace(1) %p, i32 %tid\n"
    same_place += "  store i32 %id, ptr addrspace(1) %a\n  ret void"
    assert race(same_place, block=64, grid=1) == []
    found = race(same_place, block=64, grid=2)
    assert found and "another workgroup" in found[0].message and found[0].workgroup == (1, 0, 0)
    assert race(STORE_ID, block=64, grid=8) == []


def test_a_barrier_orders_global_accesses_within_a_workgroup() -> None:
    body = """  %a = getelementptr i32, ptr addrspace(1) %p, i32 %tid
  store i32 %tid, ptr addrspace(1) %a
BARRIER  %n = xor i32 %tid, 64
  %b = getelementptr i32, ptr addrspace(1) %p, i32 %n
  %v = load volatile i32, ptr addrspace(1) %b
  ret void"""
    assert race(body.replace("BARRIER", FENCED_BARRIER)) == []
    found = race(body.replace("BARRIER", ""))
    assert found and all(one.allocation == "p" and "conflict with" in one.message for one in found)


def test_a_read_of_an_earlier_workgroup_is_remembered_behind_reads_of_the_same() -> None:
    """Workgroup 0 reads; both waves of workgroup 1 read, in two rounds, and then write."""
    body = f"""  %first = load volatile i32, ptr addrspace(1) %p
{FENCED_BARRIER}  %second = load volatile i32, ptr addrspace(1) %p
{FENCED_BARRIER}  %last = icmp eq i32 %wg, 1
  %one = icmp eq i32 %tid, 0
  %writes = and i1 %last, %one
  br i1 %writes, label %yes, label %no
yes:
  store i32 1, ptr addrspace(1) %p
  br label %no
no:
  ret void"""
    assert race(body, block=128, grid=1) == []
    assert any("a read by another workgroup" in one.message for one in race(body, block=128, grid=2))
