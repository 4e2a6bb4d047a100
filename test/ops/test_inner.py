"""Refusals of operators that have others as steps: they name the operator that was asked, and its keys and arrays."""

from __future__ import annotations

from typing import Any

import pytest

from ckmlir.ops import find_operator
from ckmlir.ops.inner import in_outer_words
from ckmlir.ops.operator import require_valid
from ckmlir.ops.plan import make_plan
from ckmlir.ops.request import RequestError
from ckmlir.targets import get_target

OF_PROBLEMS = [
    ("moe_layer", {"unit": 18}, "unit=18: blocks have 16 rows at least"),
    ("moe_layer", {"b_dtype": "i4", "b_scale": "mx"}, "b_scale=mx: b_dtype=i4 has scales of groups"),
    ("moe_layer", {"e": 2**31 - 1}, "e=2147483647: expected at most 2147475455"),
    ("moe_layer", {"e": 5000}, "e=5000: expected at most 4096 experts"),
    ("moe_layer", {"t": 11, "inter": 1, "hidden": 2**31 - 8}, "array x of shape 11x2147483640 takes"),
    ("fused_moe", {"op": "log1p(-1)"}, "op=log1p(-1): it does not depend on the product"),
    ("fused_moe", {"e": 3, "hidden": 1, "inter": 1 << 24}, "array inter of shape 64x16777216 takes"),
    ("fused_moe", {"e": 9, "t": 0, "hidden": 1, "inter": 2**31 - 8}, "array gate of shape 2147483640x1 takes"),
    (
        "fused_moe", {"t": 1, "hidden": 8, "inter": 1 << 29, "e": 1},
        "array gate of shape 536870912x8 for each expert: from one to the next are 4294967296 elements",
    ),
    (
        "moe_layer", {"t": 1, "hidden": 1 << 29, "inter": 8, "dtype": "fp8"},
        "array gate of shape 8x536870912 for each expert: from one to the next are 4294967296 elements",
    ),
    ("predict_blocks", {"h": 65537, "sq": 2}, "h=65537: a launch takes at most 65535 heads"),
    ("sparge_attention", {"h": 65537, "sq": 2}, "h=65537: a launch takes at most 65535 heads"),
    ("sparge_sage_attention", {"block_k": 48}, "block_k=48: expected a power of two from 32 to 4096"),
    ("quantize_tensor", {"shape": "16777216x0x65536x8193x4095"}, "array x of shape 16777216x0x65536x8193x4095"),
    ("ragged_row_sums", {"rows": 8, "lengths": (1, 0)}, "lengths=1,0: 2 of them for rows=8"),
    ("ragged_row_sums", {"rows": 1 << 30}, "array offsets of shape 1073741825 takes"),
]  # fmt: skip
WITHOUT_FP8 = "gfx90a has no 8-bit floating point; it starts with gfx942"
MANY_BLOCKS = {"t": 1, "e": 127, "topk": 127, "unit": 1 << 16, "reduction": "atomic", "out": "f32"}
OF_PLANS = [
    ("moe_layer", {"t": 5, "hidden": 1, "reduction": "atomic"}, "reduction=atomic: memory adds f16 in pairs"),
    ("fused_moe", {"hidden": 257, "reduction": "atomic"}, "reduction=atomic: memory adds f16 in pairs"),
    ("moe_layer", {**MANY_BLOCKS, "inter": 1, "hidden": 1 << 28}, "136365211648 blocks of C; kernels count to"),
    ("gemm_multi_d", {"out": "fp8", "split_k": 4}, f"d=fp8: {WITHOUT_FP8} | out=fp8: {WITHOUT_FP8}"),
    ("batched_gemm", {"op": "acc * 2", "out": "fp8", "split_k": 4}, f"out=fp8: {WITHOUT_FP8}"),
    ("fmha_fwd_splitkv", {"out": "fp8", "splits": 4}, f"out=fp8: {WITHOUT_FP8}"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "keys", "words"), OF_PROBLEMS)
def test_a_problem_that_a_step_refuses(name: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        find_operator(name).problem(**keys)
    assert str(refused.value).startswith(f"{name}: {words}")


@pytest.mark.parametrize(("name", "keys", "words"), OF_PLANS)
def test_a_kernel_of_a_step_that_the_chip_cannot_run(name: str, keys: dict[str, Any], words: str) -> None:
    """The operator's own kernel it can."""
    operator, target = find_operator(name), get_target("gfx90a")
    problem = operator.problem(**keys)
    require_valid(operator, operator.spec(problem, target), target)
    with pytest.raises(RequestError) as refused:
        make_plan(operator, problem, target)
    assert str(refused.value).startswith(f"{name} on gfx90a: {words}")


@pytest.mark.parametrize("keys", [{"inter": 1 << 23}, {"inter": 1 << 22, "between": "lds"}], ids=str)
def test_more_blocks_than_kernels_count_to(keys: dict[str, Any]) -> None:
    """Of a kernel of the operator's own that another one makes."""
    for name in ("fused_moe", "moe_layer"):
        operator, target = find_operator(name), get_target("gfx90a")
        problem = operator.problem(**MANY_BLOCKS, **keys, hidden=1)
        with pytest.raises(RequestError) as refused:
            make_plan(operator, problem, target)
        assert str(refused.value).startswith(f"{name} on gfx90a: 4261412864 blocks of C; kernels count to")


@pytest.mark.parametrize(("text", "words"), [
    ("gemm: n=3: it is odd; expected n=4", "inter=3: it is odd; expected inter=4"),
    ("gemm on gfx90a: k=3: large | n: none", "n=3: large | inter: none"),
    ("gemm: array c of shape 3x4 is large", "array y of shape 3x4 is large"),
    ("gemm: layout=n: not c, beside dn=4", "layout=n: not c, beside dn=4"),
    ("gemm: n=3: large | n=3: large", "inter=3: large"),
])  # fmt: skip
def test_words(text: str, words: str) -> None:
    """Names change once each, and only where they stand for a key or an array."""
    assert in_outer_words(text, "gemm", {"n": "inter", "k": "n", "c": "y"}) == words
