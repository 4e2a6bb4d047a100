"""The memory model alone: levels hit, latencies, bandwidths, and the shares of compute units that stand for others."""

from __future__ import annotations

import heapq
import json
import os
import subprocess
import sys
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.errors import CkmlirError
from ckmlir.sim.chips import TARGETS
from ckmlir.sim.timing import cache as tag_arrays
from ckmlir.sim.timing.memory_hierarchy import (
    NO_ADDRESS,
    REQUEST_BYTES,
    Memory,
    access,
    coalesce,
    memory_bytes,
    memory_counters,
    scalar_access,
)
from ckmlir.sim.timing.memory_shares import Sharing, device_units, hbm_bytes_per_cycle, new_memory
from ckmlir.sim.timing.parameters import load


def row(stride: int, start: int = 1 << 20, lanes: int = 64) -> np.ndarray:
    addresses = np.full(64, NO_ADDRESS, np.uint64)
    addresses[:lanes] = start + stride * np.arange(lanes, dtype=np.uint64)
    return addresses


def chase(memory: Memory, lines: range, rounds: int = 1) -> float:
    """Cycles an access when each waits for the one before, in the last round."""
    cycle = total = 0
    for turn in range(rounds):
        for line in lines:
            done = access(memory, cycle, 0, np.array([line]), 1, False)
            total += (done - cycle) * (turn == rounds - 1)
            cycle = done
    return total / len(lines)


def stream(memory: Memory, waves: int, accesses: int, store: bool | None = False) -> float:
    """Bytes a cycle that `waves` waves move, each with one access of 1 KiB on its way: loads, stores, or (None) a copy,
    each wave loading and storing in turn. Accesses come in the order of their cycles, as they do in a compute unit."""
    queue = [(0, wave, 0) for wave in range(waves)]  # cycle, wave, line to store or 0
    heapq.heapify(queue)
    lines = 1024 // REQUEST_BYTES
    last = next_line = moved = 0
    while moved < accesses:
        cycle, wave, copied = heapq.heappop(queue)
        is_store = bool(copied) if store is None else store
        if not is_store or store:
            next_line += lines
        place = copied or next_line
        done = access(memory, cycle, 0, np.arange(place, place + lines), lines, is_store)
        moved += 1
        last = max(last, done)
        heapq.heappush(queue, (done, wave, place + (1 << 30) if store is None and not is_store else 0))
    return accesses * 1024 / last


# -- coalescing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stride", "bytes", "start", "count"),
    [
        (4, 4, 0, 4),  # a dword a lane: 256 bytes
        (16, 16, 0, 16),
        (0, 4, 0, 1),  # all lanes the same
        (4, 4, 32, 5),  # not aligned to a line
        (8, 4, 0, 8),  # half of every line is used
        (64, 4, 0, 64),  # a line a lane
        (256, 16, 0, 64),
        (64, 16, 56, 65),  # every lane reaches into the next line, which is its neighbour's
        (128, 16, 56, 128),  # as before, but the lines are its own
    ],
)
def test_strides_cost_lines(stride: int, bytes: int, start: int, count: int) -> None:
    assert len(coalesce(row(stride, start), bytes, 64)) == count


