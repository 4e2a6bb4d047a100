"""What passes did, in numbers: the operations of a module before and behind each, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from ckmlir.mlir import ir
from ckmlir.passes.walk import nested


class Counted(Struct, frozen=True):
    """A pass as text, and how many operations of each name there were before and behind it."""

    name: str
    before: Counter[str]
    after: Counter[str]

    def changes(self) -> list[str]:
        """Operations that came and went, such as "+64 ck.mfma", the most first."""
        differ = {name: self.after[name] - self.before[name] for name in sorted({*self.before, *self.after})}
        ordered = sorted(differ.items(), key=lambda one: -abs(one[1]))
        return [f"{change:+} {name}" for name, change in ordered if change]


def operation_counts(module: ir.Module) -> Counter[str]:
    """How many operations of each name a module has, at any depth."""
    return Counter(op.name for op in nested(module.operation))


def statistics_report(passed: Sequence[Counted]) -> str:
    """A table: operations before and behind each pass, and which they were."""
    rows = [f"{'before':>7} {'behind':>7}  operations"]
    for one in passed:
        changes = ", ".join(one.changes()) or "as many of each"
        rows.append(f"{one.before.total():7} {one.after.total():7}  {one.name}: {changes}")
    return "\n".join(rows)
