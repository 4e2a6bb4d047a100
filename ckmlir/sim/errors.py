"""What the simulator refuses, and what it finds wrong in a running kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ckmlir.errors import CkmlirError, counted

if TYPE_CHECKING:
    from ckmlir.sim.checks.finding import Finding
    from ckmlir.sim.statistics import RunStatistics


class SimulationError(CkmlirError, RuntimeError):
    """A kernel did something that hardware would fault on, or that is certainly wrong (for example an access out of
    bounds)."""


class CheckFailure(SimulationError):
    """Checkers found something wrong with a kernel that ran.

    Attributes:
        findings: All that are faults, at most one for each checker and instruction.
        remarks: The others: advice, and what the run cleared.
        statistics: Of the run, if it came to its end.
    """

    def __init__(self, findings: Sequence[Finding], statistics: RunStatistics | None = None, lost: int = 0) -> None:
        self.findings = tuple(one for one in findings if one.is_fault)
        self.remarks = tuple(one for one in findings if not one.is_fault)
        self.statistics = statistics
        more = f"\n{lost} more findings did not fit into the record" if lost else ""
        count = f"{len(self.findings)} finding{'s' * (len(self.findings) != 1)}"
        super().__init__(f"{count}\n" + "\n".join(map(str, self.findings)) + more)


class LaunchError(CkmlirError, ValueError):
    """A launch that cannot start: a wrong argument, block, grid, LDS size or code object for this simulator."""


class MissingInstruction(Struct, frozen=True):
    """One instruction of a kernel that the simulator does not execute, and why."""

    text: str
    words: tuple[int, ...]
    address: int
    source: str | None = None
    reason: str = ""

    def __str__(self) -> str:
        encoding = " ".join(f"0x{word:08x}" for word in self.words)
        place = f", from {self.source}" if self.source else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.text} (encoding {encoding}, at 0x{self.address:x}{place}){reason}"


NAMED = 4
"""Instructions that an error names; it has all of them in a field."""


class UnsupportedInstruction(SimulationError):
    """The kernel contains instructions without semantics; raised before anything runs, with all of them in
    `missing`."""

    def __init__(self, kernel: str, missing: Sequence[MissingInstruction]) -> None:
        self.kernel = kernel
        self.missing = tuple(missing)
        named = [str(instruction) for instruction in self.missing[:NAMED]]
        if len(self.missing) > NAMED:
            named.append(f"and {len(self.missing) - NAMED} more")
        count = counted(len(self.missing), "instruction")
        super().__init__(f"kernel {kernel} has {count} that the simulator cannot execute: {'; '.join(named)}")
