"""Where indirect jumps go: code addresses that a program computes, followed over its control-flow graph.

Compilers make an address with s_getpc_b64 and two additions, may keep it in scalar registers over several calls, and
without optimisation put it into lanes of a VGPR (v_writelane, v_readlane) and VGPRs into AccVGPRs. Functions are taken
to keep the lanes of such VGPRs for their callers, as LLVM's do (they save them with all lanes active), and keep scalar
registers that nothing in them writes. Anything else, for example an address loaded from memory, is not followed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from ckmlir.sim.analysis.blocks import Block, ControlFlow
from ckmlir.sim.analysis.registers import BASE, SCALAR, VECTOR
from ckmlir.sim.decode import Instruction, Operand

_WORD: Final = 0xFFFF_FFFF
_NO_LANE: Final = -1
_KEPT: Final = -2
"""In the place of a lane: a scalar register of the caller that a function does not write."""
_CARRY: Final = (-1, _NO_LANE)
_INDIRECT: Final = ("s_setpc_b64", "s_swappc_b64")

Place = tuple[int, int]
"""A register (`registers.py`) and a lane of it, no lane for a scalar register."""
Words = dict[Place, int]
"""The 32-bit words that are known: halves of code addresses, and the carry between two additions."""


def jump_targets(flow: ControlFlow, jumps: Collection[int], calls: Collection[int]) -> dict[int, int]:
    """The targets of those indirect jumps (by address) that are known and the same on every path. `calls`: addresses
    of calls, which return to the instruction behind them."""
    found: dict[int, int] = {}
    states: dict[int, Words] = {flow.entry: {}}
    waiting = [flow.entry] if flow.entry in flow.blocks else []
    written: dict[int, int] = {}
    while waiting:
        start = waiting.pop()
        words = {(place[0], max(place[1], _NO_LANE)): word for place, word in states[start].items()}
        if _SCALARS in words or _LANES in words:
            continue  # behind a call, until both what the function and what the caller leaves are known
        block = flow.blocks[start]
        _follow(block, words)
        last = block.instructions[-1]
        if last.address in jumps:
            target = _pair(words, last.sources[0])
            found.pop(last.address, None)
            if target is not None:
                found[last.address] = target
        if last.address in calls and last.address not in written:
            written[last.address] = _registers_written(flow, block.successors, calls)
        for successor, passed in _passed_on(block, words, written.get(last.address)):
            if successor not in flow.blocks:
                continue  # the function does not return as far as is known
            known = states.get(successor)
            merged = passed if known is None else _meet(known, passed)
            if merged != known:
                states[successor] = merged
                waiting.append(successor)
    return found


_SCALARS, _LANES = (-2, 0), (-2, 1)
"""Marks of states that say nothing yet about scalar registers, or about lanes."""


def _registers_written(flow: ControlFlow, entries: Sequence[int], calls: Collection[int]) -> int:
    """The registers that a function and those it calls may write, as bits; all where it is not known as a whole."""
    ends = [block.instructions[-1] for block in flow.blocks.values()]
    behind_calls = {end.address + end.size for end in ends if end.address in calls}
    found, waiting = 0, list(entries)
    seen: set[int] = set()
    while waiting:
        start = waiting.pop()
        if start in seen:
            continue
        seen.add(start)
        block = flow.blocks.get(start)
        if block is None or (block.instructions[-1].mnemonic in _INDIRECT and not block.successors):
            return -1
        for effects in block.effects:
            found |= effects.writes
        last = block.instructions[-1]
        if last.address in calls:
            waiting.append(last.address + last.size)
        if last.mnemonic != "s_setpc_b64" or not behind_calls.issuperset(block.successors):
            waiting += block.successors
    return found


def _passed_on(block: Block, words: Words, written: int | None) -> Iterator[tuple[int, Words]]:
    """What each block that may follow learns. Behind a call, of a function that writes these registers, lanes are what
    they were before it, and scalar registers what they are at the function's return, or were if it does not write them.
    """
    is_call = written is not None
    is_return = (
        block.instructions[-1].mnemonic == "s_setpc_b64" and _pair(words, block.instructions[-1].sources[0]) is None
    )
    scalars = {place: word for place, word in words.items() if place[1] == _NO_LANE}
    for successor in block.successors:
        yield successor, {**scalars, _LANES: 0} if is_return else scalars if is_call else words
    if written is not None:
        last = block.instructions[-1]
        lanes = {place: word for place, word in words.items() if place[1] != _NO_LANE}
        registers = {place[0]: word for place, word in scalars.items() if place != _CARRY}
        kept = {(one, _KEPT): word for one, word in registers.items() if not written >> one & 1}
        yield last.address + last.size, {**lanes, **kept, _SCALARS: 0}


def _meet(one: Words, two: Words) -> Words:
    """What two paths agree about; a path that says nothing about scalar registers or lanes agrees to everything."""
    met = dict(one.items() & two.items())
    for silent, other in ((one, two), (two, one)):
        for mark, about in ((_SCALARS, True), (_LANES, False)):
            if mark in silent and mark not in other:
                facts = {place: word for place, word in other.items() if place not in (_SCALARS, _LANES)}
                met.update({place: word for place, word in facts.items() if (place[1] == _NO_LANE) == about})
    return met


def _pair(words: Words, operand: Operand) -> int | None:
    low, high = (words.get((SCALAR + operand.index + half, _NO_LANE)) for half in (0, 1))
    return None if low is None or high is None else high << 32 | low


def _follow(block: Block, words: Words) -> None:
    """Change what is known as the block does."""
    for instruction, effects in zip(block.instructions, block.effects):
        results = _results(instruction, words)
        keeps = _lane_written(instruction)
        for place in [
            place for place in words if place == _CARRY or (place[0] >= 0 and effects.writes >> place[0] & 1)
        ]:
            if keeps is None or place[1] in (_NO_LANE, keeps):
                del words[place]
        words.update(results)


def _lane_written(instruction: Instruction) -> int | None:
    """The only lane that v_writelane changes, if it is a constant."""
    if instruction.mnemonic != "v_writelane_b32" or instruction.sources[1].kind != "imm":
        return None
    return instruction.sources[1].index


def _results(instruction: Instruction, words: Words) -> Words:
    name, sources = instruction.mnemonic, instruction.sources
    if not instruction.destinations:
        return {}
    target = instruction.destinations[0]
    place = BASE[target.kind] + target.index
    if name == "s_getpc_b64":
        after = instruction.address + instruction.size
        return {(place, _NO_LANE): after & _WORD, (place + 1, _NO_LANE): after >> 32}
    if name in ("s_add_u32", "s_addc_u32", "s_sub_u32", "s_subb_u32"):
        return _sum(name, place, sources, words)
    if name in ("s_mov_b32", "s_mov_b64") and sources[0].kind == "s":
        halves = range(target.count)
        return _copied(words, {(place + i, _NO_LANE): (SCALAR + sources[0].index + i, _NO_LANE) for i in halves})
    if name == "v_writelane_b32" and sources[1].kind == "imm" and sources[0].kind == "s":
        return _copied(words, {(place, sources[1].index): (SCALAR + sources[0].index, _NO_LANE)})
    if name == "v_readlane_b32" and sources[1].kind == "imm":
        return _copied(words, {(place, _NO_LANE): (VECTOR + sources[0].index, sources[1].index)})
    if name in ("v_mov_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32") and sources[0].kind in "va":
        source = BASE[sources[0].kind] + sources[0].index
        return {(place, lane): word for (register, lane), word in words.items() if register == source}
    return {}


def _copied(words: Words, copies: dict[Place, Place]) -> Words:
    return {target: words[source] for target, source in copies.items() if source in words}


def _sum(name: str, place: int, sources: tuple[Operand, ...], words: Words) -> Words:
    """A half of an address plus a constant; the carry stays known until the next instruction."""
    known = [item.index if item.kind == "imm" else words.get((SCALAR + item.index, _NO_LANE)) for item in sources]
    carry = words.get(_CARRY) if name in ("s_addc_u32", "s_subb_u32") else 0
    left, right = known
    if left is None or right is None or carry is None:
        return {}
    total = left + right + carry if name.startswith("s_add") else left - right - carry
    return {(place, _NO_LANE): total & _WORD, _CARRY: int(not 0 <= total <= _WORD)}
