"""Products of experts' matrices with scales of groups: against loops, numbers, spills, what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS
from test_moe_gemm import FIRST, SECOND, run

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.packing import unpack_values
from ckmlir.ops.request import RequestError
from ckmlir.targets import get_target

MOE_GEMM = find_operator("moe_gemm")
MX = {"a_scale": "mx", "b_scale": "mx"}
BIASED = {
    "op": "silu(gate * d0 * d1 + d3) * (up * d0 * d2 + d4)", "d": "f32,f32,f32,bf16,bf16",
    "d_kind": "column,row,row,row,row", "out": "f32",
}  # fmt: skip
"""Gate and up of a layer in 8 bits: scales of tokens, and of each matrix's columns a scale and a bias."""
WEIGHTED = {
    **BIASED, "op": f"({BIASED['op']}) * d5", "d": f"{BIASED['d']},f32", "d_kind": f"{BIASED['d_kind']},place",
}  # fmt: skip
"""The same with weights of entries."""
REQUESTS: tuple[dict[str, Any], ...] = (
    {"t": 17, "n": 70, "k": 256, "dtype": "fp8", **MX},
    {"t": 17, "n": 70, "k": 200, "dtype": "fp4", **MX, **FIRST},
    {"t": 9, "n": 64, "k": 160, "dtype": "fp8", "b_dtype": "fp4", **MX, **SECOND, "reduction": "atomic", "out": "f32"},
    {"t": 40, "n": 150, "k": 100, "dtype": "fp6", "unit": 64},
    {"t": 12, "n": 64, "k": 96, "dtype": "bf8", "b_dtype": "fp8", **MX, **SECOND, "out": "bf16"},
    {"t": 3, "n": 72, "k": 128, "dtype": "fp4", **MX, "a_rows": "place", "c_rows": "place", "op": "acc + d0"},
    {"t": 17, "n": 70, "k": 200, "dtype": "fp8", "a_scale": "1x128", "b_scale": "128x128", **FIRST},
    {"t": 17, "n": 140, "k": 200, "dtype": "i8", "a_scale": "1x128", "b_scale": "1x64", **SECOND, "out": "bf16"},
    {"t": 17, "n": 70, "k": 256, "dtype": "fp8", "b_dtype": "i4", "a_scale": "1x128", "b_scale": "1x128", **FIRST},
    {"t": 17, "n": 70, "k": 256, "dtype": "i8", "b_dtype": "i4", "a_scale": "1x32", "b_scale": "128x128",
     "b_stride": 18000},
    {"t": 30, "n": 70, "k": 200, "dtype": "fp8", "a_scale": "1x128", "b_scale": "1x128", "shuffled": 16, "unit": 32},
    {"t": 1, "n": 48, "k": 0, "dtype": "fp8", **MX, "topk": 1, "e": 1},
    {"t": 0, "n": 48, "k": 64, "dtype": "fp4", **MX},
    {"t": 150, "n": 130, "k": 256, "dtype": "fp4", **MX, "unit": 128, "e": 2, **FIRST},
    {"t": 17, "n": 70, "k": 200, "dtype": "bf8", "b_dtype": "fp8", "a_scale": "1x128", "b_scale": "128x128", **FIRST},
    {"t": 12, "n": 66, "k": 96, "dtype": "bf8", **MX, "op": "silu(gate + d0) * (up + d1)", "d": "bf16,bf16",
     "d_kind": "row,row"},
    {"t": 17, "n": 65, "k": 64, "dtype": "fp8", **BIASED},
    {"t": 17, "n": 70, "k": 64, "dtype": "i8", **BIASED, "unit": 16},
    {"t": 9, "n": 70, "k": 64, "dtype": "fp8", **WEIGHTED, "c_rows": "token"},
    {"t": 9, "n": 70, "k": 200, "dtype": "i8", "a_scale": "1x128", "b_scale": "128x128", **SECOND,
     "op": "(acc + d1) * d0", "d": "f32,f16", "d_kind": "place,row", "out": "bf16"},
    {"t": 17, "n": 70, "k": 256, "dtype": "i8", "b_dtype": "u4", "a_scale": "1x128", "b_scale": "1x64", "zeros": 1,
     **FIRST},
    {"t": 9, "n": 70, "k": 200, "dtype": "fp8", "b_dtype": "i4", "a_scale": "1x64", "b_scale": "128x128", "zeros": 1,
     **SECOND, "out": "bf16"},
    {"t": 9, "n": 70, "k": 352, "dtype": "fp4", **MX, **SECOND, "unit": 16},
)  # fmt: skip
FEW = {
    ("gfx950", 2), ("gfx942", 6), ("gfx950", 15), ("gfx942", 16), ("gfx90a", 17), ("gfx942", 20), ("gfx950", 21),
    ("gfx942", 22),
}  # fmt: skip


