"""buffer_store_lds_dword of gfx90a: what it stores, and that every checker knows both of its accesses.

It names no address registers: the lanes' addresses differ by what add_tid_enable of the resource adds.
"""

from __future__ import annotations

import numpy as np
import pytest
from assembled_kernels import assembled
from instruction_registry import register
from test_memory_instructions import MASK, instruction
from wave_memory import Memory, active_lanes, set_resource

from ckmlir.sim import CheckFailure, Finding, Simulator
from ckmlir.sim.analysis import check_waits
from ckmlir.sim.decode import UnknownInstruction, decode
from ckmlir.sim.decode.opcodes import opcode_table
from ckmlir.sim.state import ErrorKind, Status

NAME = "buffer_store_lds_dword"
ROW = next(row for row in opcode_table("gfx90a").values() if row.mnemonic == NAME)
ADD_TID = 0x27000 & ~(15 << 15) | 1 << 23  # word 3; the data format would be the upper bits of the stride
BASE, OFFSET, SOFFSET = 512, 24, 36
register([NAME], "test_store_of_active_lanes_within_the_records")


@pytest.mark.parametrize("records", [1 << 12, 200, 0])
@pytest.mark.parametrize("stride", [4, 20])
def test_store_of_active_lanes_within_the_records(records: int, stride: int) -> None:
    m = Memory()
    m.wave.sgpr[124], m.wave.sgpr[SOFFSET], m.wave.exec = BASE, 8, MASK
    set_resource(m, records, stride=stride, word3=ADD_TID)
    expected, registers, lds = m.bytes.copy(), m.wave.vgpr.copy(), m.wave.lds.copy()
    for lane in np.flatnonzero(active_lanes(MASK)):
        place, source = OFFSET + stride * lane, BASE + OFFSET + 4 * lane
        if place < records - 8:
            expected[place + 8 : place + 12] = lds[source : source + 4]
    store = instruction("gfx90a", ROW, offset=OFFSET, soffset=SOFFSET, lds=1)
    assert m.wave.run([store], "gfx90a") == Status.ENDED
    np.testing.assert_array_equal(m.bytes, expected)
    np.testing.assert_array_equal(m.wave.lds, lds)
    np.testing.assert_array_equal(m.wave.vgpr, registers)


def test_both_sides_are_checked_for_bounds() -> None:
    for start, records, kind in ((3900, 4096, ErrorKind.LDS_BOUNDS), (0, 1 << 20, ErrorKind.GLOBAL_BOUNDS)):
        m = Memory()
        m.wave.sgpr[124], m.wave.sgpr[SOFFSET] = start, 4000
        set_resource(m, records, stride=4, word3=ADD_TID)
        store = instruction("gfx90a", ROW, offset=OFFSET, soffset=SOFFSET, lds=1)
        assert m.wave.run([store], "gfx90a") == Status.FAILED
        assert m.wave.error()[0] == kind


@pytest.mark.parametrize("bit", [12, 13, 16, 55])
def test_forms_that_do_not_exist(bit: int) -> None:
    """It has no address registers, no AccVGPR, and the LDS bit is always set."""
    words = instruction("gfx90a", ROW, lds=1).words
    word = (words[0] | words[1] << 32) ^ 1 << bit
    with pytest.raises(UnknownInstruction, match="reserved bits"):
        decode(word.to_bytes(8, "little"), 0, "gfx90a")
    with pytest.raises(UnknownInstruction):
        decode(words[0].to_bytes(4, "little") + words[1].to_bytes(4, "little"), 0, "gfx942")


# -- checkers --------------------------------------------------------------------------------------------------------

START = f"""
s_load_dwordx2 s[8:9], s[4:5], 0x0
s_waitcnt lgkmcnt(0)
v_lshlrev_b32_e32 v2, 2, v0
v_xor_b32_e32 v3, 0x100, v2
v_readfirstlane_b32 s12, v2
s_mov_b32 m0, s12
s_or_b32 s9, s9, 0x40000
s_movk_i32 s10, 0x1000
s_mov_b32 s11, {ADD_TID:#x}
"""
WRITE = "ds_write_b32 v2, v0\n"
WRITTEN = "s_waitcnt lgkmcnt(0)\n"
STORE = f"{NAME} s[8:11], s12 lds\n"  # each wave 256 bytes
STORED = "s_waitcnt vmcnt(0)\n"
MEET = "s_barrier\n"
OTHER_WRITE = "ds_write_b32 v3, v0\n"
COPY = "buffer_load_dword off, s[8:11], s12 lds\n"

