"""Ways that a constant condition forbids are not walked, so what registers hold there raises no alarm; others are."""

from __future__ import annotations

import pytest
from assembly import flow_of
from hypothesis import given
from hypothesis import strategies as st

from ckmlir.sim.analysis import ranges
from ckmlir.sim.analysis.flags import unfold
from ckmlir.sim.analysis.lds_addresses import LdsAddresses
from ckmlir.sim.analysis.ranges import Range, constant
from ckmlir.sim.analysis.waits import WaitAnalysis

EQUAL = Range(0, 5, 7)
MERGED = """
s_mov_b64 s[4:5], 0
s_cbranch_scc0 merge
s_waitcnt vmcnt(0)
s_mov_b64 s[4:5], -1
merge:
s_and_b64 s[4:5], s[4:5], exec
s_cselect_b32 s6, 1, 0
s_cmp_lg_u32 s6, 1
s_cbranch_scc1 out
v_mov_b32_e32 v1, v2
out:
"""
"""v2 is used only where it was waited for: a flag says so behind the merge."""


def early(text: str) -> int:
    flow = unfold(flow_of("global_load_dword v2, v[0:1], off\n" + text, "gfx942"))
    return len(list(WaitAnalysis(flow).missing()))


def test_a_flag_keeps_merged_ways_apart() -> None:
    assert early(MERGED) == 0


@pytest.mark.parametrize(("old", "new"), [
    ("s_mov_b64 s[4:5], 0", "s_mov_b64 s[4:5], -1"),  # the use is reached without the wait
    ("s_cmp_lg_u32 s6, 1", "s_cmp_eq_u32 s6, 1"),  # the other way round
    ("s_mov_b64 s[4:5], 0", "s_mov_b64 s[4:5], s[8:9]"),  # not known
    ("s_waitcnt vmcnt(0)", "s_nop 0"),  # on the way that is open
])  # fmt: skip
def test_ways_that_are_open_are_walked(old: str, new: str) -> None:
    assert MERGED.count(old) == 1 and early(MERGED.replace(old, new)) == 1


def test_vcc_and_turned_masks() -> None:
    text = """
    s_mov_b64 s[4:5], -1
    s_andn2_b64 vcc, exec, s[4:5]
    s_cbranch_vccnz use
    s_branch out
    use:
    v_mov_b32_e32 v1, v2
    out:
    """
    assert early(text) == 0
    assert early(text.replace("vccnz", "vccz")) == 1


def test_lanes_that_a_wave_starts_with() -> None:
    """s_cbranch_execnz is always taken until exec is written; then some lane or none may be left."""
    text = """
    s_cbranch_execnz out
    v_mov_b32_e32 v1, v2
    out:
    """
    assert early(text) == 0
    assert early(text.replace("execnz", "execz")) == 1
    assert early("s_and_saveexec_b64 s[4:5], vcc" + text) == 1
    assert early("s_and_saveexec_b64 s[4:5], vcc\ns_mov_b64 exec, -1" + text) == 0


SAVED = """
s_mov_b64 s[4:5], 0
v_writelane_b32 v9, s4, 0
v_writelane_b32 v9, s5, 1
s_mov_b64 s[4:5], s[8:9]
v_readlane_b32 s6, v9, 0
v_readlane_b32 s7, v9, 1
s_and_b64 s[6:7], s[6:7], exec
s_cbranch_scc0 out
v_mov_b32_e32 v1, v2
out:
"""


@pytest.mark.parametrize(("old", "new"), [
    ("s_mov_b64 s[4:5], 0", "s_mov_b64 s[4:5], -1"),
    ("s_mov_b64 s[4:5], 0", "s_mov_b64 s[4:5], 1"),  # one lane, and perhaps an active one
    ("s_mov_b64 s[4:5], s[8:9]", "v_writelane_b32 v9, s8, 1"),
    ("s_mov_b64 s[4:5], s[8:9]", "v_mov_b32_e32 v9, v8"),
    ("v_readlane_b32 s7, v9, 1", "v_readlane_b32 s7, v9, 2"),
])  # fmt: skip
def test_masks_saved_in_lanes_come_back(old: str, new: str) -> None:
    assert early(SAVED) == 0
    assert early(SAVED.replace("s_mov_b64 s[4:5], s[8:9]", "v_writelane_b32 v9, s8, 4")) == 0
    assert SAVED.count(old) == 1 and early(SAVED.replace(old, new)) == 1


def test_one_and_all_ones_are_two_numbers() -> None:
    text = "s_mov_b32 s6, 1\ns_cmp_lg_u32 s6, 1\ns_cbranch_scc0 out\nv_mov_b32_e32 v1, v2\nout:"
    assert early(text) == 0
    assert early(text.replace("s_mov_b32 s6, 1", "s_mov_b32 s6, -1")) == 1


def test_active_lanes_are_others_when_exec_is_written() -> None:
    """The mask of the lanes that were active is not turned into that of those that are."""
    text = """
    s_mov_b64 s[4:5], exec
    s_mov_b64 exec, -1
    s_andn2_b64 s[4:5], exec, s[4:5]
    s_cbranch_scc0 out
    v_mov_b32_e32 v1, v2
    out:
    """
    assert early(text) == 1
    assert early(text.replace("s_mov_b64 exec, -1", "s_nop 0")) == 0


def test_loops_keep_their_ways_in_and_out() -> None:
    text = "s_mov_b64 s[4:5], 0\ntop:\ns_nop 0\ns_and_b64 s[4:5], s[4:5], exec\ns_cbranch_scc1 top"
    flow = flow_of(text, "gfx942")
    assert any(start in block.successors for start, block in flow.blocks.items())
    folded = unfold(flow)
    assert not any(start in block.successors for start, block in folded.blocks.items())
    unknown = unfold(flow_of(text.replace("s_mov_b64 s[4:5], 0", "s_mov_b64 s[4:5], s[8:9]"), "gfx942"))
    assert any(start in block.successors for start, block in unknown.blocks.items())
    assert all(
        start in unknown.blocks[to].predecessors for start, one in unknown.blocks.items() for to in one.successors
    )


