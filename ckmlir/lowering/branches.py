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


def only_where(op: ir.Operation, condition: ir.Value, build: Callable[[], object]) -> None:
    """What `build` appends, for the lanes or waves that fulfil a condition; `op` and what follows it moves behind."""

    def nothing_left() -> list[ir.Value]:
        build()
        return []

    where_all(op, condition, nothing_left, [])


def where(op: ir.Operation, condition: ir.Value, build: Callable[[], ir.Value], otherwise: ir.Value) -> ir.Value:
    """What `build` makes, for the lanes or waves that fulfil a condition, and `otherwise` for the others.

    `op` and what follows it moves behind.
    """
    (joined,) = where_all(op, condition, lambda: [build()], [otherwise])
    return joined


def where_all(
    op: ir.Operation, condition: ir.Value, build: Callable[[], list[ir.Value]], otherwise: list[ir.Value]
) -> list[ir.Value]:
    """As `where`, of several values."""
    block = op.block
    rest = block.create_after(*(one.type for one in otherwise))
    inner = rest.create_before()
    move_rest(op, rest, itself=True)
    with ir.InsertionPoint(block):
        sizes = ir.DenseI32ArrayAttr.get([1, 0, len(otherwise)])
        operands, attributes = [condition, *otherwise], {"operandSegmentSizes": sizes}
        ir.Operation.create("cf.cond_br", operands=operands, successors=[inner, rest], attributes=attributes)
    with ir.InsertionPoint(inner):
        ir.Operation.create("cf.br", operands=build(), successors=[rest])
    return list(rest.arguments)
