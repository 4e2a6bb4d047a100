"""The order that a schedule asks for is fenced.

Every fragment that carries `ck.pinned`, and every group of waits and barriers in a block with such fragments, stands
between two `sched_barrier`s that nothing may cross, with nothing else inside. Where an operation carries `ck.fences`,
these fences stand before it, in their order and on the right sides of barriers, behind what the step computes before.
Without them the backend may move a fragment among its neighbours: correct, but not the order that was asked for.
"""

from ckmlir.dialect.build import text_of
from ckmlir.mlir import ir
from ckmlir.passes.proof.finding import Finding, words_for

PINNED = "ck.pinned"
FENCES = "ck.fences"
SYNCHRONISATION = ("ck.wait", "ck.barrier")
PLACELESS = (*SYNCHRONISATION, "ck.group_barrier", "ck.sched_barrier", "ck.sched_group_barrier", "ck.priority")
"""What may stand among fences: nothing that a fence keeps in its place."""


def check_fences(function: ir.Operation) -> list[Finding]:
    """Findings of the kind `fence`."""
    found = []
    for block in function.regions[0]:
        ops = [view.operation for view in block]
        found += [_lacking(op, asked) for op in ops if (asked := _not_there(ops, op)) is not None]
        if any(PINNED in op.attributes for op in ops):
            found += unpinned(ops, {op for op in ops if PINNED in op.attributes})
    return found


def unpinned(ops: list[ir.Operation], which: set[ir.Operation]) -> list[Finding]:
    """Findings for those of a block's operations, and for waits and barriers among them, that lack a fence beside
    them."""
    found = []
    for place, op in enumerate(ops if which else []):
        pinned = op in which
        if not pinned and op.name not in SYNCHRONISATION:
            continue
        for side, neighbour in (("before", ops[place - 1] if place else None), ("behind", ops[place + 1])):
            if not (_is_fence(neighbour) or (not pinned and _synchronises(neighbour))):
                found.append(missing_fence(op, side, neighbour))
    return found


def _not_there(ops: list[ir.Operation], op: ir.Operation) -> str | None:
    """The first fence that an operation should have before it and has not; None: they are all there."""
    if FENCES not in op.attributes:
        return None
    there = marks_before(ops, op)
    for asked in text_of(op, FENCES).split(", "):
        if asked == "barrier":
            there = there[there.index(asked) + 1 :] if asked in there else there
            continue
        place = next((place for place, one in enumerate(there) if one != "barrier" and _holds(one, asked)), None)
        if place is None:
            return asked
        there = there[place + 1 :]
    return None


def marks_before(ops: list[ir.Operation], op: ir.Operation) -> list[str]:
    """Fences and barriers between an operation and what the step computes before it; the loop's own arithmetic on
    indices has no place in the step.
    """
    found: list[str] = []
    for one in reversed(ops[: ops.index(op)]):
        if one.name == "ck.sched_barrier":
            mask = text_of(one, "mask")
            found.append("fence" if mask == "none" else f"fence({mask})")
        elif one.name == "ck.barrier":
            found.append("barrier")
        elif one.name not in PLACELESS and ("ck.stage" in one.attributes or not one.name.startswith("arith.")):
            break
    return found[::-1]


def _holds(there: str, asked: str) -> bool:
    """Whether a fence lets nothing across that another would not."""
    mine, theirs = _mask(there), _mask(asked)
    return mine == "none" or (theirs != "none" and set(mine.split("|")) <= set(theirs.split("|")))


def _mask(fence: str) -> str:
    """What may cross a fence in the words of schedules, `fence` or `fence(valu|salu)`."""
    return fence.removeprefix("fence").strip("()") or "none"


def _is_fence(op: ir.Operation | None) -> bool:
    return op is not None and op.name == "ck.sched_barrier" and text_of(op, "mask") == "none"


def _synchronises(op: ir.Operation | None) -> bool:
    return op is not None and op.name in SYNCHRONISATION


def missing_fence(op: ir.Operation, side: str, neighbour: ir.Operation | None) -> Finding:
    """No fence stands on one side of what a schedule pins, but `neighbour`."""
    notes = () if neighbour is None else ((f"{words_for(neighbour)} may change places with it", neighbour),)
    message = f"no fence stands {side} {words_for(op)}, which the schedule pins: put a sched_barrier of mask none there"
    return Finding("fence", op, message, notes)


def _lacking(op: ir.Operation, asked: str) -> Finding:
    message = (
        f"the schedule asks for '{text_of(op, FENCES)}' before {words_for(op)}, and of that '{asked}' is not there: "
        f"put a sched_barrier of mask {_mask(asked)} there"
    )
    return Finding("fence", op, message)
