"""A cache as tag arrays: which lines it holds, when their data came, and which is replaced next."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ckmlir.sim.timing.compiled import compiled

NO_LINE: Final = -1
MOST_WAYS: Final = 1 << 8
_NEWEST: Final = (1 << 63) - 1


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
    tags = cache.tags[which, first : first + cache.ways]
    found = 0
    for way in range(len(tags)):  # at most one has it; without a way out, this becomes vector code
        found += (way + 1) * (tags[way] == line)
    if found == 0:
        return -1
    slot = first + found - 1
    cache.used[which, slot] = turn
    return slot


@compiled
def insert(cache: Cache, which: int, line: int, turn: int) -> int:
    """The slot in which a line takes the place of the least recently used one; its data comes, and it is clean."""
    first = first_slot(cache, line)
    used = cache.used[which, first : first + cache.ways]
    oldest = np.int64(_NEWEST)
    for way in range(len(used)):  # turns count from 1, so slots that were never used come first
        oldest = min(oldest, used[way] * MOST_WAYS + way)
    slot = first + oldest % MOST_WAYS
    cache.tags[which, slot] = line
    cache.used[which, slot] = turn
    cache.ready[which, slot] = 0
    cache.dirty[which, slot] = 0
    return int(slot)
