"""Slots of LDS that a loop hands round in scalar registers are told apart, arrangement by arrangement."""

from __future__ import annotations

import pytest
from assembly import flow_of

from ckmlir.sim.analysis.constants import chosen, handed_round
from ckmlir.sim.analysis.flags import unfold
from ckmlir.sim.analysis.lds_addresses import LdsAddresses
from ckmlir.sim.analysis.waits import WaitAnalysis

LOOP = """
v_lshlrev_b32_e32 v1, 4, v0
s_mov_b32 s1, 0
s_mov_b32 s2, 0x4000
loop:
s_mov_b32 s3, s1
v_add_u32_e32 v2, s1, v1
s_mov_b32 m0, s2
s_nop 0
buffer_load_dword v5, s[8:11], 0 offen lds
s_barrier
ds_read_b32 v6, v2
s_waitcnt vmcnt(0) lgkmcnt(0)
s_barrier
s_mov_b32 s1, s2
s_mov_b32 s2, s3
s_add_i32 s4, s4, 1
s_cmp_lt_i32 s4, s5
s_cbranch_scc1 loop
"""
"""A copy that is in flight at a barrier goes to one slot, other waves read the other one meanwhile."""


class Metadata:
    max_flat_workgroup_size = 256


class Descriptor:
    workitem_id_dimensions = 1


class Kernel:
    """What LdsAddresses asks of a kernel: 256 work-items of one dimension."""

    metadata, descriptor = Metadata(), Descriptor()


def meetings(text: str) -> int:
    """Accesses that are used too early, as far as addresses tell."""
    flow = unfold(flow_of(text, "gfx942"))
    addresses = LdsAddresses(flow, Kernel())  # type: ignore[arg-type]  # stands for a kernel
    return sum(addresses.may_conflict(*item.sites) for item in WaitAnalysis(flow).missing() if not item.registers)


def test_slots_that_change_places_are_apart() -> None:
    """In both turns, though each instruction touches both slots."""
    flow = flow_of(LOOP, "gfx942")
    copies = [block for block in unfold(flow).blocks.values() if len(block.instructions) > 8]
    assert len({block.arrangement for block in copies}) == 3  # of the first turn one register is not known
    assert meetings(LOOP) == 0


@pytest.mark.parametrize(("old", "new"), [
    ("v_add_u32_e32 v2, s1, v1", "v_add_u32_e32 v2, s2, v1"),  # reads what is on its way
    ("s_mov_b32 s1, s2", "s_nop 0"),  # slots do not change: the second turn copies where it reads
    ("s_mov_b32 s2, 0x4000", "s_mov_b32 s2, 0xc00"),  # slots overlap
    ("s_mov_b32 s2, 0x4000", "s_mov_b32 s2, s7"),  # not known
])  # fmt: skip
def test_slots_that_meet_are_found(old: str, new: str) -> None:
    assert LOOP.count(old) == 1 and meetings(LOOP.replace(old, new)) > 0


def test_only_registers_that_are_handed_round_are_followed() -> None:
    """Others may hold many constants, each of which would be a copy of the code."""
    assert len(handed_round(flow_of(LOOP, "gfx942"))) == 3
    assert not handed_round(flow_of(LOOP.replace("s_mov_b32 s2, s3", "s_nop 0"), "gfx942"))


LEFT = """
v_lshlrev_b32_e32 v1, 4, v0
s_mov_b32 m0, 0x8000
s_nop 0
buffer_load_dword v5, s[8:11], 0 offen lds
s_mov_b32 s6, 0x4000
s_cbranch_scc1 behind
s_mov_b32 m0, 0x4000
s_nop 0
buffer_load_dword v5, s[8:11], 0 offen lds
s_mov_b32 s6, 0
behind:
s_barrier
v_add_u32_e32 v2, s6, v1
ds_read_b32 v6, v2
s_waitcnt vmcnt(0) lgkmcnt(0)
"""
"""Either way what is read behind is not what the copies on their way fill, but which slot it is depends on the way."""


def test_slots_that_ways_leave_behind_are_apart() -> None:
    """Only those: a number that all ways leave, or that one of them does not know, tells nothing apart."""
    assert meetings(LEFT) == 0
    assert meetings(LEFT.replace("s_mov_b32 s6, 0\n", "s_mov_b32 s6, 0x8000\n")) > 0
    assert meetings(LEFT.replace("s_mov_b32 s6, 0x4000", "s_movk_i32 s6, 0x4000")) == 0
    assert meetings(LEFT.replace("s_mov_b32 s6, 0\n", "s_movk_i32 s6, 0x4000\n")) > 0
    assert len(chosen(flow_of(LEFT, "gfx942"))) == 1
    for new in ("s_mov_b32 s6, 0x4000", "s_mov_b32 s6, s7"):
        assert not chosen(flow_of(LEFT.replace("s_mov_b32 s6, 0\n", f"{new}\n"), "gfx942"))
    without = LEFT.replace("buffer_load_dword v5, s[8:11], 0 offen lds", "s_nop 0")
    assert not chosen(flow_of(without, "gfx942")), "nothing is copied to LDS"
