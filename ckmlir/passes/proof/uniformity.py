"""All waves of a workgroup take the same way to every barrier and every access to LDS.

A value is uniform when it follows from the kernel's arguments, the workgroup's position and constants alone, by
arithmetic on scalars. A branch on anything else may send waves, or lanes, different ways; then what lies on the way to
the point where the ways meet again must neither be a barrier (some waves would wait for ever) nor touch LDS (the proof
about hazards follows one way at a time).
"""

from ckmlir.mlir import ir
from ckmlir.passes.proof.finding import Finding, words_for
from ckmlir.passes.proof.flow import handed_over
from ckmlir.passes.proof.footprints import is_access

UNIFORM_SOURCES = frozenset({"ck.workgroup_id", "arith.constant", "ub.poison"})
BARRIERS = ("ck.barrier", "ck.group_barrier")
SCALAR_DIALECTS = ("arith.", "math.", "llvm.getelementptr")


def check_uniformity(function: ir.Operation) -> list[Finding]:
    """Findings of the kind `uniform`, one for each operation that waves may reach apart."""
    divergent = _divergent_values(function)
    findings: dict[ir.Operation, Finding] = {}
    for block in function.regions[0]:
        branch = list(block.operations)[-1].operation
        if branch.name != "cf.cond_br" or branch.operands[0] not in divergent:
            continue
        for apart in _between(branch, function):
            for op in (view.operation for view in apart):
                if op.name in BARRIERS or is_access(op):
                    what = "a barrier" if op.name in BARRIERS else words_for(op)
                    cause = divergent[branch.operands[0]]
                    message = (
                        f"some waves may not reach {what} with the others: the branch before depends on "
                        f"'{cause.name}', which differs between threads"
                    )
                    notes = (("the branch is here", branch), ("it depends on this", cause))
                    findings.setdefault(op, Finding("uniform", op, message, notes))
    return list(findings.values())


def _divergent_values(function: ir.Operation) -> dict[ir.Value, ir.Operation]:
    """Every value that may differ between threads, with the operation that makes it differ."""
    found: dict[ir.Value, ir.Operation] = {}
    changed = True
    while changed:
        before = len(found)
        for block in function.regions[0]:
            for op in (view.operation for view in block):
                cause = next((found[operand] for operand in op.operands if operand in found), None)
                if cause is None and not _keeps_uniform(op):
                    cause = op
                if cause is not None:
                    for result in op.results:
                        found.setdefault(result, cause)
                for operand, argument in handed_over(op):
                    if operand in found:
                        found.setdefault(argument, found[operand])
        changed = len(found) != before
    return found


def _keeps_uniform(op: ir.Operation) -> bool:
    return op.name in UNIFORM_SOURCES or op.name.startswith(SCALAR_DIALECTS) or not op.results


def _between(branch: ir.Operation, function: ir.Operation) -> list[ir.Block]:
    """The blocks that a branch leads to and that do not lie on every way from it to the end."""
    reachable = _reach(list(branch.successors), None)
    return [block for block in reachable if _avoidable(block, branch)]


def _avoidable(block: ir.Block, branch: ir.Operation) -> bool:
    """Whether some way from the branch to the end, or back to the branch, does not lead through the block."""
    for one in _reach([to for to in branch.successors if to != block], block):
        last = list(one.operations)[-1].operation
        if last.name == "func.return" or last == branch:
            return True
    return False


def _reach(start: list[ir.Block], without: ir.Block | None) -> list[ir.Block]:
    found: list[ir.Block] = []
    pending = list(start)
    while pending:
        block = pending.pop()
        if (without is None or block != without) and block not in found:
            found.append(block)
            pending.extend(list(block.operations)[-1].operation.successors)
    return found
