"""Waves of a block that share each step's K, and whose sums LDS adds: numbers under all checkers, proofs, spills, where
products of experts' matrices have them, what is refused.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from operator_runner import CHIPS
from test_moe_gemm import FIRST, SECOND, run

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.records import replace
from ckmlir.scheduling.workbench import Workbench
from ckmlir.targets import get_target

MOE_GEMM = find_operator("moe_gemm")
MXFP4: dict[str, Any] = {"dtype": "bf16", "b_dtype": "fp4", "unit": 16}
FOUR: dict[str, Any] = {"unit": 16, "wave": "1x1", "wave_k": 4}
REQUESTS: tuple[dict[str, Any], ...] = (
    {**MXFP4, "t": 3, "n": 70, "k": 1312, "e": 5, **FIRST},
    {**MXFP4, "dtype": "f16", "t": 2, "n": 90, "k": 1120, **SECOND},
    {**FOUR, "t": 9, "n": 67, "k": 530, "dtype": "bf16", "block": "16x16x256", "schedule": "mem3", **FIRST},
    {**FOUR, "t": 5, "n": 64, "k": 1031, "dtype": "i8", "block": "16x32x512", "schedule": "compv4", "a_rows": "entry"},
    {**FOUR, "t": 5, "n": 66, "k": 256, "dtype": "f32", "block": "16x16x128", "schedule": "v4", **SECOND},
    {**FOUR, "t": 7, "n": 130, "k": 300, "block": "16x64x128", "wave": "1x2", "wave_k": 2, "schedule": "compv3",
     "unit": 32, **SECOND, "reduction": "atomic"},
    {**FOUR, "t": 5, "n": 72, "k": 768, "dtype": "fp8", "block": "16x16x512", "schedule": "async_double"},
    {**FOUR, "t": 4, "n": 48, "k": 0, "block": "16x16x256"},
    {**MXFP4, "t": 2, "n": 40, "k": 1024, "b_dtype": "i4", "b_scale": "1x128", **FIRST},
    {**FOUR, "t": 17, "n": 72, "k": 264, "layout": "RRR", "block": "16x32x128", "schedule": "mem2", **FIRST},
    {**FOUR, "t": 6, "n": 64, "k": 260, "block": "16x16x256", "schedule": "mem2", "epilogue": "cshuffle"},
)  # fmt: skip
FEW = {("gfx942", 0), ("gfx950", 1), ("gfx90a", 2), ("gfx942", 3), ("gfx950", 5), ("gfx942", 7)}


@pytest.mark.parametrize(("chip", "number"), [
    pytest.param(chip, number, marks=[] if (chip, number) in FEW else [pytest.mark.full])
    for chip, number in itertools.product(CHIPS, range(len(REQUESTS)))
    if chip == "gfx950" or REQUESTS[number].get("dtype") != "fp8"
])  # fmt: skip
def test_numbers(chip: str, number: int) -> None:
    """Types, kinds of schedules and of sums, ragged ends, no sum at all."""
    keys = REQUESTS[number]
    spec = MOE_GEMM.spec(MOE_GEMM.problem(**keys), get_target(chip))
    assert spec.along_k == keys.get("wave_k", 4) and spec.wave_count == spec.along_k * spec.waves[1]
    run(chip, **keys)


@pytest.mark.parametrize("chip", CHIPS)
def test_schedules_are_proved_and_spill_nothing(chip: str) -> None:
    """Those that are chosen, of either product."""
    target = get_target(chip)
    for form in (FIRST, {**SECOND, "out": "bf16"}):
        spec = MOE_GEMM.spec(MOE_GEMM.problem(t=1, e=8, n=128, k=1440, **MXFP4, **form), target)
        assert spec.along_k == 4
        bench = Workbench.of(MOE_GEMM, spec, target)
        assert bench.compile(bench.schedule, code=False).findings == ()
        found = compile_kernel(MOE_GEMM, spec, target).code_object.kernel().metadata
        assert (found.vgpr_spill_count, found.sgpr_spill_count) == (0, 0), spec.name


@pytest.mark.parametrize(("chip", "tokens", "waves"), [("gfx942", 1, 4), ("gfx942", 2, 1), ("gfx950", 1, 4)])
def test_as_long_as_simds_would_be_without_a_wave(chip: str, tokens: int, waves: int) -> None:
    """2880 columns of four experts are 720 waves of 16, of eight 1440, for 1216 SIMDs and 1024; not in higher units,
    and not for short sums."""
    keys = {**MXFP4, "t": tokens, "e": 32, "topk": 4, "n": 2880, "k": 2880, **FIRST}
    assert MOE_GEMM.spec(MOE_GEMM.problem(**keys), get_target(chip)).along_k == waves
    for other in ({"unit": 32}, {"k": 992}):
        assert MOE_GEMM.spec(MOE_GEMM.problem(**{**keys, **other}), get_target(chip)).along_k == 1


def test_what_was_chosen_can_be_named() -> None:
    """The request with the keys that were chosen has the same kernel."""
    target, keys = get_target("gfx942"), {**MXFP4, "t": 1, "n": 64, "k": 1024}
    problem = MOE_GEMM.problem(**keys)
    spec = MOE_GEMM.spec(problem, target)
    chosen = MOE_GEMM.chosen(problem, spec)
    assert chosen["wave_k"] == 4
    assert MOE_GEMM.spec(MOE_GEMM.problem(**keys, **chosen), target) == spec


@pytest.mark.parametrize(("keys", "words"), [
    ({"wave_k": 4}, "wave_k=4: of a block that is left open; expected block as well"),
    ({"wave_k": 0, "block": "16x16x128"}, "wave_k=0"),
])  # fmt: skip
def test_requests_that_do_not_fit(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        MOE_GEMM.problem(unit=16, **keys)
    assert words in str(refused.value)


@pytest.mark.parametrize(("keys", "fields", "words"), [
    ({}, {"along_k": 3}, "along_k"),
    ({}, {"along_k": 16}, "2048 work-items"),
    ({}, {"block": (16, 16, 32), "along_k": 4}, "the matrix instructions of all waves take 64 along k at a time"),
    ({"dtype": "fp8", "a_scale": "1x128", "b_scale": "128x128"}, {"along_k": 2}, "scales of groups"),
])  # fmt: skip
def test_what_no_chip_runs(keys: dict[str, Any], fields: dict[str, Any], words: str) -> None:
    target = get_target("gfx942")
    spec = MOE_GEMM.spec(MOE_GEMM.problem(t=1, n=64, k=256, unit=16, **keys), target)
    reasons = MOE_GEMM.validate(replace(spec, waves=(1, 2), **fields), target)
    assert any(words in str(one) for one in reasons), reasons
