"""Matrices of one array begin at any element: kernels load no wider than all of them allow."""

from __future__ import annotations

import pytest
from operator_runner import outcome

from ckmlir.ops import find_operator
from ckmlir.targets import get_target

GROUPED = find_operator("grouped_gemm")
OF_GATED = {"gate_at": "0,8193", "up_at": "0,8200"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "name", "keys"), [
    ("gfx90a", "grouped_gemm", {"m": "33,0,9,5", "n": 65, "k": 33, "a_at": "0,1089,1089,1386", "b_at": "0,2145,1,9",
                                "c_at": "3,2148,2148,2733"}),
    ("gfx942", "grouped_gemm", {"m": "17,33", "k": 64, "a_at": "0,2113", "b_at": "4,16392", "c_at": "2,4354",
                                "dtype": "bf16", "persistent": 1}),
    ("gfx950", "grouped_gemm", {"m": "17,33", "n": 64, "k": 64, "a_at": "0,2116", "c_at": "1,2113", "table": "device"}),
    ("gfx942", "grouped_gated_gemm_quant", {"m": "33,17", "n": 64, "a_at": "0,4225", "c_at": "3,2115", **OF_GATED}),
])  # fmt: skip
def test_matrices_begin_anywhere(chip: str, name: str, keys: dict[str, object]) -> None:
    outcome(find_operator(name), chip, keys)


def test_a_kernel_takes_no_places_that_are_less_aligned() -> None:
    target = get_target("gfx942")
    spec = GROUPED.spec(GROUPED.problem(m="64,128", n="64", k="64"), target)
    assert not GROUPED.mismatches(GROUPED.problem(m="64,128", n="64", k="64", a_at="0,8200"), spec, target)
    assert GROUPED.mismatches(GROUPED.problem(m="64,128", n="64", k="64", a_at="0,8196"), spec, target)
    assert GROUPED.problem(m="64,128", k="64", a_at="0,8196").products[1].aligned() == (4, 8, 8)
