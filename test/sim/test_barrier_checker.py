"""The barrier checker on small kernels: waves and lanes that miss one, and kernels that never end."""

from __future__ import annotations

import numpy as np
import pytest
from checked_kernels import STORE_ID, kernel, run, simulator
from llvm_kernels import compile_kernel

from ckmlir.sim import Finding, Simulator
from ckmlir.sim.errors import SimulationError


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


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_wave_that_never_comes_ends_in_a_report(seed: int) -> None:
    sim = simulator("barrier", branch_budget=100_000, seed=seed)
    found = run(kernel(ENDLESS), "barrier", [sim.upload(np.zeros(4096, np.uint32))], sim, 128)
    assert any("more than 100000 branches" in one.message for one in found)


def test_the_budget_holds_without_checks() -> None:
    sim = Simulator(branch_budget=1000)
    with pytest.raises(SimulationError, match="more than 1000 branches"):
        sim.launch(compile_kernel(kernel(ENDLESS)), "k", (1, 1, 1), (128, 1, 1), [sim.upload(np.zeros(64, np.uint32))])
