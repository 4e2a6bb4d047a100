"""Weights taken from an exponent that follows their sum, which scores under a larger soft cap allow: sums that leave
what P holds on either side, block by block, and which requests keep the largest score."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, named

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.attention.level import APART, LOST, MOST, ROOM, SPREAD, taken_from
from ckmlir.ops.attention.schedule_choice import SLACK, lazy
from ckmlir.ops.precision import LEAST_EXPONENTIAL
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target

Keys = dict[str, Any]
ROWS: Keys = {"h": 1, "sq": 70, "sk": 330, "d": 64, "layout": "bhsd", "lse": 1, "schedule": "qr", "soft_cap": 40}
CASES: list[tuple[str, str, Keys]] = [
    ("gfx942", "fmha_fwd", ROWS),
    ("gfx950", "fmha_fwd", {**ROWS, "mask": "top_left", "sq": 200}),
    ("gfx90a", "fmha_fwd", {**ROWS, "mask": "window:9,3", "sq": 200, "soft_cap": 9.1}),
    ("gfx942", "fmha_fwd", {**ROWS, "dropout": 0.3, "randval": 1, "soft_cap": 30}),
    ("gfx950", "fmha_fwd_splitkv", {**ROWS, "sq": 3, "splits": 4}),
    ("gfx942", "fmha_fwd_pagedkv", {**ROWS, "page_size": 16}),
    ("gfx942", "fmha_fwd", {**ROWS, "soft_cap": 72}),
    ("gfx950", "fmha_fwd", {**ROWS, "soft_cap": 72, "dtype": "bf16"}),
    ("gfx90a", "fmha_fwd", {**ROWS, "soft_cap": 50, "mask": "top_left", "sq": 200}),
    ("gfx942", "fmha_fwd", {**ROWS, "soft_cap": 72, "dtype": "f32", "sq": 9}),
]
WIDE = [
    (chip, name, {**ROWS, **more, "soft_cap": cap})
    for chip in CHIPS
    for cap in (9.1, 20, 40, 41, 50, 72)
    for name, more in (
        ("fmha_fwd", {"mask": "window_bottom_right:9,3,2"}), ("fmha_fwd", {"v_layout": "columns", "d": 128}),
        ("fmha_fwd_splitkv", {"splits": 3, "sq": 9, "mask": "bottom_right"}), ("fmha_fwd_pagedkv", {"page_size": 128}),
        ("fmha_batch_prefill", {"page_size": 16, "sq": 130}),
        ("fmha_fwd", {"h": 4, "hk": 2, "sq": 5, "seqlens_k": (0,)}),
        ("fmha_fwd", {"schedule": "qr_async", "sq": 130}), ("fmha_fwd", {"sq": 17, "schedule": None}),
        ("fmha_fwd", {"schedule": "qr_late", "d": 96, "seqlens_k": (301,)}),
    )
]  # fmt: skip


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("chip", "name", "keys"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)], ids=named
)
def test_sums_that_leave_what_weights_hold(chip: str, name: str, keys: Keys) -> None:
    """Queries whose scores are all at one end of the cap, or at one end in the first blocks and at the other later, or
    rise from end to end, or are not numbers, and ordinary ones; under a window some see none of the first block."""
    target, operator = get_target(chip), find_operator(name)
    problem = operator.problem(**{key: value for key, value in keys.items() if value is not None})
    word = f"softcap_{taken_from(keys['soft_cap'], problem.dtype)}"
    assert word in operator.spec(problem, target).parts and word in ("softcap_lazy", "softcap_apart")
    arrays = dict(operator.inputs(problem, target, seed=3))
    q, k = arrays["q"], arrays["k"]
    length = k.shape[-2]
    rising = np.linspace(-16, 16, length)
    k[..., 0], q[..., :3] = 16, 0
    k[..., 1] = np.where(rising < -2, -16, 16)  # two blocks of 64 keys
    k[..., 2] = rising
    ends = ((-1000, 0, 0), (1000, 0, 0), (0, 1000, 0), (0, -1000, 0), (0, 0, 40), (0, 0, -40), (np.nan, 0, 0))
    for row, channels in enumerate(ends):
        q[:, :, row::9, :3] = channels
    device = SimulatorDevice(target, seed=5, checks=parse_checks("all"))
    result = run_operator(operator, problem, arrays, target, device)
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert comparisons and all(one.ok for one in comparisons), "; ".join(map(str, comparisons))


def test_that_f32_holds_what_is_said() -> None:
    """A block of weights between both ends, from the lowest exponent, and all weights from the first."""
    for dtype, spread in SPREAD.items():
        assert 2.0 ** (2 * spread + 1) * 256 < np.finfo(np.float32).max / 2
        assert 2.0**-spread > np.finfo(np.float32).smallest_normal and taken_from(spread * math.log(2), dtype) == "lazy"
    assert np.finfo(np.float16).max > MOST["f16"] and MOST["bf16"] == MOST["f32"] == 2.0**SLACK


def test_that_f32_holds_what_is_said_where_blocks_are_apart() -> None:
    """A block of weights from no less than is said, those of the lowest scores, and what brings their sums back."""
    assert np.finfo(np.float32).max / 4 > 2.0**ROOM * 256
    lower = 2 * APART + 1 - ROOM
    assert 2.0 ** -(lower + 1) > np.finfo(np.float32).smallest_normal
    assert LOST == LEAST_EXPONENTIAL * 2.0**lower < 2.0**-25  # half of f16's least, which P loses anyway
    assert all(taken_from(APART * math.log(2), dtype) == "apart" for dtype in MOST)


@pytest.mark.parametrize(("cap", "dtype", "word"), [
    (9, "f16", "softcap_level"), (9.1, "f16", "softcap_lazy"), (40, "f16", "softcap_lazy"),
    (41, "f16", "softcap_apart"), (72, "f16", "softcap_apart"), (73, "f16", "softcap"), (55, "bf16", "softcap_level"),
    (56, "bf16", "softcap_apart"), (73, "bf16", "softcap"), (30, "fp8", "softcap"),
])  # fmt: skip
def test_which_caps(cap: float, dtype: str, word: str) -> None:
    operator, target = find_operator("fmha_fwd"), get_target("gfx942")
    assert operator.spec(operator.problem(soft_cap=cap, dtype=dtype), target).parts == (word,)
    assert f"softcap_{taken_from(cap, dtype)}".rstrip("_") == word


def test_what_keeps_the_largest() -> None:
    """What joins the sum, or skips by the largest score; wide tiles and woven arithmetic; what takes registers."""
    old, new = get_target("gfx942"), get_target("gfx950")

    def found(
        *parts: str, tile: int = 128, mask: str = "none", weaves: bool = False, listed: bool = False
    ) -> list[bool]:
        return [lazy(parts, tile, mask, weaves=weaves, listed=listed, target=one) for one in (old, new)]

    assert all(found("softcap_lazy", "dropout_stored")) and all(found("softcap_lazy", mask="causal"))
    assert not any(found("softcap_lazy", "sink") + found("softcap_lazy", "skip") + found("softcap_lazy", tile=256))
    assert not any(found("softcap_lazy", weaves=True))
    assert found("softcap_lazy", listed=True) == found("softcap_lazy", mask="window") == [True, False]


@pytest.mark.parametrize(
    "chip", ["gfx942", *(pytest.param(one, marks=pytest.mark.full) for one in ("gfx90a", "gfx950"))]
)
def test_that_no_largest_is_looked_for(chip: str) -> None:
    """A lane has one query, of which a maximum limits the exponent where blocks are apart, and one makes NaN quiet."""
    operator, target = find_operator("fmha_fwd"), get_target(chip)
    for cap, limits in ((40, 0), (50, 2)):
        spec = operator.spec(operator.problem(**{**ROWS, "soft_cap": cap}), target)
        kernel = compile_kernel(operator, spec, target)
        loop = steady_loop(kernel.code_object, kernel.kernel_name)
        names = [one.mnemonic for one in loop.instructions]
        assert (names.count("v_max_f32"), names.count("v_max3_f32")) == (limits, 0)
