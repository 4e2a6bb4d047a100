"""What the loops of attention and of products consist of: counts per 64 matrix instructions that docs/timing.md
compares, without what waves branch around."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from checked_runs import usual_way

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.sim.decode import instruction_mix
from ckmlir.targets import get_target


@dataclass(frozen=True)
class Compared:
    """A default kernel, and the most that its loop may have."""

    chip: str
    operator: str
    keys: dict[str, Any]
    most: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.operator}-{self.keys.get('mask', '')}-{self.chip}"


ATTENTION = {"b": 2, "h": 16, "sq": 4096, "d": 128, "dtype": "bf16", "lse": 1, "layout": "bshd"}
CAUSAL = {**ATTENTION, "mask": "bottom_right"}
PRODUCT = {"m": 4096, "n": 4096, "k": 4096, "dtype": "bf16"}
COMPARED = [
    Compared("gfx942", "fmha_fwd", ATTENTION, {"valu": 219, "wait": 49, "barrier": 1, "vmov": 0, "lds": 56, "vmem": 6}),
    Compared("gfx950", "fmha_fwd", ATTENTION, {"valu": 264, "wait": 60, "barrier": 2, "vmov": 4, "lds": 96, "vmem": 8}),
    Compared("gfx942", "fmha_fwd", CAUSAL, {"valu": 283, "wait": 50, "barrier": 1, "vmov": 0, "lds": 56, "vmem": 6}),
    Compared("gfx950", "fmha_fwd", CAUSAL, {"valu": 269, "wait": 60, "barrier": 2, "vmov": 4, "lds": 96, "vmem": 8}),
    Compared("gfx942", "gemm", PRODUCT, {"valu": 0, "wait": 8, "barrier": 3, "vmov": 0, "lds": 19, "vmem": 7}),
    Compared("gfx950", "gemm", PRODUCT, {"valu": 8, "wait": 22, "barrier": 1, "vmov": 0, "lds": 32, "vmem": 16}),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("one", COMPARED, ids=str)
def test_the_default_has_no_more_instructions_than_compared(one: Compared) -> None:
    operator, target = find_operator(one.operator), get_target(one.chip)
    kernel = compile_kernel(operator, operator.spec(operator.problem(**one.keys), target), target)
    loop = steady_loop(kernel.code_object, kernel.kernel_name).instructions
    assert not [one.text for one in loop if re.fullmatch(r"v_max_f32\S* v\d+, (v\d+), \1", one.text)]  # quiet NaN
    mix = instruction_mix(usual_way(loop))
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    assert mix["mfma"] >= 64
    for name, most in {**one.most, "accvgpr_move": 0}.items():
        assert 64 * mix[name] / mix["mfma"] <= most, name
