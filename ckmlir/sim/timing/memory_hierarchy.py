"""The memory model: what a vector or scalar memory access costs, from the L1 cache to HBM.

Time is counted in ticks, TICKS to a cycle, so that bandwidths with a fraction of a byte a cycle stay exact in
integers. Every level has a latency, from the issue of a load to its data in registers, and a rate, a queue in which
requests wait for their turn; a level that is passed on the way down adds its queue, the level that has the line its
latency. Loads fill the caches they pass. Stores go through L1 without allocating there and are acknowledged by L2,
which takes the line without fetching it; the bandwidth of writing it back is paid when it becomes dirty, which is what
a stream of stores costs sooner or later, and stores wait when too many bytes are on their way down.

The compute units modelled stand for a larger number that do the same at the same time (`memory_shares.py`): they see
their share of the capacity and bandwidth of what they share with the others.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ckmlir.sim.timing.cache import Cache, find, insert
from ckmlir.sim.timing.compiled import compiled, compiled_with_arrays

TICKS: Final = 1 << 12
REQUEST_BYTES: Final = 64  # what L1 looks up in a cycle: CDNA3 white paper, 64 bytes a cycle; CDNA2's L1 line
NO_ADDRESS: Final = np.uint64(2**64 - 1)


class Counter(IntEnum):
    """What the model counts. REQUESTS are of REQUEST_BYTES, LINES of the level's own."""

    L1_REQUESTS = 0
    L1_HITS = 1
    STORE_REQUESTS = 2
    L2_READ_LINES = 3  # L1's lines
    L2_HITS = 4
    MALL_LINES = 5  # L2's lines, read
    MALL_HITS = 6
    HBM_READ_LINES = 7
    WRITTEN_LINES = 8  # L2's lines that stores made dirty
    SCALAR_REQUESTS = 9
    SCALAR_HITS = 10
    WRITE_WAITS = 11  # ticks that stores waited because too many bytes were on their way


class Memory(NamedTuple):
    """The memory that some compute units see, and its state; a launch changes the arrays.

    Attributes:
        l1: One for each compute unit modelled. scalar: One for each group of `scalar_units` compute units that share
            it. l2: One for each die. mall: One, or none.
        l1_free, fill_free, l2_free, mall_free, hbm_free: The tick at which the queue before a level is empty.
        l1_interval, fill_interval, l2_interval: Ticks for one request through L1, from L2 to L1, and through L2.
        mall_interval, hbm_interval: Ticks to fetch one line of L2, in which others that want it have their part.
        mall_write_interval, hbm_write_interval: Ticks to write one line of L2.
        hbm_latency: As that of caches.
        store_latency: Ticks until a store is acknowledged.
        write_queue: Ticks by which memory may lag behind before stores wait.
        die_units: Compute units modelled for each L2. scalar_units: Compute units that share a scalar cache.
        l2_reuse: How many workgroups of a die each line that L2 fetches serves. mall_reuse: How many dies.
        counters: By `Counter`. turn: Accesses to caches so far.
    """

    l1: Cache
    scalar: Cache
    l2: Cache
    mall: Cache
    l1_free: npt.NDArray[np.int64]
    fill_free: npt.NDArray[np.int64]
    l2_free: npt.NDArray[np.int64]
    mall_free: npt.NDArray[np.int64]
    hbm_free: npt.NDArray[np.int64]
    l1_interval: int
    fill_interval: int
    l2_interval: int
    mall_interval: int
    mall_write_interval: int
    hbm_interval: int
    hbm_write_interval: int
    hbm_latency: int
    store_latency: int
    write_queue: int
    die_units: int
    scalar_units: int
    l2_reuse: float
    mall_reuse: float
    counters: npt.NDArray[np.int64]
    turn: npt.NDArray[np.int64]


@compiled_with_arrays
def coalesce(addresses: npt.NDArray[np.uint64], bytes: int, line_size: int) -> npt.NDArray[np.int64]:
    """The distinct lines that the lanes of one access touch, in the order in which lanes first touch them.

    addresses: Of each lane, 2^64-1 for an inactive one. bytes: A lane accesses. line_size: A power of two; `access`
        takes lines of REQUEST_BYTES.
    """
    widest = (bytes + line_size - 2) // line_size + 1
    lines = np.empty(len(addresses) * widest, np.int64)
    return lines[: coalesce_into(lines, addresses, bytes, line_size)]