def able(chip: str, keys: dict[str, Any]) -> bool:
    """Whether a chip has the types."""
    return chip != "gfx90a" or not {"fp8", "bf8"} & {keys["dtype"], keys.get("b_dtype")}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "number"), [
    pytest.param(chip, number, marks=[] if (chip, number) in FEW else [pytest.mark.full])
    for chip, number in itertools.product(CHIPS, range(len(REQUESTS)))
    if able(chip, REQUESTS[number])
])  # fmt: skip
def test_numbers(chip: str, number: int) -> None:
    """Types, groups, rows by token, entry and place, sums, ragged groups, under all checkers and guarded."""
    run(chip, **REQUESTS[number])


def decoded(array: Any, dtype: str) -> Any:
    """Elements in float64."""
    return unpack_values(array, dtype).astype(np.float64) if array.dtype == np.uint8 else array.astype(np.float64)


@pytest.mark.parametrize(
    "keys",
    [
        {"dtype": "fp4", **MX},
        {"dtype": "fp8", "b_dtype": "i4", "a_scale": "1x32", "b_scale": "1x64"},
        {"dtype": "fp8", "a_scale": "1x64", "b_scale": "128x128"},
    ],
)
def test_the_reference(keys: dict[str, Any]) -> None:
    """Against loops over entries and groups."""
    t, n, k, experts, slots = 4, 6, 70, 3, 2
    problem = MOE_GEMM.problem(t=t, n=n, k=k, e=experts, topk=slots, out="f32", **keys)
    arrays = MOE_GEMM.inputs(problem, get_target("gfx950"), seed=1)
    a, b = decoded(arrays["a"], keys["dtype"]), decoded(arrays["b"], keys.get("b_dtype", keys["dtype"]))
    of_a, of_b = arrays["scale_a"].astype(np.float64), arrays["scale_b"].astype(np.float64)
    lengths = {"mx": 32, "128x128": 128, "1x32": 32, "1x64": 64, "1x128": 128}
    group_a, group_b = (lengths[keys[key]] for key in ("a_scale", "b_scale"))
    found = MOE_GEMM.reference(problem, arrays)["c"]
    taken = 0
    for place in range(int(arrays["totals"][0])):
        word, expert = int(arrays["sorted_ids"][place]), int(arrays["expert_ids"][place // problem.unit])
        token, slot = word & 0xFFFFFF, word >> 24
        if token >= t:
            continue
        taken += 1
        for column in range(n):
            row = 0 if keys["b_scale"] == "128x128" else column
            total = sum(
                a[token, i] * of_a[token, i // group_a] * b[expert, column, i] * of_b[expert, row, i // group_b]
                for i in range(k)
            )
            assert found[token * slots + slot, column] == pytest.approx(total, rel=1e-9, abs=1e-12)
    assert taken == t * slots


@pytest.mark.full
@pytest.mark.parametrize(("chip", "sizes", "block"), [
    ("gfx950", {"k": 256}, (128, 128, 128)), ("gfx950", {"k": 1040, "out": "f32"}, (128, 64, 128)),
    ("gfx950", {"k": 1028}, (128, 64, 128)), ("gfx950", {"k": 1040, "unit": 64}, (64, 64, 128)),
    ("gfx942", {"k": 1028, "unit": 64}, (64, 64, 128)),
])  # fmt: skip
def test_two_matrices_across_k_with_powers_spill_nothing(
    chip: str, sizes: dict[str, Any], block: tuple[int, int, int]
) -> None:
    """Of 8 bits, whose elements registers turn beside the sums of both: with one LDS buffer, or half as many columns
    where steps end behind K.
    """
    target = get_target(chip)
    keys = {"t": 1000, "n": 1024, "unit": 128, "dtype": "bf8", "op": "silu(gate) * up", "layout": "RRR", **MX, **sizes}
    spec = MOE_GEMM.spec(MOE_GEMM.problem(**keys), target)
    found = compile_kernel(MOE_GEMM, spec, target).code_object.kernel().metadata
    assert (spec.schedule, spec.block) == ("compv3", block)
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)


@pytest.mark.full
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("unit", [16, 32, 64, 128])
@pytest.mark.parametrize(
    "keys",
    [
        {"dtype": "fp4", **MX},
        {"dtype": "fp8", **MX},
        {"dtype": "fp8", "b_dtype": "fp4", **MX},
        {"dtype": "fp8", "a_scale": "1x128", "b_scale": "128x128"},
    ],
)
def test_spills(chip: str, unit: int, keys: dict[str, Any]) -> None:
    """Defaults of either product spill nothing."""
    target = get_target(chip)
    for form in (FIRST, {**SECOND, "reduction": "atomic", "out": "f32"}):
        spec = MOE_GEMM.spec(MOE_GEMM.problem(t=64, n=512, k=1024, unit=unit, **keys, **form), target)
        if not MOE_GEMM.validate(spec, target):
            found = compile_kernel(MOE_GEMM, spec, target).code_object.kernel().metadata
            assert (found.vgpr_spill_count, found.sgpr_spill_count) == (0, 0), spec.name


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "dtype", "unit"), [
    pytest.param(chip, dtype, unit, marks=[] if (dtype, unit) == ("i8", 128) else [pytest.mark.full])
    for chip, dtype, unit in itertools.product(CHIPS, ("i8", "fp8"), (16, 32, 64, 128))
    if able(chip, {"dtype": dtype})
])  # fmt: skip
def test_biases_beside_scales_spill_nothing(chip: str, dtype: str, unit: int) -> None:
    target = get_target(chip)
    down = {**SECOND, "op": "(acc * d1 * d2 + d3) * d0", "d": "f32,f32,f32,bf16", "d_kind": "place,column,row,row"}
    forms = ((BIASED, 512, 1024), ({**down, "out": "bf16"}, 512, 1024), (BIASED, 257, 333), (WEIGHTED, 512, 1024))
    for form, n, k in (*forms, ({**WEIGHTED, "c_rows": "token"}, 257, 333)):
        keys = {"t": 64, "n": n, "k": k, "unit": unit, "dtype": dtype, **form}
        spec = MOE_GEMM.spec(MOE_GEMM.problem(**keys), target)
        found = compile_kernel(MOE_GEMM, spec, target).code_object.kernel().metadata
        assert (found.vgpr_spill_count, found.sgpr_spill_count) == (0, 0), spec.name


