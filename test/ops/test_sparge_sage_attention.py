"""Attention to predicted blocks with Q and K in 8 bits: numbers under all checkers, the same bits as of arrays that
were quantised before, how near it is to attention without quantisation, schedules that are proved, kernels without
spills, and what is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, checked, named, outcome

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.operator import require_valid
from ckmlir.ops.plan import make_plan
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import ATTENTION
from ckmlir.runtime import check_outputs
from ckmlir.scheduling import Workbench
from ckmlir.targets import get_target

BOTH, SPARGE, SAGE, QUANTIZE = (
    find_operator(name) for name in ("sparge_sage_attention", "sparge_attention", "sage_attention", "quantize_heads")
)
GFX942 = get_target("gfx942")
Keys = dict[str, Any]
FEW: Keys = {"h": 2, "hk": 1, "sq": 200, "sk": 700, "d": 32, "block_k": 64}
CASES: list[tuple[str, Keys]] = [
    ("gfx942", {**FEW, "topk": 0.3, "lse": 1, "scales": "warp", "mask": "window:300,100", "sink": 1}),
    ("gfx950", {**FEW, "cdfthreshd": 0.7, "dtype": "bf16", "smooth": 1, "mask": "bottom_right", "layout": "bshd"}),
    ("gfx90a", {**FEW, "topk": 0.3, "dtype": "f32", "scales": "thread", "v_dtype": "bf16", "b": 2, "lse": 1}),
    ("gfx950", {**FEW, "topk": 0.4, "quantised": "fp8", "scales": "warp", "pv_threshold": 10, "alibi": "head"}),
    ("gfx942", {**FEW, "topk": 0.4, "quantised": "fp8", "v_dtype": "f16", "bias": "head", "d": 96, "by_head": 1}),
    ("gfx90a", {**FEW, "topk": 0.4, "v_dtype": "f16", "soft_cap": 20, "q_strides": (50000, 20000, 96), "sk": 97}),
    ("gfx942", {"h": 1, "sq": 1, "sk": 1, "d": 32, "lse": 1}),
    ("gfx942", {"h": 1, "sq": 70, "sk": 0, "d": 32, "lse": 1}),
    ("gfx942", {"h": 1, "sq": 0, "sk": 70, "d": 32, "lse": 1}),
]
WIDE = [
    (chip, {**FEW, "sq": sq, "sk": sk, "quantised": becomes, "v_dtype": v_dtype, "scales": scales, "mask": mask,
            **more})
    for chip in CHIPS for becomes in ("i8", "fp8") for v_dtype in ("fp8", "f16", "bf16")
    for scales in ("block", "warp", "thread") for sq, sk, mask in ((64, 256, "none"), (300, 1001, "bottom_right"))
    for more in ({"topk": 0.3, "lse": 1}, {"cdfthreshd": 0.8, "smooth": 1, "dtype": "bf16", "d": 128})
    if chip != "gfx90a" or "fp8" not in (becomes, v_dtype)
]  # fmt: skip


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("chip", "keys"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)], ids=named
)
def test_numbers(chip: str, keys: Keys) -> None:
    found = checked("sparge_sage_attention", chip, keys)
    if not keys["sk"]:
        assert not found["o"].any() and (found["lse"] == -np.inf).all()


@pytest.mark.parametrize("becomes", ["i8", pytest.param("fp8", marks=pytest.mark.full)])
def test_the_same_bits_as_of_arrays_that_were_quantised_before(becomes: str) -> None:
    """Where all blocks of keys are taken, and a workgroup has as many queries: its matrix instructions are the same."""
    sizes: Keys = {"h": 2, "hk": 1, "sq": 130, "sk": 200, "d": 64, "scales": "warp"}
    whole = outcome(BOTH, "gfx942", {**sizes, "quantised": becomes, "simthreshd1": 1, "block_q": 128})
    stored = {"v": whole.arrays["v"], "v_scales": whole.arrays["v_scales"]}
    for name, heads, rows, block in (("q", 2, 130, 32), ("k", 1, 200, 64)):
        keys = {"h": heads, "s": rows, "d": 64, "block": block, "out": becomes}
        found = outcome(QUANTIZE, "gfx942", keys, {"x": whole.arrays[name]}).outputs
        stored |= {name: found["q"], f"{name}_scales": found["scales"]}
    apart = outcome(SAGE, "gfx942", {**sizes, "dtype": becomes, "schedule": "qr"}, stored)
    np.testing.assert_array_equal(whole.outputs["o"], apart.outputs["o"])


@pytest.mark.parametrize("name", ["q", "k"])
def test_other_elements_do_not_pass(name: str) -> None:
    problem = BOTH.problem(**FEW, topk=0.3, scales="warp", v_dtype="f16")
    arrays = BOTH.inputs(problem, GFX942, seed=7)
    right = BOTH.expected(problem, arrays, GFX942)
    moved = BOTH.expected(problem, {**arrays, name: arrays[name] * np.float16(1.1)}, GFX942)
    assert all(one.ok for one in check_outputs(BOTH, problem, arrays, right, GFX942))
    assert not all(one.ok for one in check_outputs(BOTH, problem, arrays, moved, GFX942))


def test_it_is_near_what_is_not_quantised() -> None:
    """And nearer with keys that come without a large common part."""
    sizes: Keys = {**FEW, "topk": 0.5}
    problems = [BOTH.problem(**sizes, smooth=smooth, v_dtype="f16") for smooth in (0, 1)]
    arrays = BOTH.inputs(problems[0], GFX942, seed=1)
    arrays["k"] = (arrays["k"] + 30 * np.random.default_rng(2).standard_normal((1, 1, 1, 32))).astype(np.float16)
    errors = []
    for smooth, problem in enumerate(problems):
        exact = SPARGE.reference(SPARGE.problem(**sizes, smooth=smooth), arrays)["o"]
        found = BOTH.expected(problem, arrays, GFX942)["o"]
        errors.append(float(np.linalg.norm(found - exact) / np.linalg.norm(exact)))
    assert errors[1] < 0.03 and 4 * errors[1] < errors[0]


def test_what_is_queued() -> None:
    """K's mean once, for the prediction and for what is quantised."""
    plan = make_plan(BOTH, BOTH.problem(**FEW, smooth=1), GFX942)
    names = [one.operator.name for one in plan.kernels]
    assert names[-4:] == ["quantize_heads", "quantize_heads", "nonzero", "sparge_sage_attention"]
    assert names.count("block_means") == 2 and names.count("predict_blocks") == 1
    means = [one for one in plan.kernels if one.operator.name == "reduce" and "k_mean" in one.arrays]
    assert len(means) == 1 and sum("k_mean" in one.arrays for one in plan.kernels) == 3


