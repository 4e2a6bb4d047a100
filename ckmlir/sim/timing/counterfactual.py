"""What would the run cost if: a case and changes of it, each through the model, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ckmlir.sim.timing.activity import matrix_share
from ckmlir.sim.timing.critical_path import CriticalPath
from ckmlir.sim.timing.edits import Case, Edit, apply_edits
from ckmlir.sim.timing.events import Reason, Timeline
from ckmlir.sim.timing.launch_model import model_launch
from ckmlir.sim.timing.occupancy import trace_occupancy

REASONS_SHOWN = 6
NOTE = "model, not hardware"


class Outcome(Struct, frozen=True):
    """One line of a comparison.

    Attributes:
        name: What was changed; "base" for nothing.
        remark: What a reader has to know of it; "" for nothing.
        timeline: Of one compute unit.
        launch_cycles: Estimated of the whole launch.
    """

    name: str
    remark: str
    timeline: Timeline
    launch_cycles: float

    @property
    def workgroups(self) -> int:
        """That were simulated."""
        return len(self.timeline.trace.workgroups)

    @property
    def cycles_a_workgroup(self) -> float:
        """Of the compute unit, for each workgroup that it ran: what compares where others ran more or fewer."""
        return self.cycles / self.workgroups

    @property
    def cycles(self) -> int:
        return self.timeline.cycles

    @property
    def waves(self) -> int:
        return len(self.timeline.wave_start)

    @property
    def matrix_busy(self) -> float:
        """Share of the cycles in which the compute unit's matrix units were busy, on average."""
        return matrix_share(self.timeline)

    @property
    def stalls(self) -> dict[Reason, float]:
        """Cycles of a wave, on average, by reason, most first."""
        rows = self.timeline.stalls
        sums = np.bincount(rows["reason"], weights=rows["cycles"], minlength=max(Reason) + 1) / max(1, self.waves)
        return {Reason(number): float(sums[number]) for number in np.argsort(-sums, kind="stable") if sums[number]}

    @property
    def conflict_cycles(self) -> int:
        """Cycles that bank conflicts add, over all LDS accesses."""
        return int(self.timeline.conflicts.sum())


def base_outcome(case: Case) -> Outcome:
    """The case as it is."""
    return _outcome("base", "", case)


def _outcome(name: str, remark: str, case: Case) -> Outcome:
    launch = model_launch(*case)
    return Outcome(name, remark, launch.timeline, launch.grid.cycles)


def changed_outcome(case: Case, edits: Sequence[Edit]) -> Outcome:
    """The case with all of `edits`. Raises what they and the model raise."""
    changed = apply_edits(case, edits)
    remarks = dict.fromkeys(edit.remark for edit in edits if edit.remark)
    ours, theirs = math.prod(changed.trace.grid), math.prod(case.trace.grid)
    if ours != theirs:
        remarks[f"{ours} workgroups instead of {theirs}, so only cycles of the launch compare"] = None
    outcome = _outcome(", ".join(map(str, edits)), "", changed)
    if told := _residency(outcome, case):
        remarks[told] = None
    return replace(outcome, remark="; ".join(remarks))


def _residency(outcome: Outcome, case: Case) -> str:
    """What differs in how many workgroups are on a compute unit at a time; "" where that is as before."""
    before, timeline = trace_occupancy(case.trace, case.parameters).workgroups, outcome.timeline
    now = trace_occupancy(timeline.trace, timeline.parameters).workgroups
    return f"{now} workgroups on a compute unit at a time instead of {before}" if now != before else ""


