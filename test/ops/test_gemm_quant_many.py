"""Quantised products in batches and in groups, gated ones too: scales of each product and scales that products share,
ragged and empty products, workgroups that stay; whatever they combine with; and what is refused."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, agree, outcome

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.scaling import MAJORS
from ckmlir.ops.gemm.gemm_quant import A_SCALES, B_SCALES, DTYPES
from ckmlir.ops.precision import DENORMAL
from ckmlir.ops.request import RequestError
from ckmlir.targets import get_target

BATCHED, GROUPED = "batched_gemm_quant", "grouped_gemm_quant"
GATED_BATCH, GATED_GROUPS = "batched_gated_gemm_quant", "grouped_gated_gemm_quant"
RAGGED: dict[str, dict[str, Any]] = {
    **{key: {"batch": "2x2", "m": 9, "n": 140, "k": 200} for key in (BATCHED, GATED_BATCH)},
    **{key: {"m": "67,0,5", "n": "140,8,1", "k": "200,8,0"} for key in (GROUPED, GATED_GROUPS)},
}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("gfx942", BATCHED, {"b_scale": "1x64", "b_major": "rows", "scale_a_batch_strides": "100x37", "dtype": "bf8"}),
    ("gfx942", GROUPED, {"b_scale": "1x128", "a_major": "rows", "persistent": 1}),
    ("gfx950", BATCHED, {"b_batch": 2, "scale_b_batch": 2}),
    ("gfx90a", BATCHED, {"dtype": "i8", "a_scale": "row", "b_scale": "column", "scale_b_batch": 1, "out": "f32"}),
    ("gfx950", GROUPED, {"ld_scale_a": "2,3,4", "op": "relu(acc + d0)", "d_kind": "row", "table": "device"}),
    ("gfx950", GROUPED, {"shuffled": 32, "b_at": "0,65536,81920"}),
    ("gfx942", BATCHED, {"shuffled": 16, "mfma": "16x16x32", "b_batch": 2, "scale_b_batch": 2}),
    ("gfx90a", GROUPED, {"dtype": "i8", "schedule": "preshuffle", "persistent": 1}),
    ("gfx942", GROUPED, {"b_dtype": "i4", "shuffled": 32}),
    ("gfx950", BATCHED, {"b_dtype": "u4", "shuffled": 16}),
    ("gfx942", GROUPED, {"b_dtype": "i4", "k": "200,8,6", "b_at": "0,16384,16384"}),
    ("gfx950", BATCHED, {"b_dtype": "i4", "b_batch": 2}),
    ("gfx90a", BATCHED, {"b_dtype": "i4", "dtype": "i8", "zeros": 1, "zero_b_batch": 2}),
    ("gfx942", GROUPED, {"b_dtype": "u4", "zeros": 1, "b_scale": "1x32", "k": "200,8,6", "persistent": 1}),
    ("gfx90a", GROUPED, {"dtype": "i8", "a_scale": "row", "b_scale": "tensor", "a_at": "0,16384,32768"}),
    ("gfx942", GATED_BATCH, {"gate_batch": 2, "scale_gate_batch": 2, "up_batch": 1, "b_scale": "1x64"}),
    ("gfx950", GATED_GROUPS, {"op": "relu(gate) * up + d0", "d_kind": "row", "persistent": 1}),
    ("gfx942", GATED_GROUPS, {"b_dtype": "i4", "shuffled": 32, "gate_at": "0,65536,81920", "up_at": "0,65536,81920"}),
    ("gfx90a", GATED_BATCH, {"dtype": "i8", "b_dtype": "i4", "zeros": 1, "zero_gate_batch": 2, "shuffled": 16}),
    ("gfx950", GATED_BATCH, {"a_scale": "row", "b_scale": "column", "dtype": "bf8", "batch": 3, "m": 1}),
    ("gfx90a", GATED_GROUPS, {"dtype": "i8", "a_scale": "tensor", "b_scale": "column", "table": "device"}),
]
BY_DEFAULT = 2
"""The first of them run by default."""


def marked() -> Iterator[Any]:
    for number, (chip, name, keys) in enumerate(CASES):
        marks = [pytest.mark.full] if number >= BY_DEFAULT else []
        yield pytest.param(chip, name, keys, marks=marks, id=f"{chip}-{name}-{number}")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "name", "keys"), list(marked()))
def test_products(chip: str, name: str, keys: dict[str, Any]) -> None:
    agree(name, chip, **{**RAGGED[name], **keys})


@pytest.mark.full
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("a_scale", A_SCALES)
@pytest.mark.parametrize("b_scale", B_SCALES)
@pytest.mark.parametrize("name", RAGGED)
def test_all_scales(chip: str, dtype: str, a_scale: str, b_scale: str, name: str) -> None:
    if get_target(chip).fp8 is None and dtype != "i8":
        pytest.skip(f"{chip} has no 8-bit floating point")
    agree(name, chip, **RAGGED[name], dtype=dtype, a_scale=a_scale, b_scale=b_scale)


@pytest.mark.one_in(192)
@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
@pytest.mark.parametrize("b_major", MAJORS)
@pytest.mark.parametrize("a_major", MAJORS)
@pytest.mark.parametrize("shuffled", [0, 32])
@pytest.mark.parametrize("name", ["gemm_quant", "gated_gemm_quant", *RAGGED])
def test_all_forms(name: str, shuffled: int, a_major: str, b_major: str, chip: str) -> None:
    """One product or two, single, in batches and in groups, B plain and in fragment order, scales in either order."""
    sizes = RAGGED.get(name, {"m": 9, "n": 140, "k": 200})
    keys = {"shuffled": shuffled, "a_major": a_major, "b_major": b_major, "b_scale": "1x128" if shuffled else "128x128"}
    agree(name, chip, **sizes, **keys)


@pytest.mark.parametrize("name", [GATED_BATCH, GATED_GROUPS])
def test_products_of_gated_ones_are_those_of_a_single_one(name: str) -> None:
    """The reference of a batch, and of a group, is that of its products one by one."""
    many, single, target = find_operator(name), find_operator("gated_gemm_quant"), get_target("gfx942")
    sizes = {"m": 3, "n": 130, "k": 140}
    batched = name == GATED_BATCH
    problem = many.problem(**({**sizes, "batch": 2} if batched else {key: (one,) * 2 for key, one in sizes.items()}))
    arrays, one = many.inputs(problem, target, seed=5), single.problem(**sizes)
    found = many.reference(problem, arrays)
    names = [array.name for array in single.arrays(one) if array.role == "in"]
    assert names == ["a", "gate", "up", "scale_a", "scale_gate", "scale_up"]
    for place in range(2):
        own = {name: arrays[name][place] if batched else arrays[f"{name}_{place}"] for name in names}
        expected = single.reference(one, own)["c"]
        assert np.array_equal(found["c"][place] if batched else found[f"c_{place}"], expected)


@pytest.mark.full
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", RAGGED)
def test_no_listed_kernel_spills(name: str, chip: str) -> None:
    operator, target = find_operator(name), get_target(chip)
    for spec in operator.kernels(target)[::5]:
        kernel = compile_kernel(operator, spec, target)
        found = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0), spec.name


def test_each_place_has_its_own_scales() -> None:
    """The reference of a batch is that of its products one by one."""
    batch, single = find_operator(BATCHED), find_operator("gemm_quant")
    target = get_target("gfx942")
    problem = batch.problem(batch="2x3", b_batch=3, m=3, n=130, k=140)
    arrays = batch.inputs(problem, target, seed=5)
    assert arrays["scale_a"].shape == (2, 3, 3, 2) and arrays["b"].shape == (1, 3, 130, 140)
    whole, one = batch.reference(problem, arrays)["c"], single.problem(m=3, n=130, k=140)
    for i, j in np.ndindex(2, 3):
        of_b = {"b": arrays["b"][0, j], "scale_b": arrays["scale_b"][i, j]}
        own = single.reference(one, {"a": arrays["a"][i, j], "scale_a": arrays["scale_a"][i, j], **of_b})
        assert np.array_equal(whole[i, j], own["c"])


def test_what_f32_cannot_hold_between_is_left_open() -> None:
    """A sum times one scale that is too large, and an infinity times a product of scales that may be 0; no more."""
    operator, target = find_operator("gemm_quant"), get_target("gfx950")
    problem = operator.problem(m=4, n=2, k=1, dtype="bf8", a_scale="row", b_scale="column")
    arrays = operator.inputs(problem, target, seed=1)
    arrays["a"][:, 0], arrays["b"][:, 0] = (2.0, np.inf, 2.0, 1.0), 2.0
    arrays["scale_a"][:], arrays["scale_b"][:] = (1e-3, 1e-30, 1.0, 1.0), (3e38, 1e-10)
    expected = operator.expected(problem, arrays, target)
    found = operator.tolerances(problem, arrays, expected, target)["c"]
    assert found.unspecified.tolist() == [[True, False], [True, True], [True, False], [True, False]]


@pytest.mark.parametrize(("name", "keys", "words"), [
    (BATCHED, {"scale_b_batch": 3}, "scale_b_batch=1x3: does not broadcast to batch=2x2"),
    (BATCHED, {"ld_scale_a": 1}, "ld_scale_a=1: rows of array scale_a have 2 elements; expected at least that"),
    (GROUPED, {"b_dtype": "i4", "k": 7}, "k=7: rows of array b are whole bytes, which 2 elements of i4 share"),
    (GATED_BATCH, {"up_batch": 3}, "up_batch=1x3: does not broadcast to batch=2x2"),
    (GATED_GROUPS, {"b_dtype": "i4", "k": 128, "up_at": "0,1,2"},
     "up_at: product 1 begins at element 1 of array up; expected multiples of"),
    (GROUPED, {"ld_scale_a": "2,2"}, "ld_scale_a: 2 numbers for 3 products; expected 1 or 3"),
    (GROUPED, {"ld_scale_a": 1}, "product 0: ld_scale_a=1: rows of array scale_a have 2 elements; expected at least"),
])  # fmt: skip
def test_what_is_refused(name: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        find_operator(name).problem(**{**RAGGED[name], **keys})
    assert words in str(refused.value)


def test_a_denormal_scale_beside_a_large_one() -> None:
    """A sum times one of them is rounded to a multiple of f32's least number before it meets the other."""
    scales = {
        "scale_a": np.full((4, 12, 1), 1e20, np.float32), "scale_b": np.full((4, 14, 1), DENORMAL, np.float32),
    }  # fmt: skip
    keys = {"m": 12, "n": 14, "k": 12, "b_scale": "1x64"}
    c = outcome(find_operator("batched_gemm_quant"), "gfx950", keys, scales, specified=True).outputs["c"]
    assert (np.abs(c.astype(np.float32)) > 1e-26).any()