@pytest.mark.parametrize(("chip", "keys", "expected"), [
    ("gfx942", {"e": 32, "topk": 4, "n": 2880, "k": 2880}, ((16, 16, 256), "mem4")),
    ("gfx950", {"e": 32, "topk": 4, "n": 2880, "k": 2880, **MX}, ((16, 16, 256), "mem4")),
    ("gfx942", {"e": 32, "topk": 4, "n": 2880, "k": 2880, "dtype": "fp4", **MX}, ((16, 64, 128), "straight")),
    ("gfx942", {"e": 64, "topk": 8, "n": 2048, "k": 1024}, ((16, 64, 128), "compv3")),  # four for each compute unit
    ("gfx942", {"e": 32, "topk": 4, "n": 2880, "k": 2880, **FIRST}, ((16, 16, 256), "compv3")),
])  # fmt: skip
def test_blocks_of_one_token(chip: str, keys: dict[str, Any], expected: tuple[tuple[int, ...], str]) -> None:
    """Bytes with scales of groups: small blocks with loads ahead where compute units then have fewer columns."""
    asked = {"t": 1, "unit": 16, "dtype": "fp8", "a_scale": "1x128", "b_scale": "128x128", **keys}
    spec = MOE_GEMM.spec(MOE_GEMM.problem(**asked), get_target(chip))
    assert (spec.block, spec.schedule) == expected


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"dtype": "fp8", "zeros": 1, **MX}, "zeros: of integers of 4 bits, not of fp8; expected b_dtype=i4, or u4"),
        ({"dtype": "bf8", "b_dtype": "i4", "a_scale": "1x32", "b_scale": "1x32", "zeros": 1},
         "b_dtype=i4: its differences become bf8, which lacks 9; expected dtype=fp8, or i8"),
        ({"dtype": "f16", "b_dtype": "bf8"}, "b_dtype=bf8: such products have scales of groups; expected a_scale=mx"),
        ({"dtype": "fp8", "b_dtype": "i4"}, "b_dtype=i4: such products have scales of groups; expected a_scale=1x128"),
        ({"dtype": "fp8", "a_scale": "mx"}, "b_scale: A and B have scales, or none has"),
        ({"dtype": "fp8", "a_scale": "mx", "b_scale": "1x32"}, "powers of two are of both or none"),
        ({"dtype": "f16", **MX}, "dtype=f16: expected fp8|bf8|"),
        ({"dtype": "fp4", "a_scale": "1x32", "b_scale": "1x32"}, "dtype=fp4: expected fp8|bf8|i8 with a_scale=1x32"),
        ({"dtype": "fp8", "b_dtype": "fp4", "a_scale": "1x32", "b_scale": "1x32"},
         "b_dtype=fp4: expected fp8|bf8|i4|u4 with a_scale=1x32"),
        ({"dtype": "fp4", "k": 33, **MX}, "k=33: rows of array a are whole bytes"),
        ({"dtype": "fp4", "layout": "RRR", "n": 33, **MX}, "n=33: rows of array b are whole bytes"),
        ({"dtype": "fp4", "b_stride": 65535, "n": 64, "k": 64, **MX}, "b_stride=65535: 2 elements of fp4 share bytes"),
        ({"dtype": "fp4", "b_stride": 128, "n": 64, "k": 64, **MX}, "b_stride=128: an expert's matrix takes"),
    ],
)
def test_requests_that_do_not_fit(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        MOE_GEMM.problem(**keys)
    assert words in str(refused.value) and "expected" in str(refused.value)
