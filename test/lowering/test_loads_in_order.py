"""In which order loads in front of a steady loop are asked for: in that of its turns, whose waits count on it."""

from __future__ import annotations

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import get_target

LATER = 6
"""Loads of a turn behind the first of A: two more of A, and four of B past LDS."""


def test_a_loop_waits_for_no_more_than_it_needs() -> None:
    """LLVM would ask for B first where nobody needs what the second step loads, and each turn wait for both."""
    operator, target = find_operator("moe_gemm"), get_target("gfx950")
    keys = {"a_rows": "entry", "c_rows": "token", "op": "acc * d0", "d": "f32", "d_kind": "place", "unit": 96}
    problem = operator.problem(t=4096, e=32, topk=4, n=1024, k=512, dtype="bf16", reduction="atomic", **keys)
    kernel = compile_kernel(operator, operator.spec(problem, target), target)
    loop = steady_loop(kernel.code_object, kernel.kernel_name).instructions
    waits = [one.modifiers["vmcnt"] for one in loop if one.mnemonic == "s_waitcnt"]
    assert min(waits) >= LATER, waits
