"""Two quantised products in one loop: numbers on every chip, the reference against loops, schedules and registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.scheduling.workbench import Workbench
from ckmlir.targets import get_target

GATED = find_operator("gated_gemm_quant")
RAGGED = {"m": 70, "n": 200, "k": 300}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gfx950", {}),
    ("gfx942", {"dtype": "bf8", "a_scale": "row", "b_scale": "column", "shuffled": 16, "out": "f16"}),
    ("gfx942", {"b_dtype": "i4", "shuffled": 32, "zeros": 1}),
    ("gfx90a", {"dtype": "i8", "a_scale": "1x64", "b_scale": "1x128", "b_major": "rows", "op": "relu(gate) * up + d0"}),
    ("gfx942", {"m": 1, "n": 33, "k": 0, "a_scale": "tensor", "b_scale": "tensor"}),
    ("gfx942", {"a_scale": "1x64", "b_scale": "1x32", "layout": "RRR", "schedule": "compv5"}),  # no LDS for padding
]  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("chip", "keys"), CASES)
def test_products(chip: str, keys: dict[str, Any]) -> None:
    agree("gated_gemm_quant", chip, **{**RAGGED, **keys})


def test_the_reference_is_that_of_scaled_numbers() -> None:
    """By hand: each matrix has scales of its own."""
    problem = GATED.problem(m=3, n=130, k=140, dtype="i8", a_scale="row", b_scale="128x128", op="gate - 2 * up")
    arrays = GATED.inputs(problem, get_target("gfx90a"), seed=3)
    assert arrays["scale_a"].shape == (3,) and arrays["scale_gate"].shape == arrays["scale_up"].shape == (2, 2)
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    a = wide["a"] * wide["scale_a"][:, None]
    gate, up = (
        a @ (wide[name] * np.repeat(np.repeat(wide[f"scale_{name}"], 128, 0), 128, 1)[:130, :140]).T
        for name in ("gate", "up")
    )
    np.testing.assert_allclose(GATED.reference(problem, arrays)["c"], gate - 2 * up, rtol=1e-6, atol=1e-9)


@pytest.mark.full
@pytest.mark.parametrize("chip", CHIPS)
def test_schedules_are_proved(chip: str) -> None:
    target = get_target(chip)
    spec = GATED.spec(GATED.problem(**RAGGED, dtype="i8"), target)
    bench = Workbench.of(GATED, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()


@pytest.mark.full
@pytest.mark.parametrize(
    "chip", [pytest.param(chip, marks=[] if chip == "gfx942" else [pytest.mark.full]) for chip in CHIPS]
)
def test_no_listed_kernel_spills(chip: str) -> None:
    target = get_target(chip)
    for spec in GATED.kernels(target)[:: 1 if chip != "gfx942" else 5]:
        kernel = compile_kernel(GATED, spec, target)
        found = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (found.vgpr_spill_count, found.private_segment_size) == (0, 0), spec.name


@pytest.mark.parametrize(("align", "depth"), [(16, 128), (1, 64)])
def test_what_waits_for_steps_to_come_takes_registers_as_it_was_loaded(align: int, depth: int) -> None:
    """Elements that are loaded one by one wait one by one: with three sets of them blocks are half as deep."""
    n = 256 if align == 16 else 257
    keys = {"m": 2, "n": n, "k": n, "b_dtype": "bf8", "b_scale": "1x32", "b_major": "rows", "a_major": "rows"}
    problem = GATED.problem(**keys, a_scale="tensor", schedule="mem4", lda=n, ldb=n)
    assert GATED.spec(problem, get_target("gfx950")).block[2] == depth


@pytest.mark.parametrize(("chip", "dtype", "b_dtype", "pitch"), [
    ("gfx942", "fp8", "i4", 1025),
    *(pytest.param(*case, marks=pytest.mark.full) for case in [
        ("gfx942", "fp8", "i4", 1026), ("gfx950", "fp8", "u4", 1026), ("gfx950", "i8", "u4", 1026),
    ]),
])  # fmt: skip
def test_zero_points_that_all_lanes_share_take_no_scalar_registers(
    chip: str, dtype: str, b_dtype: str, pitch: int
) -> None:
    """Lanes lie along rows of narrow loads, so that a wave has a zero point for each: up to 19 were kept in lanes."""
    keys = {"m": 256, "n": 1024, "k": 1024, "zeros": 1, "a_scale": "1x128", "b_scale": "1x128", "ldb": 1026}
    target = get_target(chip)
    spec = GATED.spec(GATED.problem(**keys, dtype=dtype, b_dtype=b_dtype, lda=pitch), target)
    found = compile_kernel(GATED, spec, target).code_object.kernel().metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