class Kernel:
    """What LdsAddresses asks of a kernel: 256 work-items."""

    class metadata:
        max_flat_workgroup_size = 256

    class descriptor:
        workitem_id_dimensions = 3


def test_copies_of_one_wave_land_in_order() -> None:
    """Each wave copies into 256 bytes of its own, twice; with half of the distance waves meet."""
    text = """
    v_and_b32_e32 v1, 0x3ff, v0
    v_readfirstlane_b32 s4, v1
    s_lshr_b32 s5, s4, 6
    s_lshl_b32 s6, s5, 8
    s_mov_b32 m0, s6
    buffer_load_dword v5, s[8:11], 0 offen lds
    s_barrier
    buffer_load_dword v5, s[8:11], 0 offen lds
    """
    for distance, conflict in (("8", False), ("7", True)):
        flow = flow_of(text.replace("s5, 8", f"s5, {distance}"), "gfx942")
        copies = [one for block in flow.blocks.values() for one in block.instructions if "lds" in one.modifiers]
        first, second = [one for one in copies if one.mnemonic == "buffer_load_dword"]
        addresses = LdsAddresses(flow, Kernel())  # type: ignore[arg-type]  # stands for a kernel
        assert addresses.may_conflict(first.address, second.address) == conflict
        assert addresses.bytes_of(first.address).high == 3 * (1 << int(distance)) + 255


def test_truth_tables_give_the_bits_that_they_can() -> None:
    terms = [Range(0, 0xF0, 0xF0), Range(0, 0x0F, 0x0F), constant(0x3C)]
    assert ranges._by_table(terms, 0xFE).bits == 0xFF  # or
    assert ranges._by_table(terms, 0x80).bits == 0  # and
    assert ranges._by_table(terms, 0xC0).bits == 0  # the first and the second
    assert ranges._by_table(terms, 0xA0).bits == 0x30  # the first and the third
    assert ranges._by_table(terms, 0x96).bits == 0xFF  # exclusive or
    assert ranges._by_table(terms, 0x01).bits == 0xFFFF_FFC3  # nor


def words(low: int, high: int) -> st.SearchStrategy[tuple[Range, int]]:
    """A range of numbers, and one of them."""
    ends = st.tuples(st.integers(low, high), st.integers(low, high)).map(sorted)
    return ends.flatmap(lambda pair: st.integers(*pair).map(lambda number: (ranges.between(pair[0], pair[1]), number)))


@given(st.lists(words(0, 0x3FFFF), min_size=3, max_size=3), st.integers(0, 255))
def test_truth_tables_give_numbers_of_their_range(given_terms: list[tuple[Range, int]], table: int) -> None:
    """What the instruction makes of numbers lies in the range that is made of theirs; exclusive or likewise."""
    a, b, c = (number for _, number in given_terms)
    rows = [(a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c) for row in range(8)]
    result = sum(bits for row, bits in enumerate(rows) if table >> row & 1) & 0xFFFF_FFFF
    found = ranges._by_table([term for term, _ in given_terms], table)
    assert found.low <= result <= found.high and not result & ~found.bits
    either = ranges._xor(given_terms[0][0], given_terms[1][0])
    assert either.low <= a ^ b <= either.high


def test_slots_of_lds_are_apart_however_their_start_is_added() -> None:
    """A fourth slot of 16 KB behind 64 KB, put to a lane's offset by an exclusive or."""
    slot, lane = constant(0x1C000), Range(0, 0x3FFF, 0x3FFF)
    for found in (ranges._by_table([lane, slot, constant(64)], 0xDE), ranges._xor(lane, slot)):
        assert found.low >= 0x1C000 and found.high <= 0x1FFFF


def test_scalars_saved_in_lanes_come_back() -> None:
    """Other lanes may be written in between, the whole register may not."""
    text = """
    s_movk_i32 s4, 0x400
    v_writelane_b32 v9, s4, 3
    v_writelane_b32 v9, s8, 4
    s_mov_b32 s4, s8
    v_readlane_b32 s5, v9, 3
    s_mov_b32 m0, s5
    buffer_load_dword v5, s[8:11], 0 offen lds
    """
    for changed, bytes_ in (
        (text, (0x400, 0x4FF)),
        (text.replace("s_mov_b32 s4, s8", "v_mov_b32_e32 v9, v8"), ranges.UNKNOWN[:2]),
        (text.replace("v9, s8, 4", "v9, s8, 3"), ranges.UNKNOWN[:2]),
    ):
        flow = flow_of(changed, "gfx942")
        (copy,) = [one for block in flow.blocks.values() for one in block.instructions if one.encoding == "MUBUF"]
        addresses = LdsAddresses(flow, Kernel())  # type: ignore[arg-type]  # stands for a kernel
        assert addresses.bytes_of(copy.address)[:2] == bytes_


@pytest.mark.parametrize(("terms", "most"), [
    ((Range(0, 2232, 4088), constant(16)), 2232),  # the lower bits of the larger may all be set below 2208
    ((Range(0, 2176, 4032), Range(0, 60, 60)), 2236),
    ((Range(0, 5, 7), Range(0, 5, 7)), 7),
    ((EQUAL, EQUAL), 7),  # two registers may share what is known of them
])  # fmt: skip
def test_bitwise_sums_stay_close(terms: tuple[Range, ...], most: int) -> None:
    assert ranges._or(*terms).high == most
    assert ranges._xor(*terms).high == most
