"""Products of experts' matrices of 4 bits, with scales, beside activations of 16: numbers, the reference against loops,
an activation with limits and biases, proofs, instructions, spills, what is refused.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from operator_runner import CHIPS
from test_moe_gemm import FIRST, SECOND, run

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.shuffle import shuffle_b
from ckmlir.ops.packing import unpack_values
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import run_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.scheduling.workbench import Workbench
from ckmlir.targets import get_target

MOE_GEMM = find_operator("moe_gemm")
NUMBERS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
MXFP4: dict[str, Any] = {"dtype": "bf16", "b_dtype": "fp4"}
LIMITED = {
    "op": "minimum(gate + d0, 7) * sigmoid(1.702 * minimum(gate + d0, 7)) * (clamp(up + d1, -7, 7) + 1)",
    "d": "bf16,bf16", "d_kind": "row,row",
}  # fmt: skip
"""What is between the products of experts whose activation has limits, with a bias of each expert."""
REQUESTS: tuple[dict[str, Any], ...] = (
    {**MXFP4, "t": 17, "n": 70, "k": 300, "unit": 16, **LIMITED},
    {**MXFP4, "dtype": "f16", "t": 17, "n": 70, "k": 136, **SECOND, "reduction": "atomic", "out": "f32"},
    {**MXFP4, "t": 9, "n": 64, "k": 160, "b_scale": "1x64", "unit": 16, **FIRST, "out": "f32"},
    {**MXFP4, "t": 20, "n": 90, "k": 330, "shuffled": 16, "unit": 16, "a_rows": "entry"},
    {**MXFP4, "dtype": "f16", "t": 30, "n": 66, "k": 200, "shuffled": 32, **FIRST},
    {**MXFP4, "t": 12, "n": 64, "k": 97, "layout": "RRR", "b_scale": "1x128", **SECOND},
    {"dtype": "f16", "b_dtype": "i4", "b_scale": "1x32", "t": 17, "n": 70, "k": 256, **FIRST},
    {"dtype": "bf16", "b_dtype": "u4", "b_scale": "128x128", "t": 17, "n": 140, "k": 200, "b_stride": 28160},
    {**MXFP4, "t": 150, "n": 130, "k": 192, "unit": 128, "e": 2, **FIRST},
    {**MXFP4, "t": 3, "n": 72, "k": 128, "a_rows": "place", "c_rows": "place", "op": "acc + d0", "lda": 131},
    {**MXFP4, "t": 1, "n": 48, "k": 0, "topk": 1, "e": 1},
    {**MXFP4, "t": 0, "n": 48, "k": 64},
    {**MXFP4, "t": 5, "n": 5, "k": 6, "unit": 16},
    {**MXFP4, "dtype": "f16", "t": 17, "n": 70, "k": 352, "unit": 16, **LIMITED, "d": "f16,f16"},
    {**MXFP4, "t": 70, "n": 90, "k": 160, "unit": 64, **SECOND, "reduction": "atomic", "out": "f32"},
    {"dtype": "bf16", "b_dtype": "i4", "b_scale": "1x128", "t": 40, "n": 66, "k": 288, "unit": 32, **FIRST},
    {"dtype": "f16", "b_dtype": "i4", "b_scale": "1x128", "scale": "f16", "t": 17, "n": 70, "k": 288, **FIRST},
    {"dtype": "bf16", "b_dtype": "u4", "b_scale": "1x32", "scale": "bf16", "t": 9, "n": 66, "k": 330, **SECOND},
    {"dtype": "bf16", "b_dtype": "fp4", "b_scale": "128x128", "scale": "f16", "t": 9, "n": 140, "k": 200, "unit": 16},
    {"dtype": "f16", "b_dtype": "u4", "b_scale": "1x64", "scale": "bf16", "t": 17, "n": 70, "k": 200, "shuffled": 16},
    {"dtype": "f16", "b_dtype": "u4", "b_scale": "1x32", "zeros": 1, "t": 17, "n": 70, "k": 136, **FIRST},
    {"dtype": "bf16", "b_dtype": "i4", "b_scale": "1x128", "scale": "bf16", "zeros": 1, "t": 9, "n": 66, "k": 256,
     "unit": 16, **SECOND},
    {"dtype": "bf16", "b_dtype": "u4", "b_scale": "128x128", "zeros": 1, "t": 9, "n": 140, "k": 200, "layout": "RRR"},
    {"dtype": "f16", "b_dtype": "i4", "b_scale": "1x64", "scale": "f16", "zeros": 1, "t": 2, "n": 70, "k": 1216,
     "unit": 16, "shuffled": 16},
    {"dtype": "bf16", "b_dtype": "u4", "b_scale": "1x128", "scale": "bf16", "zeros": 1, "t": 1, "n": 70, "k": 1216,
     "unit": 16, **FIRST},
)
FEW = {
    ("gfx90a", 0),
    ("gfx942", 1),
    ("gfx950", 3),
    ("gfx90a", 6),
    ("gfx950", 8),
    ("gfx942", 7),
    ("gfx942", 12),
    ("gfx942", 13),
    ("gfx950", 14),
    ("gfx90a", 15),
    ("gfx942", 16),
    ("gfx90a", 17),
    ("gfx942", 20),
    ("gfx950", 21),
    ("gfx90a", 24),
}


@pytest.mark.one_in(14)
@pytest.mark.parametrize(("chip", "number"), [
    pytest.param(chip, number, marks=[] if (chip, number) in FEW else [pytest.mark.full])
    for chip, number in itertools.product(CHIPS, range(len(REQUESTS)))
])  # fmt: skip
def test_numbers(chip: str, number: int) -> None:
    """Types, groups, orders of B, kinds of rows, expressions, sums, ragged ends, under all checkers and guarded."""
    run(chip, **REQUESTS[number])


@pytest.mark.parametrize("keys", [
    {"b_dtype": "fp4"}, {"b_dtype": "fp4", "b_scale": "1x64"}, {"b_dtype": "i4", "b_scale": "128x128"},
    {"b_dtype": "i4", "b_scale": "1x64", "scale": "f16"}, {"b_dtype": "u4", "b_scale": "1x64", "zeros": True},
])  # fmt: skip
def test_the_reference(keys: dict[str, Any]) -> None:
    """Against loops over entries; the power of two of code 127 is 1."""
    t, n, k, experts, slots = 4, 6, 70, 3, 2
    problem = MOE_GEMM.problem(t=t, n=n, k=k, e=experts, topk=slots, dtype="bf16", out="f32", **keys)
    arrays = MOE_GEMM.inputs(problem, get_target("gfx950"), seed=1)
    word = keys.get("b_scale", "mx")
    assert arrays["scale_b"].shape == {"mx": (3, 6, 3), "1x64": (3, 6, 2), "128x128": (3, 1, 1)}[word]
    scales = arrays["scale_b"]
    of_b = 2.0 ** (scales.view(np.uint8).astype(np.float64) - 127) if word == "mx" else scales.astype(np.float64)
    group = {"mx": 32, "1x64": 64, "128x128": 128}[word]
    codes = unpack_values(arrays["b"], keys["b_dtype"]).astype(np.float64)
    found = MOE_GEMM.reference(problem, arrays)["c"]
    taken = 0
    for place in range(int(arrays["totals"][0])):
        entry, expert = int(arrays["sorted_ids"][place]), int(arrays["expert_ids"][place // problem.unit])
        token, slot = entry & 0xFFFFFF, entry >> 24
        if token >= t:
            continue
        taken += 1
        for column in range(n):
            row = 0 if word == "128x128" else column
            groups = np.arange(k) // group
            zeros = arrays["zero_b"][expert, row, groups].astype(np.float64) if problem.product.scaling[0].zeros else 0
            b = (codes[expert, column] - zeros) * of_b[expert, row, groups]
            total = arrays["a"][token].astype(np.float64) @ b
            assert found[token * slots + slot, column] == pytest.approx(total, rel=1e-9, abs=1e-12)
    assert taken == t * slots


def test_sums_are_of_what_the_chip_multiplies() -> None:
    """Of one entry for each token they are its result, with weights that are rounded to f16."""
    target = get_target("gfx942")
    keys = {"t": 9, "n": 5, "k": 64, "topk": 1, "e": 3, "dtype": "f16", "b_dtype": "fp4", "b_scale": "1x64"}
    entries, sums = (MOE_GEMM.problem(c_rows=rows, out="f32", **keys) for rows in ("entry", "token"))
    arrays = MOE_GEMM.inputs(entries, target, seed=2)
    found = MOE_GEMM.expected(sums, arrays, target)["c"]
    np.testing.assert_array_equal(found, MOE_GEMM.expected(entries, arrays, target)["c"])
    assert np.any(found != MOE_GEMM.reference(sums, arrays)["c"])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chip", CHIPS)
def test_every_element_with_every_power_of_two(chip: str) -> None:
    """Against rows of A that take an element of K each, in bf16, where all of them are exact; the last column's scale
    is NaN. Matrix instructions of gfx90a take denormals for zeros.
    """
    target = get_target(chip)
    problem = MOE_GEMM.problem(t=16, e=1, topk=1, unit=16, n=256, k=16, out="f32", **MXFP4)
    arrays = dict(MOE_GEMM.inputs(problem, target, seed=1))
    arrays["a"][:] = np.eye(16)
    arrays["b"][:] = np.arange(16, dtype=np.uint8).reshape(8, 2) @ np.array([1, 16], np.uint8)
    arrays["scale_b"] = np.arange(256, dtype=np.uint8).reshape(1, 256, 1).view(ml_dtypes.float8_e8m0fnu)
    found = run_operator(MOE_GEMM, problem, arrays, target, open_device("sim", target)).outputs["c"]
    with np.errstate(over="ignore"):
        weights = np.outer(2.0 ** (np.arange(255) - 127.0), NUMBERS).astype(ml_dtypes.bfloat16).astype(np.float32)
    if chip == "gfx90a":
        weights[np.abs(weights) < 2.0**-126] = 0
    finite = np.isfinite(weights).all(axis=1)  # the others make 0 * inf of A's zeros
    np.testing.assert_array_equal(found.T[:255][finite], weights[finite])
    assert np.isnan(found.T[255]).all() and finite.sum() > 127


def test_fragment_order_is_another_order_of_the_same_bytes() -> None:
    target = get_target("gfx942")
    plain, tiled = (MOE_GEMM.problem(t=3, n=37, k=90, shuffled=columns, **MXFP4) for columns in (0, 32))
    arrays = MOE_GEMM.inputs(plain, target, seed=2)
    shuffled = {**arrays, "b": np.stack([shuffle_b(one, 32) for one in arrays["b"]])}
    np.testing.assert_array_equal(MOE_GEMM.reference(tiled, shuffled)["c"], MOE_GEMM.reference(plain, arrays)["c"])


@pytest.mark.one_in(14)
@pytest.mark.parametrize("shuffled", [0, 16])
@pytest.mark.parametrize("chip", CHIPS)
def test_schedules_are_proved(chip: str, shuffled: int) -> None:
    target = get_target(chip)
    problem = MOE_GEMM.problem(t=17, n=90, k=300, unit=16, shuffled=shuffled, **MXFP4, **FIRST)
    bench = Workbench.of(MOE_GEMM, MOE_GEMM.spec(problem, target), target)
    assert bench.compile(bench.schedule, code=False).findings == ()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "dtype", "most"), [
    ("gfx90a", "bf16", 3.2), ("gfx942", "f16", 3.0), ("gfx942", "bf16", 3.2), ("gfx950", "bf16", 1.25),
])  # fmt: skip
def test_vector_instructions_of_an_element(chip: str, dtype: str, most: float) -> None:
    """With the scale, the rounding and what the loop takes beside them, in large blocks."""
    target = get_target(chip)
    keys = {"t": 4096, "e": 32, "topk": 4, "unit": 128, "n": 2880, "k": 2880, "b_dtype": "fp4", "dtype": dtype}
    spec = MOE_GEMM.spec(MOE_GEMM.problem(**keys, **FIRST), target)
    kernel = compile_kernel(MOE_GEMM, spec, target)
    loop = steady_loop(kernel.code_object, kernel.kernel_name)
    steps = loop.mix["mfma"] * math.prod(spec.mfma) * spec.wave_count // math.prod(spec.block)
    assert steps and loop.mix["valu"] <= most * steps * spec.block[1] * spec.block[2] // (64 * spec.wave_count)


@pytest.mark.parametrize("form", [FIRST, SECOND])
@pytest.mark.parametrize("unit", [16, 48, 64, 128])
def test_matrices_go_past_lds(unit: int, form: dict[str, Any]) -> None:
    """To waves side by side, each of which converts what it multiplies; not where rows are no whole vectors."""
    target = get_target("gfx950")
    keys = {"t": 64, "n": 128, "k": 256, "unit": unit, **MXFP4, **form}
    spec = MOE_GEMM.spec(MOE_GEMM.problem(**keys), target)
    assert (spec.schedule, spec.waves[0], spec.block[0], spec.epilogue) == ("straight", 1, unit & -unit, "direct")
    assert MOE_GEMM.spec(MOE_GEMM.problem(**{**keys, "k": 264}), target).schedule != "straight"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "unit"), [
    pytest.param(chip, unit, marks=[] if unit in (16, 128) else [pytest.mark.full])
    for chip, unit in itertools.product(CHIPS, (16, 32, 64, 128))
])  # fmt: skip
def test_spills(chip: str, unit: int) -> None:
    """Defaults of either product spill nothing, with the activation of limits and biases."""
    target = get_target(chip)
    for form in (LIMITED, {**SECOND, "reduction": "atomic", "out": "f32"}):
        spec = MOE_GEMM.spec(MOE_GEMM.problem(t=64, n=512, k=1024, unit=unit, **MXFP4, **form), target)
        found = compile_kernel(MOE_GEMM, spec, target).code_object.kernel().metadata
        assert (found.vgpr_spill_count, found.sgpr_spill_count) == (0, 0), spec.name


@pytest.mark.parametrize("n", [512, pytest.param(2880, marks=pytest.mark.full)])
def test_narrow_rows_spill_nothing(n: int) -> None:
    """Of gate and up: with four waves for a few tokens, as blocks whose sums are scaled have them, three scalar
    registers were kept in lanes on gfx90a."""
    target = get_target("gfx90a")
    spec = MOE_GEMM.spec(MOE_GEMM.problem(t=64, n=n, k=1026, unit=16, **MXFP4, **FIRST), target)
    found = compile_kernel(MOE_GEMM, spec, target).code_object.kernel().metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count) == (0, 0), spec.name


@pytest.mark.full
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("unit", [16, 32, 64, 128])
@pytest.mark.parametrize("keys", [
    {"dtype": "f16"}, {"k": 1026}, {"k": 1040, "n": 130}, {"b_scale": "1x64"}, {"shuffled": 16}, {"layout": "RRR"},
    {"b_dtype": "i4", "b_scale": "128x128"}, {"b_dtype": "u4", "b_scale": "1x128", "scale": "f16"},
])  # fmt: skip
def test_spills_of_other_requests(chip: str, unit: int, keys: dict[str, Any]) -> None:
    """Other types, alignments, groups and orders of B."""
    target = get_target(chip)
    for form in (FIRST, {**SECOND, "reduction": "atomic", "out": "f32"}):
        asked = {"t": 64, "n": 512, "k": 1024, "unit": unit, **MXFP4, **keys, **form}
        spec = MOE_GEMM.spec(MOE_GEMM.problem(**asked), target)
        found = compile_kernel(MOE_GEMM, spec, target).code_object.kernel().metadata
        assert (found.vgpr_spill_count, found.sgpr_spill_count) == (0, 0), spec.name


@pytest.mark.parametrize(("keys", "words"), [
    ({"a_scale": "mx"}, "a_scale=mx: dtype=bf16 has no scales beside b_dtype=fp4; expected nothing"),
    ({"b_dtype": "i4"}, "b_scale: b_dtype=i4 has scales of groups that are numbers; expected 1x32|1x64|1x128|128x128"),
    ({"b_dtype": "u4", "b_scale": "mx"}, "b_scale=mx: b_dtype=u4 has scales of groups that are numbers; expected 1x32"),
    ({"k": 33}, "k=33: rows of array b are whole bytes"),
    ({"dtype": "f32"}, "dtype=f32: expected fp8|bf8|fp4|fp6|bf6 with a_scale=mx, or f16|bf16 without a_scale"),
    ({"b_dtype": "fp6"}, "dtype=bf16: expected fp8|bf8|fp4|fp6|bf6 with a_scale=mx"),
    ({"scale": "f16"}, "scale=f16: b_scale=mx are powers of two; expected b_scale=1x32|1x64|1x128|128x128"),
    ({"dtype": "fp8", "scale": "f16"}, "scale=f16: of B of 4 bits beside f16|bf16; expected nothing"),
    ({"b_dtype": None, "b_scale": "mx"}, "a_scale: A and B have scales, or none has"),
    ({"zeros": 1}, "zeros: of integers of 4 bits, not of fp4; expected b_dtype=i4, or u4"),
    ({"b_dtype": None, "zeros": 1}, "zeros: of integers of 4 bits, not of bf16; expected b_dtype=i4, or u4"),
])  # fmt: skip
def test_what_is_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        MOE_GEMM.problem(**{**MXFP4, "t": 5, "n": 64, "k": 64, **keys})
    assert words in str(refused.value)
