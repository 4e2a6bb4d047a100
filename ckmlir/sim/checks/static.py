"""The checkers that read code without running it, under their names."""

from __future__ import annotations

from collections.abc import Collection

from ckmlir.codeobject import CodeObject
from ckmlir.sim.checks.finding import Finding


def static_findings(code_object: CodeObject, kernel: str, checks: Collection[str]) -> list[Finding]:
    """What the static checkers among `checks` find in a kernel."""
    found: list[Finding] = []
    if "wait" in checks:
        from ckmlir.sim.analysis import check_waits

        found += check_waits(code_object, kernel)
    if "copy_order" in checks:
        from ckmlir.sim.analysis import check_copy_order

        found += check_copy_order(code_object, kernel)
    if "hazard" in checks:
        from ckmlir.sim.analysis import check_hazards

        found += check_hazards(code_object, kernel)
    return found
