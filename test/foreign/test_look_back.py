"""A kernel of clang's whose workgroups wait for each other: right and without a fault under all checkers, at each scope
that orders them, and timed. Needs clang 22 and its linker."""

from __future__ import annotations

import numpy as np
import pytest
from opencl_kernels import compiled, needs_clang

from ckmlir.sim import CheckFailure, Finding, Simulator

pytestmark = needs_clang

GROUPS = 16
SCOPES = ("__MEMORY_SCOPE_DEVICE", "__MEMORY_SCOPE_SYSTEM")
CHIPS = ("gfx90a", "gfx942", "gfx950")


def look_back(
    chip: str, scope: str, seed: int = 0, waits: int = 1, pause: str = "__builtin_amdgcn_s_sleep(1)"
) -> tuple[list[Finding], tuple[Finding, ...]]:
    """Faults and remarks of a run, whose numbers are compared where it has no fault."""
    code = compiled("look_back", chip, 3, (f"-DSCOPE={scope}", f"-DWAITS={waits}", f"-DPAUSE={pause}"))
    simulator = Simulator(chip, checks="all", seed=seed)
    x = np.arange(256 * GROUPS, dtype=np.int32)
    memory = [simulator.upload(x, "x", read_only=True), simulator.allocate(x.nbytes, "y")]
    memory += [simulator.upload(np.zeros(GROUPS, np.int32), "flags"), simulator.allocate(4 * GROUPS, "sums")]
    launch = code, "look_back", (GROUPS, 1, 1), (256, 1, 1), memory
    try:
        simulator.launch(*launch)
    except CheckFailure as failure:
        return list(failure.findings), failure.remarks
    np.testing.assert_array_equal(memory[1].read(np.int32, x.shape), np.cumsum(x, dtype=np.int32))
    memory[2].write(np.zeros(GROUPS, np.int32))
    assert simulator.time(*launch).grid.cycles > 0
    return [], simulator.remarks


@pytest.mark.one_in(4)
@pytest.mark.parametrize("pause", ["__builtin_amdgcn_s_sleep(1)", ""])
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("chip", CHIPS)
def test_flags_order_what_they_guard(chip: str, scope: str, pause: str) -> None:
    """Advice is about the flag alone, where the code does not tell that its store is atomic."""
    told = chip != "gfx90a" and scope == SCOPES[0]
    for seed in range(3):
        faults, remarks = look_back(chip, scope, seed, pause=pause)
        assert not faults
        assert {one.allocation for one in remarks} == (set() if told else {"flags"})


@pytest.mark.parametrize("chip", CHIPS)
def test_who_does_not_wait_races(chip: str) -> None:
    faults, _ = look_back(chip, SCOPES[0], waits=0)
    assert {one.allocation for one in faults} == {"sums"}
