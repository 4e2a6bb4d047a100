"""Products with 4-bit floats and scales of groups: numbers on every chip, every code with every power of two, what a
step of the loop takes, schedules, registers, and what is refused. What it shares with `gemm_int4` is tested there.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from operator_runner import CHIPS, agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.shuffle import shuffle_b
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import run_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.scheduling.workbench import Workbench
from ckmlir.targets import get_target

FP4 = find_operator("gemm_fp4")
RAGGED = {"m": 70, "n": 90, "k": 300}
NUMBERS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
CASES: list[Any] = [
    ("gfx942", {}),
    ("gfx90a", {"dtype": "bf16", "b_scale": "1x64", "scale": "f32"}),
    ("gfx950", {"ldb": 151, "ld_scale": 13, "lda": 333, "ldc": 91, "dtype": "bf16"}),
    ("gfx942", {"k": 512, "dtype": "bf16", "op": "silu(acc + d0)", "d_kind": "row", "out": "f32"}),
    ("gfx90a", {"k": 1022, "split_k": 3, "n": 33, "m": 1}),
    ("gfx950", {"k": 2, "m": 5, "n": 1}),
    ("gfx942", {"k": 0, "m": 5, "n": 7}),
    ("gfx942", {"n": 0}),
    ("gfx90a", {"layout": "RRR", "b_scale": "1x128"}),
    ("gfx950", {"layout": "CRR", "m": 72, "scale": "bf16"}),
    ("gfx942", {"shuffled": 32, "dtype": "bf16"}),
    ("gfx950", {"shuffled": 16, "op": "relu(acc + d0)", "d_kind": "row"}),
    ("gfx942", {"block": "64x64x128", "k": 328, "dtype": "bf16"}),
    ("gfx90a", {"block": "64x64x64", "layout": "RRR", "ld_scale": 12}),
    ("gfx90a", {"schedule": "preshuffle", "k": 1000, "split_k": 3, "m": 5, "scale": "f16"}),
]


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("chip", "keys"), CASES)
def test_products(chip: str, keys: dict[str, Any]) -> None:
    agree("gemm_fp4", chip, **{**RAGGED, **keys})


def test_the_reference_is_the_product_of_what_elements_stand_for() -> None:
    """Element by element from the bytes; 127 is the power of two that is 1."""
    problem = FP4.problem(m=3, n=5, k=70, out="f32")
    arrays = FP4.inputs(problem, get_target("gfx942"), seed=2)
    assert arrays["b0"].shape == (5, 35) and arrays["b1"].shape == (5, 3)
    b = np.zeros((5, 70))
    for row, k in np.ndindex(5, 70):
        code = int(arrays["b0"][row, k // 2]) >> 4 * (k % 2) & 15
        b[row, k] = NUMBERS[code] * 2.0 ** (int(arrays["b1"].view(np.uint8)[row, k // 32]) - 127)
    wanted = arrays["a0"].astype(np.float64) @ b.T
    np.testing.assert_allclose(FP4.reference(problem, arrays)["c"], wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("chip", CHIPS)
def test_every_element_with_every_power_of_two(chip: str, dtype: str) -> None:
    """Against rows of A that take an element of K each. The last column's scale is NaN. Matrix instructions of gfx90a
    take denormals for zeros.
    """
    target = get_target(chip)
    problem = FP4.problem(m=16, n=256, k=16, dtype=dtype, out="f32")
    arrays = dict(FP4.inputs(problem, target, seed=1))
    arrays["a0"][:] = np.eye(16)
    arrays["b0"][:] = np.arange(16, dtype=np.uint8).reshape(8, 2) @ np.array([1, 16], np.uint8)
    arrays["b1"] = np.arange(256, dtype=np.uint8).reshape(256, 1).view(ml_dtypes.float8_e8m0fnu)
    found = run_operator(FP4, problem, arrays, target, open_device("sim", target)).outputs["c"]
    with np.errstate(over="ignore"):
        weights = np.outer(2.0 ** (np.arange(255) - 127.0), NUMBERS).astype(arrays["a0"].dtype).astype(np.float32)
    if chip == "gfx90a":
        weights[np.abs(weights) < find_dtype(dtype).least_normal] = 0
    finite = np.isfinite(weights).all(axis=1)  # the others make 0 * inf of A's zeros
    np.testing.assert_array_equal(found.T[:255][finite], weights[finite])
    assert np.isnan(found.T[255]).all() and finite.sum() > 127


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.one_in(6)
@pytest.mark.parametrize("scale", ["f16", "bf16", "f32"])
def test_every_element_is_rounded_once(chip: str, scale: str) -> None:
    """With scales that products have to be rounded for."""
    target = get_target(chip)
    for dtype in ("f16", "bf16"):
        problem = FP4.problem(m=16, n=8, k=16, dtype=dtype, out="f32", scale=scale)
        arrays = dict(FP4.inputs(problem, target, seed=1))
        arrays["a0"][:] = np.eye(16)
        arrays["b0"][:] = np.arange(16, dtype=np.uint8).reshape(8, 2) @ np.array([1, 16], np.uint8)
        found = run_operator(FP4, problem, arrays, target, open_device("sim", target)).outputs["c"]
        exact = arrays["b1"].astype(np.float64) * NUMBERS
        np.testing.assert_array_equal(found.T, exact.astype(arrays["a0"].dtype).astype(np.float32))


def test_fragment_order_is_another_order_of_the_same_bytes() -> None:
    target = get_target("gfx942")
    plain, tiled = (FP4.problem(m=3, n=37, k=90, shuffled=columns) for columns in (0, 32))
    arrays = FP4.inputs(plain, target, seed=2)
    shuffled = {**arrays, "b0": shuffle_b(arrays["b0"], 32)}
    np.testing.assert_array_equal(FP4.reference(tiled, shuffled)["c"], FP4.reference(plain, arrays)["c"])


@pytest.mark.parametrize("shuffled", [0, 32])
@pytest.mark.one_in(6)
@pytest.mark.parametrize("chip", CHIPS)
def test_schedules_are_proved(chip: str, shuffled: int) -> None:
    target = get_target(chip)
    bench = Workbench.of(FP4, FP4.spec(FP4.problem(**RAGGED, shuffled=shuffled), target), target)
    assert bench.compile(bench.schedule, code=False).findings == ()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "dtype", "most"), [
    ("gfx90a", "f16", 2.7), ("gfx90a", "bf16", 2.75), ("gfx942", "f16", 2.7), ("gfx942", "bf16", 2.75),
    ("gfx950", "f16", 1.25), ("gfx950", "bf16", 1.25),
])  # fmt: skip
def test_vector_instructions_of_an_element(chip: str, dtype: str, most: float) -> None:
    """With the scale, the rounding and what the loop takes beside them."""
    target = get_target(chip)
    spec = FP4.spec(FP4.problem(m=4096, n=4096, k=4096, dtype=dtype), target)
    kernel = compile_kernel(FP4, spec, target)
    loop = steady_loop(kernel.code_object, kernel.kernel_name)
    steps = loop.mix["mfma"] * math.prod(spec.mfma) * spec.wave_count // math.prod(spec.block)
    assert steps and loop.mix["valu"] <= most * steps * spec.block[1] * spec.block[2] // (64 * spec.wave_count)


@pytest.mark.parametrize("chip", ["gfx90a", "gfx942"])
def test_large_blocks_with_other_scales(chip: str) -> None:
    """As with powers of two, without spills: a lane rounds the products of one scale once."""
    target = get_target(chip)
    asked = {"m": 4096, "n": 4096, "k": 4096, "dtype": "bf16", "op": "silu(acc * d0 + d1) * d2"}
    spec = FP4.spec(FP4.problem(**asked, scale="f32", d_kind="column,row,full"), target)
    assert (spec.block, spec.schedule) == ((224, 256, 64), "ping_pong")
    kernel = compile_kernel(FP4, spec, target)
    assert kernel.code_object.kernel(kernel.kernel_name).metadata.vgpr_spill_count == 0


@pytest.mark.parametrize(
    "chip", [pytest.param(chip, marks=() if chip == "gfx950" else pytest.mark.full) for chip in CHIPS]
)
def test_no_listed_kernel_spills(chip: str) -> None:
    target = get_target(chip)
    for spec in FP4.kernels(target)[:: 1 if chip != "gfx950" else 3]:
        kernel = compile_kernel(FP4, spec, target)
        found = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (found.vgpr_spill_count, found.private_segment_size) == (0, 0), spec.name


@pytest.mark.parametrize(("keys", "words"), [
    ({"k": 33}, "k=33: two elements share a byte of rows of array b0; expected an even number"),
    ({"scale": "i8"}, "scale=i8: expected e8m0|f16|bf16|f32"),
    ({"b_scale": "1x16"}, "b_scale=1x16: expected 1x32|1x64|1x128"),
    ({"zeros": 1}, "zeros=1: unknown key"),
])  # fmt: skip
def test_what_is_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        FP4.problem(**{**RAGGED, **keys})
    assert words in str(refused.value)
