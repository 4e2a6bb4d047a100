"""Products of one matrix of fp8 and one of bf8, in every operator that has two of them: values, the instruction that
gfx950 multiplies them with, and what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
from operator_runner import agree

from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.targets import get_target

RAGGED = {"m": 37, "n": 70, "k": 200}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("gemm", "gfx942", {"layout": "CRR"}),
    ("gemm_quant", "gfx950", {}),
    ("gemm", "gfx950", {"schedule": "preshuffle", "out": "f32"}),
    ("gemm_quant", "gfx942", {"b_scale": "1x64", "out": "f32"}),
    ("gemm_multi_d", "gfx942", {}),
    ("flatmm", "gfx950", {}),
    ("streamk_gemm", "gfx942", {"k": 700}),
    ("gated_gemm", "gfx950", {}),
    ("gated_gemm_quant", "gfx942", {}),
    ("batched_gemm", "gfx950", {"batch": 2, "b_batch": 1}),
    ("batched_gemm_quant", "gfx942", {"batch": 2}),
    ("grouped_gemm", "gfx942", {"m": "37,0,5"}),
    ("grouped_gemm_quant", "gfx950", {"m": "37,0,5"}),
    ("batched_gated_gemm_quant", "gfx950", {"batch": 2}),
    ("grouped_gated_gemm_quant", "gfx942", {"m": "37,0,5"}),
    ("gemm_sparse", "gfx942", {}),
    ("gemm_sparse", "gfx950", {}),
    ("batched_contraction", "gfx942", {"g": 2, "m": (3, 8), "n": 20, "k": 70}),
    ("gemm_multi_abd", "gfx950", {}),
    ("gemm_multi_abd", "gfx942", {"op": "acc", "a_op": "a0", "b_op": "b0 + b1"}),
    ("moe_gemm", "gfx950", {"m": None, "t": 17, "e": 4, "topk": 2}),
    ("moe_gemm", "gfx942", {"m": None, "t": 17, "e": 4, "topk": 2, "op": "silu(gate) * up"}),
]
BY_DEFAULT = 2
"""The first of them run by default."""


def marked() -> Iterator[Any]:
    for number, (name, chip, keys) in enumerate(CASES):
        marks = [pytest.mark.full] if number >= BY_DEFAULT else []
        types = ("fp8", "bf8") if number % 2 else ("bf8", "fp8")
        yield pytest.param(name, chip, {"dtype": types[0], "b_dtype": types[1], **keys}, marks=marks)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "chip", "keys"), list(marked()))
def test_products(name: str, chip: str, keys: dict[str, Any]) -> None:
    agree(name, chip, **{key: one for key, one in {**RAGGED, **keys}.items() if one is not None})


@pytest.mark.parametrize(("a", "b"), [("fp8", "bf8"), ("bf8", "fp8")])
@pytest.mark.parametrize("name", ["gemm", "gemm_quant"])
def test_full_rate_by_default(name: str, a: str, b: str) -> None:
    """On gfx950 the instruction for both types at twice the rate of gfx942's, where the block of scales allows it."""
    operator, target = find_operator(name), get_target("gfx950")
    spec = operator.spec(operator.problem(m=4096, n=4096, k=4096, dtype=a, b_dtype=b), target)
    shape = "x".join(map(str, spec.mfma))
    assert target.find_mfma(shape, *spec.multiplied).scaled and spec.multiplied == (a, b)


def test_the_same_type_twice_is_none_of_its_own() -> None:
    """So that kernels of either spelling are one."""
    operator = find_operator("gemm")
    assert operator.problem(dtype="fp8", b_dtype="fp8") == operator.problem(dtype="fp8")


@pytest.mark.parametrize(("chip", "dtype", "b_dtype", "words"), [
    ("gfx90a", "fp8", "bf8", "gfx90a has no fp8 x bf8 MFMA"),
    ("gfx90a", "bf8", "fp8", "gfx90a has no bf8 x fp8 MFMA"),
])  # fmt: skip
def test_what_chips_do_not_multiply(chip: str, dtype: str, b_dtype: str, words: str) -> None:
    operator, target = find_operator("gemm"), get_target(chip)
    spec = operator.spec(operator.problem(dtype=dtype, b_dtype=b_dtype, op="acc"), target)
    assert any(words in str(reason) for reason in operator.validate(spec, target))


@pytest.mark.parametrize(("dtype", "b_dtype"), [("f16", "fp8"), ("i8", "bf8"), ("f64", "bf8")])
@pytest.mark.parametrize("name", ["gemm", "grouped_gemm", "batched_contraction", "gemm_quant", "conv_fwd"])
def test_floats_of_8_bits_go_with_each_other_alone(name: str, dtype: str, b_dtype: str) -> None:
    """Found where the request is read, which says what would be right."""
    right = rf"dtype={dtype}" if name == "gemm_quant" and dtype != "i8" else r"expected dtype=fp8\|bf8, or no b_dtype"
    with pytest.raises(RequestError, match=right):
        find_operator(name).problem(dtype=dtype, b_dtype=b_dtype)


def test_what_no_product_has() -> None:
    with pytest.raises(RequestError, match=r"b_dtype=i8: expected fp8\|bf8"):
        find_operator("gemm").problem(dtype="f16", b_dtype="i8")
