"""Ways through a kernel that a constant condition forbids, left out of its control flow.

A register that a merged path left alone holds anything, but only on the way that a constant then forbids
(`constants.py`). LLVM also uses s_cbranch_execnz as a jump that is always taken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ckmlir.sim.analysis.blocks import Block, ControlFlow
from ckmlir.sim.analysis.constants import AT_START, Constants, after, asked_for, branch_taken

_MOST_COPIES: Final = 16
"""Of one block; what further constants would tell apart is taken together."""


def unfold(flow: ControlFlow) -> ControlFlow:
    """The control flow with blocks that are reached with different constants apart, without the ways that these forbid.

    Copies of a block have the instructions in common. The first has the block's address as its key, the others have
    keys below zero.
    """
    if flow.entry not in flow.blocks:
        return flow
    wanted = asked_for(flow)
    keys: dict[tuple[int, Constants], int] = {(flow.entry, AT_START): flow.entry}
    copies: dict[int, int] = {flow.entry: 1}
    successors: dict[int, list[int]] = {}
    pending = [(flow.entry, AT_START)]
    while pending:
        address, constants = place = pending.pop()
        block = flow.blocks[address]
        known = dict(constants)
        for instruction, effects in zip(block.instructions, block.effects, strict=True):
            known = after(known, instruction, effects)
        kept = frozenset(one for one in known.items() if one[0] in wanted)
        following = []
        for successor in _possible(block, known):
            then = successor, kept
            if then not in keys and copies.get(successor, 0) >= _MOST_COPIES:
                then = successor, kept & AT_START
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


def _possible(block: Block, known: dict[int, int]) -> list[int]:
    """The successors of a block that the constants at its end allow."""
    branch = block.instructions[-1]
    taken = branch_taken(known, branch)
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
