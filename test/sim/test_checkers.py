"""Each checker on small kernels: what it must report, with its place, and the nearest thing that it must not report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from llvm_kernels import GLOBAL_ID, compile_kernel

from ckmlir.sim import CheckFailure, DeviceMemory, Finding, Simulator, parse_checks
from ckmlir.sim.errors import LaunchError, SimulationError

DECLARATIONS = """
@lds = internal addrspace(3) global [1024 x i32] undef, align 16
declare void @llvm.amdgcn.raw.buffer.store.i32(i32, <4 x i32>, i32, i32, i32)
declare i32 @llvm.amdgcn.raw.buffer.load.i32(<4 x i32>, i32, i32, i32)
"""


def kernel(body: str, parameters: str = "ptr addrspace(1) %p", threads: int = 256) -> str:
    return f"""{DECLARATIONS}
define amdgpu_kernel void @k({parameters}) #0 {{
{GLOBAL_ID}{body}
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="1,{threads}" "uniform-work-group-size"="true" }}
"""


def run(
    text: str,
    checks: str,
    arguments: list[DeviceMemory],
    simulator: Simulator,
    block: int = 64,
    grid: int = 1,
    target: str = "gfx942",
) -> list[Finding]:
    """The findings of a launch."""
    assert simulator.checks == parse_checks(checks)
    try:
        simulator.launch(compile_kernel(text, target), "k", (grid, 1, 1), (block, 1, 1), arguments)
    except CheckFailure as failure:
        return list(failure.findings)
    return []


def simulator(checks: str, **options: Any) -> Simulator:
    return Simulator(checks=parse_checks(checks), **options)


STORE_ID = """  %a = getelementptr i32, ptr addrspace(1) %p, i32 %id
  store i32 %id, ptr addrspace(1) %a
  ret void"""


# -- memory ----------------------------------------------------------------------------------------------------------


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


# -- initialisation --------------------------------------------------------------------------------------------------

LDS_READ = """  %a = getelementptr i32, ptr addrspace(3) @lds, i32 %tid
  %v = load volatile i32, ptr addrspace(3) %a
"""
STORE_V = """  %o = getelementptr i32, ptr addrspace(1) %p, i32 %id
  store i32 %v, ptr addrspace(1) %o
  ret void"""


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


# -- races -----------------------------------------------------------------------------------------------------------

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
    plain = ATOMIC_ADD + "  store volatile i32 5, ptr addrspace(1) %p\n  ret void"
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
  store volatile i32 %tid, ptr addrspace(1) %a
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
  store volatile i32 1, ptr addrspace(1) %p
  br label %no
no:
  ret void"""
    assert race(body, block=128, grid=1) == []
    assert any("a read by another workgroup" in one.message for one in race(body, block=128, grid=2))


# -- barriers, ends --------------------------------------------------------------------------------------------------


def barrier(body: str, block: int = 128) -> list[Finding]:
    sim = simulator("barrier", branch_budget=100_000)
    return run(kernel(body), "barrier", [sim.allocate(4096)], sim, block)


def guarded_barrier(condition: str) -> str:
    return f"""  %c = {condition}
  br i1 %c, label %yes, label %no
yes:
  call void @llvm.amdgcn.s.barrier()
  br label %no
no:
{STORE_ID}"""


def test_waves_and_lanes_that_miss_a_barrier() -> None:
    assert barrier(guarded_barrier("icmp ult i32 %tid, 128")) == []
    whole_wave = barrier(guarded_barrier("icmp ult i32 %tid, 64"))
    assert any("wave 1 of the workgroup ended while this wave waits" in one.message for one in whole_wave)
    lanes = barrier(guarded_barrier("icmp ult i32 %tid, 96"))
    (finding,) = [one for one in lanes if one.wave == 1]
    assert finding.lanes == tuple(range(32, 64)) and "switched off" in finding.message


ENDLESS = f"""  %c = icmp ult i32 %tid, 64
  br i1 %c, label %wait, label %spin
spin:
  %flag = load volatile i32, ptr addrspace(1) %p
  %done = icmp eq i32 %flag, 12345
  br i1 %done, label %end, label %spin
wait:
  call void @llvm.amdgcn.s.barrier()
  br label %end
end:
{STORE_ID}"""


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_wave_that_never_comes_ends_in_a_report(seed: int) -> None:
    sim = simulator("barrier", branch_budget=100_000, seed=seed)
    found = run(kernel(ENDLESS), "barrier", [sim.upload(np.zeros(4096, np.uint32))], sim, 128)
    assert any("more than 100000 branches" in one.message for one in found)


def test_the_budget_holds_without_checks() -> None:
    sim = Simulator(branch_budget=1000)
    with pytest.raises(SimulationError, match="more than 1000 branches"):
        sim.launch(compile_kernel(kernel(ENDLESS)), "k", (1, 1, 1), (128, 1, 1), [sim.upload(np.zeros(64, np.uint32))])


# -- names and forms -------------------------------------------------------------------------------------------------


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
