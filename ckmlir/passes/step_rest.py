"""What a computed order leaves to its users: everything of the step that has no place of its own."""

from ckmlir.mlir import ir
from ckmlir.passes.loop_body import Placed, maker_of, operands_of

Ahead = dict[ir.Operation, int]
"""How many iterations ahead every operation runs."""


def with_rest(body: list[ir.Operation], order: list[tuple[ir.Operation, int]], ahead: Ahead) -> list[Placed]:
    """The fragments in their order; everything else right before its first user of the same iteration."""
    fixed = {op for op, _ in order}
    inside = set(body)
    placed: dict[ir.Operation, Placed] = {}

    def emit(op: ir.Operation, cluster: int) -> None:
        if op in placed:
            return
        for operand in operands_of(op):
            owner = maker_of(operand)
            if owner is not None and owner in inside and owner not in fixed and ahead[owner] == ahead[op]:
                emit(owner, cluster)
        placed[op] = Placed(op, ahead[op], cluster)

    for op, cluster in order:
        emit(op, cluster)
    for op in body:
        emit(op, order[-1][1])
    return list(placed.values())
