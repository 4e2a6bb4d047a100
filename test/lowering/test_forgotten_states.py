"""Where wait states may be missing, and that they come in front of these places."""

from __future__ import annotations

import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.dialect.context import ck_context
from ckmlir.lowering.forgotten_states import doubtful
from ckmlir.mlir import ir
from ckmlir.ops import find_operator
from ckmlir.sim.analysis import check_hazards, missing_states
from ckmlir.targets import get_target

KERNEL = """
gpu.module @m {
  llvm.func @k(%a: vector<4xf16>, %c: vector<4xf32>, %i: i1, %p: !llvm.ptr<1>, %n: i32) {
    %d = WORK
    %o = llvm.inline_asm has_side_effects "TEXT", "=v,v" %n : (i32) -> i32
    llvm.cond_br %i, ^few, ^behind
  ^few:
    llvm.store %a, %p : vector<4xf16>, !llvm.ptr<1>
    END
  ^behind:
    llvm.store %d, %p : vector<4xf32>, !llvm.ptr<1>
    llvm.return
  }
}
"""
PRODUCT = (
    "rocdl.mfma.f32.16x16x16f16 %a, %a, %c, 0, 0, none "
    ": (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>"
)
AROUND = "llvm.br ^behind"


@pytest.mark.parametrize(
    ("work", "text", "end", "branches", "assemblies"),
    [
        pytest.param(PRODUCT, "", AROUND, 1, 0, id="a branch"),
        pytest.param(PRODUCT, "", "llvm.return", 0, 0, id="one way ends"),
        pytest.param(PRODUCT, "v_not_b32 $0, $1", "llvm.return", 0, 1, id="assembly"),
        pytest.param("llvm.fadd %c, %c : vector<4xf32>", "v_not_b32 $0, $1", AROUND, 0, 0, id="no product"),
    ],
)
def test_doubtful_places(work: str, text: str, end: str, branches: int, assemblies: int) -> None:
    with ck_context():
        module = ir.Module.parse(KERNEL.replace("WORK", work).replace("TEXT", text).replace("END", end))
        found = doubtful(module)
        assert (len(found.branches), len(found.assemblies)) == (branches, assemblies)
        assert bool(found) == bool(branches or assemblies)
        found.wait(20)
        lines = [line.strip() for line in str(module).splitlines()]
        waits = [place for place, line in enumerate(lines) if "s_nop 15\\0As_nop 3" in line]
        assert len(waits) == branches + assemblies
        if branches:
            assert "rocdl.sched.barrier" in lines[waits[0] - 1] and lines[waits[0] + 1].startswith("llvm.cond_br")
        if assemblies:
            assert '"s_nop 15\\0As_nop 3\\0Av_not_b32 $0, $1\\0As_nop 15\\0As_nop 3"' in lines[waits[0]]


def test_what_a_product_reads_is_not_overwritten_by_assembly() -> None:
    """LLVM does not look into the assembly that takes integers of 4 bits apart, one state behind a product that reads C
    for three."""
    target, operator = get_target("gfx942"), find_operator("gemm_quant")
    keys = {"dtype": "fp8", "b_dtype": "i4", "out": "f32", "a_scale": "tensor", "b_scale": "column", "zeros": True}
    spec = operator.spec(operator.problem(m=64, n=128, k=64, **keys), target)
    kernel = compile_kernel(operator, spec, target)
    assert not check_hazards(kernel.code_object, kernel.kernel_name)
    assert missing_states(kernel.code_object, kernel.kernel_name) == 0


def test_what_assembly_writes_is_not_read_too_soon() -> None:
    """By a matrix instruction, two states behind what makes f16 of integers of 4 bits that go past LDS."""
    target, operator = get_target("gfx90a"), find_operator("gemm_int4")
    keys = {"schedule": "preshuffle", "scale": "f16"}
    spec = operator.spec(operator.problem(m=5, n=90, k=1000, **keys), target)
    kernel = compile_kernel(operator, spec, target)
    assert missing_states(kernel.code_object, kernel.kernel_name) == 0