PROGRAMS = {  # text, waves, the finding's checker, message and instruction, or none
    "right": (WRITE + WRITTEN + STORE + STORED + MEET + OTHER_WRITE, 2, "", "", ""),
    "a write that has not arrived": (WRITE + STORE, 1, "wait", "LDS has not arrived yet from ds_write_b32", STORE),
    "overwritten before it is read": (
        WRITE + WRITTEN + STORE + WRITE, 1, "wait", f"LDS has not been read yet by {NAME}", WRITE),
    "a copy over what is not read": (
        WRITE + WRITTEN + STORE + COPY, 1, "wait", f"LDS has not been read yet by {NAME}", COPY),
    "read meanwhile": (WRITE + WRITTEN + STORE + "ds_read_b32 v4, v2\n", 1, "", "", ""),
    "in flight at a barrier": (
        WRITE + WRITTEN + STORE + MEET + OTHER_WRITE, 2, "wait", f"LDS that {NAME}", OTHER_WRITE),
    "no barrier": (WRITE + WRITTEN + STORE + STORED + OTHER_WRITE, 2, "race", "conflict with a ", None),
    "undefined": ("s_nop 0\n" + STORE, 1, "initialisation", "an undefined value is stored", STORE),
}  # fmt: skip


def findings(text: str, waves: int, checks: list[str], **memory: bool) -> list[Finding]:
    simulator = Simulator(checks=checks, seed=3)
    target = simulator.upload(np.zeros(1024, np.uint32), "p", **memory)
    code = assembled(START + text + "s_waitcnt vmcnt(0) lgkmcnt(0)", "gfx90a")
    try:
        simulator.launch(code, "k", (1, 1, 1), (64 * waves, 1, 1), [target], dynamic_lds=512)
    except CheckFailure as failure:
        return list(failure.findings)
    if not memory:
        expected = np.arange(64 * waves, dtype=np.uint32)
        np.testing.assert_array_equal(target.read().view(np.uint32)[: 64 * waves], expected)
    return []


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_checkers_find(name: str) -> None:
    text, waves, checker, message, at = PROGRAMS[name]
    found = findings(text, waves, ["memory", "initialisation", "race", "barrier", "wait", "hazard"])
    if not checker:
        assert found == []
        return
    assert {one.checker for one in found} == {checker}
    assert all(one.message.startswith(message) for one in found)
    assert at is None or [one.instruction for one in found] == [at.strip()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_waits_that_the_code_alone_shows(name: str) -> None:
    text, _, checker, _, at = PROGRAMS[name]
    found = check_waits(assembled(START + text + "s_waitcnt vmcnt(0) lgkmcnt(0)", "gfx90a"))
    assert [one.instruction for one in found] == ([at.strip()] if checker == "wait" and at else [])


def test_a_store_to_read_only_memory() -> None:
    [found] = findings(WRITE + WRITTEN + STORE, 1, ["memory"], read_only=True)
    assert (found.message, found.allocation, found.instruction) == ("write to read-only memory", "p", STORE.strip())


def test_m0_is_advised_a_wait_state() -> None:
    simulator = Simulator(checks=["hazard"], seed=3)
    code = assembled(START + WRITE + WRITTEN + "s_mov_b32 m0, s12\n" + STORE + "s_waitcnt vmcnt(0)", "gfx90a")
    target = simulator.upload(np.zeros(1024, np.uint32), "p")
    simulator.launch(code, "k", (1, 1, 1), (64, 1, 1), [target], dynamic_lds=512)
    [found] = simulator.remarks
    assert (found.checker, found.grade, found.instruction) == ("hazard", "advisory", STORE.strip())
