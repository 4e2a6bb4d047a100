"""Attention to predicted blocks: numbers under all checkers, the same bits as with the map that is predicted, blocks
that are not taken and hold NaN, how near it is to attention to all keys, and what is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, checked, outcome

from ckmlir.ops import find_operator
from ckmlir.ops.plan import make_plan
from ckmlir.ops.request import RequestError
from ckmlir.targets import get_target

SPARGE, SPARSE, PREDICT = (find_operator(name) for name in ("sparge_attention", "sparse_attention", "predict_blocks"))
DENSE = find_operator("fmha_fwd")
GFX942 = get_target("gfx942")
Keys = dict[str, Any]
FEW: Keys = {"h": 2, "hk": 1, "sq": 200, "sk": 700, "d": 32, "block_k": 64}
CASES: list[tuple[str, Keys]] = [
    ("gfx90a", {**FEW, "lse": 1, "mask": "bottom_right", "topk": 0.3}),
    ("gfx942", {**FEW, "dtype": "bf16", "cdfthreshd": 0.7, "layout": "bshd", "mask": "window:300,100", "sink": 1}),
    ("gfx950", {**FEW, "dtype": "f32", "by_head": 1, "smooth": 1, "b": 2, "block_q": 128, "v_layout": "columns"}),
    ("gfx942", {**FEW, "topk": 0.2, "first": 1, "alibi": "head", "mask": "top_left", "lse": 1}),
    ("gfx950", {**FEW, "topk": 0.4, "d": 96, "pv_threshold": 10, "soft_cap": 20, "q_strides": (50000, 20000, 96)}),
    ("gfx90a", {"h": 1, "sq": 1, "sk": 1, "d": 32, "lse": 1}),
    ("gfx942", {"h": 1, "sq": 70, "sk": 0, "d": 32, "lse": 1}),
    ("gfx942", {"h": 1, "sq": 0, "sk": 70, "d": 32, "lse": 1}),
]
WIDE = [
    (chip, {**FEW, "sq": sq, "sk": sk, "dtype": dtype, "mask": mask, "lse": 1, **wanted})
    for chip in CHIPS for dtype in ("f16", "bf16", "f32") for sq, sk in ((64, 256), (65, 257), (300, 1001))
    for mask in ("none", "bottom_right") for wanted in ({"topk": 0.3}, {"cdfthreshd": 0.8}, {"by_head": 1, "smooth": 1})
]  # fmt: skip


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("chip", "keys"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)], ids=str
)
def test_numbers(chip: str, keys: Keys) -> None:
    found = checked("sparge_attention", chip, keys)
    if not keys["sk"]:
        assert not found["o"].any() and (found["lse"] == -np.inf).all()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("chip", CHIPS)
def test_the_same_bits_as_with_the_predicted_map(chip: str) -> None:
    keys = {**FEW, "topk": 0.3, "mask": "bottom_right"}
    whole = outcome(SPARGE, chip, keys)
    map_of = outcome(PREDICT, chip, {**keys, "block_q": 64}, whole.arrays).outputs["block_map"]
    rest = {name: one for name, one in keys.items() if name != "topk"}
    apart = outcome(SPARSE, chip, {**rest, "block_q": 64}, {**whole.arrays, "block_map": map_of})
    np.testing.assert_array_equal(whole.outputs["o"], apart.outputs["o"])
    assert 0.1 < map_of.mean() < 0.9


def test_values_of_blocks_that_are_not_taken_never_count() -> None:
    """All blocks are alike, and each query looks at the second of four."""
    arrays = {name: np.zeros((1, 1, rows, 32), np.float16) for name, rows in (("q", 64), ("k", 256), ("v", 256))}
    arrays["q"][..., 0] = arrays["k"][..., 1] = 1
    arrays["k"][0, 0, 64:128, 0] = 9
    arrays["v"][0, 0, 64:128], arrays["v"][0, 0, :64], arrays["v"][0, 0, 128:] = 3, np.nan, np.inf
    keys = {"h": 1, "sq": 64, "sk": 256, "d": 32, "block_k": 64, "scale": 1}
    for wanted in ({"topk": 0.25}, {"cdfthreshd": 0.9}):
        found = outcome(SPARGE, "gfx942", {**keys, **wanted}, arrays).outputs["o"]
        np.testing.assert_array_equal(found, np.full((1, 1, 64, 32), 3, np.float16))


def test_it_is_near_attention_to_all_keys() -> None:
    """Where blocks are alike; and the nearer, the more blocks are taken, which are fewer than all."""
    random = np.random.default_rng(3)
    q, k = (np.repeat(random.standard_normal((1, 1, rows // size, 64)) * 1.5, size, 2) for rows, size in
            ((512, 64), (2048, 128)))  # fmt: skip
    arrays = {"q": q, "k": k, "v": random.standard_normal((1, 1, 2048, 64))}
    arrays["q"], arrays["k"] = (one + 0.2 * random.standard_normal(one.shape) for one in (q, k))
    sizes: Keys = {"h": 1, "sq": 512, "sk": 2048, "d": 64}
    exact = DENSE.reference(DENSE.problem(**sizes), arrays)["o"]
    errors, shares = [], []
    for share in (0.5, 0.9, 0.98):
        problem = SPARGE.problem(**sizes, cdfthreshd=share)
        found = SPARGE.reference(problem, arrays)["o"]
        errors.append(float(np.linalg.norm(found - exact) / np.linalg.norm(exact)))
        shares.append(float(PREDICT.reference(PREDICT.problem(**sizes, cdfthreshd=share), arrays)["block_map"].mean()))
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.05
    assert shares == sorted(shares) and shares[-1] < 0.8


def test_what_is_queued() -> None:
    plan = make_plan(SPARGE, SPARGE.problem(**FEW, smooth=1), GFX942)
    names = [one.operator.name for one in plan.kernels]
    assert names[-5:] == ["block_means", "batched_gemm", "predict_blocks", "nonzero", "sparge_attention"]
    assert "reduce" in names and names.count("block_means") == 2


@pytest.mark.parametrize(("keys", "words"), [
    ({"block_q": 32}, "block_q=32: expected a power of two from 64 to 4096"),
    ({"block_k": 8192}, "block_k=8192: expected a power of two from 32 to 4096"),
    ({"sk": 600000}, "sparge_attention: sk=600000: 9375 blocks of keys; expected at most 8192"),
    ({"dtype": "fp8"}, "dtype=fp8: expected f16|bf16|f32"),
    ({"topk": 0}, "sparge_attention: topk=0.0: expected a share above 0 and at most 1"),
    ({"mode": "group"}, "mode=group: unknown key"),
    ({"block_k": 48}, "block_k=48: expected a power of two"),
    ({"lists": "map"}, "lists=map: unknown key"),
])  # fmt: skip
def test_what_is_refused(keys: Keys, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        SPARGE.problem(**{**FEW, **keys})
    assert words in str(refused.value) and "\n" not in str(refused.value)
