"""Blocks of few rows: waves side by side along keys, heads that share keys packed in rows. Numbers under all checkers,
the rule, schedules that are proved, kernels without spills.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.records import replace
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target

Keys = dict[str, Any]
ONE: Keys = {"h": 4, "hk": 1, "sq": 1, "sk": 200, "d": 64, "lse": 1}
SIX: Keys = {**ONE, "b": 2, "h": 12, "hk": 2, "sq": 5, "sk": 130}  # 30 rows of six heads
GROUP: Keys = {"mode": "group", "seqlens_q": (3, 0, 7), "seqlens_k": (150, 50, 20), "h": 6, "hk": 2, "d": 32, "lse": 1}
MANY: Keys = {**ONE, "h": 16, "hk": 2, "sq": 20, "sk": 100}  # 160 rows in blocks of 128

CASES: list[tuple[str, str, Keys]] = [
    ("gfx942", "fmha_fwd", {**ONE, "d": 128}),
    ("gfx950", "fmha_fwd", {**SIX, "mask": "bottom_right", "dtype": "bf16", "layout": "bshd"}),
    ("gfx90a", "fmha_fwd", {**SIX, "mask": "window_bottom_right:70,3,9", "soft_cap": 5, "sink": 1}),
    ("gfx942", "fmha_fwd", {**GROUP, "mask": "bottom_right", "sink": 1}),
    ("gfx942", "fmha_fwd", {**MANY, "mask": "top_left", "dtype": "fp8"}),
    ("gfx950", "fmha_fwd", {**SIX, "h": 2, "bias": "head", "dtype": "f32"}),
    ("gfx90a", "fmha_fwd", {**ONE, "hk": 4, "alibi": "head", "d": 96, "v_layout": "columns", "sk": 136}),
    ("gfx950", "fmha_fwd", {**ONE, "sk": 0}),
    ("gfx942", "fmha_fwd_splitkv", {**ONE, "sk": 333, "splits": 3, "d": 256}),
    ("gfx950", "fmha_fwd_splitkv", {**GROUP, "splits": 2, "mask": "bottom_right", "sink": 1, "dtype": "fp8"}),
    ("gfx90a", "fmha_fwd_splitkv", {**SIX, "splits": 2, "page_size": 16, "dtype": "bf16"}),
    ("gfx942", "fmha_fwd_pagedkv", {**SIX, "page_size": 64, "mask": "bottom_right"}),
    ("gfx950", "fmha_fwd_pagedkv", {**ONE, "page_size": 1, "d": 32, "dtype": "fp8"}),
    ("gfx942", "fmha_batch_prefill", {**GROUP, "page_size": 16, "kv_layout": "vectorised", "table": "sglang"}),
]
WIDE = [
    (chip, operator, {**shape, **part, **more, "dtype": dtype, "d": d})
    for chip in CHIPS
    for operator, more in (
        ("fmha_fwd", {}),
        ("fmha_fwd_splitkv", {"splits": 2}),
        ("fmha_fwd_pagedkv", {"page_size": 16}),
        ("fmha_fwd_pagedkv", {"page_size": 128}),
    )
    for shape in (ONE, SIX, GROUP, MANY)
    for part in ({}, {"sink": 1, "mask": "window:30,0,4"}, {"mask": "bottom_right", "soft_cap": 5})
    for dtype in ("f16", "bf16", "f32", "fp8")
    for d in (32, 64, 96, 128, 256)
    if dtype != "fp8" or chip != "gfx90a"
]


def without_mode(operator: str, keys: Keys) -> Keys:
    """The same for an operator that is always in group mode."""
    return {key: one for key, one in keys.items() if key != "mode" or operator != "fmha_batch_prefill"}


def named(value: object) -> str:
    return value if isinstance(value, str) else ",".join(f"{key}={one}" for key, one in value.items())  # type: ignore


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("chip", "name", "keys"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)], ids=named
)
def test_numbers(chip: str, name: str, keys: Keys) -> None:
    target, operator = get_target(chip), find_operator(name)
    problem = operator.problem(**without_mode(name, keys))
    arrays = operator.inputs(problem, target, seed=3)
    device = SimulatorDevice(target, seed=5, checks=parse_checks("all"))
    result = run_operator(operator, problem, arrays, target, device)
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert comparisons and all(one.ok for one in comparisons), "; ".join(map(str, comparisons))


@pytest.mark.parametrize(("keys", "block", "packed"), [
    ({"h": 4, "hk": 4, "sq": 1}, (16, 64), False),
    ({"h": 4, "hk": 4, "sq": 17}, (32, 64), False),
    ({"h": 4, "hk": 4, "sq": 33}, (128, 64), False),
    ({"h": 64, "hk": 4, "sq": 1}, (16, 64), True),
    ({"h": 12, "hk": 2, "sq": 5}, (32, 64), True),
    ({"h": 12, "hk": 2, "sq": 20}, (128, 64), True),
    ({"h": 12, "hk": 2, "sq": 128}, (128, 64), False),
    ({"h": 12, "hk": 2, "sq": 1, "alibi": "head"}, (16, 64), False),
    ({"h": 12, "hk": 2, "sq": 1, "dropout": 0.5}, (128, 64), False),
    ({"h": 12, "hk": 2, "sq": 1, "d": 256}, (16, 32), True),
    ({"h": 12, "hk": 2, "sq": 1, "dtype": "f32"}, (16, 32), True),
    ({"h": 12, "hk": 2, "sq": 1, "schedule": "qr"}, (16, 64), True),
    ({"h": 12, "hk": 2, "sq": 1, "schedule": "qr_async"}, (128, 64), True),
    ({"h": 3, "hk": 1, "sq": 2, "q_strides": (3 * 2**29, 2**29, 128)}, (16, 64), False),  # 32-bit offsets end between
])  # fmt: skip
def test_the_rule(keys: Keys, block: tuple[int, int], packed: bool) -> None:
    target, operator = get_target("gfx942"), find_operator("fmha_fwd")
    problem = operator.problem(**{"sk": 1000, "d": 128, **keys})
    spec = operator.spec(problem, target)
    assert (spec.block, spec.packed) == (block, packed)
    assert spec.along_keys == (spec.waves if spec.block[0] < 64 else 1)
    assert operator.validate(spec, target) == [] and operator.mismatches(problem, spec, target) == []


def test_specifications_that_cannot_be() -> None:
    target, operator = get_target("gfx942"), find_operator("fmha_fwd")
    spec = operator.spec(operator.problem(**{**ONE, "d": 128}), target)
    alibi = operator.spec(operator.problem(**ONE, alibi="head"), target)
    for wrong, field in (
        (replace(spec, along_keys=8), "along_keys"),
        (replace(spec, along_keys=3), "along_keys"),
        (replace(spec, along_keys=1), "block"),
        (replace(spec, block=(16, 32)), "block"),
        (replace(spec, pad_sq=False), "pad_sq"),
        (replace(alibi, packed=True, pad_sq=True), "packed"),
        (replace(spec, dv=32), "mfma"),
    ):
        assert field in {one.field for one in operator.validate(wrong, target)}, wrong
    far = operator.problem(h=3, hk=1, sq=2, d=128, q_strides=(3 * 2**29, 2**29, 128))
    assert "packed" in {one.field for one in operator.mismatches(far, spec, target)}


def test_heads_packed_in_rows_are_those_one_by_one() -> None:
    """The same numbers, bit by bit: a row meets the same keys in the same order."""
    target, operator = get_target("gfx942"), find_operator("fmha_fwd")
    found = []
    for hk in (2, 6):
        problem = operator.problem(b=1, h=6, hk=hk, sq=5, sk=200, d=64, mask="bottom_right")
        arrays = operator.inputs(operator.problem(b=1, h=6, hk=2, sq=5, sk=200, d=64), target, seed=1)
        arrays = {name: np.repeat(one, 6 // one.shape[1], axis=1)[:, ::1] if hk == 6 else one
                  for name, one in arrays.items()}  # fmt: skip
        assert operator.spec(problem, target).packed == (hk == 2)
        found.append(run_operator(operator, problem, arrays, target, SimulatorDevice(target)).outputs["o"])
    np.testing.assert_array_equal(*found)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx90a", {**SIX, "mask": "window_bottom_right:9,3,4"}), ("gfx942", {**ONE, "mask": "bottom_right"}),
    ("gfx950", GROUP),
])  # fmt: skip
def test_schedules_are_proved(chip: str, keys: Keys) -> None:
    target, operator = get_target(chip), find_operator("fmha_fwd")
    bench = Workbench.of(operator, operator.spec(operator.problem(**keys), target), target)
    assert bench.compile(bench.schedule, code=False).findings == ()


@pytest.mark.one_in(6)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("dtype", "d"), [
    ("f16", 128), ("fp8", 256),
    *(pytest.param(*one, marks=pytest.mark.full)
      for one in itertools.product(("f16", "bf16", "fp8", "f32"), (32, 64, 96, 128, 256))),
])  # fmt: skip
def test_no_spills(chip: str, dtype: str, d: int) -> None:
    target, operator = get_target(chip), find_operator("fmha_fwd")
    if dtype == "fp8" and not target.fp8:
        pytest.skip("no such matrix instructions")
    for sq, mask in ((1, "none"), (5, "window_bottom_right:70,3,9")):
        problem = operator.problem(h=12, hk=2, sq=sq, sk=1000, d=d, dtype=dtype, mask=mask, lse=1)
        spec = operator.spec(problem, target)
        assert spec.packed
        metadata = compile_kernel(operator, spec, target).code_object.kernel().metadata
        assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0), spec.name
        assert metadata.private_segment_size == 0
