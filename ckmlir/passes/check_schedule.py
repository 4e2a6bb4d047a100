"""Prove scheduled fragments right, or refute them: the pass, and `check_function` for Python.

What is proved, check by check, is `proof.finding.CHECKS`; each lives in a module of its own in `proof`. Scheduled IR
alone answers for LDS, waits, barriers and budgets. That every value comes from the right iteration is a statement about
two programs, so it needs the fragments from before ck-pipeline-loops too: the `reference`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ckmlir.dialect.loop import LOOP
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass, PassFailure, fail
from ckmlir.passes.proof.arrivals import Arrivals
from ckmlir.passes.proof.asked_fences import asks_to_drain, check_asked_fences
from ckmlir.passes.proof.budgets import check_budgets
from ckmlir.passes.proof.dependences import check_dependences
from ckmlir.passes.proof.fences import check_fences
from ckmlir.passes.proof.finding import Finding
from ckmlir.passes.proof.hazards import check_hazards
from ckmlir.passes.proof.unfolding import unfolded
from ckmlir.passes.proof.uniformity import check_uniformity
from ckmlir.passes.proof.workgroup import check_workgroup
from ckmlir.passes.walk import functions, named_target, operations, waves_of


@dataclass(frozen=True)
class CheckSchedule(Pass):
    """Prove that scheduled fragments are free of races and compute what the unscheduled ones do; change nothing."""

    name: ClassVar[str] = "ck-check-schedule"
    reference: str = ""
    """File with the module as it was before ck-pipeline-loops; empty: dependences are not checked."""

    def apply(self, module: ir.Module) -> None:
        before = self._reference(module.context) if self.reference else None
        for finding in check_module(module, before):
            fail(finding.op, f"{finding.message} [{finding.check}]", list(finding.notes))

    def _reference(self, context: ir.Context) -> ir.Module:
        try:
            return ir.Module.parse(Path(self.reference).read_text("utf-8"), context)
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise PassFailure(f"cannot read the reference {self.reference}: {why}") from None
        except ir.MLIRError as error:
            raise PassFailure(f"the reference {self.reference} is not a module of fragments: {error}") from None


def check_module(module: ir.Module, reference: ir.Module | None = None) -> list[Finding]:
    """Every finding about the kernels of a scheduled module; none: it is proved.

    Args:
        module: after ck-place-sched-barriers.
        reference: the same module before ck-pipeline-loops, for the checks `dependence` and `order`.

    Raises:
        PassFailure: the module is not at this stage, or the reference lacks one of its kernels.
    """
    sources = {name_of(function): function for function in functions(reference)} if reference is not None else None
    found = []
    for function in functions(module):
        if sources is not None and name_of(function) not in sources:
            fail(function, f"the reference has no kernel '{name_of(function)}'")
        found += check_function(function, sources[name_of(function)] if sources else None)
    return found


def name_of(function: ir.Operation) -> str:
    """The symbol of a kernel."""
    return str(function.attributes["sym_name"].value)


def check_function(function: ir.Operation, reference: ir.Operation | None = None) -> list[Finding]:
    """`check_module` for one kernel."""
    for op in operations(function):
        if op.name == LOOP:
            fail(op, "is a loop of stages; run ck-pipeline-loops and what follows it before ck-check-schedule")
        if op.name == "ck.lds_alloc" and "offset" not in op.attributes:
            fail(op, "has no offset; run ck-allocate-lds before ck-check-schedule")
    if found := check_workgroup(function, reference):
        return found
    with unfolded(function) as copy:
        drains = asks_to_drain(function, reference)
        found = [copy.told(finding) for finding in _check_blocks(copy.function, drains=drains)]
        if reference is not None:
            found += check_asked_fences(function, reference) if not found else []
            found += [copy.told(finding) for finding in check_dependences(copy.function, reference)]
    return found


def _check_blocks(function: ir.Operation, *, drains: bool) -> list[Finding]:
    """What is known of a scheduled kernel by itself; `drains`: its schedule has it wait for all copies."""
    waves = waves_of(function)
    target = named_target(function)
    arrivals = Arrivals(function, waves)
    found = [*check_uniformity(function), *arrivals.findings]
    if not arrivals.findings:  # where waves stand when they meet is unknown otherwise
        found += check_hazards(function, waves, arrivals, drains=drains)
    found += check_fences(function)
    if target is not None:
        found += check_budgets(function, target, waves)
    return found
