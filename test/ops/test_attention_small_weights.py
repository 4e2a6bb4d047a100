"""Weights of attention forward below f32's normal numbers, which exponentials do not have: they count as zero, though V
may make numbers of them that O holds. O may lack what these weights add to it, and no more."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS

from ckmlir.ops import find_operator
from ckmlir.ops.request import LEAST_NORMAL_F32
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.targets import get_target

CHANNELS, FIRST = 32, -88.0
"""Scores of all keys but one, from the first to 8 below: weights of 2^-127 to 2^-139 of the largest."""
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("fmha_fwd", {"sk": 70}),
    ("fmha_fwd", {"sk": 70, "sq": 130, "mask": "bottom_right"}),
    ("fmha_fwd_splitkv", {"sk": 300, "splits": 3}),
    ("fmha_fwd_pagedkv", {"sk": 70, "page_size": 16}),
)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "dtype", "name", "keys"), [
    ("gfx942", "bf16", *REQUESTS[0]), ("gfx942", "f32", *REQUESTS[2]),
    *(pytest.param(chip, dtype, *one, marks=pytest.mark.full)
      for chip, dtype, one in itertools.product(CHIPS, ("bf16", "f32"), REQUESTS)),
])  # fmt: skip
def test_weights_that_are_denormal(chip: str, dtype: str, name: str, keys: dict[str, Any]) -> None:
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**{"b": 1, "h": 1, "sq": 3, "d": CHANNELS, "dtype": dtype, "lse": 1, **keys})
    arrays = dict(operator.inputs(problem, target, seed=7))
    rows = arrays["k"].shape[:-1]
    far = np.linspace(FIRST, FIRST - 8, math.prod(rows)).reshape(rows)
    far.flat[0] = 0.0
    arrays["q"][:], arrays["k"][:] = 0.0, 0.0
    arrays["q"][..., 0], arrays["k"][..., 0] = 1.0, far * math.sqrt(CHANNELS)
    largest = 2.0**110  # of which f32 holds sums
    arrays["v"][:] = np.where(far[..., None] < 0, largest, 0.0)
    exact = np.abs(operator.reference(problem, arrays)["o"].astype(np.float64))
    outputs = run_operator(operator, problem, arrays, target, open_device("sim", target)).outputs
    seen = (exact[..., 0] > 0.0) & (outputs["o"][..., 0] == 0)
    assert seen.any() and exact.max() > 2.0**-18
    assert all(one.ok for one in check_outputs(operator, problem, arrays, outputs, target))
    outputs["o"][seen, 0] = 4 * problem.sk * LEAST_NORMAL_F32 * largest
    assert not all(one.ok for one in check_outputs(operator, problem, arrays, outputs, target))
