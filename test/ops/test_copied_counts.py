"""What the loops of large products of gfx950 consist of: counts per 64 matrix instructions that docs/timing.md compares
with a hand-written kernel's.
"""

from __future__ import annotations

import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import get_target

MOST = {
    "bf16": {"valu": 0, "wait": 21, "barrier": 2, "vmov": 0, "accvgpr_move": 0, "lds": 32, "vmem": 16},
    "fp8": {"valu": 0, "wait": 16, "barrier": 4, "vmov": 0, "accvgpr_move": 0, "lds": 64, "vmem": 32},
}
"""With slots that are constants, of a loop of two steps."""
CARRIED = {"bf16": {"valu": 8, "wait": 22, "barrier": 1}, "fp8": {"valu": 16, "wait": 16, "barrier": 2}}
"""By default, with slots that one step hands on: eight vector additions a step."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", MOST)
@pytest.mark.parametrize("schedule", ["async_late", None])
def test_large_blocks_have_no_more_instructions_than_compared(schedule: str | None, dtype: str) -> None:
    operator, target = find_operator("gemm"), get_target("gfx950")
    named = {"schedule": schedule, "block": (256, 256, 64 if dtype == "bf16" else 128), "wave": (2, 2)}
    problem = operator.problem(m=4096, n=4096, k=4096, dtype=dtype, **(named if schedule else {}))
    kernel = compile_kernel(operator, operator.spec(problem, target), target)
    mix = steady_loop(kernel.code_object, kernel.kernel_name).mix
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    assert mix["mfma"] == (64 if dtype == "bf16" else 32) * (2 if schedule else 1)
    for name, most in (MOST[dtype] | ({} if schedule else CARRIED[dtype])).items():
        assert 64 * mix[name] / mix["mfma"] <= most, name


@pytest.mark.one_in(4)
@pytest.mark.parametrize("layout", ["CRR", "CCR"])
def test_rows_copied_by_eight_bytes_beside_another_matrix_compile(layout: str) -> None:
    operator, target = find_operator("gemm_multi_d"), get_target("gfx950")
    named = {"schedule": "async_wide_carried", "block": (256, 256, 64), "wave": (2, 2), "layout": layout}
    compile_kernel(operator, operator.spec(operator.problem(m=300, n=256, k=128, **named), target), target)
