"""Which branches wait states may be missing behind, and that they come in front of these."""

from __future__ import annotations

import pytest

from ckmlir.dialect.context import ck_context
from ckmlir.lowering.late_reads import STATES, branches_around, wait_before
from ckmlir.mlir import ir

KERNEL = """
gpu.module @m {
  llvm.func @k(%a: vector<4xf16>, %c: vector<4xf32>, %i: i1, %p: !llvm.ptr<1>) {
    %d = WORK
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


@pytest.mark.parametrize(
    ("work", "end", "count"),
    [
        pytest.param(PRODUCT, "llvm.br ^behind", 1, id="behind a product"),
        pytest.param("llvm.fadd %c, %c : vector<4xf32>", "llvm.br ^behind", 0, id="behind a sum"),
        pytest.param(PRODUCT, "llvm.return", 0, id="one way ends"),
    ],
)
def test_branches_around_a_few_instructions(work: str, end: str, count: int) -> None:
    with ck_context():
        module = ir.Module.parse(KERNEL.replace("WORK", work).replace("END", end))
        branches = branches_around(module)
        assert [one.name for one in branches] == ["llvm.cond_br"] * count
        wait_before(branches)
        lines = [line.strip() for line in str(module).splitlines()]
        assert sum(STATES in line for line in lines) == count
        for place, line in enumerate(lines):
            if STATES in line:
                assert "rocdl.sched.barrier" in lines[place - 1] and lines[place + 1].startswith("llvm.cond_br")
