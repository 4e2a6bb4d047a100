"""Attention with the keys of a block shared by workgroups: numbers under all checkers, the rule for how many share,
and what is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, named, outcome

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.attention.fmha_fwd_splitkv import splits_of
from ckmlir.ops.plan import make_plan
from ckmlir.ops.request import RequestError
from ckmlir.scheduling import Workbench
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import get_target

SPLIT, COMBINE, WHOLE = (find_operator(name) for name in (
    "fmha_fwd_splitkv", "fmha_fwd_splitkv_combine", "fmha_fwd"))  # fmt: skip
GFX942 = get_target("gfx942")
Keys = dict[str, Any]

FEW: Keys = {"h": 2, "hk": 1, "sq": 3, "sk": 300, "d": 32, "lse": 1, "splits": 3}
GROUP: Keys = {"mode": "group", "seqlens_q": (3, 0, 130), "seqlens_k": (300, 50, 20), "slots_q": (5, 2, 130),
               "d": 32, "lse": 1, "splits": 2}  # fmt: skip
CASES: list[tuple[str, Keys]] = [
    ("gfx942", {**FEW, "sk": 333, "d": 64, "layout": "bshd"}),
    ("gfx950", {**FEW, "splits": 128, "sk": 130, "dtype": "bf16"}),
    ("gfx90a", {**FEW, "sq": 150, "sk": 70, "mask": "bottom_right", "splits": 2}),
    ("gfx942", {**FEW, "mask": "window_bottom_right:70,3,9", "sink": 1, "dtype": "fp8"}),
    ("gfx950", {**GROUP, "sink": 1, "mask": "bottom_right"}),
    ("gfx90a", {"seqlens_q": (2, 0, 9), "seqlens_k": (0, 50, 200), "alibi": "head", "d": 32, "splits": 4, "lse": 1}),
    ("gfx942", {**FEW, "bias": "head", "soft_cap": None, "dtype": "f32", "v_layout": "columns", "layout": "bshd"}),
    ("gfx950", {**FEW, "soft_cap": 5, "o_strides": (4096, 512, 64), "splits": 2}),
]
WIDE = [
    (chip, {**shape, **part, "dtype": dtype, "d": d, "splits": splits})
    for chip in CHIPS
    for shape in (FEW, GROUP)
    for part in ({}, {"sink": 1, "mask": "window:30,0,4"}, {"alibi": "head", "mask": "bottom_right"})
    for dtype in ("f16", "bf16", "f32", "fp8")
    for d in (64, 128, 256)
    for splits in (1, 2, 3)
    if dtype != "fp8" or chip != "gfx90a"
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("chip", "keys"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)], ids=named
)
def test_numbers(chip: str, keys: Keys) -> None:
    outcome(SPLIT, chip, keys)


def test_one_split_is_the_whole() -> None:
    """No second kernel, and the code of `fmha_fwd`."""
    keys = {**FEW, "splits": 1}
    problem, whole = SPLIT.problem(**keys), WHOLE.problem(**{key: keys[key] for key in keys if key != "splits"})
    (step,) = make_plan(SPLIT, problem, GFX942).steps
    assert step.spec == WHOLE.spec(whole, GFX942)  # type: ignore[union-attr]


@pytest.mark.full
def test_splits_agree_with_each_other() -> None:
    """A kernel of parts serves any number of them, one included, and no workgroup has all keys."""
    alike = {key: FEW[key] for key in ("h", "hk", "sq", "sk", "d", "lse")}
    first, second = (outcome(SPLIT, "gfx942", {**alike, "splits": splits}).outputs for splits in (2, 5))
    np.testing.assert_allclose(first["lse"], second["lse"], rtol=1e-5)
    spec = SPLIT.spec(SPLIT.problem(**FEW), GFX942)
    for splits in (0, 1, 2, 128):
        assert SPLIT.mismatches(SPLIT.problem(**{**FEW, "splits": splits}), spec, GFX942) == []
    whole = SPLIT.spec(SPLIT.problem(**{**FEW, "splits": 1}), GFX942)
    assert {one.field for one in SPLIT.mismatches(SPLIT.problem(**FEW), whole, GFX942)} == {"split", "out"}


@pytest.mark.parametrize(("keys", "expected"), [
    ({"b": 1, "h": 1, "sq": 1, "sk": 64}, 1),  # one block of keys
    ({"b": 32, "h": 32, "hk": 8, "sq": 1, "sk": 8192}, 1),  # more workgroups than compute units
    ({"b": 1, "h": 1, "sq": 1, "sk": 8192}, 128),  # 128 blocks for 304 compute units
    ({"b": 4, "h": 19, "sq": 1, "sk": 65536}, 4),  # 76 workgroups: four fill 304 compute units
    ({"b": 4, "h": 25, "sq": 1, "sk": 65536}, 3),  # 300 of 304 are as good as any
    ({"b": 4, "h": 32, "hk": 8, "sq": 1, "sk": 8192}, 9),  # 32 workgroups, of four heads each
    ({"b": 4, "h": 32, "hk": 8, "sq": 1, "sk": 8192, "alibi": "head"}, 7),  # which takes heads one by one
    ({"b": 1, "h": 1, "sq": 1, "sk": 8192, "mask": "window_bottom_right:99,0,9"}, 3),  # 109 keys, in three blocks
])  # fmt: skip
def test_the_rule(keys: Keys, expected: int) -> None:
    """For the 304 compute units of gfx942."""
    problem = SPLIT.problem(**keys, d=128)
    assert GFX942.compute_units == 304
    assert splits_of(problem, SPLIT.spec(problem, GFX942), GFX942) == expected
    assert SPLIT.spec(problem, GFX942).split == (expected > 1)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx90a", {"mask": "window_bottom_right:9,3,4"}), ("gfx942", {"mask": "bottom_right"}), ("gfx950", GROUP),
])  # fmt: skip
def test_schedules_are_proved(chip: str, keys: Keys) -> None:
    """For every number of splits."""
    target = get_target(chip)
    for operator, problem in ((SPLIT, SPLIT.problem(**{**FEW, **keys} if keys != GROUP else GROUP)),
                              (COMBINE, COMBINE.problem())):  # fmt: skip
        bench = Workbench.of(operator, operator.spec(problem, target), target)
        assert bench.compile(bench.schedule, code=False).findings == ()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"splits": 5, "sq": 9, "dv": 200, "b": 2, "layout": "bshd", "lse": 1}),
    ("gfx950", {"mode": "group", "seqlens_q": (3, 0, 20), "slots_q": (5, 2, 20), "dv": 32, "out": "bf16", "lse": 1}),
    ("gfx90a", {"splits": 1, "sq": 1, "dv": 256, "out": "f32"}),
    ("gfx942", {"seqlens_q": (3, 0), "sq": 9, "dv": 96, "splits": 128, "h": 1, "lse": 1}),
])  # fmt: skip
def test_combining(chip: str, keys: Keys) -> None:
    outcome(COMBINE, chip, keys)


def test_a_step_of_combining_leaves_the_scalar_unit_time() -> None:
    """Addresses of 64 bits for three parts, of which O's and LSE's share a product; the waves of a compute unit share
    one scalar unit."""
    target = get_target("gfx942")
    spec = COMBINE.spec(COMBINE.problem(splits=8, h=32, b=64, sq=1, dv=128), target)
    kernel = compile_kernel(COMBINE, spec, target)
    assert steady_loop(kernel.code_object, kernel.kernel_name).mix["salu"] <= 38


def test_combining_what_is_no_number() -> None:
    """Empty parts count for nothing whatever O they have; NaN and infinity of LSE make a row NaN, and only that row."""
    keys = {"splits": 3, "b": 1, "h": 1, "sq": 9, "dv": 32, "lse": 1}
    lse = np.zeros((3, 1, 1, 9), np.float32)
    lse[:, 0, 0, 0] = -np.inf
    lse[1, 0, 0, 1:3] = np.nan, np.inf
    lse[0, 0, 0, 3], lse[2, 0, 0, 4] = -np.inf, -3e38
    found = outcome(COMBINE, "gfx942", keys, {"lse_parts": lse}).outputs
    assert found["lse"][0, 0, 0] == -np.inf and not found["o"][0, 0, 0].any()
    assert np.isnan(found["lse"][0, 0, 1:3]).all() and np.isnan(found["o"][0, 0, 1:3]).all()
    assert np.isfinite(found["lse"][0, 0, 3:]).all()


def test_references_agree() -> None:
    """Combining parts of the keys, each by the reference of `fmha_fwd`, is the reference over all keys."""
    problem = WHOLE.problem(h=2, hk=1, sq=5, sk=90, d=32, lse=1)
    arrays = WHOLE.inputs(problem, GFX942, seed=1)
    parts = []
    for low, high in ((0, 40), (40, 41), (41, 90)):
        part = WHOLE.problem(h=2, hk=1, sq=5, sk=high - low, d=32, lse=1)
        keys = {name: arrays[name][:, :, low:high] for name in "kv"}
        parts.append(WHOLE.reference(part, {**arrays, **keys}))
    combined = COMBINE.problem(splits=3, h=2, sq=5, dv=32, lse=1, out="f32")
    given = {"o_parts": np.stack([one["o"] for one in parts]), "lse_parts": np.stack([one["lse"] for one in parts])}
    found, whole = COMBINE.reference(combined, given), WHOLE.reference(problem, arrays)
    np.testing.assert_allclose(found["o"], whole["o"], rtol=1e-12)
    np.testing.assert_allclose(found["lse"], whole["lse"], rtol=1e-12)


@pytest.mark.parametrize(("operator", "keys", "words"), [
    (SPLIT, {"splits": 129}, "splits=129: expected a whole number from 0 to 128"),
    (SPLIT, {"dropout": 0.1}, "dropout=0.1: unknown key"),
    (SPLIT, {"h": 3, "hk": 2}, "hk=2: h=3 is not a multiple of it"),
    (COMBINE, {"splits": 0}, "splits=0: expected a whole number from 1 to 128"),
    (COMBINE, {"dv": 12}, "dv=12: expected a multiple of 8 from 8 to 256"),
    (COMBINE, {"mode": "group"}, "mode=group: it needs seqlens_q, the"),
    (COMBINE, {"sq": 5, "seqlens_q": (6,)}, "seqlens_q=6: a sequence of 6; expected at most sq=5"),
])  # fmt: skip
def test_what_is_refused(operator: Any, keys: Keys, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        operator.problem(**keys)
    assert words in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("splits", [1, 2])
def test_denormals_of_v_count_as_zero(splits: int) -> None:
    """On gfx90a, whose matrix instructions take them so: O of V that is nothing else is 0, and the bound knows."""
    keys = {"sq": 3, "sk": 130, "d": 64, "splits": splits}
    v = np.full((1, 2, 130, 64), 2.0**-20, np.float16)
    outcome(SPLIT, "gfx90a", keys, {"v": v})
