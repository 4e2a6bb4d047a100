"""Ways through a kernel that its own conditions forbid, left out of its control flow.

A register that a merged path left alone holds anything, but only on the way that a constant then forbids
(`constants.py`), or a condition that was found before (`conditions.py`). LLVM also uses s_cbranch_execnz as a jump that
is always taken.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from msgspec.structs import replace

from ckmlir.sim.analysis.blocks import Block, ControlFlow
from ckmlir.sim.analysis.conditions import Conditions, Facts, Key
from ckmlir.sim.analysis.constants import (
    AT_START,
    SCC_VALUE,
    Constants,
    after,
    asked_for,
    branch_taken,
    chosen,
    handed_round,
)

_MOST_COPIES: Final = 32
"""Of one block by constants, and as many by conditions; what more of them would tell apart is taken together. A loop
within another, with three slots of one operand and two of the other, needs more than 16."""
_NO_FACTS: Final[Facts] = frozenset()

Place = tuple[int, Constants, Facts]
"""A block by its address, and what is known where it begins."""


def unfold(flow: ControlFlow) -> ControlFlow:
    """The control flow with blocks that are reached with different knowledge apart, without the ways that it forbids.

    Copies of a block have the instructions in common. The first has the block's address as its key, the others have
    keys below zero.
    """
    if flow.entry not in flow.blocks:
        return flow
    conditions, slots = Conditions(flow), handed_round(flow) | chosen(flow)
    wanted = asked_for(flow) | slots
    begin: Place = flow.entry, AT_START, _NO_FACTS
    places = _Places(begin)
    successors: dict[int, list[int]] = {}
    pending = [begin]
    while pending:
        address, constants, facts = place = pending.pop()
        block = flow.blocks[address]
        known, held = dict(constants), dict(facts)
        for instruction, effects in zip(block.instructions, block.effects, strict=True):
            condition = conditions.condition(held, instruction) if conditions else None
            known = after(known, instruction, effects, slots)
            if conditions:
                held = conditions.after(held, instruction, effects)
            if condition is not None:
                known[SCC_VALUE] = condition
        kept = frozenset(one for one in known.items() if one[0] in wanted)
        following = []
        for successor, then in _possible(block, known, held, conditions):
            key, new = places.key((successor, kept, conditions.wanted(successor, then)))
            pending += new
            following.append(key)
        successors[places.keys[place]] = following
    starts = {key: address for (address, _, _), key in places.keys.items()}
    held_in = {key: frozenset(one for one in known if one[0] in slots) for (_, known, _), key in places.keys.items()}
    arrangements = dict.fromkeys((frozenset[tuple[int, int]](), *held_in.values()))
    numbers = {one: number for number, one in enumerate(arrangements)}
    blocks = {
        key: replace(
            flow.blocks[starts[key]], successors=successors[key], predecessors=[], arrangement=numbers[held_in[key]]
        )
        for key in _order(flow.entry, successors)
    }
    for key, block in blocks.items():
        for successor in block.successors:
            blocks[successor].predecessors.append(key)
    return replace(flow, blocks=blocks)


class _Places:
    """The copies of blocks so far, and their keys."""

    def __init__(self, begin: Place) -> None:
        self.keys: dict[Place, int] = {begin: begin[0]}
        self._copies: Counter[tuple[int, bool]] = Counter({(begin[0], False): 1})
        self._reached = {begin[0]}

    def key(self, place: Place) -> tuple[int, list[Place]]:
        """The key of a block that is reached, and the copy if it is new. Where there are too many, less is known."""
        address, constants, facts = place
        if place not in self.keys and facts and self._copies[address, True] >= _MOST_COPIES:
            place = address, constants, facts = address, constants, _NO_FACTS
        if place not in self.keys and not facts and self._copies[address, False] >= _MOST_COPIES:
            place = address, constants & AT_START, facts
        if place in self.keys:
            return self.keys[place], []
        self.keys[place] = address if address not in self._reached else -len(self.keys)
        self._reached.add(address)
        self._copies[address, bool(facts)] += 1
        return self.keys[place], [place]


def _possible(
    block: Block, known: dict[int, int], held: dict[Key, Any], conditions: Conditions
) -> list[tuple[int, dict[Key, Any]]]:
    """The successors of a block that what is known at its end allows, and what is known of conditions there."""
    branch = block.instructions[-1]
    taken = branch_taken(known, branch)
    allowed = block.successors
    if taken is not None:
        allowed = [one for one in allowed if (one == branch.branch_target) == taken] or allowed
    if len(block.successors) < 2 or not conditions:
        return [(one, held) for one in allowed]
    ways = [(one, conditions.along(held, branch, one == branch.branch_target)) for one in allowed]
    return [(one, then) for one, then in ways if then is not None] or [(one, held) for one in allowed]


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
