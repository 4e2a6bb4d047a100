"""O of attention forward in fp8, by a given scale: numbers under all checkers, saturation, rounding, refusals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from operator_runner import outcome

from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.operator import require_valid
from ckmlir.ops.request import RequestError
from ckmlir.runtime import check_outputs
from ckmlir.targets import get_target

FMHA, SPLIT = find_operator("fmha_fwd"), find_operator("fmha_fwd_splitkv")
PREFILL, COMBINE = find_operator("fmha_batch_prefill"), find_operator("fmha_fwd_splitkv_combine")
Keys = dict[str, Any]

BATCH: Keys = {"h": 2, "hk": 1, "sq": 70, "sk": 135, "d": 32, "out": "fp8"}
GROUP: Keys = {"mode": "group", "seqlens_q": (70, 0, 130), "seqlens_k": (100, 50, 20), "d": 64, "out": "fp8"}
CASES: list[tuple[str, Any, Keys]] = [
    ("gfx942", FMHA, {**BATCH, "dtype": "fp8", "o_scale": 40, "lse": 1}),
    ("gfx950", FMHA, {**GROUP, "dtype": "bf16", "o_scale": 0.01, "layout": "bshd"}),
    ("gfx942", FMHA, {**BATCH, "dtype": "f16", "dv": 24, "dropout": 0.3, "mask": "bottom_right"}),
    ("gfx950", FMHA, {**BATCH, "dtype": "fp8", "scales": "block", "scale_keys": 64, "o_scale": 30}),
    ("gfx950", SPLIT, {**BATCH, "sq": 3, "splits": 2, "o_scale": 30, "lse": 1}),
    ("gfx942", PREFILL, {"seqlens_q": (30, 7), "seqlens_k": (150, 70), "d": 32, "dtype": "fp8", "out": "fp8"}),
    ("gfx942", COMBINE, {"out": "fp8", "sq": 50, "dv": 24}),
    ("gfx950", find_operator("sparse_attention"), {**BATCH, "dtype": "fp8", "o_scale": 30, "lse": 1}),
]
WIDE = [
    (chip, operator, {**keys, "dtype": dtype, "d": d, "o_scale": 30})
    for chip in ("gfx942", "gfx950")
    for operator, keys in ((FMHA, BATCH), (FMHA, GROUP), (SPLIT, {**BATCH, "sq": 5, "splits": 3}))
    for dtype in ("f16", "bf16", "fp8")
    for d in (64, 128, 256)
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("chip", "operator", "keys"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)]
)
def test_numbers(chip: str, operator: Any, keys: Keys) -> None:
    outcome(operator, chip, keys)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "most"), [("gfx942", 240), ("gfx950", 448)])
def test_what_is_too_large_becomes_the_largest_number(chip: str, most: float) -> None:
    outputs = outcome(FMHA, chip, {**BATCH, "dtype": "fp8", "o_scale": 2000.0}).outputs
    sizes = np.abs(outputs["o"].astype(np.float64))
    assert sizes.max() == most
    assert 0.1 < (sizes == most).mean() < 0.9


@pytest.mark.parametrize("operator", [FMHA, COMBINE])
def test_another_rounding_does_not_pass(operator: Any) -> None:
    """Rounded towards zero."""
    target = get_target("gfx950")
    problem = operator.problem(h=1, sq=20, out="fp8", **({"d": 32, "sk": 70} if operator is FMHA else {"dv": 32}))
    arrays = operator.inputs(problem, target, seed=1)
    exact, fp8 = operator.reference(problem, arrays)["o"], numpy_dtype("fp8", target)
    right = exact.astype(np.float32).astype(fp8)
    assert all(one.ok for one in check_outputs(operator, problem, arrays, {"o": right}, target))
    codes = right.view(np.uint8) - (np.abs(right.astype(np.float64)) > np.abs(exact))
    assert not all(one.ok for one in check_outputs(operator, problem, arrays, {"o": codes.view(fp8)}, target))


@pytest.mark.parametrize(("chip", "keys", "words"), [
    ("gfx942", {"o_scale": 2}, "o_scale=2.0: only O in fp8 is scaled, not f16"),
    ("gfx942", {"out": "fp8", "o_scale": -1}, "o_scale=-1.0: expected a positive number"),
    ("gfx942", {"out": "fp8", "dtype": "fp8", "o_scale": 1e20, "v_scale": 1e20}, "times v_scale it is 1e+40"),
    ("gfx942", {"out": "fp8", "dtype": "f32"}, "out=fp8: with dtype=f32 O is f32"),
    ("gfx90a", {"out": "fp8"}, "out=fp8: gfx90a has no 8-bit floating point"),
])  # fmt: skip
def test_refused(chip: str, keys: Keys, words: str) -> None:
    target = get_target(chip)
    with pytest.raises(RequestError, match=re.escape(words)):
        require_valid(FMHA, FMHA.spec(FMHA.problem(**keys), target), target)
