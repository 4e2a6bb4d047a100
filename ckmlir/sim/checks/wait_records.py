"""Records of the wait check: what is put before an instruction's own record.

Up to three: the registers that it reads, those that it overwrites, and the events of counters that it starts or, for
s_waitcnt, completes. Only registers that some memory access of the kernel writes are looked at. What instructions read,
write and count comes from `analysis/effects.py`, like the static proof; nothing is known here of control flow.
Accesses to LDS are entered by the handlers of the accesses themselves (`wait_lds.py`), which know addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ckmlir.sim.analysis.effects import Counter, Effects, effects_of
from ckmlir.sim.analysis.registers import RegisterSet
from ckmlir.sim.checks import wait_handlers, wait_layout
from ckmlir.sim.decode.instruction import Instruction
from ckmlir.sim.handler import HandlerKey
from ckmlir.sim.selected import Selected
from ckmlir.sim.state import MAX_OPERANDS

_COUNTERS = {Counter.VM: wait_layout.VM, Counter.LGKM: wait_layout.LGKM}
_NAMES = {Counter.VM: "vm", Counter.LGKM: "lgkm"}
_RETURNS_BEHIND = frozenset(("VMEM", "LDS"))
"""Kinds whose results come back in order, so that a younger one may overwrite an older one's register."""


class WaitRecords:
    """Makes the records of one kernel's instructions."""

    def __init__(self, instructions: Iterable[Instruction]) -> None:
        self._effects = {instruction.address: effects_of(instruction) for instruction in instructions}
        self._guarded: dict[Counter, RegisterSet] = dict.fromkeys(_COUNTERS, 0)
        for effects in self._effects.values():
            for counter, _ in effects.events:
                if counter in self._guarded:
                    self._guarded[counter] |= effects.writes

    def before(self, instruction: Instruction, selected: Selected) -> list[Selected]:
        """The records to put before an instruction's own."""
        effects = self._effects[instruction.address]
        fields = {"skips": 1} if selected.key.modifier("skips") else {}
        kinds = {counter: kind.name for counter, kind in effects.events if counter in _COUNTERS}
        if instruction.mnemonic == "s_waitcnt":
            return _reach(instruction)
        behind = {counter for counter, kind in kinds.items() if kind in _RETURNS_BEHIND}
        touched = {counter: effects.reads | (0 if counter in behind else effects.writes) for counter in self._guarded}
        records = list(_checks(self._runs(touched), fields))
        for counter in behind:
            code = {"behind": wait_handlers.KIND_NAMES.index(kinds[counter])}
            records += _checks(self._runs({counter: effects.writes & ~effects.reads}), fields | code)
        if kinds:
            records.append(self._issue(effects, kinds, fields))
        return records

    def _runs(self, registers: dict[Counter, RegisterSet]) -> list[tuple[int, int, int]]:
        """(counter, first register, how many) of registers that may be in flight."""
        return [
            (_COUNTERS[counter], first, count)
            for counter, wanted in registers.items()
            for first, count in runs(wanted & self._guarded[counter])
        ]

    def _issue(self, effects: Effects, kinds: dict[Counter, str], fields: dict[str, int]) -> Selected:
        codes = {_NAMES[counter]: wait_handlers.KIND_NAMES.index(kind) for counter, kind in kinds.items()}
        return _record(wait_handlers.ISSUE, self._runs(dict.fromkeys(kinds, effects.writes)), fields | codes)


def runs(registers: RegisterSet) -> Iterator[tuple[int, int]]:
    """Neighbouring registers of a set as (first, how many), at most 64 at a time."""
    while registers:
        first = (registers & -registers).bit_length() - 1
        rest = registers >> first
        count = min((~rest & (rest + 1)).bit_length() - 1, 64)
        yield first, count
        registers &= ~((1 << count) - 1 << first)


def _record(name: str, registers: Sequence[tuple[int, int, int]], fields: dict[str, int]) -> Selected:
    ordered = sorted(registers, key=lambda run: (run[0], run[2], run[1]))
    operands = tuple(f"{counter}x{count}" for counter, _, count in ordered)
    slots = tuple(wait_layout.stamp(counter, first) for counter, first, _ in ordered)
    return Selected(HandlerKey(name, operands, tuple(sorted(fields.items()))), slots)


def _checks(registers: Sequence[tuple[int, int, int]], fields: dict[str, int]) -> Iterator[Selected]:
    for first in range(0, len(registers), MAX_OPERANDS):
        yield _record(wait_handlers.CHECK, registers[first : first + MAX_OPERANDS], fields)


def _reach(instruction: Instruction) -> list[Selected]:
    fields = {}
    counts = [instruction.modifiers[counter.value] for counter in _COUNTERS]
    for counter, count in zip(_COUNTERS, counts):
        if count < wait_layout.MOST[_COUNTERS[counter]]:
            fields[_NAMES[counter]] = wait_handlers.COUNTED if count else wait_handlers.TO_ZERO
    if not fields:
        return []
    key = HandlerKey(wait_handlers.REACH, ("i", "i"), tuple(sorted(fields.items())))
    return [Selected(key, tuple(counts))]
