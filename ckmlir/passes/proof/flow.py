"""Reading a control-flow graph: what a branch hands to whom."""

from ckmlir.mlir import ir


def handed(branch: ir.Operation, successor: int) -> list[ir.Value]:
    """The operands that a branch hands to the arguments of one of its successors (by number)."""
    operands = list(branch.operands)
    if branch.name == "cf.br":
        return operands
    middle = 1 + len(branch.successors[0].arguments)
    return operands[1:middle] if successor == 0 else operands[middle:]


def handed_over(op: ir.Operation) -> list[tuple[ir.Value, ir.Value]]:
    """(operand, block argument) pairs of an operation; none for what is no branch."""
    return [
        pair
        for number, block in enumerate(op.successors)
        for pair in zip(handed(op, number), block.arguments, strict=True)
    ]


def terminator(block: ir.Block) -> ir.Operation:
    """The last operation of a block."""
    return list(block.operations)[-1].operation
