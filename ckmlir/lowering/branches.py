"""Code that only some lanes or waves come by."""

from collections.abc import Callable

from ckmlir.mlir import ir
from ckmlir.passes.walk import move_rest


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