@compiled
def coalesce_into(
    lines: npt.NDArray[np.int64], addresses: npt.NDArray[np.uint64], bytes: int, line_size: int, offset: int = 0
) -> int:
    """`coalesce` without an array of its own: writes the lines to `lines` and returns how many there are. `offset` is
    added to addresses."""
    count = 0
    shift = 0
    while (1 << shift) < line_size:
        shift += 1
    for lane in range(len(addresses)):
        if addresses[lane] == NO_ADDRESS:
            continue
        address = np.int64(addresses[lane]) + offset
        for line in range(address >> shift, ((address + bytes - 1) >> shift) + 1):
            known = False
            for index in range(count - 1, -1, -1):
                if lines[index] == line:
                    known = True
                    break
            if not known:
                lines[count] = line
                count += 1
    return count


@compiled
def access(
    memory: Memory, cycle: int, compute_unit: int, lines: npt.NDArray[np.int64], count: int, is_store: bool,
    first: int = 0,
) -> int:  # fmt: skip
    """The cycle at which the data of a load is there, or a store or atomic operation is acknowledged.

    cycle: Of issue to the L1 cache. compute_unit: Index among those modelled. lines: Of REQUEST_BYTES, from `coalesce`;
        the first `count` are meant, counted from line `first`. Without lines (no lane was active) it takes as long as a
        hit.
    """
    now = cycle * TICKS
    done = now + memory.l1.latency
    for index in range(count):
        if is_store:
            done = max(done, _store(memory, now, compute_unit, first + lines[index]))
        else:
            done = max(done, _load(memory, now, compute_unit, first + lines[index]))
    return int(-(-done // TICKS))


@compiled
def scalar_access(memory: Memory, cycle: int, compute_unit: int, address: int, bytes: int) -> int:
    """The cycle at which the data of a scalar load is there."""
    cache = memory.scalar
    which = compute_unit // memory.scalar_units
    now = cycle * TICKS
    done = now + cache.latency
    for request in range(address // REQUEST_BYTES, (address + bytes - 1) // REQUEST_BYTES + 1):
        memory.turn[0] += 1
        memory.counters[Counter.SCALAR_REQUESTS] += 1
        line = request >> cache.shift
        slot = find(cache, which, line, memory.turn[0])
        if slot >= 0:
            memory.counters[Counter.SCALAR_HITS] += 1
        else:
            slot = insert(cache, which, line, memory.turn[0])
            die = compute_unit // memory.die_units
            cache.ready[which, slot] = _fetch_from_l2(memory, now, die, request, 1 << cache.shift)
        done = max(done, cache.ready[which, slot])
    return int(-(-done // TICKS))


@compiled
def _load(memory: Memory, now: int, compute_unit: int, request: int) -> int:
    """The tick at which one request's data is there."""
    l1 = memory.l1
    start = max(now, memory.l1_free[compute_unit])
    memory.l1_free[compute_unit] = start + memory.l1_interval
    memory.turn[0] += 1
    memory.counters[Counter.L1_REQUESTS] += 1
    line = request >> l1.shift
    slot = find(l1, compute_unit, line, memory.turn[0])
    if slot >= 0:
        memory.counters[Counter.L1_HITS] += 1
        return int(max(start + l1.latency, l1.ready[compute_unit, slot]))
    slot = insert(l1, compute_unit, line, memory.turn[0])
    start = max(start, memory.fill_free[compute_unit])
    memory.fill_free[compute_unit] = start + (memory.fill_interval << l1.shift)
    done = _fetch_from_l2(memory, start, compute_unit // memory.die_units, request, 1 << l1.shift)
    l1.ready[compute_unit, slot] = done
    return done


@compiled
def _fetch_from_l2(memory: Memory, start: int, die: int, request: int, requests: int) -> int:
    """The tick at which a line of `requests` requests, around `request`, comes from L2 or what is below."""
    l2 = memory.l2
    start = max(start, memory.l2_free[die])
    memory.l2_free[die] = start + memory.l2_interval * requests
    memory.counters[Counter.L2_READ_LINES] += 1
    line = request >> l2.shift
    slot = find(l2, die, line, memory.turn[0])
    if slot >= 0:
        memory.counters[Counter.L2_HITS] += 1
        return int(max(start + l2.latency, l2.ready[die, slot]))
    slot = insert(l2, die, line, memory.turn[0])
    done = _fetch_from_memory(memory, start, request)
    l2.ready[die, slot] = done
    return done


@compiled
def _fetch_from_memory(memory: Memory, start: int, request: int) -> int:
    """The tick at which a line of L2 comes from the memory-side cache, where there is one, or from HBM."""
    mall = memory.mall
    if mall.sets > 0:
        start = max(start, memory.mall_free[0])
        memory.mall_free[0] = start + memory.mall_interval
        memory.counters[Counter.MALL_LINES] += 1
        line = request >> mall.shift
        slot = find(mall, 0, line, memory.turn[0])
        if slot >= 0:
            memory.counters[Counter.MALL_HITS] += 1
            return int(max(start + mall.latency, mall.ready[0, slot]))
        slot = insert(mall, 0, line, memory.turn[0])
        done = _fetch_from_hbm(memory, start)
        mall.ready[0, slot] = done
        return done
    return _fetch_from_hbm(memory, start)


@compiled
def _fetch_from_hbm(memory: Memory, start: int) -> int:
    memory.counters[Counter.HBM_READ_LINES] += 1
    start = max(start, memory.hbm_free[0])
    memory.hbm_free[0] = start + memory.hbm_interval
    return int(start + memory.hbm_latency)


@compiled
def _store(memory: Memory, now: int, compute_unit: int, request: int) -> int:
    """The tick at which one request of a store is acknowledged."""
    l2 = memory.l2
    die = compute_unit // memory.die_units
    start = max(now, memory.l1_free[compute_unit])
    memory.l1_free[compute_unit] = start + memory.l1_interval
    start = max(start, memory.l2_free[die])
    memory.l2_free[die] = start + memory.l2_interval
    memory.turn[0] += 1
    memory.counters[Counter.STORE_REQUESTS] += 1
    line = request >> l2.shift
    slot = find(l2, die, line, memory.turn[0])
    if slot < 0:
        slot = insert(l2, die, line, memory.turn[0])
        l2.ready[die, slot] = start + l2.latency
    if l2.dirty[die, slot]:
        return int(start + memory.store_latency)
    l2.dirty[die, slot] = 1
    memory.counters[Counter.WRITTEN_LINES] += 1
    written = start
    if memory.mall.sets > 0:
        written = max(written, memory.mall_free[0])
        memory.mall_free[0] = written + memory.mall_write_interval
    written = max(written, memory.hbm_free[0])
    memory.hbm_free[0] = written + memory.hbm_write_interval
    wait = max(0, written - start - memory.write_queue)
    memory.counters[Counter.WRITE_WAITS] += wait
    return int(start + wait + memory.store_latency)


def memory_bytes(memory: Memory) -> dict[str, int]:
    """Bytes moved by level so far, by the compute units modelled: what each level delivered or took.

    A line that L2 or the memory-side cache fetches for several compute units counts in part for each.
    """
    count = [int(value) for value in memory.counters]
    l1_line, l2_line = REQUEST_BYTES << memory.l1.shift, REQUEST_BYTES << memory.l2.shift
    scalar_misses = count[Counter.SCALAR_REQUESTS] - count[Counter.SCALAR_HITS]
    vector_lines = count[Counter.L2_READ_LINES] - scalar_misses
    read = vector_lines * l1_line + scalar_misses * (REQUEST_BYTES << memory.scalar.shift)
    written = count[Counter.WRITTEN_LINES] * l2_line
    found = {
        "l1": (count[Counter.L1_REQUESTS] + count[Counter.STORE_REQUESTS]) * REQUEST_BYTES,
        "scalar": count[Counter.SCALAR_REQUESTS] * REQUEST_BYTES,
        "l2": read + count[Counter.STORE_REQUESTS] * REQUEST_BYTES,
        "mall": round(count[Counter.MALL_LINES] * l2_line / memory.l2_reuse) + written if memory.mall.sets else 0,
        "hbm_read": round(count[Counter.HBM_READ_LINES] * l2_line / (memory.l2_reuse * memory.mall_reuse)),
        "hbm_written": written,
    }
    return {**found, "hbm": found["hbm_read"] + found["hbm_written"]}


def memory_counters(memory: Memory) -> dict[str, float]:
    """Counts so far by name in lower case, and hit rates of the caches (nan where nothing was looked up)."""
    count = [int(value) for value in memory.counters]
    rates: dict[str, tuple[Any, Any]] = {
        "l1_hit_rate": (count[Counter.L1_HITS], count[Counter.L1_REQUESTS]),
        "l2_hit_rate": (count[Counter.L2_HITS], count[Counter.L2_READ_LINES]),
        "mall_hit_rate": (count[Counter.MALL_HITS], count[Counter.MALL_LINES]),
        "scalar_hit_rate": (count[Counter.SCALAR_HITS], count[Counter.SCALAR_REQUESTS]),
    }
    return {
        **{counter.name.lower(): count[counter] for counter in Counter},
        "write_wait_cycles": count[Counter.WRITE_WAITS] / TICKS,
        **{name: hits / total if total else float("nan") for name, (hits, total) in rates.items()},
    }
