"""The counters simulated exactly on paths of a kernel: a second opinion on the static proof of waits.

A path is a list of instructions from the start. Each counter is a list of outstanding accesses, oldest first, and
s_waitcnt takes from its front; nothing is joined or approximated. LDS is one location.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from ckmlir.sim.analysis.blocks import ControlFlow
from ckmlir.sim.analysis.effects import Category, Counter, Effects, Kind
from ckmlir.sim.decode import Instruction

Path = list[tuple[Instruction, Effects]]
Counts = dict[str, int]
_CONTROL = Category.CONTROL
_NO_WAIT = {"vmcnt": 63, "expcnt": 7, "lgkmcnt": 15}


def paths_of(flow: ControlFlow, seed: int = 5, count: int = 8, length: int = 4000) -> list[Path]:
    """Random paths that together take every edge."""
    rng = random.Random(seed)
    edges = {(start, next) for start, block in flow.blocks.items() for next in block.successors}
    taken: set[tuple[int, int]] = set()
    paths: list[Path] = []
    while len(paths) < count or (edges - taken and len(paths) < 10 * count):
        path: Path = []
        here = flow.entry
        while len(path) < length:
            block = flow.blocks[here]
            path += zip(block.instructions, block.effects)
            if not block.successors:
                break
            fresh = [next for next in block.successors if (here, next) not in taken]
            following = rng.choice(fresh or block.successors)
            taken.add((here, following))
            here = following
        paths.append(path)
    assert edges <= taken
    return paths


class _Access(NamedTuple):
    kind: Kind
    effects: Effects
    crossed: bool


def first_violation(path: Path, changed: dict[int, Counts] | None = None) -> str | None:
    """The first use that comes too early on a path; `changed` gives other counts for the waits at some addresses."""
    queues: dict[Counter, list[_Access]] = {counter: [] for counter in Counter}
    late: list[_Access] = []
    guarded = 0
    for instruction, effects in path:
        if not (effects.reads | effects.writes) & guarded and not effects.events and effects.category is not _CONTROL:
            continue  # touches nothing that is in flight
        if instruction.mnemonic == "s_waitcnt":
            counts = (changed or {}).get(instruction.address, instruction.modifiers)
            for counter, queue in queues.items():
                late += [one for one in _wait(queue, counts[counter.value], _NO_WAIT[counter.value]) if one.crossed]
            guarded = _guarded(queues)
            continue
        if instruction.mnemonic == "s_barrier":
            late.clear()
            for queue in queues.values():
                queue[:] = [one._replace(crossed=True) if one.effects.lds else one for one in queue]
            continue
        if effects.lds or (effects.reads | effects.writes) & guarded:
            for counter, queue in queues.items():
                if any(_too_early(counter, queue, one, effects) for one in queue):
                    return f"{instruction.text} at {instruction.address:#x}"
        if effects.lds and any(_conflict(one, effects) for one in late):
            return f"{instruction.text} at {instruction.address:#x}"
        for event in effects.events:
            queue = queues[event.counter]
            queue.append(_Access(event.kind, effects, False))
            full = _complete(queue, _NO_WAIT[event.counter.value])  # what a counter cannot count waits to be issued
            late += [one for one in full if one.crossed]
            guarded |= effects.writes | effects.locked
    return None


def _guarded(queues: dict[Counter, list[_Access]]) -> int:
    found = 0
    for queue in queues.values():
        for one in queue:
            found |= one.effects.writes | one.effects.locked
    return found


def _wait(queue: list[_Access], count: int, no_wait: int) -> list[_Access]:
    return _complete(queue, count) if count < no_wait else []


def _complete(queue: list[_Access], count: int) -> list[_Access]:
    """Take from the front what is complete when at most `count` are outstanding."""
    if not queue:
        return []
    ordered = len({one.kind for one in queue}) == 1 and queue[0].kind not in (Kind.SMEM, Kind.FLAT)
    done = len(queue) if count == 0 else max(0, len(queue) - count) if ordered else 0
    completed = queue[:done]
    del queue[:done]
    return completed


def _too_early(counter: Counter, queue: list[_Access], one: _Access, use: Effects) -> bool:
    if counter is Counter.EXP:
        return bool(one.effects.locked & use.writes)
    if one.effects.writes & use.reads:
        return True
    ordered = len({item.kind for item in queue}) == 1 and one.kind not in (Kind.SMEM, Kind.FLAT)
    follows = ordered and [event.kind for event in use.events if event.counter is counter] == [one.kind]
    if one.effects.writes & use.writes and not follows:
        return True
    own_copy = one.effects.lds is not None and one.effects.lds.direct and use.lds is not None and use.lds.reads
    return bool(use.lds and (own_copy or (one.crossed and _conflict(one, use))))


def _conflict(one: _Access, use: Effects) -> bool:
    assert use.lds is not None and one.effects.lds is not None
    return (one.effects.lds.writes and (use.lds.reads or use.lds.writes)) or (one.effects.lds.reads and use.lds.writes)
