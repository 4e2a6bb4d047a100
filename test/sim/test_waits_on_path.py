"""The wait check on the path taken: short programs that use registers or LDS too early, and the same with the right
wait."""

from __future__ import annotations

import numpy as np
import pytest
from assembled_kernels import assembled

from ckmlir.sim import CheckFailure, Finding, Simulator
from ckmlir.sim.debugging import Debugger

TARGET = "gfx942"
START = "s_load_dwordx2 s[2:3], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nv_lshlrev_b32_e32 v1, 4, v0\n"


def findings(text: str, waves: int = 1, target: str = TARGET) -> list[Finding]:
    """What a run finds, in the order of the run; not what the code alone shows."""
    return [one for one in all_findings(text, waves, target) if one.wave is not None]


def all_findings(text: str, waves: int = 1, target: str = TARGET) -> list[Finding]:
    simulator = Simulator(checks=["wait"], seed=3)
    memory = simulator.upload(np.arange(4096, dtype=np.uint32))
    try:
        code = assembled(START + text, target)
        simulator.launch(code, "k", (2, 1, 1), (64 * waves, 1, 1), [memory], dynamic_lds=8192)
    except CheckFailure as failure:
        return list(failure.findings)
    return []


LOAD = "global_load_dword v2, v1, s[2:3]\n"
WIDE = "global_load_dwordx4 v[4:7], v1, s[2:3]\n"
USE = "v_add_u32_e32 v3, v2, v2"
WRITE = "v_mov_b32_e32 v2, 0"
READ_LDS = "ds_read_b32 v2, v1\n"
SCALAR = "s_load_dword s4, s[2:3], 0x0\n"
SCALAR_2 = "s_load_dword s8, s[2:3], 0x0\n"
USE_SCALAR = "s_add_u32 s5, s4, s4"
COPY = "s_mov_b32 m0, 0\nglobal_load_lds_dword v1, s[2:3]\n"
FLAT = "v_mov_b32_e32 v8, s2\nv_mov_b32_e32 v9, s3\nflat_load_dword v2, v[8:9]\n"

REGISTERS = {  # program, registers and wait that its finding names, or None
    "a load that is used": (LOAD + USE, ("v2", "vmcnt(0)")),
    "a load that is overwritten": (LOAD + WRITE, ("v2", "vmcnt(0)")),
    "a load that is waited for": (LOAD + "s_waitcnt vmcnt(0)\n" + USE, None),
    "a wait for the other counter": (LOAD + "s_waitcnt lgkmcnt(0)\n" + USE, ("v2", "vmcnt(0)")),
    "a younger load is left": (LOAD + WIDE + "s_waitcnt vmcnt(1)\n" + USE, None),
    "an older load is left": (WIDE + LOAD + "s_waitcnt vmcnt(1)\n" + USE, ("v2", "vmcnt(0)")),
    "the count that would do": (LOAD + WIDE + WIDE + USE, ("v2", "vmcnt(2)")),
    "part of a wide result": (WIDE + "v_mov_b32_e32 v3, v6", ("v6", "vmcnt(0)")),
    "a load behind a load": (LOAD + LOAD + "s_waitcnt vmcnt(0)\n" + USE, None),
    "a load of LDS over a load": (LOAD + READ_LDS + "s_waitcnt lgkmcnt(0) vmcnt(0)\n" + USE, ("v2", "vmcnt(0)")),
    "a stored register may change": ("global_store_dword v1, v2, s[2:3]\n" + WRITE, None),
    "a store counts": (LOAD + "global_store_dword v1, v3, s[2:3]\ns_waitcnt vmcnt(1)\n" + USE, None),
    "a scalar load": (SCALAR + USE_SCALAR, ("s4", "lgkmcnt(0)")),
    "scalar loads have no order": (SCALAR + SCALAR_2 + "s_waitcnt lgkmcnt(1)\n" + USE_SCALAR, ("s4", "lgkmcnt(0)")),
    "a scalar load among LDS": (SCALAR + READ_LDS + "s_waitcnt lgkmcnt(1)\n" + USE_SCALAR, ("s4", "lgkmcnt(0)")),
    "a scalar load over another": (SCALAR + SCALAR + "s_waitcnt lgkmcnt(0)", ("s4", "lgkmcnt(0)")),
    "all scalar loads": (SCALAR + SCALAR_2 + "s_waitcnt lgkmcnt(0)\n" + USE_SCALAR, None),
    "LDS in order": (READ_LDS + "ds_read_b32 v3, v1\ns_waitcnt lgkmcnt(1)\nv_mov_b32_e32 v4, v2", None),
    "flat needs both counters": (FLAT + "s_waitcnt vmcnt(0)\n" + USE, ("v2", "lgkmcnt(0)")),
    "flat has no order": (FLAT + WIDE + "s_waitcnt vmcnt(1) lgkmcnt(0)\n" + USE, ("v2", "vmcnt(0)")),
    "a load over a flat load": (FLAT + "s_waitcnt lgkmcnt(0)\n" + LOAD + "s_waitcnt vmcnt(0)", ("v2", "vmcnt(0)")),
    "flat with both": (FLAT + "s_waitcnt vmcnt(0) lgkmcnt(0)\n" + USE, None),
    "a permute": ("ds_bpermute_b32 v2, v1, v0\n" + USE, ("v2", "lgkmcnt(0)")),
    "the next workgroup": ("v_mov_b32_e32 v3, v2\n" + LOAD, None),
    "a full counter": (LOAD + 63 * WIDE + USE, None),
    "a counter that is not full": (LOAD + 62 * WIDE + USE, ("v2", "vmcnt(62)")),
    "a path that is not taken": (LOAD + "s_cmp_eq_u32 s0, s0\ns_cbranch_scc1 end\n" + USE + "\nend:\ns_nop 0", None),
    "a path that is taken": (LOAD + "s_cmp_lg_u32 s0, s0\ns_cbranch_scc1 end\n" + USE + "\nend:\ns_nop 0",
                             ("v2", "vmcnt(0)")),
    "an address": (LOAD + "ds_read_b32 v3, v2", ("v2", "vmcnt(0)")),
}  # fmt: skip


