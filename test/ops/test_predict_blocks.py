"""Predicted blocks: means and likeness of blocks, and the map made of them, against loops in NumPy and on three chips;
equal scores, thresholds that rounding decides, NaN, and what is refused.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, checked, outcome

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.attention.prediction.problem import LENGTHS, PredictSpec
from ckmlir.ops.attention.prediction.selection import Row, selected, undecided
from ckmlir.ops.comparison import Array, compare
from ckmlir.ops.request import RequestError
from ckmlir.targets import get_target

MEANS, PREDICT = find_operator("block_means"), find_operator("predict_blocks")
GFX942 = get_target("gfx942")
Keys = dict[str, Any]
FEW: Keys = {"h": 2, "hk": 1, "sq": 200, "sk": 1000, "d": 64}

OF_MEANS: list[tuple[str, Keys]] = [
    ("gfx90a", {"s": 300, "d": 128}),
    ("gfx942", {"s": 1, "d": 8, "b": 2, "layout": "bshd"}),
    ("gfx950", {"s": 200, "d": 72, "block": 64, "dtype": "bf16", "layout": "bshd", "shift": 1}),
    ("gfx942", {"s": 400, "d": 256, "dtype": "f32", "h": 1}),
    ("gfx90a", {"s": 1100, "d": 32, "block": 1024, "shift": 1, "h": 1}),
    ("gfx950", {"s": 100, "d": 64, "block": 32, "x_strides": (40000, 8000, 80)}),
    ("gfx942", {"s": 0, "b": 2}),
    ("gfx942", {"s": 33, "b": 0}),
]
WIDE_MEANS = [
    (chip, {"s": s, "d": d, "block": block, "dtype": dtype, "layout": layout, "shift": shift, "h": 2})
    for chip in CHIPS for dtype in ("f16", "bf16", "f32") for s, block in ((128, 64), (129, 64), (127, 128), (513, 256))
    for d in (40, 128, 256) for layout, shift in (("bhsd", 0), ("bshd", 1))
]  # fmt: skip
MAPS: list[tuple[str, Keys]] = [
    ("gfx90a", {**FEW, "lists": 1}),
    ("gfx942", {**FEW, "topk": 0.3, "dtype": "bf16", "layout": "bshd", "mask": "top_left", "block_k": 32}),
    ("gfx950", {**FEW, "by_head": 1, "mask": "bottom_right", "first": 1, "sq": 517, "b": 2}),
    ("gfx942", {**FEW, "smooth": 1, "cdfthreshd": 0.7, "block_k": 64, "dtype": "f32", "layout": "bshd"}),
    ("gfx90a", {**FEW, "topk": 1, "by_head": 1, "smooth": 1}),
    ("gfx950", {**FEW, "h": 1, "sk": 4200, "block_k": 32, "d": 8, "topk": 0.01}),
    ("gfx942", {"h": 1, "sq": 64, "sk": 33000, "block_k": 32, "d": 8, "cdfthreshd": 0.5, "scale": 0.3}),
    ("gfx90a", {"h": 1, "sq": 70, "sk": 140000, "block_k": 32, "d": 8, "topk": 0.1, "mask": "bottom_right"}),
    ("gfx90a", {**FEW, "cdfthreshd": 0, "q_strides": (50000, 20000, 80), "k_strides": (80000, 80, 80)}),
    ("gfx942", {**FEW, "sq": 0}),
    ("gfx950", {**FEW, "sk": 0, "lists": 1}),
    ("gfx942", {**FEW, "sq": 1, "sk": 1}),
    ("gfx942", {**FEW, "sq": 300, "sk": 40, "mask": "bottom_right", "block_k": 32}),
]
WIDE_MAPS = [
    (chip, {"h": 2, "hk": 1, "sq": sq, "sk": sk, "d": 32, "block_k": 32, "dtype": dtype, "mask": mask, **wanted})
    for chip in CHIPS for dtype in ("f16", "bf16", "f32") for sq, sk in ((64, 256), (65, 257), (191, 2111))
    for mask in ("none", "top_left", "bottom_right")
    for wanted in ({"topk": 0.2}, {"cdfthreshd": 0.9, "smooth": 1}, {"by_head": 1, "first": 1, "lists": 1})
]  # fmt: skip


def full(cases: list[tuple[str, Keys]]) -> list[Any]:
    return [pytest.param(*one, marks=pytest.mark.full) for one in cases]


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("chip", "keys"), [*OF_MEANS, *full(WIDE_MEANS)], ids=str)
def test_numbers_of_means(chip: str, keys: Keys) -> None:
    checked("block_means", chip, keys)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("chip", "keys"), [*MAPS, *full(WIDE_MAPS)], ids=str)
def test_numbers(chip: str, keys: Keys) -> None:
    """No more than one element in fifty is left open, of many."""
    found = outcome(PREDICT, chip, keys)
    free = PREDICT.tolerances(found.problem, found.arrays, {}, get_target(chip))["block_map"].unspecified
    assert np.sum(free) <= max(found.outputs["block_map"].size / 50, 2)


def test_means_by_hand() -> None:
    problem = MEANS.problem(s=150, d=16, block=64, layout="bshd", shift=1, h=3)
    arrays = MEANS.inputs(problem, GFX942, seed=3)
    arrays["x"][0, 70, 1] = 0
    arrays["shift"][0, 1] = 0  # a row of zeros
    found = MEANS.reference(problem, arrays)
    for head in range(3):
        for block in range(3):
            rows = arrays["x"][0, 64 * block : 64 * block + 64, head].astype(np.float64) - arrays["shift"][0, head]
            np.testing.assert_allclose(found["means"][0, head, block], rows.mean(0), rtol=1e-12, atol=1e-15)
            units = [row / math.sqrt(row @ row) if row.any() else row for row in rows]
            products = np.mean([[one @ other for one in units] for other in units])
            np.testing.assert_allclose(found["alike"][0, head, block], products, rtol=1e-10)


def by_hand(keys: Keys, arrays: dict[str, Array]) -> Array:
    """CK Tile's host reference in plain loops; layout bhsd, one batch."""
    q, k = (arrays[name][0].astype(np.float64) for name in "qk")
    if keys.get("smooth"):
        k = k - k.mean(1, keepdims=True)
    sizes = {"q": keys.get("block_q", 64), "k": keys.get("block_k", 128)}
    counts = [math.ceil(one.shape[1] / sizes[name]) for one, name in ((q, "q"), (k, "k"))]
    found = np.zeros((q.shape[0], *counts), np.int8)

    def pooled(rows: Array) -> tuple[Array, float]:
        units = [row / np.linalg.norm(row) if row.any() else row for row in rows]
        return rows.mean(0), float(np.sum(np.sum(units, 0) ** 2)) / len(rows) ** 2

    for head in range(q.shape[0]):
        of_keys = [
            pooled(k[head // (q.shape[0] // k.shape[0])][at * sizes["k"] :][: sizes["k"]]) for at in range(counts[1])
        ]
        for row in range(counts[0]):
            mean, alike = pooled(q[head, row * sizes["q"] :][: sizes["q"]])
            last = min((row + 1) * sizes["q"], q.shape[1]) - 1
            last += k.shape[1] - q.shape[1] if keys.get("mask") == "bottom_right" else 0
            seen = [at for at in range(counts[1]) if keys.get("mask", "none") == "none" or at * sizes["k"] <= last]
            simthreshd1 = keys.get("simthreshd1", 0.6)
            score = {at: mean @ of_keys[at][0] / math.sqrt(q.shape[2]) for at in seen if of_keys[at][1] > simthreshd1}
            total = sum(math.exp(one) for one in score.values())
            order, together = sorted(score, key=lambda at: (-score[at], at)), 0.0
            wanted = max(1, math.floor(keys.get("topk", 0) * counts[1]))
            for place, at in enumerate(order):
                if place >= wanted if "topk" in keys else place and together >= keys.get("cdfthreshd", 0.98):
                    break
                found[head, row, at] = 1
                together += math.exp(score[at]) / total
            for at in seen:
                found[head, row, at] |= at not in score or alike <= simthreshd1 or (at == 0 and keys.get("first", 0))
    return found


@pytest.mark.parametrize("more", [
    {}, {"topk": 0.3}, {"cdfthreshd": 0.6, "mask": "bottom_right", "block_k": 32}, {"smooth": 1, "mask": "top_left"},
    {"simthreshd1": 0.3, "first": 1, "mask": "bottom_right", "sk": 150, "block_k": 32, "topk": 0.1},
])  # fmt: skip
def test_maps_by_hand(more: Keys) -> None:
    keys = {**FEW, "sq": 500, "sk": 1500, "block_k": 64, "d": 16, **more}
    problem = PREDICT.problem(**keys)
    arrays = PREDICT.inputs(problem, GFX942, seed=5)
    found = PREDICT.reference(problem, arrays)["block_map"][0]
    np.testing.assert_array_equal(found, by_hand(keys, arrays))
    assert 0 < found.mean() < 1


def alike_blocks(counts: list[int], size: int) -> Array:
    """Blocks of equal rows (1, 1, …, 8), whose first channel is a number each."""
    rows = np.zeros((1, 1, len(counts) * size, 8), np.float16)
    rows[0, 0, :, 0], rows[0, 0, :, 1] = np.repeat(counts, size), 1
    return rows


@pytest.mark.one_in(16)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("wanted", "taken"), [
    ({"topk": 0.25}, [1, 4]), ({"topk": 0.5}, [1, 4, 5, 7]), ({"topk": 0.75}, [0, 1, 2, 4, 5, 7]),
    ({"topk": 0.01}, [1]), ({"cdfthreshd": 0.25}, [1]), ({"cdfthreshd": 0.3}, [1, 4]),
    ({"cdfthreshd": 0.75}, [1, 4, 5]), ({"cdfthreshd": 0}, [1]), ({"cdfthreshd": 0.8}, [1, 4, 5, 7]),
])  # fmt: skip
def test_of_equal_scores_the_first_blocks_are_taken(chip: str, wanted: Keys, taken: list[int]) -> None:
    """Exactly, where f32 has all numbers: scores are 2 four times, which are all but nothing of the sum, and 0."""
    arrays = {"q": alike_blocks([20], 32), "k": alike_blocks([-1, 1, -1, -1, 1, 1, -1, 1], 32)}
    keys = {"h": 1, "sq": 32, "sk": 256, "d": 8, "block_q": 32, "block_k": 32, "scale": 1, "simthreshd1": 0.1, **wanted}
    found = outcome(PREDICT, chip, keys, arrays).outputs["block_map"]
    np.testing.assert_array_equal(np.flatnonzero(found), taken)


def test_what_is_no_number_is_not_alike() -> None:
    """Blocks with NaN or infinities are taken by all, and take all; others are as without them."""
    keys = {**FEW, "cdfthreshd": 0.5, "lists": 1}
    problem = PREDICT.problem(**keys)
    arrays = dict(PREDICT.inputs(problem, GFX942, seed=7))
    before = outcome(PREDICT, "gfx942", keys, arrays).outputs["block_map"]
    q, k = (arrays[name].copy() for name in "qk")
    q[0, 0, 70, 3], k[0, 0, 130, 5], k[0, 0, 400, 0] = np.nan, np.inf, np.nan
    found = outcome(PREDICT, "gfx942", keys, {"q": q, "k": k}).outputs["block_map"]
    assert found[0, 0, 1].all() and found[..., 1].all() and found[..., 3].all()
    assert before.mean() < 1


@pytest.mark.parametrize("other", [{"cdfthreshd": 0.93}, {"topk": 0.4}, {"simthreshd1": 0.5}, {"scale": 0.1},
                                   {"mask": "top_left"}, {"first": 1}, {"smooth": 1}])  # fmt: skip
def test_another_choice_does_not_pass(other: Keys) -> None:
    keys = {**FEW, "sq": 900, "block_k": 32}
    problem = PREDICT.problem(**keys)
    arrays = PREDICT.inputs(problem, GFX942, seed=9)
    arrays["k"] += np.float16(2)  # which all keys have in common
    expected = PREDICT.reference(problem, arrays)
    tolerance = PREDICT.tolerances(problem, arrays, expected, GFX942)["block_map"]
    actual = PREDICT.reference(PREDICT.problem(**keys, **other), arrays)["block_map"]
    assert not compare("block_map", actual, expected["block_map"], tolerance).ok


def test_means_rounded_to_f16_do_not_pass() -> None:
    problem = MEANS.problem(s=300, d=64)
    arrays = MEANS.inputs(problem, GFX942, seed=2)
    expected = MEANS.reference(problem, arrays)
    for name, tolerance in MEANS.tolerances(problem, arrays, expected, GFX942).items():
        rounded = expected[name].astype(np.float16).astype(np.float32)
        assert not compare(name, rounded, expected[name], tolerance).ok
        assert compare(name, expected[name].astype(np.float32), expected[name], tolerance).ok


@pytest.mark.parametrize("counted", [False, True])
def test_what_is_decided_stays_within_the_errors(counted: bool) -> None:
    """Scores moved by no more than their errors select the same, but for what was left open; and not all was."""
    random = np.random.default_rng(4)
    left = 0
    for _ in range(300):
        count = int(random.integers(1, 40))
        scores = np.round(random.normal(0, 2, count), 3)
        errors = random.choice([0.0, 0.0002, 0.001], count)
        share = float(random.integers(1, count + 1)) if counted else float(random.choice([0.3, 0.9, 0.98]))
        row = Row(scores, errors, share, counted)
        moved = Row(scores + errors * random.uniform(-1, 1, count), 0 * errors, share, counted)
        open_ = undecided(row, 16)
        assert ((selected(row) == selected(moved)) | open_).all()
        left += int(open_.sum())
    assert 0 < left < 300


@pytest.mark.parametrize(("chip", "kind"), [
    ("gfx942", (False, True, True, True)), *(pytest.param(chip, kind, marks=pytest.mark.full) for chip in CHIPS
                                             for kind in itertools.product((False, True), repeat=4)),
], ids=str)  # fmt: skip
def test_the_longest_rows_keep_no_scalar_registers_in_lanes(chip: str, kind: tuple[bool, bool, bool, bool]) -> None:
    """Of 8192 blocks of keys; by four waves they kept 65 to 73."""
    for align in (1, 4):
        kernel = compile_kernel(PREDICT, PredictSpec(*kind, LENGTHS[-1], align), get_target(chip))
        found = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize(("operator", "keys", "words"), [
    (PREDICT, {"h": 3, "hk": 2}, "hk=2: h=3 is not a multiple of it"),
    (PREDICT, {"topk": 0}, "topk=0.0: expected a share above 0 and at most 1"),
    (PREDICT, {"topk": 1.5}, "topk=1.5: expected a share, from 0 to 1"),
    (PREDICT, {"cdfthreshd": 2}, "cdfthreshd=2: expected a share, from 0 to 1"),
    (PREDICT, {"simthreshd1": 1.01}, "simthreshd1=1.01: expected a share, from 0 to 1"),
    (PREDICT, {"scale": 0}, "scale=0.0: expected a number above 0"),
    (PREDICT, {"sk": 32 * 8192 + 1, "block_k": 32}, "8193 blocks of keys; expected at most 8192"),
    (PREDICT, {"block_q": 48}, "predict_blocks: block_q=48: expected a power of two from 32 to 4096"),
    (PREDICT, {"q_strides": (2**18, 2**17, 100)}, "predict_blocks: q_strides=262144x131072x100: 100 elements of f16"),
    (PREDICT, {"d": 12}, "predict_blocks: d=12: expected a multiple of 8 from 8 to 256"),
    (PREDICT, {"sk": 2**25}, "array k of shape"),
    (MEANS, {"block": 8192}, "block=8192: expected a power of two from 32 to 4096"),
    (MEANS, {"d": 264}, "d=264: expected a multiple of 8 from 8 to 256"),
    (MEANS, {"dtype": "f32", "d": 6}, "d=6: expected a multiple of 4 from 4 to 256"),
    (MEANS, {"h": 70000}, "h=70000: a launch takes at most 65535 heads"),
])  # fmt: skip
def test_what_is_refused(operator: Any, keys: Keys, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        operator.problem(**keys)
    assert words in str(refused.value) and "\n" not in str(refused.value)
