"""Sums that are computed where they stand.

LLVM puts arithmetic behind all that does not need it: of two steps of a loop that scale what their matrix instructions
give and add it to the same sums, it scales both behind the second, and what the first one gave waits in registers. In
a kernel that wishes for several waves of a SIMD each sum passes through empty assembly, which stays in its place.
"""

from __future__ import annotations

from collections.abc import Iterable

from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.resident_waves import WISH
from ckmlir.mlir import ir

SUM = "arith.addf"


def settle(function: ir.Operation, sums: Iterable[ir.Operation], matrix: Iterable[ir.Operation]) -> None:
    """Give the vector sums of f32 a place, in the blocks of a wishing kernel that have matrix instructions.

    Args:
        sums: all `SUM` of the kernel.
        matrix: all its matrix instructions.
    """
    if WISH not in function.attributes:
        return
    blocks = {op.block for op in matrix}
    for op in sums:
        result = op.results[0]
        vector = isinstance(result.type, ir.VectorType) and isinstance(result.type.element_type, ir.F32Type)
        if vector and op.block in blocks:
            _settle(op, result)


def _settle(op: ir.Operation, result: ir.Value) -> None:
    following = list(op.block)
    with ir.InsertionPoint(following[following.index(op) + 1]), op.location:
        settled = assembly(result.type, [result], "", "=v,0", effects=True)
    result.replace_all_uses_except(settled, settled.owner.operation)
