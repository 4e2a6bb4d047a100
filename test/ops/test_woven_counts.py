"""What the woven loops of attention consist of: counts per 64 matrix instructions that docs/timing.md compares, without
what waves branch around."""

from __future__ import annotations

import re

import pytest
from checked_runs import usual_way

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.sim.decode import instruction_mix
from ckmlir.targets import get_target

MOST = {
    "gfx942": {"valu": 219, "wait": 49, "barrier": 1, "vmov": 0, "accvgpr_move": 0},
    "gfx950": {"valu": 264, "wait": 60, "barrier": 2, "vmov": 4, "accvgpr_move": 0},
}


@pytest.mark.parametrize("chip", MOST)
def test_the_default_has_no_more_instructions_than_compared(chip: str) -> None:
    operator, target = find_operator("fmha_fwd"), get_target(chip)
    problem = operator.problem(b=2, h=16, sq=4096, d=128, dtype="bf16", lse=1, layout="bshd")
    kernel = compile_kernel(operator, operator.spec(problem, target), target)
    loop = steady_loop(kernel.code_object, kernel.kernel_name).instructions
    assert not [one.text for one in loop if re.fullmatch(r"v_max_f32\S* v\d+, (v\d+), \1", one.text)]  # quiet NaN
    mix = instruction_mix(usual_way(loop))
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    assert mix["mfma"] >= 64
    for name, most in MOST[chip].items():
        assert 64 * mix[name] / mix["mfma"] <= most, name
