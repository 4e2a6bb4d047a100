"""Loads that are to be on their way at once.

LLVM waits for a scalar as soon as it can use it, be it before another load that depends on neither, and moves loads
behind a branch to where they are used. Where the program says that some come together (`together`), each scalar among
them passes through assembly, which is empty, behind the last: it needs them all, so that all are asked for first.
"""

from collections.abc import Iterable

from ckmlir.dialect.build import integer_of
from ckmlir.dialect.synchronization import TOGETHER
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.storage import to_storage
from ckmlir.mlir import ir

SCALAR, LOADS = "llvm.load", ("ck.load_fragment", "ck.gather_fragment")


def arrive_together(blocks: Iterable[ir.Block]) -> None:
    """Have what loads marked alike bring in each of some blocks arrive together; the marks are gone then."""
    for block in blocks:
        order = [view.operation for view in block]
        groups: dict[int, list[ir.Operation]] = {}
        for op in order:
            if TOGETHER in op.attributes:
                groups.setdefault(integer_of(op, TOGETHER), []).append(op)
                del op.attributes[TOGETHER]
        for loads in groups.values():
            _join(loads, order)


def _join(loads: list[ir.Operation], order: list[ir.Operation]) -> None:
    last = order.index(loads[-1])
    before = set(order[: last + 1])
    with ir.InsertionPoint(order[last + 1]), loads[-1].location:
        lanes = [to_storage(op.results[0]) for op in loads if op.name in LOADS]
        for op in loads:
            if op.name == SCALAR:
                own = op.results[0]
                others = [one.results[0] for one in loads if one.name == SCALAR and one != op]
                limits = ["=s", "0", *["s"] * len(others), *["v"] * len(lanes)]
                joined = assembly(own.type, [own, *others, *lanes], "", ",".join(limits))
                for use in list(own.uses):
                    user = use.owner.operation
                    if user not in before and user.name != "llvm.inline_asm":
                        user.operands[use.operand_number] = joined
