"""Ways that two conditions on one value exclude are not walked: comparisons that repeat, the parity of a loop's turns;
and no way is left out that a run with some numbers takes."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest
from assembly import flow_of

from ckmlir.sim.analysis.blocks import ControlFlow
from ckmlir.sim.analysis.flags import unfold
from ckmlir.sim.analysis.waits import WaitAnalysis
from ckmlir.sim.decode import Instruction

LOAD = "global_load_dword v2, v[0:1], off\n"
TWICE = """
s_cmp_lt_i32 s5, 4
s_cbranch_scc1 first
global_load_dword v2, v[0:1], off
first:
s_cmp_gt_i32 s5, 3
s_cmp_lt_i32 s5, 4
s_cbranch_scc0 out
v_mov_b32_e32 v1, v2
out:
"""
HALVES = """
s_mov_b32 s39, 0
top:
s_addk_i32 s39, 0x20
s_cmp_lt_i32 s39, s38
s_cbranch_scc0 end
global_load_dword v2, v[0:1], off
s_addk_i32 s39, 0x20
s_cmp_lt_i32 s39, s38
s_cbranch_scc0 end
s_waitcnt vmcnt(0)
s_branch top
end:
s_add_u32 s40, s38, 31
s_lshr_b32 s40, s40, 5
s_and_b32 s40, 1, s40
s_cmp_lt_i32 s40, 1
s_cbranch_scc1 out
v_mov_b32_e32 v1, v2
out:
"""
"""Attention of AITER's: after an odd number of turns nothing is in flight, and only then v2 is used."""

DOWN = """
s_mov_b32 s39, s38
top:
s_add_i32 s39, s39, -1
s_cmp_eq_u32 s39, 0
s_cbranch_scc1 end
global_load_dword v2, v[0:1], off
s_sub_u32 s39, s39, 1
s_cmp_lg_u32 s39, 0
s_cbranch_scc0 end
s_waitcnt vmcnt(0)
s_branch top
end:
s_bitcmp1_b32 s38, 0
s_cbranch_scc0 out
v_mov_b32_e32 v1, v2
out:
"""
"""The same with a counter that goes down to 0."""


def early(text: str) -> int:
    return len(list(WaitAnalysis(unfold(flow_of(text, "gfx942"))).missing()))


def test_a_comparison_goes_the_same_way_again() -> None:
    assert early(TWICE) == 0


@pytest.mark.parametrize(("old", "new"), [
    ("s_cmp_lt_i32 s5, 4\ns_cbranch_scc0 out", "s_cmp_lt_i32 s5, 4\ns_cbranch_scc1 out"),  # the other way
    ("s_cmp_lt_i32 s5, 4\ns_cbranch_scc0 out", "s_cmp_lt_u32 s5, 4\ns_cbranch_scc0 out"),  # other numbers
    ("s_cmp_lt_i32 s5, 4\ns_cbranch_scc0 out", "s_cmp_lt_i32 s5, 5\ns_cbranch_scc0 out"),
    ("first:", "first:\ns_mov_b32 s5, s6"),  # another value
])  # fmt: skip
def test_other_comparisons_may_go_any_way(old: str, new: str) -> None:
    assert TWICE.count(old) == 1 and early(TWICE.replace(old, new)) == 1


def test_comparisons_are_turned_round() -> None:
    assert early(TWICE.replace("s_cmp_lt_i32 s5, 4\ns_cbranch_scc0", "s_cmp_gt_i32 4, s5\ns_cbranch_scc0")) == 0
    assert early(TWICE.replace("s_cmp_lt_i32 s5, 4\ns_cbranch_scc0", "s_cmp_ge_i32 s5, 4\ns_cbranch_scc1")) == 0


def test_a_loop_of_two_halves_ends_by_the_parity_of_its_turns() -> None:
    assert early(HALVES) == 0
    assert early(HALVES.replace("s_add_u32 s40, s38, 31\ns_lshr_b32 s40, s40, 5\ns_and_b32 s40, 1, s40\n"
                                "s_cmp_lt_i32 s40, 1\ns_cbranch_scc1",
                                "s_addk_i32 s38, 0x1f\ns_bitcmp1_b32 s38, 5\ns_cbranch_scc0")) == 0  # fmt: skip


