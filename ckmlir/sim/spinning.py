"""Loops that look at one place of memory until another workgroup changes it, without a pause (`s_sleep`) between looks.

On a chip others run meanwhile. Here they run where one pauses, so that the end of each turn of such a loop counts as a
pause (`interleaving.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Final

from ckmlir.sim.checks.variants import is_atomic_load
from ckmlir.sim.decode.instruction import Instruction
from ckmlir.sim.handler import HandlerKey
from ckmlir.sim.selected import Selected

PAUSE: Final = Selected(HandlerKey("s_sleep"))
"""The record that stands before the branch which closes such a loop."""
MOST: Final = 64
"""Instructions of such a loop: it has little to do but to look."""
_WORK: Final = ("_store_", "s_barrier", "s_sleep", "ds_write")


def spinning(instructions: Sequence[Instruction]) -> frozenset[int]:
    """The numbers of the branches that close such loops."""
    return frozenset(number for first, number in _short_loops(instructions) if _looks(instructions[first:number]))


def _short_loops(instructions: Sequence[Instruction]) -> Iterator[tuple[int, int]]:
    """First instruction and closing branch."""
    at = {one.address: number for number, one in enumerate(instructions)}
    for number, one in enumerate(instructions):
        if one.branch_target is not None and one.branch_target <= one.address:
            first = at.get(one.branch_target, number)
            if 0 < number - first < MOST:
                yield first, number


def _looks(body: Sequence[Instruction]) -> bool:
    """Whether instructions load atomically from an address that they do not change, or try to update it with the same
    values over and over, as for a lock, and do nothing else that others see."""
    if any(word in one.mnemonic for one in body for word in _WORK):
        return False
    looks = [one for one in body if is_atomic_load(one) or _is_update(one)]
    if not looks or any(_is_update(one) and not one.modifiers.get("sc0") for one in looks):
        return False
    from ckmlir.sim.analysis.effects import effects_of  # only where there is something to analyse
    from ckmlir.sim.analysis.registers import registers_of

    written = reduce(or_, (effects_of(one).writes for one in body))
    return all(not any(registers_of(operand) & written for operand in one.sources) for one in looks)


def _is_update(one: Instruction) -> bool:
    """Of global memory; it returns what was there where sc0 is set."""
    return "_atomic_" in one.mnemonic
