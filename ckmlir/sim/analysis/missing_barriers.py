"""Where a barrier is missing: one place in the code for many races of LDS.

Waves run the same code, so two instructions that race are on one way of a wave too, with no barrier between. Where
that way goes from one to the other and not back, a barrier on it would keep their accesses apart; the races that share
such a way have one barrier in common, between the last of the instructions in front and the first behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from ckmlir.codeobject import CodeObject
from ckmlir.sim.analysis.blocks import ControlFlow
from ckmlir.sim.analysis.control_flow import control_flow
from ckmlir.sim.checks.finding import Finding

Pair = tuple[int, int]
"""Addresses of two instructions, the first in front."""
Reached = dict[int, dict[int, int]]
"""For an instruction those that a wave comes to without a barrier, and after how many."""


def missing_barriers(code_object: CodeObject, kernel: str, findings: Iterable[Finding]) -> list[str]:
    """A sentence for each barrier that would order races of LDS which a run showed."""
    chosen = code_object.kernel(kernel)
    races = [one for one in findings if one.checker == "race" and one.is_fault and one.allocation == "LDS"]
    touched = {place + chosen.address for one in races for place in (one.address, *one.earlier)}
    if not touched:
        return []
    flow = control_flow(code_object, chosen)
    reached = {start: _reached(flow, start) for start in touched}
    pairs = {_ordered(one.address + chosen.address, place + chosen.address, reached) for one in races
             for place in one.earlier}  # fmt: skip
    texts = {item.address: item.text for block in flow.blocks.values() for item in block.instructions}
    groups: dict[Pair, set[Pair]] = {}
    for pair in sorted(pair for pair in pairs if pair is not None):
        group = {pair}
        for place, other in list(groups.items()):
            if _place(group | other, reached) is not None:
                group |= groups.pop(place)
        groups[_place(group, reached) or pair] = group
    sentences = []
    for (last, first), group in sorted(groups.items()):
        places = [f"{texts[one]} at {one - chosen.address:#x}" for one in (last, first)]
        what = f"the {len(group)} pairs of instructions" if len(group) > 1 else "this pair of instructions"
        sentences.append(f"s_barrier behind {places[0]} and before {places[1]} would keep {what} apart")
    return sentences


def _place(pairs: set[Pair], reached: Reached) -> Pair | None:
    """Between which two instructions one barrier orders all pairs; None if no single barrier does."""
    front, behind = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    ways = [(reached[one][other], one, other) for one in front for other in behind if other in reached[one]]
    if not ways or front & behind:
        return None
    _, last, first = min(ways)
    comes_by = all(last in reached[one] and reached[one][last] < reached[one].get(first, 0) for one in front - {last})
    return (last, first) if comes_by and behind - {first} <= reached[first].keys() else None


def _ordered(one: int, other: int, reached: Reached) -> Pair | None:
    """Two instructions in the order of the only way between them that has no barrier; None where both ways have none,
    or both have one."""
    there, back = other in reached[one], one in reached[other]
    return None if there == back else (one, other) if there else (other, one)


def _reached(flow: ControlFlow, start: int) -> dict[int, int]:
    """The instructions that a wave comes to from one of them before it comes to a barrier, and how many it takes."""
    found: dict[int, int] = {}
    waiting = [
        (0, block, number + 1)
        for block, one in flow.blocks.items()
        for number, item in enumerate(one.instructions)
        if item.address == start
    ]
    while waiting:
        distance, block, number = heappop(waiting)
        for item in flow.blocks[block].instructions[number:]:
            if item.address in found or item.mnemonic == "s_barrier":
                break
            distance += 1
            found[item.address] = distance
        else:
            for successor in flow.blocks[block].successors:
                heappush(waiting, (distance, successor, 0))
    return found
