"""Large products with weights of 4 bits: blocks that convert a weight once for more rows, where these pay; numbers."""

from __future__ import annotations

from typing import Any

import pytest
from operator_runner import CHIPS, agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.wishes import Plan, plan_of
from ckmlir.targets import get_target

SQUARE = {"m": 4096, "n": 4096, "k": 4096}
TURNS = Plan("ping_pong", (224, 256, 64), (2, 4))
TALL = Plan("compv3", (256, 128, 64), (4, 2))
LARGE = Plan("compv4", (256, 256, 64), (2, 4))
MEDIUM = Plan("compv4", (128, 128, 64), (2, 2))
ZEROS = {"dtype": "bf16", "zeros": 1}
CHOSEN: list[Any] = [
    ("gemm_int4", "gfx942", {}, TURNS),
    ("gemm_int4", "gfx90a", ZEROS, TURNS),
    ("gemm_int4", "gfx950", ZEROS, LARGE),
    ("gemm_fp4", "gfx942", {"dtype": "bf16"}, TURNS),
    # Rounding by arithmetic, with factors of more digits, takes registers: 28 would be spilled.
    ("gemm_int4", "gfx90a", {"dtype": "bf16", "scale": "f32"}, TALL),
    ("gemm_fp4", "gfx942", {"dtype": "bf16", "scale": "bf16"}, TALL),
    ("gemm_fp4", "gfx950", {"dtype": "bf16", "scale": "f32"}, LARGE),
    # Too few blocks of 256 x 256, but as many of 256 x 128 as the chip has room for.
    ("gemm_int4", "gfx942", {"m": 2048}, TALL),
    ("gemm_int4", "gfx942", {"m": 1024}, MEDIUM),
    ("gemm_int4", "gfx950", {"m": 3072}, LARGE),
    # Seven tiles of columns are converted in pieces: 46 would be spilled.
    ("gemm_int4", "gfx942", {"m": 3000, "n": 5120, "k": 1024, **ZEROS, "op": "gelu(acc + d0) + d1",
                             "d_kind": ("row", "full")}, None),
]  # fmt: skip


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("name", "chip", "keys", "plan"), CHOSEN)
def test_blocks_convert_weights_for_many_rows(name: str, chip: str, keys: dict[str, Any], plan: Plan | None) -> None:
    """Blocks, waves and schedule, and that nothing is spilled."""
    operator, target = find_operator(name), get_target(chip)
    spec = operator.spec(operator.problem(**{**SQUARE, **keys}), target)
    assert plan in (None, plan_of(spec))
    kernel = compile_kernel(operator, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize("chip", CHIPS)
def test_empty_products_have_plans(chip: str) -> None:
    target, operator = get_target(chip), find_operator("gemm_int4")
    for keys in ({"m": 0}, {"n": 0}, {"k": 0}):
        assert not operator.validate(operator.spec(operator.problem(**{**SQUARE, **keys}), target), target)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "chip", "plan", "keys"), [
    ("gemm_int4", "gfx942", TURNS, {**ZEROS, "b_scale": "1x32"}),
    pytest.param("gemm_fp4", "gfx90a", TURNS, {"dtype": "bf16"}, marks=pytest.mark.full),
    ("gemm_fp4", "gfx942", TALL, {"dtype": "bf16", "scale": "f32"}),
    pytest.param("gemm_int4", "gfx950", LARGE, {"b_dtype": "u4", "zeros": 1}, marks=pytest.mark.full),
])  # fmt: skip
def test_numbers(name: str, chip: str, plan: Plan, keys: dict[str, Any]) -> None:
    """Of two blocks each way, which their sizes do not divide."""
    schedule, block, waves = plan.schedule, plan.block, plan.waves
    sizes = {"m": block[0] + 6, "n": block[1] + 2, "k": 192}
    agree(name, chip, **sizes, **keys, schedule=schedule, block=block, wave=waves)
