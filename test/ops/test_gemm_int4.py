"""Products with 4-bit integers and scales of groups: numbers on every chip, the reference against its definition, what
a step of the loop takes, schedules, registers, and what is refused.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.shuffle import shuffle_b, unshuffle_b
from ckmlir.ops.request import RequestError
from ckmlir.records import replace
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.scheduling.workbench import Workbench
from ckmlir.targets import get_target

INT4 = find_operator("gemm_int4")
RAGGED = {"m": 70, "n": 90, "k": 300}
CASES: list[Any] = [
    ("gfx942", {}),
    ("gfx90a", {"dtype": "bf16", "zeros": 1, "b_scale": "1x64", "scale": "f32"}),
    ("gfx950", {"b_scale": "1x32", "zeros": 1, "ldb": 151, "ld_scale": 13, "lda": 333, "ldc": 91}),
    ("gfx942", {"k": 512, "dtype": "bf16", "op": "silu(acc + d0)", "d_kind": "row", "out": "f32"}),
    ("gfx90a", {"k": 1022, "split_k": 3, "n": 33, "m": 1}),
    ("gfx950", {"k": 2, "m": 5, "n": 1, "zeros": 1}),
    ("gfx942", {"k": 0, "m": 5, "n": 7}),
    ("gfx942", {"k": 2048, "m": 5, "n": 7, "split_k": 4, "reduction": "atomic", "out": "f32"}),
    ("gfx942", {"m": 0}),
    ("gfx950", {"b_dtype": "u4", "dtype": "bf16", "zeros": 1}),
    pytest.param("gfx90a", {"b_dtype": "u4", "scale": "bf16", "k": 256}, marks=pytest.mark.full),
    ("gfx942", {"shuffled": 32}),
    ("gfx950", {"shuffled": 16, "zeros": 1, "b_dtype": "u4", "dtype": "bf16", "op": "relu(acc + d0)", "d_kind": "row"}),
    ("gfx90a", {"shuffled": 32, "b_scale": "1x32", "zeros": 1, "scale": "f32", "ld_scale": 11}),
    ("gfx942", {"schedule": "preshuffle", "k": 1000, "split_k": 3, "m": 5}),
    ("gfx950", {"schedule": "straight", "shuffled": 16, "k": 2, "n": 1}),
    ("gfx90a", {"shuffled": 16, "k": 0}),
    ("gfx950", {"shuffled": 32, "k": 256, "split_k": 2, "reduction": "atomic", "out": "f32"}),
]


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("chip", "keys"), CASES)
def test_products(chip: str, keys: dict[str, Any]) -> None:
    agree("gemm_int4", chip, **{**RAGGED, **keys})


def test_copies_of_bytes_that_lie_across_k_are_counted() -> None:
    """Sixteen waves have more lanes than B has groups of eight bytes, so that LDS has room for one buffer, not two."""
    operator, target = find_operator("gemm_int4"), get_target("gfx942")
    spec = operator.spec(operator.problem(m=64, n=64, k=64, layout="CRR", wave="4x4"), target)
    assert operator.validate(spec, target) == []
    compile_kernel(operator, spec, target)


@pytest.mark.parametrize("zeros", [0, 1])
def test_the_reference_is_the_product_of_what_integers_stand_for(zeros: int) -> None:
    """Element by element from the bytes."""
    problem = INT4.problem(m=3, n=5, k=70, b_scale="1x32", zeros=zeros, out="f32")
    arrays = INT4.inputs(problem, get_target("gfx942"), seed=2)
    assert arrays["b0"].shape == (5, 35) and arrays["b1"].shape == (5, 3)
    b = np.zeros((5, 70))
    for row, k in np.ndindex(5, 70):
        code = int(arrays["b0"][row, k // 2]) >> 4 * (k % 2) & 15
        number = code - 16 if code > 7 else code
        zero = float(arrays["b2"][row, k // 32]) if zeros else 0.0
        b[row, k] = (number - zero) * float(arrays["b1"][row, k // 32])
    wanted = arrays["a0"].astype(np.float64) @ b.T
    np.testing.assert_allclose(INT4.reference(problem, arrays)["c"], wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("dtype", "zeros"), [("bf16", 0), ("f16", 1)])
def test_nothing_is_promised_of_scales_that_overflow_with_the_largest_integer(dtype: str, zeros: int) -> None:
    """0 times such a scale is NaN where the chip takes integers less an offset."""
    target = get_target("gfx942")
    problem = INT4.problem(m=3, n=8, k=4, dtype=dtype, scale="f32", zeros=zeros)
    arrays = dict(INT4.inputs(problem, target, seed=2))
    arrays["b0"] = np.zeros_like(arrays["b0"])
    arrays["b1"] = np.array([1, 3e38, 3e37, 2e37, -3e38, -2e37, np.inf, 0], np.float32).reshape(8, 1)
    if zeros:
        arrays["b2"] = np.zeros_like(arrays["b2"])
    result = run_operator(INT4, problem, arrays, target, open_device("sim", target))
    (found,) = check_outputs(INT4, problem, arrays, result.outputs, target)
    assert found.ok and found.elements - found.unspecified == 3 * 4


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("chip", "dtype", "keys"), [
    (chip, dtype, {"b_dtype": b_dtype, "zeros": zeros}) for chip in CHIPS for dtype in ("f16", "bf16")
    for b_dtype in ("i4", "u4") for zeros in (0, 1)
])  # fmt: skip
def test_integers_that_stand_for_zero_are_zero_with_any_scale(chip: str, dtype: str, keys: dict[str, Any]) -> None:
    """Scales up to 2^123 are multiplied by factors of a kernel's own first, and still nothing becomes 0 * inf."""
    target = get_target(chip)
    problem = INT4.problem(m=3, n=8, k=4, dtype=dtype, scale="bf16", out="f32", **keys)
    arrays = dict(INT4.inputs(problem, target, seed=2))
    arrays["b0"][:] = 0x33 if keys["zeros"] else 0
    arrays["b1"][:] = 2.0 ** np.array([0, 80, 100, 105, 112, 116, 120, 123]).reshape(8, 1)
    if keys["zeros"]:
        arrays["b2"][:] = 3
    outputs = run_operator(INT4, problem, arrays, target, open_device("sim", target)).outputs
    (found,) = check_outputs(INT4, problem, arrays, outputs, target)
    assert found.ok and not found.unspecified and not outputs["c"].any(), found


