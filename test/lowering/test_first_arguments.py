"""Which arguments come in scalar registers: as many as a chip brings, those first that a product's sums need."""

from __future__ import annotations

from typing import Any

import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.sim.decode.decoder import disassemble
from ckmlir.targets import get_target

SUMMED = ("a", "b", "scale_a", "scale_b", "m", "n", "k", "lda", "ldb", "ld_scale_a", "ld_scale_b")
TILES = {"a_major": "tiles", "b_major": "tiles"}
KERNELS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gemm", {"dtype": "fp8", "m": 512, "n": 512, "k": 512, "op": "acc * alpha", "schedule": "async_late"}),
    ("mx_gemm", {"dtype": "fp4", "m": 128, "n": 128, "k": 256, "op": "acc + d0", **TILES}),
)


@pytest.mark.parametrize(("name", "keys"), KERNELS)
def test_nothing_but_arguments_takes_their_registers(name: str, keys: dict[str, Any]) -> None:
    """Kernels that copy to LDS too: LLVM cannot tell what these copies read of a launch."""
    operator, target = find_operator(name), get_target("gfx950")
    kernel = compile_kernel(operator, operator.spec(operator.problem(**keys), target), target)
    descriptor = kernel.code_object.kernel(kernel.kernel_name).descriptor
    assert descriptor.user_sgprs == (("kernarg_segment_ptr", 2), ("kernarg_preload", target.kernarg_preload))


def test_arguments_of_sums_come_first() -> None:
    name, keys = KERNELS[1]
    operator, target = find_operator(name), get_target("gfx950")
    spec = operator.spec(operator.problem(**keys), target)
    names = operator.build(spec, target).arguments
    assert names[: len(SUMMED)] == SUMMED
    assert names[len(SUMMED) :] == ("ldc", "ld_d0", "d0", "c", "alpha", "beta")


def test_experts_ask_for_their_rows_without_waiting() -> None:
    """What leads from a workgroup to the words of its rows is in registers; the rest is there with these words. Behind
    them nothing is waited for before A and B are asked for."""
    operator, target = find_operator("moe_gemm"), get_target("gfx950")
    keys = {"a_rows": "entry", "c_rows": "token", "op": "acc * d0", "d": "f32", "d_kind": "place", "unit": 96}
    problem = operator.problem(t=4096, e=32, topk=4, n=1024, k=512, dtype="bf16", reduction="atomic", **keys)
    kernel = compile_kernel(operator, operator.spec(problem, target), target)
    code = disassemble(kernel.code_object, kernel.kernel_name)
    begin = next(place for place, one in enumerate(code) if one.mnemonic == "s_branch") + 1
    names = [one.mnemonic for one in code[begin:]]
    words = names.index("buffer_load_dword")
    assert "s_waitcnt" not in names[:words]
    leaves = next(place for place in range(words, len(names)) if names[place].startswith("s_cbranch"))
    assert "s_waitcnt" in names[words:leaves]
    assert "s_waitcnt" not in names[leaves : names.index("buffer_load_dwordx4")]