class Comparison(Struct, frozen=True):
    """Outcomes side by side; the first is what the others are compared with."""

    title: str
    outcomes: tuple[Outcome, ...]

    @property
    def base(self) -> Outcome:
        return self.outcomes[0]

    def _reasons(self) -> list[Reason]:
        """The reasons that cost most in any outcome."""
        largest: dict[Reason, float] = {}
        for outcome in self.outcomes:
            for reason, cycles in outcome.stalls.items():
                largest[reason] = max(cycles, largest.get(reason, 0.0))
        return sorted(largest, key=lambda reason: -largest[reason])[:REASONS_SHOWN]

    def text(self) -> str:
        """A table, base first; what remarks say of outcomes follows it."""
        reasons = self._reasons()
        causes = [reason.name.lower().replace("_", " ") for reason in reasons]
        head = ["", "launch", "change", self._simulated, "change", "matrix busy", *causes]
        rows = [head, *(self._row(outcome, reasons) for outcome in self.outcomes)]
        notes = [f"{outcome.name}: {outcome.remark}" for outcome in self.outcomes if outcome.remark]
        about = f"cycles of the launch and of {self._simulated}; stalls in cycles of a wave, on average"
        notes += [
            f"{one.name}: {one.workgroups} workgroups were simulated; its change of cycles is that for each workgroup"
            for one in self.outcomes if one.workgroups != self.base.workgroups
        ]  # fmt: skip
        return "\n".join([self.title, *_table(rows), about, NOTE, *notes])

    @property
    def _simulated(self) -> str:
        count = self.base.workgroups
        return "a workgroup" if count == 1 else f"{count} workgroups"

    def _row(self, outcome: Outcome, reasons: Iterable[Reason]) -> list[str]:
        stalls = outcome.stalls
        return [
            outcome.name,
            f"{outcome.launch_cycles:,.0f}",
            "" if outcome is self.base else _change(outcome.launch_cycles, self.base.launch_cycles),
            f"{outcome.cycles:,}",
            "" if outcome is self.base else _change(outcome.cycles_a_workgroup, self.base.cycles_a_workgroup),
            f"{100 * outcome.matrix_busy:.1f} %",
            *(f"{stalls.get(reason, 0.0):,.0f}" for reason in reasons),
        ]

    def to_dict(self) -> dict[str, Any]:
        """The same for programs; stalls of all reasons."""
        return {
            "title": self.title,
            "note": NOTE,
            "target": self.base.timeline.target,
            "outcomes": [
                {
                    "name": outcome.name,
                    "remark": outcome.remark,
                    "cycles": outcome.cycles,
                    "workgroups": outcome.workgroups,
                    "change_cycles": outcome.cycles - self.base.cycles,
                    "change_cycles_a_workgroup": outcome.cycles_a_workgroup - self.base.cycles_a_workgroup,
                    "launch_cycles": outcome.launch_cycles,
                    "matrix_busy": outcome.matrix_busy,
                    "bank_conflict_cycles": outcome.conflict_cycles,
                    "stall_cycles_a_wave": {reason.name: cycles for reason, cycles in outcome.stalls.items()},
                }
                for outcome in self.outcomes
            ],
        }


def _change(cycles: float, base: float) -> str:
    return f"{100 * (cycles / base - 1):+.1f} %" if base else ""


def path_text(path: CriticalPath, lines: int) -> str:
    """The instructions that the critical path spends most cycles on, with what it waited for there."""
    shares = path.by_instruction()
    rows = [["cycles", "times", "line", "instruction", "for"]]
    rows += [[f"{one.cycles:,}", f"{one.times}", one.place, one.text[:60], one.cause] for one in shares[:lines]]
    left = sum(one.cycles for one in shares[lines:])
    rest = [f"and {left:,} cycles on {len(shares) - lines} more"] if left else []
    return "\n".join([f"critical path, {path.cycles:,} cycles:", *_table(rows, left=(2, 3, 4)), *rest])


def _table(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    columns = []
    for number, cells in enumerate(zip(*rows)):
        width = max(map(len, cells))
        columns.append([cell.ljust(width) if number in left else cell.rjust(width) for cell in cells])
    return ["  ".join(row).rstrip() for row in zip(*columns)]
