"""Races of an atomic access with a store that may be atomic itself, since the code does not tell: any on gfx90a, those
of system scope on later chips. An atomic one does not race, and a flag that it sets orders other accesses."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ckmlir.sim.checks.finding import Finding
from ckmlir.sim.checks.variants import is_atomic_load, may_be_atomic_store
from ckmlir.sim.decode.instruction import Instruction


def with_untold_stores(findings: list[Finding], instructions: Sequence[Instruction], start: int) -> list[Finding]:
    """The findings, in which a race of an atomic access with a store that may be atomic is advice. `start`: the
    kernel's address."""
    at = {one.address - start: one for one in instructions}
    return [_with_untold_store(one, at) if one.checker == "race" and one.is_fault else one for one in findings]


def _with_untold_store(finding: Finding, at: dict[int, Instruction]) -> Finding:
    pair = [at[address] for address in (finding.address, *finding.earlier) if address in at]
    stores = [one for one in pair if may_be_atomic_store(one)]
    others = [one for one in pair if is_atomic_load(one) or "_atomic_" in one.mnemonic]
    if len(stores) != 1 or len(others) != 1:
        return finding
    message = f"{finding.message}; right if the store is an atomic one, which the code does not tell"
    return replace(finding, message=message, grade="advisory")
