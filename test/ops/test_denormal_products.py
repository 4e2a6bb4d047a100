"""Denormals of f16 and bf16 count as zero in matrix instructions of gfx90a; beside large numbers that is more than
rounding, and tolerances of attention have room for it there, and only there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS

from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array
from ckmlir.ops.precision import products_lost
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

SMALL = {"sq": 5, "sk": 7, "d": 64}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("fmha_fwd", {**SMALL, "lse": 1}),
        ("sparse_attention", {**SMALL, "lse": 1}),
        ("hstu_attention", {"sq": 7, "d": 64}),
        ("fmha_bwd", SMALL),
        ("hstu_bwd", {"sq": 7, "d": 64}),
    ],
)
def test_large_keys_meet_denormal_queries(name: str, keys: dict[str, Any], chip: str) -> None:
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**keys)
    arrays = dict(operator.inputs(problem, target, seed=1))
    arrays["q"] = np.full_like(arrays["q"], 2.0**-20)
    arrays["k"] = arrays["k"] * arrays["k"].dtype.type(2000)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target))
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    if name == "fmha_fwd":
        error = tolerance(operator, problem, arrays, target)
        assert (error > 0.01) == (chip == "gfx90a")


@pytest.mark.parametrize(("name", "keys", "unit"), [
    ("fmha_bwd", {"sq": 1, "sk": 64}, 2.0**-149), ("hstu_bwd", {"sq": 8}, 2.0**-146),
])  # fmt: skip
def test_sums_that_are_denormals(name: str, keys: dict[str, Any], unit: float) -> None:
    """Of f32's gradients, with small weights; what dropout keeps is multiplied only when the sums have been rounded."""
    operator, target = find_operator(name), get_target("gfx942")
    problem = operator.problem(h=8, d=32, dtype="f32", dropout=0.75, **keys)
    arrays = dict(operator.inputs(problem, target, seed=1))
    arrays["q"] = arrays["q"] * np.float32(1e-3)
    counted = np.arange(arrays["do"].size) % 256 + 1
    arrays["do"] = (counted * unit).astype(np.float32).reshape(arrays["do"].shape)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target))
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))


def tolerance(operator: Any, problem: Any, arrays: dict[str, Array], target: Any) -> float:
    """The largest absolute error of LSE."""
    reference = operator.expected(problem, arrays, target)
    found: float = operator.tolerances(problem, arrays, reference, target)["lse"].largest_atol
    return found


def test_products_that_are_lost() -> None:
    """Those of small factors, as lengths say it; nothing where there are none."""
    left, right = np.array([[3.0, 1e-3], [4.0, 0.0]]), np.array([[6.0, 8.0], [np.nan, 1.0], [np.inf, 2e-3]])
    np.testing.assert_allclose(products_lost(left, right, 0.01)[:, 0], [1e-2, 0])
    np.testing.assert_allclose(products_lost(left, right, 0.01)[1], [0, 0, 8e-3])
    assert not products_lost(left, right, 0.0).any()
