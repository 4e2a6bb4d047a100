"""Races of LDS have one barrier in common: where it is missing is named once; races without such a place name none."""

from __future__ import annotations

import numpy as np
from assembled_kernels import assembled

from ckmlir.sim import CheckFailure, Simulator
from ckmlir.sim.analysis.missing_barriers import missing_barriers

BEGIN = "v_lshlrev_b32_e32 v2, 2, v0\nv_xor_b32_e32 v3, 0x100, v2\ns_movk_i32 s4, 0x3\n"
"""Each wave has 256 bytes at v2, the other those at v3."""
WRITES = "ds_write_b32 v2, v0\nds_write_b32 v2, v0 offset:512\n"
READS = "ds_read_b32 v4, v3\nds_read_b32 v5, v3 offset:512\n"
DONE, MEET = "s_waitcnt vmcnt(0) lgkmcnt(0)\n", "s_barrier\n"
AGAIN = "s_sub_i32 s4, s4, 1\ns_cmp_lg_u32 s4, 0\ns_cbranch_scc1 again\n"


def barriers(text: str) -> list[str]:
    code = assembled(BEGIN + text, "gfx942")
    simulator = Simulator(checks=["race"])
    memory = simulator.upload(np.zeros(64, np.uint32))
    try:
        simulator.launch(code, "k", (1, 1, 1), (128, 1, 1), [memory], dynamic_lds=8192)
    except CheckFailure as failure:
        return missing_barriers(code, "k", failure.findings)
    return missing_barriers(code, "k", ())


def test_one_barrier_for_several_races() -> None:
    [text] = barriers(WRITES + DONE + READS + DONE)
    assert text.startswith("s_barrier behind ds_write_b32 v2, v0 offset:512 at ")
    assert " and before ds_read_b32 v4, v3 at " in text
    assert text.endswith("would keep the 2 pairs of instructions apart")


def test_none_is_missing() -> None:
    assert barriers(WRITES + DONE + MEET + READS + DONE) == []


def test_the_barrier_at_the_end_of_a_loop() -> None:
    """Reads of one turn and writes of the next; the way from writes to reads has its barrier."""
    [text] = barriers("again:\n" + WRITES + DONE + MEET + READS + DONE + AGAIN)
    assert text.startswith("s_barrier behind ds_read_b32 v5, v3 offset:512 at ")
    assert " and before ds_write_b32 v2, v0 at " in text


def test_two_that_race_both_ways_have_no_place() -> None:
    """No barrier in the loop at all: one would not do."""
    assert barriers("again:\n" + WRITES + DONE + READS + DONE + AGAIN) == []
