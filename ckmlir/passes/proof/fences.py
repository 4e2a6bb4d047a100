"""The order that a schedule pins is fenced.

Every fragment that carries `ck.pinned`, and every group of waits and barriers in a block with such fragments, stands
between two `sched_barrier`s that nothing may cross, with nothing else inside. Without them the backend may move a
fragment among its neighbours: correct, but not the order that was asked for.
"""

from ckmlir.dialect.build import text_of
from ckmlir.mlir import ir
from ckmlir.passes.proof.finding import Finding, words_for

PINNED = "ck.pinned"
SYNCHRONISATION = ("ck.wait", "ck.barrier")


def check_fences(function: ir.Operation) -> list[Finding]:
    """Findings of the kind `fence`."""
    found = []
    for block in function.regions[0]:
        ops = [view.operation for view in block]
        if not any(PINNED in op.attributes for op in ops):
            continue
        for place, op in enumerate(ops):
            pinned = PINNED in op.attributes
            if not pinned and op.name not in SYNCHRONISATION:
                continue
            for side, neighbour in (("before", ops[place - 1] if place else None), ("behind", ops[place + 1])):
                if not (_is_fence(neighbour) or (not pinned and _synchronises(neighbour))):
                    found.append(_missing(op, side, neighbour))
    return found


def _is_fence(op: ir.Operation | None) -> bool:
    return op is not None and op.name == "ck.sched_barrier" and text_of(op, "mask") == "none"


def _synchronises(op: ir.Operation | None) -> bool:
    return op is not None and op.name in SYNCHRONISATION


def _missing(op: ir.Operation, side: str, neighbour: ir.Operation | None) -> Finding:
    notes = () if neighbour is None else ((f"{words_for(neighbour)} may change places with it", neighbour),)
    message = f"no fence stands {side} {words_for(op)}, which the schedule pins: put a sched_barrier of mask none there"
    return Finding("fence", op, message, notes)
