"""Which loops are taken for waits for other workgroups."""

from __future__ import annotations

import pytest
from assembled_kernels import assembled

from ckmlir.sim import Simulator

LOOK = "global_load_dword v1, v2, s[2:3] glc\ns_waitcnt vmcnt(0)\n"
START = "s_load_dwordx2 s[2:3], s[0:1], 0x0\nv_mov_b32_e32 v2, 0\ns_waitcnt lgkmcnt(0)\nagain:\n"
END = "v_cmp_eq_u32_e32 vcc, 0, v1\ns_cbranch_vccnz again\n"
UPDATE = "v_mov_b32_e32 v5, v1\nv_add_u32_e32 v4, 1, v5\n"
SWAP = "global_atomic_cmpswap v1, v2, v[4:5], s[2:3] glc\ns_waitcnt vmcnt(0)\n"


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        pytest.param(LOOK, True, id="a look"),
        pytest.param(LOOK + "buffer_wbinvl1_vol\n", True, id="a look that acquires"),
        pytest.param(LOOK.replace(" glc", ""), False, id="a plain load"),
        pytest.param(LOOK + "v_add_u32_e32 v2, 4, v2\n", False, id="from address to address"),
        pytest.param(LOOK + "global_store_dword v2, v1, s[2:3]\n", False, id="with a store"),
        pytest.param(LOOK + "s_barrier\n", False, id="with a barrier"),
        pytest.param(LOOK + "s_sleep 1\n", False, id="a pause is one already"),
        pytest.param(LOOK + "v_mov_b32_e32 v6, 0\n" * 64, False, id="long"),
        pytest.param(SWAP, True, id="a lock"),
        pytest.param(SWAP + UPDATE, False, id="an update by compare and swap"),
        pytest.param(LOOK + "global_atomic_add v2, v1, s[2:3]\n", False, id="counts"),
    ],
)
def test_what_waits(body: str, waits: bool) -> None:
    program = Simulator("gfx90a").program(assembled(START + body + END, "gfx90a"), "k")
    assert program.pauses == (waits or "s_sleep" in body)
    assert len(program.records) - 1 == len(program.instructions) + waits
