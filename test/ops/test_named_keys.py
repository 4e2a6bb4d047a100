"""What the chip refuses of a request is told by the names of keys, not by those of the specification's fields."""

from __future__ import annotations

import pytest

from ckmlir.ops import find_operator
from ckmlir.ops.operator import require_valid
from ckmlir.ops.request import RequestError
from ckmlir.targets import get_target


def refusal(operator: str, chip: str, **keys: object) -> str:
    found, target = find_operator(operator), get_target(chip)
    problem = found.problem(**keys)
    with pytest.raises(RequestError) as raised:
        require_valid(found, found.spec(problem, target), target)
    return str(raised.value)


@pytest.mark.parametrize("operator", ["gemm", "grouped_gemm", "batched_gemm", "flatmm", "conv_fwd", "moe_gemm"])
def test_waves_and_d_tensors_are_named_as_the_request_names_them(operator: str) -> None:
    block = {"block": (256, 256, 32), "wave": (16, 16)} | ({"unit": 256} if operator == "moe_gemm" else {})
    assert refusal(operator, "gfx942", **block).startswith(f"{operator} on gfx942: wave=16x16: a workgroup of 16384")
    told = refusal(operator, "gfx90a", op="acc + d0 + d1", d="bf8,bf8")
    assert told == f"{operator} on gfx90a: d=bf8: gfx90a has no 8-bit floating point; it starts with gfx942"  # once


def test_operands_of_several_arrays_are_told_apart() -> None:
    told = refusal("gemm_multi_abd", "gfx90a", a_types="f16,fp8", a_op="a0 + a1", b_types="bf8", b_op="b0")
    right = "gfx90a has no 8-bit floating point; it starts with gfx942"
    assert told == f"gemm_multi_abd on gfx90a: a_types=fp8: {right} | b_types=bf8: {right}"


@pytest.mark.parametrize(("operator", "other"), [("streamk_gemm", "linear"), ("gemm", "workspace")])
def test_what_is_right_instead_of_atomics_is_a_choice_of_the_operator(operator: str, other: str) -> None:
    split = {} if operator == "streamk_gemm" else {"split_k": 2}
    told = refusal(operator, "gfx942", reduction="atomic", op="relu(acc)", out="f32", **split)
    right = f"expected reduction={other}, or a product of the sums and something else"
    assert f"reduction=atomic: op=relu(acc) of partial sums does not add up to op of their sum; {right}" in told
    (choice,) = (key for key in find_operator(operator).keys if key.name == "reduction")
    assert choice.read(other) == other


def test_arrays_of_element_wise_kernels_are_named() -> None:
    told = refusal("elementwise", "gfx90a", shape=(4, 4), op="a + b", b_dtype="fp8")
    assert told.startswith("elementwise on gfx90a: elements of b=fp8: gfx90a has no 8-bit floating point")
