"""Products whose B goes past LDS, straight to registers: which, what their steps consist of, and numbers of experts."""

from typing import Any

import pytest
from operator_runner import checked

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction import past_lds
from ckmlir.ops.contraction.wishes import wish_of
from ckmlir.ops.operator import Operator
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


@pytest.mark.one_in(2)
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
    ("grouped_gemm", "gfx950", {"m": "3000,200"}, True),
    ("grouped_gemm", "gfx950", {"m": "3000,200", "k": "128,192"}, False),
]


@pytest.mark.parametrize(("name", "chip", "keys", "straight"), PLAIN)
def test_where_b_of_plain_products_goes_past_lds(name: str, chip: str, keys: dict[str, Any], straight: bool) -> None:
    """Where LDS would be the limit of blocks of 128 x 128, by waves side by side."""
    operator, target = find_operator(name), get_target(chip)
    spec = operator.spec(operator.problem(**{**MEDIUM, **keys}), target)
    assert (spec.schedule == "straight") == straight
    assert not straight or (spec.block[:2], spec.waves, spec.mfma[1]) == ((128, 128), (1, 4), 16)


def test_lanes_take_whole_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of L1; where it gave more at a time than a lane of the short instruction takes, B would stay in LDS."""
    target = get_target("gfx950")
    wish = wish_of(find_operator("gemm").problem(**MEDIUM), target)
    assert past_lds.goes_past_lds(wish, target)
    monkeypatch.setattr(past_lds, "REQUEST_BYTES", 2 * past_lds.REQUEST_BYTES)
    assert not past_lds.goes_past_lds(wish, target)


def assert_a_alone_is_in_lds(operator: Operator[Any, Any], spec: Any, *, workgroups: int) -> None:
    """Of blocks of four waves side by side on gfx950, each with 32 columns of B, of which a compute unit holds so many
    `workgroups`: nothing is spilled, a step writes 32 rows of A and reads 8 with an access of 1 KB.
    """
    found = compile_kernel(operator, spec, get_target("gfx950"))
    metadata = found.code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    assert found.workgroups_a_unit(256) == workgroups
    mix, rows = steady_loop(found.code_object, found.kernel_name).mix, spec.block[0]
    steps = mix["mfma"] * spec.mfma[2] // (rows // 8 * spec.block[2])
    assert steps and mix["lds"] == (rows // 32 + rows // 8) * steps


@pytest.mark.parametrize("keys", [
    {"dtype": "fp8"}, *(pytest.param(one, marks=pytest.mark.full) for one in (
        {}, {"dtype": "i8", "ldc": 3003, "n": 3003}, {"op": "gelu(acc * alpha + d0) + d1", "d_kind": "row,full"},
        {"m": 3001, "n": 3003, "k": 1064, "lda": 1088, "ldb": 1088},
    )),
])  # fmt: skip
def test_blocks_past_lds_leave_room_for_another(keys: dict[str, Any]) -> None:
    """A compute unit holds two workgroups, nothing is spilled, and a step writes and reads A alone in LDS."""
    operator = find_operator("gemm")
    spec = operator.spec(operator.problem(**{**MEDIUM, **keys}), get_target("gfx950"))
    assert spec.block[0] == 128
    assert_a_alone_is_in_lds(operator, spec, workgroups=2)


MOE_GEMM = find_operator("moe_gemm")
GATED = {"op": "silu(gate) * up"}
DOWN = {"a_rows": "entry", "c_rows": "token", "op": "acc * d0", "d": "f32", "d_kind": "place"}
NUMBERS = {"op": "acc * d0 * d1 * d2", "d": "f32,f32,f32", "d_kind": "place,column,row", "out": "f16"}
EXPERTS = {"t": 4096, "e": 32, "topk": 4, "n": 1024, "k": 512, "unit": 96, "dtype": "bf16"}


@pytest.mark.parametrize(("chip", "keys", "straight"), [
    ("gfx950", DOWN, True), ("gfx950", GATED, True), ("gfx950", {"unit": 192, "dtype": "fp8"}, True),
    ("gfx950", {"op": "gelu(acc + d0)"}, True),
    ("gfx950", {"unit": 128}, False), ("gfx950", {"n": 64}, False), ("gfx950", {"n": 64, **GATED}, True),
    ("gfx950", {"k": 520}, False), ("gfx950", {"layout": "RRR"}, False), ("gfx950", {"shuffled": 16}, False),
    ("gfx950", {"dtype": "f32"}, False), ("gfx950", {"dtype": "fp8", "a_scale": "mx", "b_scale": "mx"}, False),
    ("gfx942", DOWN, False),
])  # fmt: skip
def test_where_matrices_of_experts_go_past_lds(chip: str, keys: dict[str, Any], straight: bool) -> None:
    """Of one product and of two, in blocks of 96 rows that divide a unit, straight from the sums to memory."""
    spec = MOE_GEMM.spec(MOE_GEMM.problem(**{**EXPERTS, **keys}), get_target(chip))
    assert (spec.schedule == "straight") == straight
    block = (96, 128 // spec.products)
    assert not straight or (spec.block[:2], spec.waves, spec.mfma[1], spec.epilogue) == (block, (1, 4), 16, "direct")
    # What tells rows of one product is asked for at once where registers have room for that.
    assert not straight or spec.slices == ((2, 1) if "lu(" in keys.get("op", "") else (1, 1))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [
    {**DOWN, "c_rows": "entry"}, GATED, {"op": "gelu(acc + d0)"},
    *(pytest.param(one, marks=pytest.mark.full) for one in (
        {**DOWN, **NUMBERS, "reduction": "atomic", "n": 1026}, {"op": "gelu(gate + d0) * (up + d1)", "n": 1001},
        {**DOWN, **NUMBERS, "dtype": "i8", "out": "f32"}, {**DOWN, "dtype": "f16", "n": 1001},
    )),
])  # fmt: skip
def test_matrices_of_experts_past_lds_leave_room_for_two_others(keys: dict[str, Any]) -> None:
    """A compute unit holds three workgroups, nothing is spilled, and a step writes and reads A alone in LDS."""
    spec = MOE_GEMM.spec(MOE_GEMM.problem(**{**EXPERTS, **keys}), get_target("gfx950"))
    assert spec.block[0] == 96
    assert_a_alone_is_in_lds(MOE_GEMM, spec, workgroups=3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [
    {"t": 130, "n": 133, "k": 192, "e": 3, **DOWN, "c_rows": "entry"}, {"t": 110, "n": 70, "k": 128, "e": 2, **GATED},
    {"t": 75, "n": 136, "k": 256, "e": 2, "dtype": "i8", **DOWN, "reduction": "atomic", "out": "f32"},
    *(pytest.param(one, marks=pytest.mark.full) for one in (
        {"t": 120, "n": 264, "k": 64, "e": 3, "topk": 2, **DOWN}, {"t": 50, "n": 70, "k": 640, "unit": 192, "e": 1},
        {"t": 97, "n": 66, "k": 128, "e": 2, "dtype": "fp8", **DOWN, **NUMBERS, "reduction": "atomic"},
        {"t": 100, "n": 65, "k": 256, "e": 2, "dtype": "f16", "op": "gelu(gate + d0) * (up + d1)"},
    )),
], ids=str)  # fmt: skip
def test_numbers_of_experts_past_lds(keys: dict[str, Any]) -> None:
    """Columns that end within a block, units that are partly empty, under all checkers."""
    asked = {**EXPERTS, "topk": 1, **keys}
    assert MOE_GEMM.spec(MOE_GEMM.problem(**asked), get_target("gfx950")).schedule == "straight"
    checked("moe_gemm", "gfx950", asked)


@pytest.mark.parametrize("keys", [{"dtype": "bf16"}, pytest.param({"dtype": "fp8"}, marks=pytest.mark.full)], ids=str)
def test_two_plain_matrices_go_straight_to_registers(keys: dict[str, Any]) -> None:
    """Of `gated_gemm`, where a request says so."""
    asked = {"m": 100, "n": 72, "k": 264, "block": "64x64x64", "wave": "1x4", "schedule": "straight", **keys}
    checked("gated_gemm", "gfx942", asked)