@pytest.mark.parametrize("name", REGISTERS)
def test_registers(name: str) -> None:
    text, expected = REGISTERS[name]
    found = findings(text)
    if expected is None:
        assert found == []
        return
    [finding] = found
    registers, wait = expected
    assert finding.checker == "wait" and finding.kernel == "k" and finding.workgroup == (0, 0, 0) and finding.wave == 0
    assert finding.message.startswith(f"{registers} is still in flight from ")
    assert f"s_waitcnt {wait} or less is needed before" in finding.message
    assert finding.lanes == (() if registers.startswith("s") else tuple(range(64)))


FAR = "global_load_dwordx4 v[12:15], v1, s[2:3]\n"
WRITE_LDS = "v_lshlrev_b32_e32 v2, 2, v0\nds_write_b32 v2, v0\n"  # each wave 256 bytes
OTHER = "v_xor_b32_e32 v3, 0x100, v2\n"  # the other wave's
DONE = "s_waitcnt vmcnt(0) lgkmcnt(0)\n"
MEET = "s_barrier\n"
PLACE = "v_readfirstlane_b32 s6, v2\ns_mov_b32 m0, s6\n"
COPY_LDS = "v_lshlrev_b32_e32 v2, 2, v0\n" + PLACE + "global_load_lds_dword v1, s[2:3]\n"