@pytest.mark.parametrize(("old", "new"), [
    ("s_cbranch_scc1 out", "s_cbranch_scc0 out"),  # the use is behind an even number
    ("s_mov_b32 s39, 0", "s_mov_b32 s39, 32"),  # the count begins with one
    ("s_mov_b32 s39, 0", "s_mov_b32 s39, 16"),  # no multiple of a step
    ("s_mov_b32 s39, 0", "s_mov_b32 s39, s5"),  # not known
    ("s_add_u32 s40, s38, 31", "s_add_u32 s40, s38, 15"),  # something else is asked
    ("s_lshr_b32 s40, s40, 5", "s_lshr_b32 s40, s40, 6"),
    ("end:", "end:\ns_mov_b32 s38, s5"),  # of another number
    ("s_waitcnt vmcnt(0)", "s_mov_b32 s38, s5"),  # the bound changes between turns
    ("s_waitcnt vmcnt(0)", "s_addk_i32 s39, 0x40"),  # a turn that is twice as long
])  # fmt: skip
def test_other_loops_may_end_any_way(old: str, new: str) -> None:
    assert HALVES.count(old) == 1 and early(HALVES.replace(old, new)) >= 1


def test_a_counter_that_goes_down_ends_by_the_parity_of_its_turns() -> None:
    assert early(DOWN) == 0
    wide = DOWN.replace("s39, -1", "s39, 0xffffffe0").replace("s39, 1", "s39, 32")
    wide = wide.replace("s_cmp_eq_u32 s39, 0", "s_cmp_le_i32 s39, 0").replace("s_cmp_lg_u32 s39", "s_cmp_gt_i32 s39")
    asked = wide.replace("s_bitcmp1_b32 s38, 0", "s_addk_i32 s38, 0x1f\ns_bitcmp1_b32 s38, 5")
    assert early(wide) == 1 and early(asked) == 0


@pytest.mark.parametrize(("old", "new"), [
    ("s_cbranch_scc0 out", "s_cbranch_scc1 out"),  # the use is behind an even number
    ("s_mov_b32 s39, s38", "s_mov_b32 s39, s5"),  # down from another number
    ("s_mov_b32 s39, s38", "s_add_u32 s39, s38, 1"),
    ("s_sub_u32 s39, s39, 1", "s_sub_u32 s39, s39, 2"),  # turns of two lengths
    ("s_cmp_lg_u32 s39, 0", "s_cmp_lg_u32 s39, 1"),  # to another end
    ("s_cmp_lg_u32 s39, 0", "s_cmp_lt_i32 s39, 0"),
    ("end:", "end:\ns_mov_b32 s38, s5"),  # another number is asked for
    ("s_waitcnt vmcnt(0)", "s_mov_b32 s38, s5"),  # the number changes between turns
    ("s_waitcnt vmcnt(0)", "s_sub_u32 s39, s39, 1"),  # a turn that is twice as long
])  # fmt: skip
def test_other_counters_that_go_down_may_end_any_way(old: str, new: str) -> None:
    assert DOWN.count(old) == 1 and early(DOWN.replace(old, new)) >= 1


def steps_of(flow: ControlFlow, scalars: dict[str, int]) -> Iterator[Instruction]:
    """The instructions that a wave executes, by a small interpreter of scalar instructions."""
    every = {one.address: one for block in flow.blocks.values() for one in block.instructions}
    address, scc = flow.entry, 0

    def value(text: str) -> int:
        return scalars[text] if text in scalars else int(text, 0)

    def signed(number: int) -> int:
        return number - (number >> 31 << 32)

    for _ in range(500):
        one = every[address]
        yield one
        name, sources = one.mnemonic, [value(source.text) for source in one.sources if name_of(one) == "scalar"]
        to = one.destinations[0].text if one.destinations else ""
        address += one.size
        if name == "s_endpgm":
            return
        if name == "s_branch" or (name.startswith("s_cbranch") and name.endswith(str(scc))):
            assert one.branch_target is not None
            address = one.branch_target
        elif name.startswith("s_cmp"):
            first, second = map(signed, sources) if name.endswith("i32") else sources
            scc = int({"lt": first < second, "ge": first >= second, "gt": first > second, "le": first <= second,
                       "eq": first == second, "lg": first != second}[name[6:8]])  # fmt: skip
        elif name.startswith("s_bitcmp"):
            scc = int((sources[0] >> sources[1] & 1) == int(name[8]))
        elif name.startswith("s_add"):
            scalars[to] = (sum(sources) + (scalars[to] if name == "s_addk_i32" else 0)) & 0xFFFF_FFFF
        elif name.startswith("s_sub"):
            scalars[to] = (sources[0] - sources[1]) & 0xFFFF_FFFF
        elif name == "s_mov_b32":
            scalars[to] = sources[0]
        elif name == "s_lshr_b32":
            scalars[to] = sources[0] >> sources[1]
        elif name == "s_and_b32":
            scalars[to] = sources[0] & sources[1]
            scc = int(scalars[to] != 0)
    raise AssertionError("no end")


def name_of(one: Instruction) -> str:
    other = re.match(r"s_(c?branch|endpgm|nop|waitcnt)|[^s]", one.mnemonic)
    return "other" if other else "scalar"


