"""Global, flat and scratch instructions: data, partial masks, bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from single_wave import make, s, v
from wave_memory import (
    ALL,
    LANES,
    MASKS,
    OFF,
    Memory,
    active_lanes,
    bytes_at,
    dwords_at,
    scattered,
    with_scratch,
)

from ckmlir.sim import state
from ckmlir.sim.memory import aligned_bytes
from ckmlir.sim.state import ErrorKind, Status

# -- global ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("count,suffix", [(1, "dword"), (2, "dwordx2"), (3, "dwordx3"), (4, "dwordx4")])
def test_global_load_and_store(count: int, suffix: str, mask: int) -> None:
    m = Memory()
    offsets = scattered(64, 16, 4000)
    m.point(2, offsets)
    m.wave.exec = mask
    old, lanes = m.wave.vgpr[8 : 8 + count].copy(), active_lanes(mask)
    assert (
        m.wave.run([make(f"global_load_{suffix}", [v(8, count)], [v(2, 2), OFF], "GLOBAL", offset=32)]) == Status.ENDED
    )
    np.testing.assert_array_equal(
        m.wave.vgpr[8 : 8 + count], np.where(lanes, dwords_at(m.bytes, offsets + 32, count), old)
    )
    before = m.bytes.copy()
    assert (
        m.wave.run([make(f"global_store_{suffix}", [], [v(2, 2), v(20, count), OFF], "GLOBAL", offset=16)])
        == Status.ENDED
    )
    for lane in np.flatnonzero(lanes):
        where = offsets[lane] + 16
        before[where : where + 4 * count] = m.wave.vgpr[20 : 20 + count, lane].copy().view(np.uint8)
    np.testing.assert_array_equal(m.bytes, before)
    lanes_active = int(lanes.sum())
    assert (
        m.wave.context[state.READ_GLOBAL // 8] == 4 * count * lanes_active == m.wave.context[state.WRITTEN_GLOBAL // 8]
    )


@pytest.mark.parametrize(
    "suffix,dtype,place",
    [
        ("ubyte", np.uint8, None), ("sbyte", np.int8, None), ("ushort", np.uint16, None), ("sshort", np.int16, None),
        ("ubyte_d16", np.uint8, 0), ("sbyte_d16_hi", np.int8, 16), ("short_d16", np.uint16, 0),
        ("short_d16_hi", np.uint16, 16),
    ],
)  # fmt: skip
def test_partial_loads(suffix: str, dtype: Any, place: int | None) -> None:
    m = Memory()
    offsets = scattered(64, 2, 4000)
    m.point(2, offsets)
    m.wave.exec = ALL >> 3
    old = m.wave.vgpr[8].copy()
    m.wave.run([make(f"global_load_{suffix}", [v(8)], [v(2, 2), OFF], "GLOBAL", offset=0)])
    numbers = (
        np.ascontiguousarray(bytes_at(m.bytes, offsets, np.dtype(dtype).itemsize)).view(dtype)[:, 0].astype(np.int64)
    )
    if place is None:
        expected = numbers & 0xFFFFFFFF
    else:
        expected = old.astype(np.int64) & (0xFFFF0000 >> place) | (numbers & 0xFFFF) << place
    np.testing.assert_array_equal(m.wave.vgpr[8], np.where(active_lanes(ALL >> 3), expected, old))


@pytest.mark.parametrize(
    "suffix,bytes,shift", [("byte", 1, 0), ("short", 2, 0), ("byte_d16_hi", 1, 16), ("short_d16_hi", 2, 16)]
)
def test_partial_stores(suffix: str, bytes: int, shift: int) -> None:
    m = Memory()
    offsets = scattered(64, 2, 4000)
    m.point(2, offsets)
    expected = m.bytes.copy()
    for lane in range(64):
        word = int(m.wave.vgpr[8, lane]) >> shift
        expected[offsets[lane] : offsets[lane] + bytes] = [word & 0xFF, word >> 8 & 0xFF][:bytes]
    m.wave.run([make(f"global_store_{suffix}", [], [v(2, 2), v(8), OFF], "GLOBAL", offset=0)])
    np.testing.assert_array_equal(m.bytes, expected)


def test_scalar_base_with_a_vector_offset_and_a_negative_constant() -> None:
    m = Memory()
    offsets = scattered(64, 4, 4000)
    m.wave.vgpr[2] = offsets + 4096
    m.wave.set_pair(4, m.address - 4000)
    m.wave.run([make("global_load_dword", [v(8)], [v(2), s(4, 2)], "GLOBAL", offset=-96)])
    np.testing.assert_array_equal(m.wave.vgpr[8], dwords_at(m.bytes, offsets, 1)[0])


@pytest.mark.parametrize(
    "start,bytes,suffix",
    [
        (4093, 4, "dword"),
        (4092, 8, "dwordx2"),
        (-1, 1, "ubyte"),
        (-4, 16, "dwordx4"),
        (1 << 40, 4, "dword"),
        (4096, 1, "ubyte"),
    ],
)
def test_global_access_out_of_bounds_names_the_lane(start: int, bytes: int, suffix: str) -> None:
    m = Memory()
    offsets = np.zeros(64, np.int64)
    offsets[37] = start
    m.point(2, offsets)
    load = make(f"global_load_{suffix}", [v(8, max(1, bytes // 4))], [v(2, 2), OFF], "GLOBAL", offset=0)
    assert m.wave.run([load]) == Status.FAILED
    assert m.wave.error() == (ErrorKind.GLOBAL_BOUNDS, 37, bytes)
    assert int(m.wave.context[state.ERROR_ADDRESS // 8]) == (m.address + start) % (1 << 64)
    m.wave.exec = ALL & ~(1 << 37)
    assert m.wave.run([load]) == Status.ENDED


def test_lanes_may_be_in_different_allocations_but_one_access_may_not_span_two() -> None:
    m = Memory(256)
    whole = aligned_bytes(1024)
    first, second = whole[:512], whole[512:]
    m.wave.allocate(first)
    m.wave.allocate(second)
    offsets = np.where(LANES % 2, int(first.ctypes.data), int(second.ctypes.data)) + LANES // 2 * 4 - m.address
    m.point(2, offsets)
    assert m.wave.run([make("global_load_dwordx2", [v(8, 2)], [v(2, 2), OFF], "GLOBAL", offset=0)]) == Status.ENDED
    m.point(2, np.full(64, int(second.ctypes.data) - 4 - m.address))
    assert m.wave.run([make("global_load_dwordx2", [v(8, 2)], [v(2, 2), OFF], "GLOBAL", offset=0)]) == Status.FAILED


# -- flat and scratch ------------------------------------------------------------------------------------------------


def test_scratch_is_private_to_each_lane() -> None:
    m = Memory()
    scratch = with_scratch(m)
    dword = np.random.default_rng(1).integers(0, 8, 64)
    m.wave.vgpr[2] = 4 * dword
    m.wave.sgpr[3] = 8
    m.wave.run(
        [
            make("scratch_load_dwordx2", [v(8, 2)], [v(2), s(3)], "SCRATCH", offset=4),
            make("scratch_store_dword", [], [OFF, v(20), OFF], "SCRATCH", offset=60),
            make("scratch_load_ushort", [v(10)], [OFF, s(3)], "SCRATCH", offset=2),
        ]
    )
    np.testing.assert_array_equal(m.wave.vgpr[8], scratch[dword + 3, LANES])
    np.testing.assert_array_equal(m.wave.vgpr[9], scratch[dword + 4, LANES])
    np.testing.assert_array_equal(scratch[15], m.wave.vgpr[20])
    np.testing.assert_array_equal(m.wave.vgpr[10], scratch[2] >> 16)


def test_scratch_bounds() -> None:
    m = Memory()
    with_scratch(m)
    load = make("scratch_load_dwordx4", [v(8, 4)], [OFF, OFF], "SCRATCH", offset=52)
    assert m.wave.run([load]) == Status.FAILED
    assert m.wave.error() == (ErrorKind.SCRATCH_BOUNDS, 0, 16)


def test_flat_addresses_reach_global_lds_and_scratch() -> None:
    m = Memory()
    scratch = with_scratch(m)
    m.wave.allocate(m.wave.lds)
    global_offsets = scattered(64, 8, 4000)
    addresses = np.where(
        LANES % 3 == 0,
        m.address + global_offsets,
        np.where(LANES % 3 == 1, state.SHARED_APERTURE + LANES * 8, state.PRIVATE_APERTURE + LANES % 8 * 4),
    )
    m.point(2, addresses - m.address)
    m.wave.run([make("flat_load_dwordx2", [v(8, 2)], [v(2, 2)], "FLAT", offset=0)])
    expected = np.where(LANES % 3 == 0, dwords_at(m.bytes, global_offsets, 2), dwords_at(m.wave.lds, LANES * 8, 2))
    private = np.stack([scratch[LANES % 8 + k, LANES] for k in range(2)])
    np.testing.assert_array_equal(m.wave.vgpr[8:10], np.where(LANES % 3 == 2, private, expected))
