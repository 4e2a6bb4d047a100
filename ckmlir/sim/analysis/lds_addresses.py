"""Which bytes of LDS each instruction can touch, as far as the ranges of its address registers tell."""

from __future__ import annotations

from typing import Final

from ckmlir.codeobject import Kernel
from ckmlir.sim.analysis.control_flow import ControlFlow
from ckmlir.sim.analysis.effects import Effects
from ckmlir.sim.analysis.ranges import UNKNOWN, ActiveLanes, Range, Ranges, advance, between, join, range_of
from ckmlir.sim.analysis.registers import SCALAR, VECTOR
from ckmlir.sim.decode import Instruction

_VISITS_BEFORE_WIDENING: Final = 3
_M0: Final = SCALAR + 124
_LANES: Final = 64
_DIRECT_BYTES: Final = {"dwordx3": 12, "dwordx4": 16}
"""Bytes of a lane of the wide copies of gfx950; all others write a dword (CDNA3 ISA, 9.1.9)."""


class LdsAddresses:
    """The ranges of LDS bytes of a kernel's instructions."""

    def __init__(self, flow: ControlFlow, kernel: Kernel) -> None:
        self.flow = flow
        self._bytes: dict[int, Range] = {}
        size = kernel.metadata.max_flat_workgroup_size or 1024
        dimensions = kernel.descriptor.workitem_id_dimensions
        start = {VECTOR: between(0, size - 1 if dimensions == 1 else (1 << 10 * dimensions) - 1)}
        self._solve(start)

    def may_overlap(self, one: Instruction, two: Instruction) -> bool:
        """Whether two instructions may touch the same byte."""
        first, second = self.bytes_of(one), self.bytes_of(two)
        return first.low <= second.high and second.low <= first.high

    def bytes_of(self, instruction: Instruction) -> Range:
        """The bytes an instruction can touch."""
        return self._bytes.get(instruction.address, UNKNOWN)

    def _solve(self, start: Ranges) -> None:
        states: dict[int, tuple[Ranges, ActiveLanes]] = {self.flow.entry: (start, ActiveLanes(True, frozenset()))}
        visits: dict[int, int] = {}
        order = {address: position for position, address in enumerate(self.flow.blocks)}
        waiting = {self.flow.entry} & order.keys()
        while waiting:
            address = min(waiting, key=order.__getitem__)
            waiting.remove(address)
            visits[address] = visits.get(address, 0) + 1
            known_ranges, lanes = states[address]
            ranges = dict(known_ranges)
            block = self.flow.blocks[address]
            for instruction, effects in zip(block.instructions, block.effects):
                if effects.lds is not None:
                    self._bytes[instruction.address] = _bytes(instruction, effects, ranges)
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


def _bytes(instruction: Instruction, effects: Effects, ranges: Ranges) -> Range:
    """The bytes an instruction touches when its registers hold these ranges."""
    assert effects.lds is not None
    modifiers = instruction.modifiers
    if effects.lds.direct:
        width = next((size for name, size in _DIRECT_BYTES.items() if name in instruction.mnemonic), 4)
        start = ranges.get(_M0, UNKNOWN)
        offset = modifiers.get("offset", 0)
        return _span(start, offset, offset + _LANES * width)
    if instruction.encoding != "DS" or "addtid" in instruction.mnemonic or not instruction.sources:
        return UNKNOWN
    width = 4 * max(item.count for item in (*instruction.destinations, *instruction.sources[1:]))
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
