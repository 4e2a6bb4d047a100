"""With `interleaving` waves take turns between accesses too: a missing barrier shows in orders that are never seen
otherwise, and what is right stays right."""

from __future__ import annotations

import numpy as np
import pytest
from llvm_kernels import GLOBAL_ID, compile_kernel

from ckmlir.ops import find_operator
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.sim import CheckFailure, Simulator
from ckmlir.targets import get_target

WAVES = 4
SEEDS = range(12)
TEXT = f"""
@lds = internal addrspace(3) global [2048 x i32] undef, align 16

define amdgpu_kernel void @k(ptr addrspace(1) %p) #0 {{
{GLOBAL_ID}  %lane = and i32 %tid, 63
  %wave = lshr i32 %tid, 6
BODY
  %out = getelementptr i32, ptr addrspace(1) %p, i32 %id
  store i32 %seen, ptr addrspace(1) %out
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="1,256" "uniform-work-group-size"="true" }}
"""
SLOTS = 8
SAME_SLOTS = "  %sum0 = or i32 0, 0\n" + "\n".join(
    f"""  %slot{i} = getelementptr [64 x i32], ptr addrspace(3) @lds, i32 {i}, i32 %lane
  store volatile i32 %wave, ptr addrspace(3) %slot{i}
  %seen{i} = load volatile i32, ptr addrspace(3) %slot{i}
  %sum{i + 1} = add i32 %sum{i}, %seen{i}"""
    for i in range(SLOTS)
) + f"\n  %seen = or i32 %sum{SLOTS}, 0"
"""Waves write to the same places, and read what they wrote: without a turn's end between the two all is well."""
BEHIND_A_BARRIER = """  %slot = getelementptr i32, ptr addrspace(3) @lds, i32 %tid
  store i32 %tid, ptr addrspace(3) %slot
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %other = xor i32 %tid, 255
  %from = getelementptr i32, ptr addrspace(3) @lds, i32 %other
  %seen = load i32, ptr addrspace(3) %from"""
IN_ORDER = """  %reached = getelementptr i32, ptr addrspace(3) @lds, i32 %wave
  %next = getelementptr i32, ptr addrspace(3) %reached, i32 1
  %is_first = icmp eq i32 %wave, 0
  br i1 %is_first, label %go, label %look
look:
  %flag = load volatile i32, ptr addrspace(3) %reached
  %is_set = icmp eq i32 %flag, 77
  br i1 %is_set, label %go, label %look
go:
  store volatile i32 77, ptr addrspace(3) %next
  %seen = or i32 %wave, 0"""


def results(body: str, seed: int, checks: str, **options: int) -> np.ndarray:
    simulator = Simulator(seed=seed, checks=checks, **options)
    memory = simulator.allocate(4 * 64 * WAVES)
    code = compile_kernel(TEXT.replace("BODY", body), "gfx942")
    try:
        simulator.launch(code, "k", (1, 1, 1), (64 * WAVES, 1, 1), [memory])
    except CheckFailure as failure:
        assert {one.checker for one in failure.findings} == {"race"}
    return memory.read(np.uint32)


def test_a_missing_barrier_shows_in_orders_that_are_never_seen_otherwise() -> None:
    own = np.arange(64 * WAVES, dtype=np.uint32) // 64 * SLOTS
    assert all(np.array_equal(results(SAME_SLOTS, seed, ""), own) for seed in SEEDS)
    seen = {results(SAME_SLOTS, seed, "interleaving").tobytes() for seed in SEEDS}
    assert len(seen) >= 6


@pytest.mark.parametrize("checks", ["race", "race,interleaving"])
def test_a_race_is_found_in_any_order(checks: str) -> None:
    simulator = Simulator(checks=checks)
    code = compile_kernel(TEXT.replace("BODY", SAME_SLOTS), "gfx942")
    with pytest.raises(CheckFailure) as failure:
        simulator.launch(code, "k", (1, 1, 1), (64 * WAVES, 1, 1), [simulator.allocate(4 * 64 * WAVES)])
    assert {one.checker for one in failure.value.findings} == {"race"}


def test_a_wave_does_not_race_with_itself() -> None:
    """All its turns between two barriers have one number."""
    own_slots = SAME_SLOTS.replace("i32 %lane", "i32 %tid").replace("[64 x i32]", "[256 x i32]")
    code = compile_kernel(TEXT.replace("BODY", own_slots), "gfx942")
    for seed in SEEDS:
        simulator = Simulator(seed=seed, checks="race,interleaving")
        simulator.launch(code, "k", (1, 1, 1), (64 * WAVES, 1, 1), [simulator.allocate(4 * 64 * WAVES)])


@pytest.mark.parametrize("seed", SEEDS)
def test_what_stands_behind_a_barrier_is_right_in_every_order(seed: int) -> None:
    expected = np.arange(64 * WAVES, dtype=np.uint32) ^ 255
    assert np.array_equal(results(BEHIND_A_BARRIER, seed, "all,interleaving"), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_waves_that_wait_for_each_other_go_on(seed: int) -> None:
    own = np.arange(64 * WAVES, dtype=np.uint32) // 64
    assert np.array_equal(results(IN_ORDER, seed, "interleaving", branch_budget=10_000), own)


@pytest.mark.parametrize(
    ("name", "keys", "chip"),
    [
        ("gemm", {"m": 200, "n": 256, "k": 192, "schedule": "ping_pong"}, "gfx942"),
        ("streamk_gemm", {"m": 128, "n": 128, "k": 512, "dtype": "f16"}, "gfx90a"),
        ("fmha_fwd", {"sq": 130, "sk": 200}, "gfx950"),
        ("topk", {"m": 5, "n": 1000}, "gfx942"),
    ],
)
def test_operators_are_right_and_clean(name: str, keys: dict[str, object], chip: str) -> None:
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, target)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, checks="all,interleaving"))
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))