@pytest.mark.parametrize("columns", [16, 32])
def test_fragment_order_is_another_order_of_the_same_bytes(columns: int) -> None:
    """As `shuffle_b` has it for bytes; filled up with zeros."""
    target = get_target("gfx942")
    keys = {"m": 3, "n": 37, "k": 90, "b_scale": "1x32", "zeros": 1}
    plain, tiled = INT4.problem(**keys), INT4.problem(**keys, shuffled=columns)
    arrays = INT4.inputs(plain, target, seed=2)
    shuffled = {**arrays, "b0": shuffle_b(arrays["b0"], columns)}
    assert shuffled["b0"].shape == INT4.inputs(tiled, target)["b0"].shape
    np.testing.assert_array_equal(INT4.reference(tiled, shuffled)["c"], INT4.reference(plain, arrays)["c"])
    assert not unshuffle_b(INT4.inputs(tiled, target)["b0"], 48 if columns == 16 else 64, 64, columns)[:, 45:].any()


def test_zero_points_do_not_meet_what_fills_tiles_up() -> None:
    """Behind k nothing becomes infinite where nothing before it does."""
    target = get_target("gfx950")
    problem = INT4.problem(m=4, n=16, k=34, zeros=1, b_dtype="u4", b_scale="1x64", shuffled=16)
    arrays = INT4.inputs(problem, target, seed=1)
    codes = np.full((16, 17), 0x99, np.uint8)
    arrays["b0"][:], arrays["b1"][:], arrays["b2"][:] = shuffle_b(codes, 16), 3e4, 8  # (9 - 8) * 30000; 8 * 30000
    arrays["a0"][:] = 2.0**-10
    found = run_operator(INT4, problem, arrays, target, open_device("sim", target)).outputs["c"]
    np.testing.assert_allclose(found.astype(np.float64), 34 * 3e4 * 2.0**-10, rtol=1e-3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_nothing_is_promised_where_a_scale_is_not_finite(value: float) -> None:
    """Of its column; all others are compared."""
    target = get_target("gfx942")
    problem = INT4.problem(m=16, n=16, k=2)
    arrays = INT4.inputs(problem, target, seed=1)
    arrays["b0"][:], arrays["b1"][3] = 0x77, value
    outputs = run_operator(INT4, problem, arrays, target, open_device("sim", target)).outputs
    (found,) = check_outputs(INT4, problem, arrays, outputs, target)
    assert found.ok and found.unspecified == 16, found


@pytest.mark.parametrize("shuffled", [0, 32])
@pytest.mark.one_in(6)
@pytest.mark.parametrize("chip", CHIPS)
def test_schedules_are_proved(chip: str, shuffled: int) -> None:
    target = get_target(chip)
    spec = INT4.spec(INT4.problem(**RAGGED, zeros=1, shuffled=shuffled), target)
    bench = Workbench.of(INT4, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()


def test_a_step_takes_whole_groups_or_a_part_of_one() -> None:
    target = get_target("gfx942")
    assert {INT4.spec(INT4.problem(b_scale=f"1x{group}"), target).block[2] for group in (32, 64, 128)} == {64}
    spec = replace(INT4.spec(INT4.problem(b_scale="1x64"), target), block=(64, 64, 96))
    assert any("take a group of 64 in part" in str(reason) for reason in INT4.validate(spec, target))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys", "most"), [
    ("gfx942", {}, 1.8), ("gfx942", {"dtype": "bf16"}, 2.8),
    *(pytest.param(*one, marks=pytest.mark.full) for one in (
        ("gfx942", {"zeros": 1}, 2.3), ("gfx942", {"b_dtype": "u4"}, 1.8),
        ("gfx942", {"dtype": "bf16", "zeros": 1}, 3.4), ("gfx90a", {"dtype": "bf16", "zeros": 1, "b_dtype": "u4"}, 3.5),
        ("gfx950", {"dtype": "bf16"}, 2.0), ("gfx90a", {"b_dtype": "u4", "zeros": 1}, 1.8),
        ("gfx942", {"dtype": "bf16", "b_dtype": "u4"}, 2.6),
        ("gfx942", {"dtype": "bf16", "b_dtype": "u4", "zeros": 1}, 3.1),
        ("gfx950", {"dtype": "bf16", "b_dtype": "u4"}, 2.0),
        ("gfx950", {"dtype": "bf16", "b_dtype": "u4", "zeros": 1}, 2.0),
    )),
])  # fmt: skip
def test_vector_instructions_of_an_integer(chip: str, keys: dict[str, Any], most: float) -> None:
    """With the scale, the zero point, the rounding and what the loop takes beside them."""
    target = get_target(chip)
    spec = INT4.spec(INT4.problem(m=4096, n=4096, k=4096, **keys), target)
    kernel = compile_kernel(INT4, spec, target)
    loop = steady_loop(kernel.code_object, kernel.kernel_name)
    steps = loop.mix["mfma"] * math.prod(spec.mfma) * spec.wave_count // math.prod(spec.block)
    assert steps and loop.mix["valu"] <= most * steps * spec.block[1] * spec.block[2] // (64 * spec.wave_count)


