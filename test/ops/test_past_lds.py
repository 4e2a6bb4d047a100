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
