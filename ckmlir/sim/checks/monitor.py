"""The checks of one launch: the blocks that compiled checks write to, and what they recorded as findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ckmlir.sim import state
from ckmlir.sim.checks import layout, wait_layout
from ckmlir.sim.checks.finding import Finding
from ckmlir.sim.checks.layout import Kind
from ckmlir.sim.checks.place import Place
from ckmlir.sim.checks.race_lds import CELLS
from ckmlir.sim.checks.race_table import LineTable
from ckmlir.sim.checks.variants import flags_of
from ckmlir.sim.checks.wait_findings import joined, wait_message
from ckmlir.sim.memory import UNNAMED, Allocation, MemoryTable

_CHECKER = {
    Kind.READ_ONLY: "memory",
    Kind.MISALIGNED: "memory",
    Kind.CLAMPED: "clamped",
    Kind.UNALIGNED: "unaligned",
    Kind.RACE_WITH_WRITE: "race",
    Kind.RACE_WITH_READ: "race",
    Kind.RACE_EQUAL: "race",
    Kind.RACE_ORDERED: "race",
    Kind.RACE_OF_ATOMIC_WITH_WRITE: "race",
    Kind.RACE_OF_ATOMIC_WITH_READ: "race",
    Kind.ENDED_BEFORE_BARRIER: "barrier",
    Kind.LANES_AT_BARRIER: "barrier",
    Kind.UNDEFINED_STORED: "initialisation",
    Kind.UNDEFINED_ADDRESS: "initialisation",
    Kind.UNDEFINED_CONDITION: "initialisation",
    Kind.UNDEFINED_EXEC: "initialisation",
    Kind.EARLY_REGISTER: "wait",
    Kind.EARLY_LDS_COPY: "wait",
    Kind.LATE_LDS: "wait",
}
_MESSAGES = {
    Kind.READ_ONLY: "write to read-only memory",
    Kind.MISALIGNED: "the address is not aligned as this instruction needs it",
    Kind.CLAMPED: "the size of the buffer refuses this access: a load gives 0, a store is dropped",
    Kind.UNALIGNED: "the address of this access of whole dwords is not a multiple of 4",
    Kind.UNDEFINED_STORED: "an undefined value is stored",
    Kind.UNDEFINED_ADDRESS: "an undefined value is used as an address",
    Kind.UNDEFINED_CONDITION: "a branch depends on an undefined value",
    Kind.UNDEFINED_EXEC: "an undefined value decides which lanes go on",
    Kind.LANES_AT_BARRIER: "these lanes are switched off when their wave comes to a barrier that they have to reach",
}

_CONFLICTS = {
    Kind.RACE_WITH_WRITE: "write",
    Kind.RACE_WITH_READ: "read",
    Kind.RACE_OF_ATOMIC_WITH_WRITE: "write",
    Kind.RACE_OF_ATOMIC_WITH_READ: "read",
}


def _is_wait(kind: int) -> bool:
    return _CHECKER[kind] == "wait"


def _has_other(kind: int) -> bool:
    """Whether a finding is about two accesses."""
    return _CHECKER[kind] in ("wait", "race")


class Monitor:
    """What the checks of one launch read and write, for as long as the launch lasts."""

    def __init__(self, checks: frozenset[str], table: MemoryTable, names: Mapping[int, str]) -> None:
        """`names` are names of allocations by their address, where the launch knows better ones than the table."""
        self.flags = flags_of(checks)
        self._names, self._table = names, table
        self._allocations = table.allocations()
        self.lines = LineTable()
        self._lds_cells = np.zeros(0, np.uint8)
        self._lds_shadow = 0
        self._shadows: dict[int, int] = {}  # address of an allocation to that of its shadow
        self._attributes = self._describe()
        self._rows = np.zeros((layout.CAPACITY, layout.FINDING_BYTES // 8), np.uint64)
        self._late = np.zeros(wait_layout.LATE_BYTES if self.flags & layout.WAIT else 0, np.uint8)

    def _describe(self) -> npt.NDArray[np.uint64]:
        rows = np.zeros((max(len(self._allocations), 1), layout.ATTRIBUTE_BYTES // 8), np.uint64)
        for row, allocation in zip(rows, self._allocations):
            watched = self.flags & layout.RACE and allocation.kind == "global"
            lines = self.lines.add(allocation.size) if watched and not self._is_never_written(allocation) else 0
            properties = layout.READ_ONLY * allocation.read_only
            properties |= layout.KEEPS_UNDEFINED * (allocation.kind in ("lds", "scratch"))
            delta = self._shadow_delta(allocation)
            row[:] = lines, properties, delta & 0xFFFF_FFFF_FFFF_FFFF
            if self.flags & layout.RACE and allocation.kind == "lds":
                self._lds_cells = np.zeros(CELLS * -(-allocation.size // 64) * 64 + 64, np.uint8)
        return rows

    def _shadow_delta(self, allocation: Allocation) -> int:
        """From an allocation to its shadow, 0 if it is defined throughout."""
        shadow = self._table.shadows.get(allocation.address)
        if shadow is None or not shadow[: allocation.size].any():
            return 0
        self._shadows[allocation.address] = int(shadow.ctypes.data)
        if allocation.kind == "lds":
            self._lds_shadow = int(shadow.ctypes.data)
        return int(shadow.ctypes.data) - allocation.address

    def _is_never_written(self, allocation: Allocation) -> bool:
        """Nothing races in memory whose every write is a finding already."""
        return allocation.read_only and bool(self.flags & layout.MEMORY)

    def context_fields(self) -> dict[int, int]:
        """What the launch's context has to hold for the checks."""
        return {
            state.ALLOCATION_ATTRIBUTES: int(self._attributes.ctypes.data),
            state.FINDINGS: int(self._rows.ctypes.data),
            state.FINDING_CAPACITY: layout.CAPACITY,
            state.CHECKED: self.flags,
            state.LDS_CELLS: int(self._lds_cells.ctypes.data) if self._lds_cells.size else 0,
            state.LDS_SHADOW: self._lds_shadow,
            state.WAIT_LATE: int(self._late.ctypes.data),
            **self.lines.context_fields(),
        }

    def findings(self, count: int, place: Place) -> list[Finding]:
        """The first `count` recorded findings; missing waits at one instruction are one."""
        rows = [row.tolist() for row in self._rows[:count]]
        found: dict[tuple[int, ...], Finding] = {}
        for number, row in enumerate(rows):
            finding = self._finding(row, place)
            if finding.checker != "wait":
                found[number,] = finding
                continue
            key = row[layout.KIND // 8], row[layout.RECORD // 8]
            first = found.get(key)
            found[key] = finding if first is None else joined(first, finding)
        return list(found.values())

    def _finding(self, row: Sequence[int], place: Place) -> Finding:
        def get(offset: int) -> int:
            return int(row[offset // 8])

        kind, lanes = get(layout.KIND), get(layout.LANES)
        kernel, address, text, source = place.locate(get(layout.RECORD))
        allocation, offset = self._place_of(get(layout.ADDRESS))
        return Finding(
            checker=_CHECKER[kind],
            message=self._message(kind, get, place),
            kernel=kernel,
            address=address,
            instruction=text,
            source=source,
            workgroup=place.coordinates(get(layout.GROUP)),
            wave=get(layout.WAVE),
            lanes=tuple(lane for lane in range(64) if lanes >> lane & 1),
            memory_address=None if allocation is None else offset,
            allocation=None if allocation is None else self.name_of(allocation),
            times=get(layout.TIMES),
            earlier=(place.locate(place.record_address(get(layout.OTHER_RECORD)))[1],) if _has_other(kind) else (),
            grade="advisory" if kind in (Kind.RACE_EQUAL, Kind.RACE_ORDERED) else "required",
        )

    def _place_of(self, address: int) -> tuple[Allocation | None, int]:
        """The allocation of an address in it or in its shadow, and the offset."""
        for one in self._allocations:
            shadow = self._shadows.get(one.address, one.address)
            for start in (one.address, shadow):
                if start <= address < start + one.size:
                    return one, address - start
        return None, 0

    def name_of(self, allocation: Allocation) -> str:
        """What the host calls it, else the name of the argument that points to it."""
        if allocation.name != UNNAMED:
            return allocation.name
        return self._names.get(allocation.address, allocation.name)

    def _message(self, kind: int, get: Callable[[int], int], place: Place) -> str:
        if kind == Kind.ENDED_BEFORE_BARRIER:
            mask = get(layout.OTHER_TAG)
            waves = ", ".join(str(wave) for wave in range(64) if mask >> wave & 1)
            return f"wave {waves} of the workgroup ended while this wave waits at the barrier"
        if kind == Kind.RACE_EQUAL:
            return f"store of what is there already, beside a write by {self._other_access(get, place)}"
        if kind == Kind.RACE_ORDERED:
            there = self._other_access(get, place)
            return f"ordered by atomic accesses alone, if fences stand around these, behind an access by {there}"
        if kind in _CONFLICTS:
            return f"conflict with a {_CONFLICTS[kind]} by {self._other_access(get, place)}"
        if _is_wait(kind):
            return wait_message(kind, get(layout.OTHER_TAG), get(layout.OTHER_RECORD), place)
        return _MESSAGES[kind]

    def _other_access(self, get: Callable[[int], int], place: Place) -> str:
        """Who made the earlier access of a race, and where."""
        there = place.text_of(get(layout.OTHER_RECORD))
        turn, start = get(layout.OTHER_TAG), get(layout.ROUND_START_OF)
        if place.is_of_round(turn, start):
            wave = place.wave_of_turn(get(layout.ROUND_OF) - 1, turn - start)
            return f"wave {wave}, {there}, no barrier between them"
        return f"another workgroup, {there}"
