"""Branches: what they hand on, and code that only some lanes or waves come by."""

from collections.abc import Callable

from ckmlir.mlir import ir
from ckmlir.passes.walk import move_rest

BRANCHES = ("cf.br", "cf.cond_br")


def received(branch: ir.Operation, number: int) -> ir.Value | None:
    """The block argument that a branch's operand becomes; None for a condition."""
    if branch.name == "cf.br":
        return branch.successors[0].arguments[number]
    _, first, _ = ir.DenseI32ArrayAttr(branch.attributes["operandSegmentSizes"])
    if number == 0:
        return None
    to, place = (0, number - 1) if number <= first else (1, number - 1 - first)
    return branch.successors[to].arguments[place]


def only_where(op: ir.Operation, condition: ir.Value, build: Callable[[], None]) -> None:
    """What `build` appends, for the lanes or waves that fulfil a condition; `op` and what follows it moves behind."""
    block = op.block
    rest = block.create_after()
    inner = rest.create_before()
    move_rest(op, rest, itself=True)
    with ir.InsertionPoint(block):
        sizes = ir.DenseI32ArrayAttr.get([1, 0, 0])
        ir.Operation.create(
            "cf.cond_br", operands=[condition], successors=[inner, rest], attributes={"operandSegmentSizes": sizes}
        )
    with ir.InsertionPoint(inner):
        build()
        ir.Operation.create("cf.br", successors=[rest])
