"""What is promised of attention's O where V has elements that are not finite: NaN where it must be, numbers in channels
without them, and nothing where that depends on zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckmlir.ops import find_operator
from ckmlir.ops.special_values import special_inputs
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.targets import get_target

FMHA = find_operator("fmha_fwd")
GFX942 = get_target("gfx942")


def promised(problem: Any, arrays: dict[str, Any]) -> tuple[Any, Any]:
    """Of which elements of O something is, and what."""
    expected = FMHA.expected(problem, arrays, GFX942)
    tolerance = FMHA.tolerances(problem, arrays, expected, GFX942)["o"]
    return ~np.broadcast_to(tolerance.unspecified, problem.shape("o")), expected["o"]


def test_channels_and_keys() -> None:
    problem = FMHA.problem(b=1, h=1, sq=4, sk=4, d=32, mask="top_left", layout="bhsd")
    arrays = dict(FMHA.inputs(problem, GFX942, seed=3))
    v = arrays["v"]
    v[0, 0, 0, 0], v[0, 0, 2, 1], v[0, 0, 0, 2], v[0, 0, 3, 3] = np.nan, np.nan, np.inf, -np.inf
    arrays["k"][:] = 0  # so that all weights of a query are the same
    is_promised, expected = promised(problem, arrays)
    assert is_promised[0, 0, :, 4:].all() and np.isfinite(expected[0, 0, :, 4:]).all()
    assert is_promised[0, 0, :, 0].all() and np.isnan(expected[0, 0, :, 0]).all()
    # Key 2 is cut off for queries 0 and 1, which multiply it by zero, or not at all.
    assert is_promised[0, 0, :, 1].tolist() == [False, False, True, True]
    # Every query has key 0, queries 2 and 3 with a weight of a third and a quarter.
    assert is_promised[0, 0, :2, 2].all() and (expected[0, 0, :2, 2] == np.inf).all()
    assert not is_promised[0, 0, :3, 3].any()


def test_a_query_whose_scores_are_nan_has_no_number() -> None:
    problem = FMHA.problem(b=1, h=1, sq=3, sk=40, d=32, layout="bhsd")
    arrays = dict(FMHA.inputs(problem, GFX942, seed=3))
    arrays["q"][0, 0, 1, 0], arrays["v"][0, 0, 7, 5] = np.nan, np.inf
    is_promised, expected = promised(problem, arrays)
    assert is_promised[0, 0, 1].all() and np.isnan(expected[0, 0, 1]).all()
    assert is_promised[0, 0, ::2, :5].all() and np.isfinite(expected[0, 0, ::2, :5]).all()


def test_of_channels_whose_sums_overflow_nothing_is() -> None:
    """Weights are divided by their sum at the end: before, two elements count in full."""
    problem = FMHA.problem(b=1, h=1, sq=4, sk=4, d=32, dtype="bf16", layout="bhsd")
    arrays = dict(FMHA.inputs(problem, GFX942, seed=3))
    arrays["k"][:] = 0  # so that all weights of a query are the same
    arrays["v"][0, 0, 1:3, 5] = -3e38
    is_promised, expected = promised(problem, arrays)
    assert np.isfinite(expected).all()
    assert is_promised.any(axis=(0, 1, 2)).tolist() == [channel != 5 for channel in range(32)]
    assert is_promised[0, 0, :, :5].all()


def test_of_slopes_near_the_end_of_f32_nothing_is() -> None:
    """Key 0 has the slope times zero, but of a slope that f32 does not hold in units of products that is NaN."""
    problem = FMHA.problem(b=1, h=1, sq=4, sk=4, d=128, mask="top_left", alibi="head", layout="bhsd")
    arrays = dict(FMHA.inputs(problem, GFX942, seed=3))
    for slope, left in ((-3e38, False), (-1e30, True)):
        arrays["slopes"][:] = slope
        is_promised, expected = promised(problem, arrays)
        assert np.isfinite(expected).all() and is_promised.all() == is_promised.any() == left


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("kind", "keys", "least"), [
    ("huge", {"sk": 70}, 1.0), ("special", {"sk": 9, "dtype": "bf16", "mask": "bottom_right"}, 0.2),
])  # fmt: skip
def test_what_a_run_compares(kind: str, keys: dict[str, Any], least: float) -> None:
    problem = FMHA.problem(**{"b": 2, "h": 2, "sq": 65, "d": 32, "lse": 1, **keys})
    arrays = special_inputs(kind, FMHA, problem, GFX942, 5)
    outputs = run_operator(FMHA, problem, arrays, GFX942, open_device("sim", GFX942)).outputs
    o, _ = check_outputs(FMHA, problem, arrays, outputs, GFX942)
    assert o.ok and o.elements - o.unspecified >= least * o.elements
    numbers = np.nan_to_num(outputs["o"].astype(np.float32)).astype(outputs["o"].dtype)
    assert not check_outputs(FMHA, problem, arrays, {**outputs, "o": numbers}, GFX942)[0].ok
