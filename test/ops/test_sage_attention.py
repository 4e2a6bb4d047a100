"""Attention with Q and K in 8 bits by blocks: numbers under all checkers on three chips, the reference against plain
loops, what taking away K's mean is for, and what is refused.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from operator_runner import named, outcome
from published_shapes import SMOKE

from ckmlir.ops import find_operator
from ckmlir.ops.attention.sage_quantization import quantised
from ckmlir.ops.operator import require_valid
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import ATTENTION
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.targets import get_target

SAGE = find_operator("sage_attention")
GFX942 = get_target("gfx942")
Keys = dict[str, Any]

BATCH: Keys = {"b": 2, "h": 2, "hk": 1, "sq": 70, "sk": 135, "d": 32, "lse": 1}
GROUP: Keys = {"mode": "group", "seqlens_q": (70, 0, 130), "seqlens_k": (100, 50, 0), "d": 64, "lse": 1}
SLOTS: Keys = {**GROUP, "slots_q": (80, 10, 130), "slots_k": (104, 70, 5), "layout": "bshd"}
CASES: list[tuple[str, Keys]] = [
    ("gfx942", BATCH),
    ("gfx950", {**BATCH, "scales": "warp", "mask": "top_left"}),
    ("gfx90a", {**BATCH, "v_dtype": "f16", "mask": "bottom_right"}),
    ("gfx942", {**BATCH, "scales": "thread", "v_dtype": "bf16", "v_layout": "columns", "sk": 136}),
    ("gfx950", {**GROUP, "scales": "thread"}),
    ("gfx942", {**SLOTS, "scales": "warp", "dtype": "fp8"}),
    ("gfx950", {**BATCH, "dtype": "fp8", "v_dtype": "f16", "out": "bf16", "dv": 24}),
    ("gfx950", {**BATCH, "scales": "tensor", "q_scale": 0.01, "k_scale": 0.02, "v_scale": 2}),
    ("gfx90a", {"sq": 1, "sk": 0, "d": 16, "v_dtype": "bf16", "lse": 1}),
]
WIDE = [
    (chip, {**shape, "dtype": dtype, "v_dtype": v_dtype, "scales": scales, "d": d, "mask": mask})
    for chip in ("gfx90a", "gfx942", "gfx950")
    for shape in (BATCH, SLOTS)
    for dtype in ("i8", "fp8")
    for v_dtype in ("fp8", "f16", "bf16")
    for scales in ("block", "warp", "thread")
    for d, mask in ((64, "none"), (128, "window:60,3"), (256, "bottom_right"))
    if chip != "gfx90a" or "fp8" not in (dtype, v_dtype)
] + [  # CK Tile's smoke list
    ("gfx942", {"scales": scales, "dtype": dtype, "layout": layout, "d": 128, **shape})
    for scales in ("block", "warp")
    for dtype in ("i8", "fp8")
    for layout in ("bhsd", "bshd")
    for shape in SMOKE
]  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("chip", "keys"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)], ids=named
)
def test_numbers(chip: str, keys: Keys) -> None:
    outcome(SAGE, chip, keys)


@pytest.mark.parametrize("name", ["q_scales", "k_scales", "v_scales"])
def test_a_scale_of_a_neighbour_does_not_pass(name: str) -> None:
    problem = SAGE.problem(**BATCH, scales="warp")
    arrays = SAGE.inputs(problem, GFX942, seed=7)
    right = SAGE.reference(problem, arrays)
    for axis in (0, 2):
        moved = {**arrays, name: np.roll(arrays[name], 1, axis)}
        assert not all(one.ok for one in check_outputs(SAGE, problem, moved, right, GFX942)), axis


def test_the_largest_products() -> None:
    """All of 127: sums of 256 channels are exact."""
    keys = {**BATCH, "d": 256, "dv": 16, "v_dtype": "f16", "scale": 1.0}
    ones = {name: np.full((2, heads, rows, 256), 127, np.int8) for name, heads, rows in (("q", 2, 70), ("k", 1, 135))}
    ones["k"][..., 0] = -128
    scales = {"q_scales": np.full((2, 2, 1), 2.0**-22, np.float32), "k_scales": np.full((2, 1, 2), 1.0, np.float32)}
    problem, _, outputs = outcome(SAGE, "gfx90a", keys, {**ones, **scales})
    assert problem.score_scale == 1
    np.testing.assert_allclose(outputs["lse"], (127**2 * 255 - 127 * 128) / 2**22 + math.log(135), rtol=1e-6)


@pytest.mark.parametrize("keys", [
    {"b": 2, "sq": 5, "sk": 35, "scales": "thread"},
    {"mode": "group", "seqlens_q": (4, 0, 7), "seqlens_k": (5, 3, 20), "scales": "thread"},
])  # fmt: skip
def test_the_reference_is_what_the_scales_say(keys: Keys) -> None:
    """By loops over queries and keys."""
    problem = SAGE.problem(**keys, h=4, hk=2, d=16, lse=1)
    arrays = SAGE.inputs(problem, GFX942, seed=1)
    outputs, grouped = SAGE.reference(problem, arrays), "mode" in keys

    def scale(name: str, number: int, head: int, block: int) -> float:
        scales = arrays[f"{name}_scales"]
        return float(scales[head, arrays[f"scale_start_{name}"][number] + block] if grouped else
                     scales[number, head, block])  # fmt: skip

    for number in range(problem.b):
        batch = 0 if grouped else number
        (first, queries), (start, count) = problem.queries.of(arrays, number), problem.keys.of(arrays, number)
        for head in range(4):
            for i in range(queries):
                total, sums = 0.0, np.zeros(16)
                query = arrays["q"][batch, head, first + i].astype(np.float64)
                for j in range(count):
                    key, value = (arrays[one][batch, head // 2, start + j].astype(np.float64) for one in "kv")
                    factor = scale("q", number, head, i // 4) * scale("k", number, head // 2, j // 16)
                    weight = math.exp(factor * float(query @ key) / 4)
                    total += weight
                    sums += weight * value * arrays["v_scales"][number, head // 2]
                np.testing.assert_allclose(outputs["o"][batch, head, first + i], sums / total, rtol=1e-9, atol=1e-12)


def test_without_its_mean_k_is_worth_more() -> None:
    """Keys with a large common part: the blocks' scales follow what differs, O is that of f64 within 2 %."""
    problem = SAGE.problem(b=1, h=2, sq=64, sk=256, d=32, scales="warp")
    generator = np.random.default_rng(3)
    q, k, v = (generator.standard_normal((1, 2, rows, 32)) for rows in (64, 256, 256))
    k = k + 30 * generator.standard_normal((1, 2, 1, 32))
    scores = q @ k.swapaxes(2, 3) / math.sqrt(32)
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    exact = weights @ v / weights.sum(axis=3, keepdims=True)
    errors = []
    for smooth in (True, False):
        arrays = quantised(problem, q, k, v, GFX942, smooth=smooth)
        assert {name: one.shape for name, one in arrays.items()} == {
            one.name: one.shape for one in SAGE.arrays(problem) if one.role == "in"
        }
        errors.append(float(np.abs(SAGE.reference(problem, arrays)["o"] - exact).mean() / np.abs(exact).mean()))
    assert errors[0] < 0.04 < 5 * errors[0] < errors[1]
    outputs = run_operator(SAGE, problem, arrays, GFX942, SimulatorDevice(GFX942)).outputs
    assert all(one.ok for one in check_outputs(SAGE, problem, arrays, outputs, GFX942))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys", "schedule"), [
    ("gfx942", {"scales": "warp"}, "qr"), ("gfx90a", {"scales": "thread", "v_dtype": "f16"}, "qr"),
    ("gfx950", {"scales": "block", "v_dtype": "f16"}, "qr_woven_async"),  # scales are listed behind what uses them
    *(pytest.param(chip, {"scales": scales, "v_dtype": "f16"}, schedule, marks=pytest.mark.full)
      for chip in ("gfx90a", "gfx942", "gfx950") for scales in ("block", "warp", "thread")
      for schedule in ATTENTION),
], ids=named)  # fmt: skip
def test_schedules_are_proved(chip: str, keys: Keys, schedule: str) -> None:
    """For every number of steps."""
    target = get_target(chip)
    spec = SAGE.spec(SAGE.problem(**BATCH, **keys, schedule=schedule), target)
    if SAGE.validate(spec, target):
        pytest.skip("this chip does not take the schedule")
    bench = Workbench.of(SAGE, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()


@pytest.mark.parametrize(("chip", "keys", "words"), [
    ("gfx942", {"q_scale": 2}, "q_scale=2.0: only scales=tensor has it"),
    ("gfx942", {"d": 40}, "d=40: heads of i8 have a multiple of 16 from 16 to 256 channels"),
    ("gfx942", {"d": 32, "dv": 40}, "dv=40: heads of fp8 have"),
    ("gfx90a", {}, "v_dtype=fp8: gfx90a has no 8-bit floating point"),
])  # fmt: skip
def test_refused(chip: str, keys: Keys, words: str) -> None:
    target = get_target(chip)
    with pytest.raises(RequestError, match=re.escape(words)):
        require_valid(SAGE, SAGE.spec(SAGE.problem(**keys), target), target)
