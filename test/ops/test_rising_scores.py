"""Attention whose scores rise from block to block of keys: woven kernels rescale what they have when weights would pass
256 (`schedule_choice.SLACK`), and not before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_runner import outcome

from ckmlir.ops import find_operator
from ckmlir.ops.attention.schedule_choice import SLACK
from ckmlir.targets import get_target

FMHA = find_operator("fmha_fwd")
BATCH: dict[str, Any] = {"h": 1, "sq": 70, "sk": 400, "d": 64, "lse": 1}
LEVELS = {
    "slowly": [0, 3, 6, 9, 12, 15, 18],  # within the slack of the first, then of the fourth
    "at once": [0, 7.9, 8.1, 40, 41, 90, 89],
    "falling": [60, 30, 0, -30, -60, -90, -120],
    "back and forth": [0, 30, -30, 35, 0, 50, 10],
}
"""About what scores in each block of 64 keys are, as exponents to the base 2."""
CASES = [("gfx942", {"schedule": "qr_woven", "dtype": "f16", "mask": "top_left", "sq": 270}, "at once")]
MORE = [
    (chip, {"schedule": schedule, "dtype": dtype, "d": d, "sq": 270, **more}, levels)
    for chip, schedule, heads in (("gfx950", "qr_woven_async", (64, 128)), ("gfx942", "qr_woven", (64,)),
                                  ("gfx90a", "qr_woven", (64,)))
    for d in heads
    for dtype in ("f16", "bf16")
    for more in ({}, {"mask": "bottom_right"}, {"mask": "window:100,20", "sink": 1}, {"soft_cap": 40})
    for levels in LEVELS
]  # fmt: skip


@pytest.mark.parametrize(
    ("chip", "keys", "levels"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in MORE)], ids=str
)
def test_numbers(chip: str, keys: dict[str, Any], levels: str) -> None:
    """Queries meet the levels with three factors, so that rows of a wave rise in different blocks."""
    request, target = {**BATCH, **keys}, get_target(chip)
    problem = FMHA.problem(**request)
    assert FMHA.spec(problem, target).slack == SLACK
    arrays = FMHA.inputs(problem, target, seed=4)
    q, k = (arrays[name].astype(np.float32) for name in "qk")
    q[..., 0] = np.random.default_rng(4).choice([1.0, 1.1, -0.5], q.shape[:-1])
    k[..., 0] = np.repeat(LEVELS[levels], 64)[: k.shape[2]] * np.log(2) * np.sqrt(request["d"])
    given = {"q": q.astype(arrays["q"].dtype), "k": k.astype(arrays["k"].dtype)}
    outcome(FMHA, chip, request, given, specified=True)
