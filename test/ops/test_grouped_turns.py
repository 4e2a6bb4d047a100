"""Whether workgroups of a launch of several products stay for several blocks where the request leaves that open."""

from __future__ import annotations

import pytest

from ckmlir.ops import find_operator
from ckmlir.targets import get_target

GROUPED = find_operator("grouped_gemm")
GFX942 = get_target("gfx942")


def test_who_stays() -> None:
    """By default where there are more blocks than the chip holds, and loads are wide."""
    few, many = GROUPED.problem(m="128", n="128"), GROUPED.problem(m="4096,128", n="4096,128", k=128)
    narrow = GROUPED.problem(m="4096,128", n="4096,128", k=63)  # a next block's loads would not be on their way early
    walks = [GROUPED.spec(problem, GFX942).walk for problem in (few, many, narrow)]
    assert walks == ["table", "persistent", "table"]
    assert GROUPED.launch(many, GROUPED.spec(many, GFX942), GFX942).grid[0] == 608
    assert GROUPED.chosen(many, GROUPED.spec(many, GFX942))["persistent"] is True


@pytest.mark.parametrize(("chip", "sizes", "stays"), [
    ("gfx950", {"m": "4096,2048", "k": "512,1024"}, False), ("gfx950", {"m": "4096,2048", "k": "128,256"}, True),
    ("gfx950", {"m": "2048,1024", "k": "512,1024"}, True), ("gfx942", {"m": "4096,2048", "k": "512,1024"}, True),
])  # fmt: skip
def test_long_sums_do_not_stay_for_several_turns_on_gfx950(chip: str, sizes: dict[str, str], stays: bool) -> None:
    """1536 blocks of 11 steps are three for each workgroup, which one for each block does faster; 768 are one and a
    half, and of three steps what is gained by staying counts."""
    target = get_target(chip)
    assert GROUPED.spec(GROUPED.problem(**sizes, n=4096), target).stays == stays


@pytest.mark.parametrize(("chip", "keys", "stays"), [
    ("gfx942", {"k": 64}, False), ("gfx942", {"k": 128}, True), ("gfx942", {"k": 64, "layout": "CRR"}, True),
    ("gfx950", {"k": 64}, True), ("gfx90a", {"k": 64}, True),
])  # fmt: skip
def test_sums_of_one_step_do_not_stay_on_gfx942(chip: str, keys: dict[str, object], stays: bool) -> None:
    """If A lies along K: a workgroup for each block is faster."""
    problem = GROUPED.problem(**{"m": "4096,2048", "n": 4096, **keys})
    assert GROUPED.spec(problem, get_target(chip)).stays == stays