LDS = {
    "another wave's write": (WRITE_LDS + OTHER + MEET + "ds_read_b32 v4, v3", "LDS that ds_write_b32", "lgkmcnt(0)"),
    "a write that is waited for": (WRITE_LDS + OTHER + DONE + MEET + "ds_read_b32 v4, v3", "", ""),
    "a wait behind the barrier": (WRITE_LDS + OTHER + MEET + DONE + "ds_read_b32 v4, v3", "LDS that ds_write_b32",
                                  "lgkmcnt(0)"),
    "a wait before the next barrier": (WRITE_LDS + OTHER + MEET + DONE + MEET + "ds_read_b32 v4, v3", "", ""),
    "its own write": (WRITE_LDS + MEET + "ds_read_b32 v4, v2", "", ""),
    "a read that is overwritten": (WRITE_LDS + OTHER + DONE + MEET + "ds_read_b32 v4, v2\n" + MEET
                                   + "ds_write_b32 v3, v0", "LDS that ds_read_b32", "lgkmcnt(0)"),
    "a read that is done with": (WRITE_LDS + OTHER + DONE + MEET + "ds_read_b32 v4, v2\n" + DONE + MEET
                                 + "ds_write_b32 v3, v0", "", ""),
    "two reads": (WRITE_LDS + OTHER + DONE + MEET + "ds_read_b32 v4, v2\n" + MEET + "ds_read_b32 v5, v3", "", ""),
    "the half of a wide write": (WRITE_LDS + OTHER + MEET + "ds_read_u8 v4, v3 offset:3", "LDS that ds_write_b32",
                                 "lgkmcnt(0)"),
    "bytes beside a write": (WRITE_LDS + OTHER + MEET + "ds_read_u8 v4, v3 offset:512", "", ""),
    "its own copy": (COPY_LDS + "ds_read_b32 v4, v2", "LDS has not arrived yet from global_load_lds_dword", "vmcnt(0)"),
    "its own copy overwritten": (COPY_LDS + "ds_write_b32 v2, v0",
                                 "LDS has not arrived yet from global_load_lds_dword", "vmcnt(0)"),
    "its own copy waited for": (COPY_LDS + "s_waitcnt vmcnt(0)\nds_read_b32 v4, v2", "", ""),
    "its own copy beside a younger": (COPY_LDS + FAR + "s_waitcnt vmcnt(1)\nds_read_b32 v4, v2", "", ""),
    "the oldest of four copies": (
        COPY_LDS + "".join(f"s_add_i32 m0, s6, {256 * k}\nglobal_load_lds_dword v1, s[2:3]\n" for k in (4, 8, 12))
        + "ds_read_b32 v4, v2", "LDS has not arrived yet from global_load_lds_dword", "vmcnt(3)"),
    "its own copy, elsewhere": (COPY_LDS + "ds_read_b32 v4, v2 offset:1024", "", ""),
    "copies land in order": (COPY_LDS + "global_load_lds_dword v1, s[2:3]\ns_waitcnt vmcnt(0)\nds_read_b32 v4, v2", "",
                             ""),
    "another wave's copy": (COPY_LDS + OTHER + MEET + "ds_read_b32 v4, v3", "LDS that global_load_lds_dword",
                            "vmcnt(0)"),
    "another wave's copy, younger loads": (COPY_LDS + OTHER + FAR + MEET + "ds_read_b32 v4, v3",
                                           "LDS that global_load_lds_dword", "vmcnt(1)"),
    "another wave's copy, waited for": (COPY_LDS + OTHER + "s_waitcnt vmcnt(0)\n" + MEET + "ds_read_b32 v4, v3", "",
                                        ""),
    "another wave's copy, waited for too late": (COPY_LDS + OTHER + MEET + "s_waitcnt vmcnt(0)\nds_read_b32 v4, v3",
                                                 "LDS that global_load_lds_dword", "vmcnt(0)"),
    "a copy over two barriers": (COPY_LDS + OTHER + MEET + MEET + "ds_read_b32 v4, v3",
                                 "LDS that global_load_lds_dword", "vmcnt(0)"),
}  # fmt: skip


@pytest.mark.parametrize("name", LDS)
def test_lds(name: str) -> None:
    text, message, wait = LDS[name]
    found = findings(text + "\ns_waitcnt vmcnt(0) lgkmcnt(0)", waves=2)
    if not message:
        assert found == []
        return
    [finding] = found
    assert finding.message.startswith(message) and f"s_waitcnt {wait} or less is needed before" in finding.message
    assert finding.allocation == "LDS" and finding.lanes == tuple(range(64))
    if message.startswith("LDS that"):
        other = 1 - (finding.wave or 0)
        assert f"of wave {other}" in finding.message and "s_barrier at 0x" in finding.message


def test_a_missing_wait_that_code_and_run_both_show_is_one_finding() -> None:
    [finding] = all_findings(LOAD + USE)
    assert finding.wave == 0 and finding.earlier == (0x10,)


def test_what_the_run_does_not_come_by_is_shown_by_the_code() -> None:
    text, _ = REGISTERS["a path that is not taken"]
    [finding] = all_findings(text)
    assert finding.wave is None and "may still be in flight" in finding.message


def test_each_access_is_reported_where_it_is_used_first() -> None:
    [finding] = findings(LOAD + USE + "\n" + USE)
    assert finding.instruction == USE and finding.times == 2 * 64  # both workgroups


def test_several_accesses_at_one_use_are_one_finding() -> None:
    [finding] = findings(LOAD + "ds_read_b32 v3, v1\n" + "v_add_u32_e32 v4, v2, v3")
    assert "(and 1 more)" in finding.message and len(finding.earlier) == 2


def test_a_debugger_stops_behind_a_use_that_comes_too_early() -> None:
    simulator = Simulator(checks=["wait"])
    memory = simulator.upload(np.arange(4096, dtype=np.uint32))
    code = assembled(START + LOAD + USE, TARGET)
    with Debugger(simulator, code, arguments=[memory]) as debugger:
        debugger.break_at_finding()
        stop = debugger.run()
        assert stop is not None and stop.reason == "finding" and "v2 is still in flight" in stop.message
        assert stop.instruction == USE
        with pytest.raises(CheckFailure, match="still in flight"):
            debugger.run()
