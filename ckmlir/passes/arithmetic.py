"""The arithmetic of a loop's body: which of its operations become vector instructions, and how long those take."""

from math import prod

from ckmlir.dialect.scalars import name_of
from ckmlir.mlir import ir
from ckmlir.targets import Target
from ckmlir.targets.timing import Cycles, least_vector_instructions, vector_cycles, vector_instructions

FREE = (
    "vector.",
    "arith.constant",
    "ck.make_",
    "ck.move_",
    "ck.lds_alloc",
    "ck.thread_",
    "ck.workgroup_",
    "llvm.",
    "ub.",
)
"""Operations that become no instruction, or none that a loop of fragments would feel."""


def is_arithmetic(op: ir.Operation) -> bool:
    """Whether an operation computes registers of lanes: a piece of arithmetic, unless it is a fragment of memory or of
    a matrix.

    Scalars belong to the whole wave, and take nothing of the vector unit.
    """
    return (
        not op.name.startswith(FREE)
        and not len(op.regions)
        and len(op.results) == 1
        and isinstance(op.results[0].type, ir.VectorType)
    )


def arithmetic_cycles(op: ir.Operation, target: Target) -> Cycles:
    """How long the vector unit is busy with a piece of arithmetic."""
    kind, bounded = name_of(op.results[0].type.element_type), "bounded" in op.attributes
    count = vector_instructions(target, op.name, elements_of(op), result=kind, bounded=bounded)
    return vector_cycles(target, op.name, count)


def least_cycles(op: ir.Operation, target: Target) -> Cycles:
    """How long the vector unit is busy with an operation at least: nothing for scalars, and for a product that its only
    user may add to something in one instruction (V_FMA).
    """
    count = 0
    if is_arithmetic(op) and not _may_be_fused(op):
        kind = name_of(op.results[0].type.element_type)
        count = least_vector_instructions(target, op.name, elements_of(op), result=kind)
    return vector_cycles(target, op.name, count)


def _may_be_fused(op: ir.Operation) -> bool:
    users = [use.owner.operation.name for use in op.results[0].uses]
    return op.name == "arith.mulf" and all(name in ("arith.addf", "arith.subf") for name in users)


def elements_of(op: ir.Operation) -> int:
    """Elements of the longest vector that an operation computes; at least 1."""
    lengths: list[int] = [prod(one.type.shape) for one in op.results if isinstance(one.type, ir.VectorType)]
    return max([1, *lengths])