def is_walked(flow: ControlFlow, path: list[int]) -> bool:
    """Whether the blocks have a way with these instructions, from the entry."""
    places = {(flow.entry, 0)}
    for address in path:
        behind = set()
        for key, position in places:
            block = flow.blocks[key]
            if block.instructions[position].address != address:
                continue
            last = position + 1 == len(block.instructions)
            behind |= {(one, 0) for one in block.successors} if last else {(key, position + 1)}
        if not behind and address != path[-1]:
            return False
        places = behind
    return True


ENDS = (
    "s_cmp_lt_i32 s39, s38\ns_cbranch_scc0 end", "s_cmp_ge_i32 s39, s38\ns_cbranch_scc1 end",
    "s_cmp_gt_i32 s38, s39\ns_cbranch_scc0 end", "s_cmp_le_i32 s38, s39\ns_cbranch_scc1 end",
    "s_cmp_eq_u32 s39, s38\ns_cbranch_scc1 end", "s_cmp_lg_u32 s38, s39\ns_cbranch_scc0 end",
)  # fmt: skip
ASKS = (
    "s_and_b32 s40, s38, 1\ns_cbranch_scc1 odd", "s_and_b32 s40, 1, s38\ns_cmp_eq_u32 s40, 0\ns_cbranch_scc0 odd",
    "s_bitcmp1_b32 s38, 0\ns_cbranch_scc1 odd", "s_bitcmp0_b32 s38, 0\ns_cbranch_scc0 odd",
    "s_add_u32 s40, s38, 31\ns_lshr_b32 s40, s40, 5\ns_and_b32 s40, 1, s40\ns_cmp_lt_i32 s40, 1\ns_cbranch_scc0 odd",
)  # fmt: skip


def expect_every_run(text: str, bounds: range, choices: tuple[int, ...]) -> None:
    """Every run of a loop to one of these bounds is among the ways that were kept."""
    flow = flow_of(text, "gfx942")
    folded = unfold(flow)
    for bound in bounds:
        for chosen in choices:
            path = [one.address for one in steps_of(flow, {"s5": chosen, "s38": bound, "s39": 0, "s40": 0})]
            assert is_walked(folded, path), (bound, chosen)


@pytest.mark.parametrize("seed", range(12))
def test_no_way_is_left_out_that_a_run_takes(seed: int) -> None:
    draw = random.Random(seed)
    ends, asks = draw.choice(ENDS), draw.choice(ASKS[:4] if seed % 2 else ASKS[4:])
    step = draw.choice((1, 32)) if "_eq_" not in ends and "_lg_" not in ends else 1
    begin, again = draw.choice((0, 0, step, 2 * step, 1)), draw.choice(("", "s_cmp_lt_i32 s5, 4\ns_cbranch_scc1 more"))
    text = f"""
    s_mov_b32 s39, {begin}
    top:
    s_cmp_lt_i32 s5, 4
    s_cbranch_scc1 low
    s_addk_i32 s39, {hex(step)}
    {ends}
    low:
    s_addk_i32 s39, {hex(step)}
    {ends}
    {again}
    s_nop 0
    more:
    s_branch top
    end:
    {asks}
    s_nop 1
    odd:
    """
    ends_at_all = range(begin + ("_eq_" in ends or "_lg_" in ends), begin + 40)
    expect_every_run(text, ends_at_all if step == 1 else range(0, 400, 7), (3, 4, 9))



DOWN_ENDS = (
    "s_cmp_gt_i32 s39, 0\ns_cbranch_scc0 end", "s_cmp_lt_i32 0, s39\ns_cbranch_scc0 end",
    "s_cmp_le_i32 s39, 0\ns_cbranch_scc1 end", "s_cmp_eq_u32 s39, 0\ns_cbranch_scc1 end",
    "s_cmp_lg_u32 0, s39\ns_cbranch_scc0 end", "s_cmp_lt_u32 s39, 1\ns_cbranch_scc1 end",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_no_way_is_left_out_that_a_run_takes_down(seed: int) -> None:
    draw = random.Random(seed)
    ends, asks = DOWN_ENDS[seed % len(DOWN_ENDS)], draw.choice(ASKS)
    step = draw.choice((1, 32)) if "i32" in ends else 1
    begin = draw.choice(("s_mov_b32 s39, s38", "s_mov_b32 s39, s38", "s_add_u32 s39, s38, 1"))
    turn = draw.choice((f"s_sub_u32 s39, s39, {step}", f"s_add_i32 s39, s39, {hex(-step & 0xFFFF_FFFF)}"))
    changed = draw.choice(("", "", "s_add_u32 s38, s38, 1"))
    text = f"""
    {begin}
    top:
    s_cmp_lt_i32 s5, 4
    s_cbranch_scc1 low
    {turn}
    {ends}
    low:
    {turn}
    {ends}
    {changed}
    s_branch top
    end:
    {asks}
    s_nop 1
    odd:
    """
    expect_every_run(text, range(1, 40) if step == 1 else range(1, 400, 7), (3, 4))
