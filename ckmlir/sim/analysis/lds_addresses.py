"""Which bytes of LDS each instruction can touch, as far as the ranges of its address registers tell."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

from ckmlir.codeobject import Kernel
from ckmlir.sim.analysis.blocks import ControlFlow
from ckmlir.sim.analysis.effects import Category, Effects
from ckmlir.sim.analysis.ranges import UNKNOWN, ActiveLanes, Range, Ranges, advance, between, join, range_of
from ckmlir.sim.analysis.registers import SCALAR, VECTOR, RegisterSet, registers_of
from ckmlir.sim.decode import Instruction
from ckmlir.sim.state import LANES

_VISITS_BEFORE_WIDENING: Final = 3
_M0: Final = SCALAR + 124
_NARROW: Final = r"ds_(?:read|write)_[uib](8|16)(?:_d16)?(?:_hi)?"
"""Accesses of less than a dword, and their bits (CDNA3 ISA, 11.3)."""
_DIRECT_BYTES: Final = {"dwordx3": 12, "dwordx4": 16}
"""Bytes of a lane of the wide copies of gfx950; all others write a dword (CDNA3 ISA, 9.1.9)."""


class LdsAddresses:
    """The ranges of LDS bytes of a kernel's instructions."""

    def __init__(self, flow: ControlFlow, kernel: Kernel) -> None:
        self._flow = flow
        self._size = kernel.metadata.max_flat_workgroup_size or 1024
        self._bytes = _touched(flow, _packed_id(self._size, kernel.descriptor.workitem_id_dimensions))
        self._copies = {
            block.site(instruction)
            for block in flow.blocks.values()
            for instruction, effects in zip(block.instructions, block.effects)
            if effects.lds is not None and effects.lds.direct and effects.lds.writes
        }
        self._has_slots = any(self.bytes_of(site) == UNKNOWN for site in self._copies)
        unknown = {site for site, found in self._bytes.items() if found == UNKNOWN}
        self._by_data = unknown & _at_loaded_places(flow) if unknown else set()

    def may_conflict(self, one: int, two: int) -> bool:
        """Whether instructions at two sites may touch the same byte, one of them writing it, in an order that nobody
        keeps.

        Copies from memory of one wave land in the order of their issue, so two of them only conflict between waves.
        """
        if not _overlap(self.bytes_of(one), self.bytes_of(two)):
            return False
        if one not in self._copies or two not in self._copies:
            return True
        return any(
            _overlap(mine.get(one, UNKNOWN), theirs.get(two, UNKNOWN))
            for wave, mine in enumerate(self._by_wave)
            for other, theirs in enumerate(self._by_wave)
            if wave != other
        )

    def tell(self, one: int, two: int) -> bool:
        """Whether the code tells where instructions at two sites are: not where one of them is wherever an element of
        an array says, nor where copies from memory go to slots of LDS that are chosen at run time and one of the two
        is at no place that is known.
        """
        if one in self._by_data or two in self._by_data:
            return False
        return not self._has_slots or UNKNOWN not in (self.bytes_of(one), self.bytes_of(two))

    def bytes_of(self, site: int) -> Range:
        """The bytes that the instruction at a site (`Block.site`) can touch."""
        return self._bytes.get(site, UNKNOWN)

    @cached_property
    def _by_wave(self) -> list[dict[int, Range]]:
        """The bytes of instructions for each wave of a workgroup of one dimension."""
        starts = range(0, self._size, LANES)
        return [_touched(self._flow, between(low, min(low + LANES, self._size) - 1)) for low in starts]


def _overlap(one: Range, two: Range) -> bool:
    return one.low <= two.high and two.low <= one.high


