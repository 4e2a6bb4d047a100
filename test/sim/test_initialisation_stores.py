"""The initialisation check and the rarer ways to write memory: typed buffers, scalar stores and atomics, LDS addressed
by M0, exchanges of pairs. What they write counts as written, unless it is undefined itself. Operands that are a signed
part of a register are here too."""

from __future__ import annotations

import pytest
from assembled_kernels import assembled

from ckmlir.sim import CheckFailure, Simulator

START = """
s_load_dwordx2 s[2:3], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
v_lshlrev_b32_e32 v1, 2, v0
s_mov_b32 s4, s2
s_mov_b32 s5, s3
s_movk_i32 s6, 0x4000
s_mov_b32 s7, 0x24fac
s_mov_b32 m0, 0
"""
WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)\n"
KEEP = WAIT + "global_store_dword v1, v2, s[2:3] offset:2048"  # store what came back
LOAD = "global_load_dword v2, v1, s[2:3]\n"
TYPED = "format:[BUF_DATA_FORMAT_32,BUF_NUM_FORMAT_UINT]"
SCALAR = "s_dcache_wb\ns_waitcnt lgkmcnt(0)\ns_load_dword s9, s[2:3], 0x0\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v2, s9\n"
EXCHANGE = "ds_wrxchg2_rtn_b32 v[4:5], v1, v0, v0 offset0:0 offset1:64\n" + WAIT
STORED, ADDRESS = "an undefined value is stored", "an undefined value is used as an address"

PROGRAMS: dict[str, tuple[str, str]] = {
    "a byte with its sign": (
        "v_cvt_f32_i32_sdwa v2, sext(v0) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0\n" + KEEP, ""),
    "a byte of nothing with its sign": (
        "v_cvt_f32_i32_sdwa v2, sext(v9) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0\n" + KEEP, STORED),
    "nothing is written": (LOAD + KEEP, STORED),
    "tbuffer_store": (f"tbuffer_store_format_x v0, v1, s[4:7], 0 {TYPED} offen\n" + WAIT + LOAD + KEEP, ""),
    "tbuffer_store of nothing": (f"tbuffer_store_format_x v9, v1, s[4:7], 0 {TYPED} offen", STORED),
    "tbuffer_store to nowhere": (f"tbuffer_store_format_x v0, v9, s[4:7], 0 {TYPED} offen", ADDRESS),
    "tbuffer_store of two, one of nothing": (
        "v_mov_b32_e32 v8, 1\ntbuffer_store_format_xy v[8:9], v1, s[4:7], 0 "
        "format:[BUF_DATA_FORMAT_32_32,BUF_NUM_FORMAT_UINT] offen", STORED),
    "buffer_store_format": ("buffer_store_format_x v0, v1, s[4:7], 0 offen\n" + WAIT + LOAD + KEEP, ""),
    "tbuffer_load of nothing": (f"tbuffer_load_format_x v2, v1, s[4:7], 0 {TYPED} offen\n" + KEEP, STORED),
    "tbuffer_load of something": (
        f"tbuffer_store_format_x v0, v1, s[4:7], 0 {TYPED} offen\n" + WAIT
        + f"tbuffer_load_format_x v2, v1, s[4:7], 0 {TYPED} offen\n" + KEEP, ""),
    "tbuffer_load beyond the end": (
        f"v_or_b32_e32 v1, 0x4000, v1\ntbuffer_load_format_x v2, v1, s[4:7], 0 {TYPED} offen\n"
        "v_and_b32_e32 v1, 0xfff, v1\n" + KEEP, ""),
    "tbuffer_store_d16": (
        "tbuffer_store_format_d16_x v0, v1, s[4:7], 0 format:[BUF_DATA_FORMAT_16,BUF_NUM_FORMAT_UINT] offen\n" + WAIT
        + "global_load_ushort v2, v1, s[2:3]\n" + KEEP, ""),
    "tbuffer_store_d16, the bytes beside": (
        "tbuffer_store_format_d16_x v0, v1, s[4:7], 0 format:[BUF_DATA_FORMAT_16,BUF_NUM_FORMAT_UINT] offen\n" + WAIT
        + LOAD + KEEP, STORED),
    "s_store": ("s_store_dword s4, s[2:3], 0x0\n" + WAIT + SCALAR + KEEP, ""),
    "no s_store": (SCALAR + KEEP, STORED),
    "s_store of nothing": ("s_store_dword s40, s[2:3], 0x0", STORED),
    "s_store of two, one of nothing": ("s_mov_b32 s40, 0\ns_store_dwordx2 s[40:41], s[2:3], 0x0", STORED),
    "s_buffer_store": ("s_buffer_store_dword s4, s[4:7], 0x0\n" + WAIT + SCALAR + KEEP, ""),
    "s_atomic_swap": ("s_mov_b32 s8, 1\ns_atomic_swap s8, s[2:3], 0x0\n" + WAIT + SCALAR + KEEP, ""),
    "s_atomic_add": ("s_mov_b32 s8, 1\ns_atomic_add s8, s[2:3], 0x0\n" + WAIT + SCALAR + KEEP, STORED),
    "s_atomic_add to something": (
        "s_store_dword s4, s[2:3], 0x0\n" + WAIT + "s_mov_b32 s8, 1\ns_atomic_add s8, s[2:3], 0x0 glc\n" + WAIT
        + "v_mov_b32_e32 v2, s8\n" + KEEP, ""),
    "ds_append to nothing": ("ds_append v2\n" + KEEP, STORED),
    "ds_append": ("v_mov_b32_e32 v8, 0\nds_write_b32 v8, v8\nds_append v2\n" + KEEP, ""),
    "ds_consume": ("v_mov_b32_e32 v8, 0\nds_write_b32 v8, v8\nds_consume v3\nds_read_b32 v2, v8\n" + KEEP, ""),
    "ds_write_addtid": ("ds_write_addtid_b32 v0\nds_read_b32 v2, v1\n" + KEEP, ""),
    "no ds_write_addtid": ("ds_read_addtid_b32 v2\n" + KEEP, STORED),
    "ds_wrxchg2": (
        EXCHANGE + "ds_read_b32 v2, v1 offset:256\n" + KEEP, ""),
    "what ds_wrxchg2 gives": (
        EXCHANGE + "v_mov_b32_e32 v2, v5\n" + KEEP, STORED),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_written_is_defined(name: str) -> None:
    text, expected = PROGRAMS[name]
    simulator = Simulator(checks=["initialisation"])
    memory = simulator.allocate(0x4000, "p")
    found = []
    try:
        simulator.launch(assembled(START + text, "gfx942"), "k", (1, 1, 1), (64, 1, 1), [memory], dynamic_lds=4096)
    except CheckFailure as failure:
        found = [finding.message for finding in failure.findings]
    assert found == ([expected] if expected else [])