def test_inactive_lanes_touch_nothing() -> None:
    assert len(coalesce(row(64, lanes=5), 4, 64)) == 5
    assert len(coalesce(row(64, lanes=0), 4, 64)) == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 4096), st.just(int(NO_ADDRESS))), min_size=64, max_size=64),
    st.sampled_from([1, 2, 4, 8, 12, 16]),
    st.sampled_from([64, 128]),
)
def test_lines_are_those_that_bytes_lie_in(addresses: list[int], bytes: int, size: int) -> None:
    lines = list(coalesce(np.array(addresses, np.uint64), bytes, size))
    expected = {(a + i) // size for a in addresses if a != int(NO_ADDRESS) for i in range(bytes)}
    assert len(lines) == len(expected)
    assert set(lines) == expected


# -- caches ----------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=40, max_size=200), st.integers(1, 2), st.integers(2, 4))
def test_the_least_recently_used_line_of_a_set_is_replaced(lines: list[int], sets: int, ways: int) -> None:
    cache = tag_arrays.new_cache(1, sets * ways, ways, 0, 1)
    model: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(sets)]
    for turn, line in enumerate(lines, 1):
        held = model[tag_arrays.first_slot(cache, line) // ways]
        slot = tag_arrays.find(cache, 0, line, turn)
        assert (slot >= 0) == (line in held)
        if slot < 0:
            tag_arrays.insert(cache, 0, line, turn)
            if len(held) == ways:
                held.popitem(last=False)
        held[line] = None
        held.move_to_end(line)


def test_strides_of_powers_of_two_use_most_sets() -> None:
    cache = tag_arrays.new_cache(1, 256, 4, 0, 1)
    for shift in range(10):
        sets = {tag_arrays.first_slot(cache, line << shift) for line in range(64)}
        assert len(sets) >= 16, shift


# -- latencies and levels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_dependent_accesses_take_the_latency_of_the_level_that_holds_the_data(target: str) -> None:
    """What pointer chasing measures: working sets that fit into a level, walked through twice."""
    parameters = load(target)
    integer = parameters.integer
    line = integer("memory.l2.line") // REQUEST_BYTES
    sizes = {"l1": integer("memory.l1.size") // 2, "l2": integer("memory.l1.size") * 4}
    if integer("memory.mall.size"):
        sizes["mall"] = integer("memory.l2.size") // 4
    for level, size in sizes.items():
        # With half of the device busy, a unit's share of L2 is too small for the working set, that of the MALL is not.
        busy = device_units(parameters) // 2 if level == "mall" else 1
        memory = new_memory(parameters, 1, busy=busy)
        working_set = range(0, size // REQUEST_BYTES, line)
        assert chase(memory, working_set, 2) == pytest.approx(integer(f"memory.{level}.latency"), abs=1.5), level
    memory = new_memory(parameters, 1, busy=1)
    assert chase(memory, range(0, 2000 * line, line)) == pytest.approx(integer("memory.hbm.latency"), abs=1.5)
    counters = memory_counters(memory)
    assert counters["l1_hits"] == counters["l2_hits"] == counters["mall_hits"] == 0


def test_a_second_access_to_a_line_on_its_way_waits_for_it() -> None:
    parameters = load("gfx942")
    memory = new_memory(parameters, 1, busy=1)
    first = access(memory, 0, 0, np.array([0]), 1, False)
    again = access(memory, 10, 0, np.array([1]), 1, False)  # the other half of the line of 128 bytes
    assert again == first
    assert memory_counters(memory)["hbm_read_lines"] == 1
    later = access(memory, first, 0, np.array([1]), 1, False)
    assert later - first == parameters.integer("memory.l1.latency")


def test_requests_wait_for_each_other_in_l1() -> None:
    """64 bytes a cycle: an access of 64 lines ends 63 cycles after one of a single line."""
    parameters = load("gfx942")
    memory = new_memory(parameters, 1, busy=1)
    lines = np.arange(0, 128, 2)
    access(memory, 0, 0, lines, 64, False)
    latency = parameters.integer("memory.l1.latency")
    assert access(memory, 100_000, 0, lines, 64, False) - 100_000 == latency + 63
    assert access(memory, 200_000, 0, lines, 1, False) - 200_000 == latency
    assert access(memory, 300_000, 0, lines, 0, False) - 300_000 == latency


def test_streaming_misses_and_reuse_hits() -> None:
    parameters = load("gfx942")
    memory = new_memory(parameters, 1)
    half_of_l1 = range(parameters.integer("memory.l1.size") // REQUEST_BYTES // 2)
    chase(memory, half_of_l1, 4)
    counters = memory_counters(memory)
    lines = len(half_of_l1) / 2
    assert counters["hbm_read_lines"] == lines
    assert counters["l1_hit_rate"] == 1 - lines / counters["l1_requests"]
    assert memory_bytes(memory)["hbm"] == lines * 128 == len(half_of_l1) * REQUEST_BYTES


def test_scalar_loads_hit_the_scalar_cache_and_share_it() -> None:
    parameters = load("gfx942")
    memory = new_memory(parameters, 2)
    latency = parameters.integer("smem.latency")
    miss = scalar_access(memory, 0, 0, 4096, 16)
    assert miss == parameters.integer("memory.hbm.latency")
    assert scalar_access(memory, 5000, 1, 4096 + 32, 32) == 5000 + latency
    assert scalar_access(memory, 6000, 0, 4096 + 48, 32) > 6000 + latency  # reaches into the next line
    assert memory_counters(memory)["scalar_requests"] == 4
    two_pairs = new_memory(parameters, 4)
    scalar_access(two_pairs, 0, 0, 4096, 16)
    assert scalar_access(two_pairs, 5000, 2, 4096, 16) > 5000 + latency, "another pair has a cache of its own"


# -- bandwidth -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("store", [False, True, None], ids=["load", "store", "copy"])
def test_streams_reach_the_share_of_the_bandwidth_of_memory(target: str, store: bool | None) -> None:
    parameters = load(target)
    share = hbm_bytes_per_cycle(parameters) / device_units(parameters)
    memory = new_memory(parameters, 1)
    assert stream(memory, 32, 3000, store) == pytest.approx(share, rel=0.04)


def test_more_waves_hide_more_latency_until_bandwidth_is_used_up() -> None:
    parameters = load("gfx942")
    share = hbm_bytes_per_cycle(parameters) / device_units(parameters)
    rates = [stream(new_memory(parameters, 1), waves, 1500) for waves in (1, 2, 4, 8, 16, 32)]
    assert rates == sorted(rates)
    alone = 1024 / (parameters.integer("memory.hbm.latency") + 1024 / share)
    assert rates[0] == pytest.approx(alone, rel=0.05)
    assert rates[1] / rates[0] == pytest.approx(2, rel=0.1)
    assert rates[-1] == pytest.approx(share, rel=0.03)
    assert rates[-1] / rates[-2] < 1.05


def test_few_busy_units_have_more_bandwidth_each() -> None:
    parameters = load("gfx942")
    all_busy = stream(new_memory(parameters, 1), 64, 3000)
    few = stream(new_memory(parameters, 1, busy=38), 64, 3000)
    assert few > 4 * all_busy
    # Alone, a unit is limited by the way from L2 to its L1 or by L1.
    alone = stream(new_memory(parameters, 1, busy=1), 256, 6000)
    assert alone == pytest.approx(parameters.integer("memory.l1.bandwidth"), rel=0.1)


@pytest.mark.parametrize(
    ("store", "override", "rate"),
    [
        (False, "memory.l1.fill_bandwidth=16", 16),
        (False, "memory.l1.bandwidth=8", 8),
        (True, "memory.l1.bandwidth=8", 8),
        # 10 bytes a cycle and compute unit of the MALL, 5 of L2, for each of 304.
        (False, "memory.mall.bandwidth=6384", 10),
        (True, "memory.mall.bandwidth=6384", 10),
        (False, "memory.l2.bandwidth=263.9", 5),
        (True, "memory.l2.bandwidth=263.9", 5),
    ],
)
def test_every_level_can_be_what_limits_a_stream(store: bool, override: str, rate: float) -> None:
    parameters = load("gfx942", overrides=["memory.hbm.bandwidth=50000", override])
    assert stream(new_memory(parameters, 1), 256, 6000, store) == pytest.approx(rate, rel=0.05)


def test_what_is_shared_takes_the_room_of_all_that_share_it() -> None:
    """A working set of 400 KiB is more than a unit's share of L2, 108 KiB, but not than that of eight."""
    parameters = load("gfx942")
    lines = range(0, 400 * 1024 // REQUEST_BYTES, 2)
    hits = {}
    for sharing in (1.0, 8.0):
        memory = new_memory(parameters, 1, sharing=Sharing(l2=sharing))
        chase(memory, lines, 2)
        hits[sharing] = memory_counters(memory)["l2_hit_rate"]
    assert hits[1.0] < 0.1
    assert hits[8.0] == pytest.approx(0.5, abs=0.02)


def test_modelled_units_together_have_their_share() -> None:
    """Two compute units modelled of 304 get, together, twice what one gets."""
    parameters = load("gfx942")
    memory = new_memory(parameters, 2)
    lines = 16
    ready = np.zeros((2, 32), np.int64)
    for number in range(3000):
        unit = number % 2
        wave = int(np.argmin(ready[unit]))
        wanted = np.arange(number * lines, (number + 1) * lines)
        ready[unit, wave] = access(memory, int(ready[unit, wave]), unit, wanted, lines, False)
    share = hbm_bytes_per_cycle(parameters) / device_units(parameters)
    assert 3000 * 1024 / ready.max() == pytest.approx(2 * share, rel=0.04)


def test_data_that_others_want_as_well_costs_less_bandwidth_of_memory() -> None:
    """With 16 units of a die and two dies on each line, memory delivers 32 times what it reads; then L2 limits."""
    parameters = load("gfx942")
    alone = stream(new_memory(parameters, 1), 128, 3000)
    shared = new_memory(parameters, 1, sharing=Sharing(2.0, 2.0))
    assert stream(shared, 128, 3000) == pytest.approx(4 * alone, rel=0.05)
    assert memory_bytes(shared)["hbm_read"] == pytest.approx(3000 * 1024 / 4, rel=0.01)
    wide = stream(new_memory(parameters, 1, sharing=Sharing(16.0, 4.0)), 256, 6000)
    number = parameters.number
    l2 = number("memory.l2.bandwidth") * number("memory.l2.efficiency") / number("memory.l2.compute_units")
    assert wide == pytest.approx(l2, rel=0.05)


def test_a_line_is_written_back_once() -> None:
    memory = new_memory(load("gfx942"), 1)
    for time in range(4):
        access(memory, 10_000 * time, 0, np.array([0, 1]), 2, True)
    assert memory_counters(memory)["written_lines"] == 1
    assert memory_bytes(memory)["hbm_written"] == 128
    assert memory_bytes(memory)["hbm_read"] == 0  # what is written whole is not fetched


def test_stores_wait_when_too_much_is_on_its_way() -> None:
    parameters = load("gfx942")
    memory = new_memory(parameters, 1)
    first = access(memory, 0, 0, np.arange(16), 16, True)
    assert first <= parameters.integer("memory.l2.store_latency") + 32
    done = [access(memory, 0, 0, np.arange(n * 16, n * 16 + 16), 16, True) for n in range(1, 40)]
    assert done[-1] > 10 * first
    assert memory_counters(memory)["write_wait_cycles"] > 0


# -- what is refused, and plain Python -------------------------------------------------------------------------------


@pytest.mark.parametrize(("units", "busy"), [(0, None), (2, 1), (1, 305), (305, None)])
def test_numbers_of_compute_units_are_checked(units: int, busy: int | None) -> None:
    with pytest.raises(CkmlirError, match="gfx942 has 304"):
        new_memory(load("gfx942"), units, busy=busy)


def test_lines_are_powers_of_two() -> None:
    with pytest.raises(CkmlirError, match=r"memory\.l1\.line: 96 bytes"):
        new_memory(load("gfx942", overrides=["memory.l1.line=96"]), 1)


WORKLOAD = """
import json, random
import numpy as np
from ckmlir.sim.timing.memory_hierarchy import access, coalesce, memory_counters, scalar_access
from ckmlir.sim.timing.memory_shares import new_memory
from ckmlir.sim.timing.parameters import load
random.seed(7)
memory, done = new_memory(load("gfx942"), 2), []
for cycle in range(0, 6000, 20):
    addresses = np.array([random.randrange(1 << 18) for _ in range(64)], np.uint64)
    addresses[random.randrange(64)] = 2**64 - 1
    lines = coalesce(addresses, random.choice((4, 16)), 64)
    done.append(int(access(memory, cycle, cycle // 20 % 2, lines, len(lines), random.random() < 0.3)))
    done.append(int(scalar_access(memory, cycle, 0, random.randrange(1 << 15), 64)))
print(json.dumps([done, {k: float(v) for k, v in memory_counters(memory).items()}]))
"""


def test_plain_python_computes_the_same() -> None:
    outputs = []
    for disabled in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-c", WORKLOAD],
            capture_output=True,
            text=True,
            env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
            timeout=120,
        )
        assert run.returncode == 0, run.stderr
        outputs.append(json.loads(run.stdout))
    assert outputs[0] == outputs[1]
    assert outputs[0][1]["l2_hits"] > 0
