"""Products whose accumulators lie in registers of their own, of operands that are computed or come in pieces."""

from typing import Any

import pytest
from operator_runner import checked

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.targets import get_target

CASES = {
    # B comes as fragments that lie in another order than matrix instructions take them.
    "turned": ("flatmm", "gfx942", {
        "m": 250, "n": 256, "k": 200, "dtype": "bf8", "b_dtype": "fp8", "schedule": "straight",
        "block": (256, 256, 64), "wave": (1, 4),
    }),
    # B is read from LDS byte by byte.
    "bytes": ("gemm", "gfx950", {
        "m": 130, "n": 256, "k": 96, "dtype": "i8", "layout": "RRR", "schedule": "async",
        "block": (128, 256, 64), "wave": (2, 1),
    }),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_matrix_instructions_wait_for_what_is_computed(case: str) -> None:
    """LLVM inserts no wait states ahead of them; of a kernel that has too few nothing would be left to run."""
    name, chip, keys = CASES[case]
    checked(name, chip, keys)


def test_computed_operands_leave_registers_alone() -> None:
    """Else 165 registers would lie in scratch memory."""
    name, chip, keys = CASES["turned"]
    operator, target = find_operator(name), get_target(chip)
    sizes: dict[str, Any] = {"m": 4090, "n": 1024, "k": 4090}
    kernel = compile_kernel(operator, operator.spec(operator.problem(**{**keys, **sizes}), target), target)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.private_segment_size) == (0, 0)