@pytest.mark.parametrize(("chip", "keys", "schedules"), [
    ("gfx942", {"scales": "warp"}, "qr"), ("gfx90a", {"scales": "thread", "v_dtype": "f16"}, "qr"),
    *(pytest.param(chip, {"scales": scales, "v_dtype": "f16"}, " ".join(ATTENTION), marks=pytest.mark.full)
      for chip in CHIPS for scales in ("block", "warp", "thread")),
], ids=named)  # fmt: skip
def test_schedules_are_proved(chip: str, keys: Keys, schedules: str) -> None:
    """Those that the chip takes, `qr` among them."""
    target = get_target(chip)
    specs = {one: BOTH.spec(BOTH.problem(**{**FEW, **keys}, schedule=one), target) for one in schedules.split()}
    taken = {name: spec for name, spec in specs.items() if not BOTH.validate(spec, target)}
    assert "qr" in taken
    for spec in taken.values():
        bench = Workbench.of(BOTH, spec, target)
        assert bench.compile(bench.schedule, code=False).findings == ()


LARGE: Keys = {"h": 16, "sq": 4096, "sk": 4096, "d": 128}
SPILLING = [
    (chip, {**LARGE, "v_dtype": v_dtype, "scales": scales, **more})
    for chip in CHIPS for v_dtype in ("fp8", "bf16") for scales in ("block", "warp", "thread")
    for more in ({}, {"d": 256}, {"mask": "top_left"}, {"bias": "head"}, {"soft_cap": 60}, {"pv_threshold": 20},
                 {"mask": "window:300,100,8", "alibi": "head", "sink": 1, "pv_threshold": 9, "lse": 1})
    if chip != "gfx90a" or v_dtype != "fp8"
]  # fmt: skip


@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {**LARGE, "scales": "warp"}), ("gfx950", {**LARGE, "quantised": "fp8", "mask": "bottom_right"}),
    *(pytest.param(*one, marks=pytest.mark.full) for one in SPILLING),
], ids=named)  # fmt: skip
def test_kernels_spill_nothing(chip: str, keys: Keys) -> None:
    target = get_target(chip)
    kernel = compile_kernel(BOTH, BOTH.spec(BOTH.problem(**keys), target), target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize(("chip", "keys", "words"), [
    ("gfx942", {"smooth": 1, "lse": 1}, "lse=1: with smooth=1 all scores of a query are less by a number"),
    ("gfx942", {"scales": "tensor"}, "scales=tensor: expected block|warp|thread"),
    ("gfx942", {"dtype": "i8"}, "dtype=i8: expected f16|bf16|f32"),
    ("gfx942", {"d": 40}, "d=40: heads of i8 have a multiple of 16 from 16 to 256 channels"),
    ("gfx942", {"topk": 2}, "sparge_sage_attention: topk=2: expected a share, from 0 to 1"),
    ("gfx90a", {}, "v_dtype=fp8: gfx90a has no 8-bit floating point"),
    ("gfx90a", {"quantised": "fp8", "v_dtype": "f16"}, "quantised=fp8: gfx90a has no fp8 MFMA"),
])  # fmt: skip
def test_what_is_refused(chip: str, keys: Keys, words: str) -> None:
    target = get_target(chip)
    with pytest.raises(RequestError) as refused:
        require_valid(BOTH, BOTH.spec(BOTH.problem(**{**FEW, **keys}), target), target)
    assert words in str(refused.value) and "\n" not in str(refused.value)
