"""Every wave of a workgroup arrives at equally many barriers, and how far groups of waves are apart on the way.

A barrier lets waves pass when all waves of the workgroup have arrived at one, wherever in the program each stands
(CDNA3 ISA, 4.3). `ck.group_barrier` has the waves of some groups arrive alone; from there on these have arrived once
more than the others, so that the n-th barrier of all is not the same operation for all. What is proved: by how many
arrivals the groups differ at a point does not depend on the way there; and at the end of the kernel all have arrived
equally often, so that none waits for ever.
"""

from ckmlir.dialect.build import integer_of
from ckmlir.mlir import ir
from ckmlir.passes.proof.finding import Finding
from ckmlir.passes.proof.flow import terminator

GROUP_BARRIER = "ck.group_barrier"
Lead = tuple[int, ...]
"""For every group of waves the barriers at which it has arrived more often than the group that did least."""


class Arrivals:
    """The leads of the groups of a kernel's waves.

    Attributes:
        groups: into which the waves fall; 1 where no barrier is for some of them.
        entering: the leads at the beginning of every block that can be reached.
        findings: of the kind `uniform`.
    """

    def __init__(self, function: ir.Operation, waves: int) -> None:
        partial = [view.operation for block in function.regions[0] for view in block if view.name == GROUP_BARRIER]
        self.findings: list[Finding] = []
        self.groups = integer_of(partial[0], "groups") if partial else 1
        for op in partial:
            if integer_of(op, "groups") != self.groups:
                self._report(op, f"is for {integer_of(op, 'groups')} groups of waves, another is for {self.groups}")
        if waves % self.groups:
            self._report(partial[0], f"{waves} waves do not form {self.groups} groups of equal size")
        blocks = list(function.regions[0])
        self.entering: dict[ir.Block, Lead] = {blocks[0]: (0,) * self.groups}
        if not self.findings:
            self._follow(blocks[0])

    def _report(self, op: ir.Operation, message: str) -> None:
        self.findings.append(Finding("uniform", op, message))

    def _follow(self, entry: ir.Block) -> None:
        came: dict[ir.Block, ir.Operation] = {}
        pending = [entry]
        while pending:
            block = pending.pop(0)
            lead = self.entering[block]
            for op in (view.operation for view in block):
                lead = after(op, lead)
            last = terminator(block)
            if not last.successors and any(lead):
                self._report(last, f"the kernel ends although {_difference(lead)}: some waves wait for ever")
            for to in last.successors:
                if to not in self.entering:
                    self.entering[to] = lead
                    came[to] = last
                    pending.append(to)
                elif self.entering[to] != lead:
                    message = (
                        f"here {_difference(lead)}, on another way to the same block {_difference(self.entering[to])}"
                    )
                    other = ((("the other way is here"), came[to]),) if to in came else ()
                    self.findings.append(Finding("uniform", last, message, other))


def after(op: ir.Operation, lead: Lead) -> Lead:
    """The leads behind an operation."""
    if op.name != GROUP_BARRIER:
        return lead
    first, last = integer_of(op, "first"), integer_of(op, "last")
    more = [count + (first <= group <= last) for group, count in enumerate(lead)]
    return tuple(count - min(more) for count in more)


def _difference(lead: Lead) -> str:
    if not any(lead):
        return "all groups of waves have arrived at equally many barriers"
    most, least = max(lead), lead.index(0)
    which = lead.index(most)
    return f"group {which} of the waves has arrived at {most} barrier{'s' if most > 1 else ''} more than group {least}"
