"""Ways through a kernel that a constant condition forbids, left out of its control flow.

Compilers carry "does the loop run?" and the like through merged paths as a mask of lanes or a number that is all or
nothing. A register that such a path left alone holds anything, but only on the way that the flag then forbids.
Followed are masks that are empty or hold every active lane, the numbers 0 and 1, scc, and exec until it is first
written: a wave starts with some lane. LLVM uses s_cbranch_execnz there as a jump that is always taken.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from ckmlir.sim.analysis.blocks import Block, ControlFlow
from ckmlir.sim.analysis.effects import Effects
from ckmlir.sim.analysis.registers import SCALAR, SCC, registers_of
from ckmlir.sim.decode import Instruction, Operand

Flags = frozenset[tuple[int, bool]]
"""What is known: the first register bit of a scalar register or pair (or `_SCC`), and whether it is all or nothing."""

_SCC: Final = -1
_EXEC: Final = 126
_VCC: Final = SCALAR + 106
_LANES: Final = SCALAR + _EXEC
_ALL_LANES: Final = 0xFFFF_FFFF
_READERS: Final = re.compile(r"s_(and|andn2|xor)_b64|s_cselect_b(32|64)|s_cmp_(lg|eq)_[iu]32|s_mov_b(32|64)")
_MOST_COPIES: Final = 16
"""Of one block; what further flags would tell apart is taken together."""


def unfold(flow: ControlFlow) -> ControlFlow:
    """The control flow with blocks that are reached with different flags apart, and without the ways that these forbid.

    Copies of a block have the instructions in common. The first has the block's address as its key, the others have
    keys below zero.
    """
    if flow.entry not in flow.blocks:
        return flow
    interesting = _interesting(flow)
    start = frozenset({(_LANES, True)})
    keys: dict[tuple[int, Flags], int] = {(flow.entry, start): flow.entry}
    copies: dict[int, int] = {flow.entry: 1}
    successors: dict[int, list[int]] = {}
    pending = [(flow.entry, start)]
    while pending:
        address, flags = place = pending.pop()
        block = flow.blocks[address]
        for instruction, effects in zip(block.instructions, block.effects, strict=True):
            flags = _after(flags, instruction, effects)
        kept = frozenset(one for one in flags if one[0] in interesting)
        following = []
        for successor in _possible(block, flags):
            then = successor, kept
            if then not in keys and copies.get(successor, 0) >= _MOST_COPIES:
                then = successor, kept & start
            if then not in keys:
                keys[then] = successor if successor not in copies else -len(keys)
                copies[successor] = copies.get(successor, 0) + 1
                pending.append(then)
            following.append(keys[then])
        successors[keys[place]] = following
    starts = {key: address for (address, _), key in keys.items()}
    blocks = {
        key: replace(flow.blocks[starts[key]], successors=successors[key], predecessors=[])
        for key in _order(flow.entry, successors)
    }
    for key, block in blocks.items():
        for successor in block.successors:
            blocks[successor].predecessors.append(key)
    return replace(flow, blocks=blocks)


def _interesting(flow: ControlFlow) -> frozenset[int]:
    """Registers whose flags are asked for somewhere."""
    found = {_SCC, _VCC, _LANES}
    for block in flow.blocks.values():
        for instruction in block.instructions:
            if _READERS.fullmatch(instruction.mnemonic):
                found |= {at for at in map(_first, instruction.sources) if at is not None}
    return frozenset(found)


def _possible(block: Block, flags: Flags) -> list[int]:
    """The successors of a block that the flags at its end allow."""
    branch = block.instructions[-1]
    taken = _goes_to(flags, branch)
    if taken is None:
        return block.successors
    return [one for one in block.successors if (one == branch.branch_target) == taken] or block.successors


def _order(entry: int, successors: dict[int, list[int]]) -> list[int]:
    """Reverse postorder from the entry."""
    done: list[int] = []
    seen, path = {entry}, [(entry, iter(successors[entry]))]
    while path:
        key, rest = path[-1]
        following = next((one for one in rest if one not in seen), None)
        if following is None:
            done.append(key)
            path.pop()
        else:
            seen.add(following)
            path.append((following, iter(successors[following])))
    return done[::-1]


def _after(flags: Flags, instruction: Instruction, effects: Effects) -> Flags:
    """What is known behind an instruction."""
    found = dict(flags)
    results = _results(instruction, found)
    written = effects.writes
    kept = {at: value for at, value in found.items() if at == _SCC or not written >> at & 3}
    if effects.writes & SCC:
        kept.pop(_SCC, None)
    kept.update({at: value for at, value in results.items() if value is not None})
    return frozenset(kept.items())


def _goes_to(flags: Flags, branch: Instruction) -> bool | None:
    """Whether a conditional branch is taken; None where that is not known, or it is none."""
    known = dict(flags)
    name = branch.mnemonic
    if name in ("s_cbranch_scc0", "s_cbranch_scc1"):
        value = known.get(_SCC)
        return None if value is None else value == name.endswith("1")
    for mask, at in (("vcc", _VCC), ("exec", _LANES)):
        if name in (f"s_cbranch_{mask}z", f"s_cbranch_{mask}nz"):
            value = known.get(at)
            return None if value is None else value == name.endswith("nz")
    return None


def _results(instruction: Instruction, known: dict[int, bool]) -> dict[int, bool | None]:
    """The flags that an instruction sets; None: to what is not known."""
    name, sources = instruction.mnemonic, instruction.sources
    at = _first(instruction.destinations[0]) if instruction.destinations else None
    if name in ("s_mov_b64", "s_mov_b32") and at is not None:
        return {at: _value(sources[0], known)}
    if name in ("s_cselect_b64", "s_cselect_b32") and at is not None:
        chosen, other = (_value(one, known) for one in sources)
        scc = known.get(_SCC)
        return {at: chosen if scc else other} if scc is not None else {}
    if name in ("s_and_b64", "s_andn2_b64", "s_xor_b64") and at is not None:
        value = _combined(name, sources, known)
        return {at: value, _SCC: value}
    if name in ("s_cmp_lg_u32", "s_cmp_eq_u32", "s_cmp_lg_i32", "s_cmp_eq_i32"):
        one, two = (_value(source, known) for source in sources)
        return {} if one is None or two is None else {_SCC: (one == two) == ("_eq_" in name)}
    return {}


def _combined(name: str, sources: tuple[Operand, ...], known: dict[int, bool]) -> bool | None:
    """A mask and exec, exec without a mask, or the reverse of a mask."""
    is_exec = [one.kind == "s" and one.index == _EXEC for one in sources]
    if name == "s_and_b64" and any(is_exec):
        return _value(sources[is_exec.index(False)], known) if not all(is_exec) else True
    if name == "s_andn2_b64" and is_exec == [True, False]:
        value = _value(sources[1], known)
        return None if value is None else not value
    if name == "s_xor_b64" and sources[1].kind == "imm" and sources[1].index & _ALL_LANES == _ALL_LANES:
        value = _value(sources[0], known)
        return None if value is None else not value
    return None


def _first(operand: Operand) -> int | None:
    """The register bit that stands for an operand; None for what is no scalar register."""
    found = registers_of(operand)
    return (found & -found).bit_length() - 1 if operand.kind == "s" and found else None


def _value(operand: Operand, known: dict[int, bool]) -> bool | None:
    if operand.kind == "imm":
        number = operand.index & _ALL_LANES
        return False if number == 0 else True if number in (1, _ALL_LANES) else None
    at = _first(operand)
    return None if at is None else known.get(at)
