"""Weights taken from one exponent for all queries, which scores under a soft cap allow: numbers at both ends of the
cap, and which requests keep the largest score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, named

from ckmlir.ops import find_operator
from ckmlir.ops.attention.level import REACH, is_level, taken_from
from ckmlir.ops.attention.part import WeightPart
from ckmlir.ops.attention.parts import PAGED_PARTS, PARTS
from ckmlir.ops.attention.parts.skip import Skip
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target

Keys = dict[str, Any]
MOST: dict[str, float] = {"f16": 9, "bf16": 55, "f32": 55}
"""The largest whole cap by type."""
ROWS: Keys = {"h": 1, "sq": 70, "sk": 200, "d": 64, "layout": "bhsd", "lse": 1}
CASES: list[tuple[str, str, Keys]] = [
    ("gfx942", "fmha_fwd", {**ROWS, "dtype": "bf16"}),
    ("gfx950", "fmha_fwd", {**ROWS, "dtype": "f16", "mask": "window:9,3"}),
    ("gfx90a", "fmha_fwd", {**ROWS, "dtype": "f16", "mask": "top_left"}),
    ("gfx942", "fmha_fwd", {**ROWS, "dtype": "f32", "dropout": 0.3, "randval": 1}),
    ("gfx950", "fmha_fwd", {**ROWS, "dtype": "bf16", "sq": 300, "schedule": "qr_woven_async", "d": 128}),
    ("gfx942", "fmha_fwd", {**ROWS, "dtype": "bf16", "sq": 300, "schedule": "qr_woven", "mask": "bottom_right"}),
    ("gfx950", "fmha_fwd_splitkv", {**ROWS, "dtype": "bf16", "sq": 3, "sk": 130, "splits": 4}),  # the last has no keys
    *(("gfx942", "fmha_fwd", {**ROWS, "dtype": dtype, "sink": logit, "mask": "top_left", "sq": 20, "sk": 70})
      for dtype in ("f16", "bf16") for logit in (-300, -95, -5, 5, 300)),
    ("gfx90a", "fmha_fwd", {**ROWS, "dtype": "f32", "sink": -95, "sq": 5, "seqlens_k": (0,)}),
    ("gfx950", "fmha_fwd", {**ROWS, "dtype": "bf16", "sink": 100, "sq": 300, "schedule": "qr_woven_async", "d": 128}),
    ("gfx950", "fmha_fwd_splitkv", {**ROWS, "dtype": "bf16", "sq": 3, "sk": 130, "splits": 4, "sink": 60}),
]
WIDE = [
    (chip, name, {**ROWS, **more, "dtype": dtype})
    for chip in CHIPS
    for dtype in MOST
    for name, more in (
        ("fmha_fwd", {"mask": "window_bottom_right:9,3,2"}), ("fmha_fwd", {"v_layout": "columns"}),
        ("fmha_fwd_splitkv", {"splits": 3, "sq": 9, "mask": "bottom_right"}), ("fmha_fwd_pagedkv", {"page_size": 16}),
        ("fmha_fwd", {"h": 4, "hk": 2, "sq": 5, "seqlens_k": (0,)}),
    )
]  # fmt: skip


@pytest.mark.one_in(24)
@pytest.mark.parametrize(
    ("chip", "name", "keys"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)], ids=named
)
def test_scores_at_both_ends_of_the_cap(chip: str, name: str, keys: Keys) -> None:
    """Queries whose scores are all at one end of the largest cap, or at both, or not numbers, and ordinary ones."""
    target, operator, logit = get_target(chip), find_operator(name), keys.get("sink")
    problem = operator.problem(**{**keys, "sink": logit is not None}, soft_cap=MOST[keys["dtype"]])
    assert is_level(problem) and "softcap_level" in operator.spec(problem, target).parts
    arrays = dict(operator.inputs(problem, target, seed=3))
    q, k = arrays["q"], arrays["k"]
    if logit is not None:
        arrays["sink"][:] = logit
    k[..., 0], q[..., 0] = 16, 0
    k[..., 1::2, 1] = 16
    k[..., ::2, 1] = -16
    q[..., 1] = 0
    for row, (end, other) in enumerate(((-1000, 0), (1000, 0), (0, 1000), (np.inf, 0), (np.nan, 0))):
        q[:, :, row::9, 0], q[:, :, row::9, 1] = end, other
    device = SimulatorDevice(target, seed=5, checks=parse_checks("all"))
    result = run_operator(operator, problem, arrays, target, device)
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert comparisons and all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    lse = np.asarray(result.outputs["lse"])[0, 0]
    if problem.mask.kind == "none" and problem.sq > 3 and not {"seqlens_k", "sink"} & set(keys):
        cap, count = MOST[keys["dtype"]], np.log(problem.sk)
        np.testing.assert_allclose(lse[:4], [count - cap, count + cap, cap + np.log(problem.sk / 2), count + cap], 1e-4)


def test_what_the_tolerance_promises() -> None:
    """Of values that f32 holds times the sum of the weights; what products may lose counts against that sum."""
    operator, target = find_operator("fmha_fwd"), get_target("gfx942")

    def found(cap: float, end: float, size: float) -> Any:
        problem = operator.problem(**ROWS, dtype="bf16", soft_cap=cap)
        arrays = dict(operator.inputs(problem, target, seed=3))
        arrays["k"][..., 0], arrays["q"][..., 0] = 16, end
        arrays["v"][:] = size
        reference = operator.reference(problem, arrays)
        return operator.tolerances(problem, arrays, reference, target)["o"]

    assert not np.any(found(55, 0, 1e30).unspecified[..., 1:, :]) and np.all(found(55, 1000, 1e15).unspecified)
    assert not np.any(found(55, 1000, 1e11).unspecified) and not np.any(found(56, 1000, 1e15).unspecified)
    low, high = (np.max(found(cap, -1000, 1e-20).atol) for cap in (56, 50))
    assert 1e-22 < low < 1e-21 and 1e-17 < high < 1e-13


@pytest.mark.parametrize(("cap", "more", "word"), [
    (9, {"dtype": "f16"}, "softcap_level"), (9.1, {"dtype": "f16"}, "softcap_lazy"),
    (55, {"dtype": "bf16"}, "softcap_level"), (56, {"dtype": "bf16"}, "softcap_apart"),
    (55, {"dtype": "f32"}, "softcap_level"), (0.5, {"dtype": "fp8"}, "softcap"),
])  # fmt: skip
def test_which_caps(cap: float, more: Keys, word: str) -> None:
    """P holds the weights of all scores, two to the power of ± cap · log2 e, as normal numbers; those of 8 bits not."""
    operator, target = find_operator("fmha_fwd"), get_target("gfx942")
    assert operator.spec(operator.problem(soft_cap=cap, **more), target).parts == (word,)
    assert f"softcap_{taken_from(cap, more['dtype'])}".rstrip("_") == word
    least = {"f16": np.finfo(np.float16).smallest_normal, "bf16": 2.0**-126, "f32": 2.0**-126}
    assert all(2.0**-reach >= least[name] for name, reach in REACH.items())


def test_what_joins_the_sum_from_elsewhere_keeps_the_largest() -> None:
    """Skipped blocks are far below the largest; a part that says nothing keeps it. A logit is known before."""
    kinds = [kind for kind in {*PARTS, *PAGED_PARTS, Skip} if issubclass(kind, WeightPart)]
    assert {kind.name for kind in kinds if not kind.levels} == {"skip"}
    assert is_level(find_operator("fmha_fwd").problem(soft_cap=30, sink=1, dtype="bf16"))
    assert not is_level(find_operator("sparse_attention").problem(soft_cap=30, pv_threshold=8, dtype="bf16"))