EXACT = [
    ("gfx942", {}), ("gfx90a", {"zeros": 1}), ("gfx942", {"dtype": "bf16"}),
    ("gfx950", {"b_dtype": "u4", "zeros": 1, "dtype": "bf16"}),
    *(pytest.param(chip, keys, marks=pytest.mark.full) for chip in CHIPS for keys in (
        {"b_dtype": "u4"}, {"b_dtype": "u4", "zeros": 1}, {"b_dtype": "u4", "dtype": "bf16"}, {"scale": "f32"},
        {"dtype": "bf16", "zeros": 1}, {"b_dtype": "u4", "zeros": 1, "scale": "f32"},
        {"b_dtype": "u4", "dtype": "bf16", "scale": "f32"},
        {"b_dtype": "u4", "dtype": "bf16", "zeros": 1, "scale": "f16"},
    )),
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "keys"), EXACT)
def test_every_integer_is_rounded_once(chip: str, keys: dict[str, Any]) -> None:
    """All bytes, with scales that products have to be rounded for, against rows of A that take an element of K each."""
    target = get_target(chip)
    problem = INT4.problem(m=32, n=16, k=32, b_scale="1x32", out="f32", **keys)
    arrays = INT4.inputs(problem, target, seed=1)
    arrays["a0"][:] = np.eye(32)
    arrays["b0"][:] = np.arange(256, dtype=np.uint8).reshape(16, 16)
    if "b2" in arrays:
        arrays["b2"][:] = np.linspace(-8, 15, 16).reshape(16, 1)  # integers among them, and others
    found = run_operator(INT4, problem, arrays, target, open_device("sim", target)).outputs["c"]
    codes = np.arange(256)
    wanted = np.stack([codes & 15, codes >> 4], axis=1).reshape(16, 32)
    numbers = wanted - 16 * (wanted > 7) * (keys.get("b_dtype", "i4") == "i4")
    if "b2" in arrays:
        numbers = (numbers - arrays["b2"].astype(np.float32)).astype(np.float32)
    exact = (numbers * arrays["b1"].astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(found.T, exact.astype(arrays["a0"].dtype).astype(np.float32))


@pytest.mark.full
@pytest.mark.parametrize(
    "chip", [pytest.param(chip, marks=() if chip == "gfx942" else pytest.mark.full) for chip in CHIPS]
)
def test_no_listed_kernel_spills(chip: str) -> None:
    target = get_target(chip)
    for spec in INT4.kernels(target)[:: 1 if chip != "gfx942" else 3]:
        kernel = compile_kernel(INT4, spec, target)
        found = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (found.vgpr_spill_count, found.private_segment_size) == (0, 0), spec.name


@pytest.mark.parametrize(("keys", "words"), [
    ({"k": 33}, "k=33: two elements share a byte of rows of array b0; expected an even number"),
    ({"ldb": 149}, "ldb=149: a row has 150; expected at least that"),
    ({"ld_scale": 2}, "ld_scale=2: a row has 3; expected at least that"),
    ({"b_scale": "1x16"}, "b_scale=1x16: expected 1x32|1x64|1x128"),
    ({"dtype": "i8"}, "dtype=i8: expected f16|bf16"),
    ({"shuffled": 8}, "shuffled=8: B is in tiles of 16 or 32 columns, or plain; expected 0, 16 or 32"),
    ({"shuffled": 16, "ldb": 400}, "ldb=400: shuffled tiles of B follow each other without gaps; expected 3072"),
])  # fmt: skip
def test_what_is_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        INT4.problem(**{**RAGGED, **keys})
    assert words in str(refused.value)
