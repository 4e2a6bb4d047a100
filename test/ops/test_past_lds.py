"""Products whose B goes past LDS, straight to registers: which, and what their steps consist of."""

from typing import Any

import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import get_target

QUANT = find_operator("gemm_quant")
LARGE = {"m": 4096, "n": 4096, "k": 4096}
STRAIGHT: list[tuple[str, dict[str, Any], bool]] = [
    ("gfx950", {}, True), ("gfx950", {"b_scale": "1x128"}, True), ("gfx950", {"k": 2048, "b_dtype": "bf8"}, True),
    ("gfx950", {"b_scale": "1x128", "b_major": "rows"}, False), ("gfx950", {"k": 1920}, False),
    ("gfx950", {"k": 2304, "b_scale": "1x128"}, False),  # 18 groups: loads of two scales
    ("gfx950", {"a_major": "rows"}, False), ("gfx950", {"lda": 4112}, False), ("gfx950", {"m": 1024, "n": 1024}, False),
    ("gfx950", {"layout": "RRR"}, False), ("gfx950", {"a_scale": "1x64"}, False), ("gfx942", {}, False),
    ("gfx950", {"dtype": "i8"}, False), ("gfx950", {"b_dtype": "i4"}, False),
]


@pytest.mark.parametrize(("chip", "keys", "straight"), STRAIGHT)
def test_where_b_goes_straight_to_registers(chip: str, keys: dict[str, Any], straight: bool) -> None:
    """Where LDS would be the limit of a step, with an instruction of a whole group."""
    spec = QUANT.spec(QUANT.problem(**{**LARGE, **keys}), get_target(chip))
    assert (spec.schedule == "straight_single") == straight
    assert not straight or spec.mfma == (16, 16, 128)


@pytest.mark.parametrize(("b_scale", "most"), [("128x128", 14), ("1x128", 15)])
def test_steps_with_a_straight_b_leave_lds_alone(b_scale: str, most: int) -> None:
    """A step of 16 products writes A to LDS in 4 instructions and reads it in 8, of 24 with B, and scales, which it
    does not load, in up to 3.
    """
    target = get_target("gfx950")
    compiled = compile_kernel(QUANT, QUANT.spec(QUANT.problem(**LARGE, b_scale=b_scale), target), target)
    mix = steady_loop(compiled.code_object, compiled.kernel_name).mix
    assert mix["mfma"] % 16 == 0 and mix["lds"] * 16 <= most * mix["mfma"] and mix["vmem"] * 16 <= 12 * mix["mfma"]


MEDIUM = {"m": 3000, "n": 3000, "k": 1024, "dtype": "f16"}
PLAIN: list[tuple[str, str, dict[str, Any], bool]] = [
    ("gemm", "gfx950", {}, True), ("gemm", "gfx950", {"dtype": "i8"}, True),
    ("gemm", "gfx950", {"dtype": "fp8", "b_dtype": "bf8"}, True), ("gemm", "gfx950", {"m": 1000, "n": 2300}, True),
    ("batched_gemm", "gfx950", {"batch": 3}, True), ("gemm", "gfx950", {"m": 64}, False),
    ("gemm", "gfx950", {"m": 4096, "n": 4096}, False),  # large blocks
    ("gemm", "gfx950", {"lda": 1032}, False), ("gemm", "gfx950", {"layout": "RRR"}, False),
    ("gemm", "gfx950", {"dtype": "f32"}, False), ("gemm", "gfx942", {}, False),
    ("gemm", "gfx942", {"dtype": "fp8"}, False), ("gemm", "gfx950", {"wave": "2x2"}, False),
    ("gated_gemm", "gfx950", {}, False), ("streamk_gemm", "gfx950", {}, True),
    ("grouped_gemm", "gfx950", {"m": "3000,200"}, False),
]


@pytest.mark.parametrize(("name", "chip", "keys", "straight"), PLAIN)
def test_where_b_of_plain_products_goes_past_lds(name: str, chip: str, keys: dict[str, Any], straight: bool) -> None:
    """Where LDS would be the limit of blocks of 128 x 128, by waves side by side."""
    operator, target = find_operator(name), get_target(chip)
    spec = operator.spec(operator.problem(**{**MEDIUM, **keys}), target)
    assert (spec.schedule == "straight") == straight
    assert not straight or (spec.block[:2], spec.waves, spec.mfma[1]) == ((128, 128), (1, 4), 16)


@pytest.mark.parametrize("keys", [
    {"dtype": "fp8"}, *(pytest.param(one, marks=pytest.mark.full) for one in (
        {}, {"dtype": "i8", "ldc": 3003, "n": 3003}, {"op": "gelu(acc * alpha + d0) + d1", "d_kind": "row,full"},
        {"m": 3001, "n": 3003, "k": 1064, "lda": 1088, "ldb": 1088},
    )),
])  # fmt: skip
def test_blocks_past_lds_leave_room_for_another(keys: dict[str, Any]) -> None:
    """A compute unit holds two workgroups, nothing is spilled, and a step writes and reads A alone in LDS."""
    operator, target = find_operator("gemm"), get_target("gfx950")
    spec = operator.spec(operator.problem(**{**MEDIUM, **keys}), target)
    found = compile_kernel(operator, spec, target)
    metadata = found.code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    assert found.workgroups_a_unit(256) == 2
    mix = steady_loop(found.code_object, found.kernel_name).mix
    steps = mix["mfma"] * spec.mfma[2] // (16 * spec.block[2])
    assert steps and mix["lds"] == 20 * steps  # 4 writes and 16 reads of 1 KB
