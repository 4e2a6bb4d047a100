"""Copies to slots of LDS that are chosen at run time, and accesses where an array says: the code alone does not tell
whether they meet, so that it is advice until a run has come to both."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from assembled_kernels import assembled

from ckmlir.sim import CheckFailure, Finding, Simulator
from ckmlir.sim.analysis import check_waits

COPY = """s_load_dwordx2 s[2:3], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
v_lshlrev_b32_e32 v1, 2, v0
s_load_dword s6, s[2:3], 0x1000
s_load_dword s7, s[2:3], {slot:#x}
s_waitcnt lgkmcnt(0)
{place}
global_load_lds_dword v1, s[2:3]
v_add_u32_e32 v2, s7, v1
s_cmp_eq_u32 s6, {skips}
s_cbranch_scc1 end
ds_read_b32 v4, v2
end:
s_waitcnt vmcnt(0) lgkmcnt(0)
"""
"""A copy to where the array at 0x1000 says, and a read from where it says at `slot`, unless s6 is `skips`."""
CHOSEN, KNOWN = "s_mov_b32 m0, s6", "s_movk_i32 m0, 0x400"


def found(slot: int, place: str = CHOSEN, skips: int = 0) -> list[Finding]:
    simulator = Simulator(checks=["wait"])
    memory = simulator.upload(np.arange(4096, dtype=np.uint32))
    code = assembled(COPY.format(slot=slot, place=place, skips=skips), "gfx942")
    try:
        simulator.launch(code, "k", (1, 1, 1), (64, 1, 1), [memory], dynamic_lds=8192)
    except CheckFailure as failure:
        return [*failure.findings, *failure.remarks]
    return list(simulator.remarks)


def test_the_code_alone_gives_advice() -> None:
    [one] = check_waits(assembled(COPY.format(slot=0x1000, place=CHOSEN, skips=0), "gfx942"))
    assert one.grade == "advisory" and one.allocation == "LDS"
    assert one.message.endswith("unless they are apart: places are chosen at run time, and only a run of both tells")


@pytest.mark.parametrize(
    ("slot", "skips", "grade", "text"),
    [(0x1000, 0, "required", "has not arrived yet"), (0x1800, 0, "cleared", "they did not meet"),
     (0x1000, 1024, "advisory", "only a run of both tells")],
)  # fmt: skip
def test_a_run_decides(slot: int, skips: int, grade: str, text: str) -> None:
    [one] = found(slot, skips=skips)
    assert one.grade == grade and text in one.message
    assert grade == "advisory" or "only a run" not in one.message


def test_places_that_the_code_tells_are_faults() -> None:
    """Where no copy goes to a slot: an unknown address may be any."""
    [one] = check_waits(assembled(COPY.format(slot=0x1000, place=KNOWN, skips=0), "gfx942"))
    assert one.grade == "required"


LISTED = """s_load_dwordx2 s[2:3], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
v_lshlrev_b32_e32 v1, 2, v0
s_load_dword s6, s[2:3], 0x1000
global_load_dword v2, v1, s[2:3]
s_waitcnt vmcnt(0) lgkmcnt(0)
v_add_u32_e32 v2, {to:#x}, v2
s_movk_i32 m0, 0x400
global_load_lds_dword v1, s[2:3]
s_cmp_eq_u32 s6, {skips}
s_cbranch_scc1 end
{access}
end:
s_waitcnt vmcnt(0) lgkmcnt(0)
"""
"""A copy to 0x400, and an access as far behind `to` as an element of the array says, unless s6 is `skips`."""


@pytest.mark.parametrize("access", ["ds_read_b32 v4, v2", "ds_add_u32 v2, v1"])
@pytest.mark.parametrize(
    ("to", "skips", "grade", "text"),
    [(0x400, 0, "required", "has not arrived yet"), (0x800, 0, "cleared", "they did not meet"),
     (0x800, 1024, "advisory", "only a run of both tells")],
)  # fmt: skip
def test_where_an_element_says(access: str, to: int, skips: int, grade: str, text: str) -> None:
    """LDS by index beside a copy that is in flight."""
    simulator = Simulator(checks=["wait"])
    memory = simulator.upload(np.arange(4096, dtype=np.uint32) * 4)
    code = assembled(LISTED.format(to=to, access=access, skips=4 * skips), "gfx942")
    with pytest.raises(CheckFailure) if grade == "required" else nullcontext() as failure:
        simulator.launch(code, "k", (1, 1, 1), (64, 1, 1), [memory], dynamic_lds=8192)
    [one] = failure.value.findings if failure else simulator.remarks
    assert one.grade == grade and text in one.message
