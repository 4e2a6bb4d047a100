"""Rows of heads in 8 bits by blocks: numbers under all checkers on three chips, the reference against a plain loop, and
what is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, checked, named, outcome

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.operator import require_valid
from ckmlir.ops.request import RequestError
from ckmlir.runtime import check_outputs
from ckmlir.targets import get_target

QUANTIZE = find_operator("quantize_heads")
GFX942 = get_target("gfx942")
Keys = dict[str, Any]
CASES: list[tuple[str, Keys]] = [
    ("gfx90a", {"s": 300, "d": 128}),
    ("gfx942", {"s": 70, "d": 80, "block": 4, "out": "fp8", "dtype": "bf16", "shift": 1, "layout": "bshd"}),
    ("gfx950", {"s": 129, "d": 256, "b": 2, "block": 64, "out": "fp8", "shift": 1, "dtype": "f32"}),
    ("gfx950", {"s": 100, "d": 64, "block": 32, "x_strides": (40000, 8000, 80)}),
    ("gfx942", {"s": 1, "d": 16, "block": 16}),
    ("gfx942", {"s": 0, "b": 2}),
    ("gfx90a", {"s": 33, "b": 0}),
]
WIDE = [
    (chip, {"s": s, "d": d, "block": block, "dtype": dtype, "out": out, "layout": layout, "shift": shift, "h": 2})
    for chip in CHIPS for dtype in ("f16", "bf16", "f32") for out in ("i8", "fp8") for s, d in ((128, 64), (301, 240))
    for block in (4, 16, 32, 64, 128) for layout, shift in (("bhsd", 0), ("bshd", 1))
    if chip != "gfx90a" or out == "i8"
]  # fmt: skip


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("chip", "keys"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)], ids=named
)
def test_numbers(chip: str, keys: Keys) -> None:
    checked("quantize_heads", chip, keys)


def test_the_reference_is_what_it_says() -> None:
    """Block by block; elements times their scales are what was given, within half a step."""
    problem = QUANTIZE.problem(b=2, s=70, d=16, block=32, shift=1, layout="bshd")
    arrays = QUANTIZE.inputs(problem, GFX942, seed=3)
    found = QUANTIZE.expected(problem, arrays, GFX942)
    for batch, head, block in np.ndindex(2, 2, 3):
        rows = slice(32 * block, 32 * block + 32)
        x = arrays["x"][batch, rows, head].astype(np.float64) - arrays["shift"][batch, head]
        scale = found["scales"][batch, head, block]
        np.testing.assert_allclose(scale, np.abs(x).max() / 127, rtol=1e-12)
        np.testing.assert_allclose(found["q"][batch, rows, head] * scale, x, atol=scale * 0.501)


def test_a_wrong_step_does_not_pass() -> None:
    """But where rounding may cross it."""
    problem = QUANTIZE.problem(s=64, d=64)
    arrays = QUANTIZE.inputs(problem, GFX942, seed=3)
    right = QUANTIZE.expected(problem, arrays, GFX942)
    free = QUANTIZE.tolerances(problem, arrays, right, GFX942)["q"].atol
    assert np.mean(np.asarray(free) > 0) < 1e-3
    wrong = {**right, "q": right["q"] + (right["q"] < 127)}
    assert not all(one.ok for one in check_outputs(QUANTIZE, problem, arrays, wrong, GFX942))


@pytest.mark.parametrize("out", ["i8", "fp8"])
def test_what_is_not_finite(out: str) -> None:
    """NaN is in no maximum, and becomes 0 as i8; an infinity makes that of its block's scale, also of a difference."""

    def spoilt(problem: Any, arrays: dict[str, Any]) -> dict[str, Any]:
        x, shift = arrays["x"].copy(), arrays["shift"].copy()
        x[0, 0, 3, 5], x[0, 0, 40, 7], x[0, 1, :32] = np.nan, np.inf, np.nan
        x[0, 1, 33, 0], shift[0, 1, 0] = 3e38, -3e38
        return {**arrays, "x": x, "shift": shift}

    keys: Keys = {"s": 70, "d": 32, "block": 32, "dtype": "f32", "out": out, "shift": 1}
    found = outcome(QUANTIZE, "gfx942", keys, prepared=spoilt).outputs
    assert np.isinf(found["scales"]).tolist() == [[[False, True, False], [False, True, False]]]
    q = found["q"].astype(np.float32)
    assert [bool(np.isnan(one)) for one in (q[0, 0, 3, 5], q[0, 0, 40, 7], q[0, 1, 4, 5])] == [out == "fp8"] * 3
    assert not np.nan_to_num(q[0, 1, :32]).any() and q[0, 0, 3].any() and q[0, 1, 64:].any()


@pytest.mark.parametrize("chip", ["gfx942", *(pytest.param(chip, marks=pytest.mark.full) for chip in CHIPS)])
def test_kernels_spill_nothing(chip: str, request: pytest.FixtureRequest) -> None:
    """By default one kernel in eight."""
    target, step = get_target(chip), 1 if request.node.get_closest_marker("full") else 8
    for spec in QUANTIZE.kernels(target)[::step]:
        kernel = compile_kernel(QUANTIZE, spec, target)
        found = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0), spec.name


@pytest.mark.parametrize(("chip", "keys", "words"), [
    ("gfx942", {"block": 256}, "block=256: expected a power of two from 4 to 128"),
    ("gfx942", {"block": 12}, "block=12: expected a power of two from 4 to 128"),
    ("gfx942", {"d": 40}, "d=40: expected a multiple of 16 from 16 to 256"),
    ("gfx90a", {"out": "fp8"}, "gfx90a has no 8-bit floating point"),
])  # fmt: skip
def test_what_is_refused(chip: str, keys: Keys, words: str) -> None:
    target = get_target(chip)
    with pytest.raises(RequestError) as refused:
        require_valid(QUANTIZE, QUANTIZE.spec(QUANTIZE.problem(**keys), target), target)
    assert words in str(refused.value) and "\n" not in str(refused.value)
