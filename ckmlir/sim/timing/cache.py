"""A cache as tag arrays: which lines it holds, when their data came, and which is replaced next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ckmlir.sim.timing.compiled import compiled

NO_LINE = -1


class Cache(NamedTuple):
    """Several caches of one kind, such as the L1 caches of the compute units.

    Attributes:
        tags: For each cache and each of its `sets` * `ways` slots, the line it holds or NO_LINE.
        used: The same: the turn of the last access, for replacing the least recently used line.
        ready: The same: the tick at which the line's data is (or was) there, for accesses to a line on its way.
        dirty: The same: whether the line was written to.
        sets, ways: 0 sets: there is no such cache, and nothing is ever found.
        shift: A line holds 2**shift requests (`memory_hierarchy.REQUEST_BYTES`).
        latency: Ticks from a load's issue until a hit's data is in registers.
    """

    tags: npt.NDArray[np.int64]
    used: npt.NDArray[np.int64]
    ready: npt.NDArray[np.int64]
    dirty: npt.NDArray[np.uint8]
    sets: int
    ways: int
    shift: int
    latency: int


def new_cache(count: int, lines: int, ways: int, shift: int, latency: int) -> Cache:
    """`count` empty caches of `lines` lines each (rounded down to whole sets, at least one set unless `lines` is 0)."""
    sets = max(1, lines // ways) if lines else 0
    shape = (count, sets * ways)
    return Cache(
        np.full(shape, NO_LINE, np.int64),
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
        np.zeros(shape, np.uint8),
        sets,
        ways,
        shift,
        latency,
    )


@compiled
def first_slot(cache: Cache, line: int) -> int:
    """The first slot of a line's set. Higher bits are folded in, so that strides of powers of two spread."""
    return int(((line ^ (line >> 7) ^ (line >> 13)) % cache.sets) * cache.ways)


@compiled
def find(cache: Cache, which: int, line: int, turn: int) -> int:
    """The slot of a line in one of the caches, now the most recently used of its set; -1 when it is not there."""
    if cache.sets == 0:
        return -1
    first = first_slot(cache, line)
    for slot in range(first, first + cache.ways):
        if cache.tags[which, slot] == line:
            cache.used[which, slot] = turn
            return slot
    return -1


@compiled
def insert(cache: Cache, which: int, line: int, turn: int) -> int:
    """The slot in which a line takes the place of the least recently used one; its data comes, and it is clean."""
    first = first_slot(cache, line)
    victim = first
    for slot in range(first, first + cache.ways):
        if cache.tags[which, slot] == NO_LINE:
            victim = slot
            break
        if cache.used[which, slot] < cache.used[which, victim]:
            victim = slot
    cache.tags[which, victim] = line
    cache.used[which, victim] = turn
    cache.ready[which, victim] = 0
    cache.dirty[which, victim] = 0
    return victim