def _touched(flow: ControlFlow, ids: Range) -> dict[int, Range]:
    """The bytes that instructions can touch, by their sites, where v0 starts with such values."""
    touched: dict[int, Range] = {}
    states: dict[int, tuple[Ranges, ActiveLanes]] = {flow.entry: ({VECTOR: ids}, ActiveLanes(True, frozenset()))}
    visits: dict[int, int] = {}
    order = {start: position for position, start in enumerate(flow.blocks)}
    waiting = {flow.entry} & order.keys()
    while waiting:
        start = min(waiting, key=order.__getitem__)
        waiting.remove(start)
        visits[start] = visits.get(start, 0) + 1
        ranges, lanes = dict(states[start][0]), states[start][1]
        block = flow.blocks[start]
        for instruction, effects in zip(block.instructions, block.effects):
            if effects.lds is not None:
                found = _bytes(instruction, effects, ranges)
                site = block.site(instruction)
                touched[site] = found.hull(touched.get(site, found))
            advance(ranges, instruction, effects, lanes.all)
            lanes = lanes.after(instruction, effects)
        for successor in block.successors:
            known = states.get(successor)
            if known is None:
                states[successor] = (dict(ranges), lanes)
                waiting.add(successor)
                continue
            merged = join(known[0], ranges, may_grow=visits.get(successor, 0) < _VISITS_BEFORE_WIDENING)
            both = ActiveLanes(known[1].all and lanes.all, known[1].saved & lanes.saved)
            if (merged, both) != known:
                states[successor] = (merged, both)
                waiting.add(successor)
    return touched


def _at_loaded_places(flow: ControlFlow) -> set[int]:
    """The sites of accesses whose address is computed of what vector loads or reads of LDS have brought."""
    found: set[int] = set()
    states: dict[int, RegisterSet] = {flow.entry: 0}
    waiting = [flow.entry] if flow.blocks else []
    while waiting:
        start = waiting.pop()
        block, loaded = flow.blocks[start], states[start]
        for instruction, effects in zip(block.instructions, block.effects):
            if effects.lds is not None and instruction.sources and registers_of(instruction.sources[0]) & loaded:
                found.add(block.site(instruction))
            if effects.category in (Category.VMEM, Category.LDS) or effects.named_reads & loaded:
                loaded |= effects.writes
            else:
                loaded &= ~effects.writes
        for successor in block.successors:
            known = states.get(successor)
            states[successor] = merged = loaded | (known or 0)
            if merged != known:
                waiting.append(successor)
    return found


def _packed_id(size: int, dimensions: int) -> Range:
    """What v0 can hold when a wave starts: x, y and z of a work-item, ten bits each, none as large as the workgroup."""
    bits = (1 << (size - 1).bit_length()) - 1
    every = sum(bits << 10 * dimension for dimension in range(dimensions))
    return between(0, size - 1 if dimensions == 1 else every, every)


def _bytes(instruction: Instruction, effects: Effects, ranges: Ranges) -> Range:
    """The bytes an instruction touches when its registers hold these ranges."""
    assert effects.lds is not None
    modifiers = instruction.modifiers
    if effects.lds.direct:
        width = next((size for name, size in _DIRECT_BYTES.items() if name in instruction.mnemonic), 4)
        start = ranges.get(_M0, UNKNOWN)
        offset = modifiers.get("offset", 0)
        return _span(start, offset, offset + LANES * width)
    if instruction.encoding != "DS" or "addtid" in instruction.mnemonic or not instruction.sources:
        return UNKNOWN
    narrow = re.fullmatch(_NARROW, instruction.mnemonic)
    dwords = max(item.count for item in (*instruction.destinations, *instruction.sources[1:]))
    width = int(narrow[1]) // 8 if narrow else 4 * dwords
    address = range_of(instruction.sources[0], ranges)
    if "offset0" in modifiers:
        element = width // 2 if instruction.destinations else width
        scale = element * (64 if "st64" in instruction.mnemonic else 1)
        offsets = sorted((modifiers["offset0"] * scale, modifiers["offset1"] * scale))
        return _span(address, offsets[0], offsets[1] + element)
    return _span(address, modifiers.get("offset", 0), modifiers.get("offset", 0) + width)


def _span(start: Range, first: int, end: int) -> Range:
    """From `first` bytes behind the start to just before `end` bytes behind it."""
    if start == UNKNOWN:
        return UNKNOWN
    return Range(max(0, start.low + first), start.high + end - 1)
