"""Buffer instructions, loads that go directly to LDS, and scalar memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from single_wave import imm, make, s, v
from wave_memory import (
    ALL,
    LANES,
    MASKS,
    OFF,
    RESOURCE,
    Memory,
    active_lanes,
    dwords_at,
    scattered,
    set_resource,
    with_scratch,
)

from ckmlir.sim.decode import Operand
from ckmlir.sim.state import ErrorKind, Status

# -- buffers ---------------------------------------------------------------------------------------------------------

SOFFSET = 20
ZERO = imm(0)


def buffer_load(suffix: str, count: int, scalar: Operand = ZERO, **fields: int) -> Any:
    return make(
        f"buffer_load_{suffix}", [v(8, count)], [v(2, 2), s(RESOURCE, 4), scalar], "MUBUF", **{"offset": 0, **fields}
    )


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("count,suffix", [(1, "dword"), (2, "dwordx2"), (3, "dwordx3"), (4, "dwordx4")])
def test_raw_buffer_range_is_checked_by_dword(count: int, suffix: str, mask: int) -> None:
    """offset + 4 k >= num_records - soffset is out of range: loads give 0, stores are dropped."""
    m = Memory()
    limit, soffset = 1000, 24
    offsets = np.concatenate(
        [scattered(32, 16, 880) + 16, limit - soffset - 20 + 4 * np.arange(16), 990 + 4000 * np.arange(16)]
    )
    m.wave.vgpr[2], m.wave.sgpr[SOFFSET], m.wave.exec = offsets - 8, soffset, mask
    set_resource(m, limit)
    old, lanes = m.wave.vgpr[8 : 8 + count].copy(), active_lanes(mask)
    assert m.wave.run([buffer_load(suffix, count, s(SOFFSET), offen=1, offset=8)]) == Status.ENDED
    padded = np.concatenate([m.bytes, np.zeros(1 << 17, np.uint8)])
    places = offsets + 4 * np.arange(count)[:, None]
    in_range = places < limit - soffset
    expected = np.where(in_range, dwords_at(padded, offsets + soffset, count), 0)
    np.testing.assert_array_equal(m.wave.vgpr[8 : 8 + count], np.where(lanes, expected, old))
    before = m.bytes.copy()
    m.wave.exec = mask & ~(0xFFFF << 32) | mask & 1 << 36  # one lane at the limit, so that no two write the same bytes
    lanes = active_lanes(m.wave.exec)
    store = make(
        f"buffer_store_{suffix}", [], [v(24, count), v(2), s(RESOURCE, 4), s(SOFFSET)], "MUBUF", offset=8, offen=1
    )
    assert m.wave.run([store]) == Status.ENDED
    for lane in np.flatnonzero(lanes):
        for k in range(count):
            if in_range[k, lane]:
                where = offsets[lane] + 4 * k + soffset
                before[where : where + 4] = m.wave.vgpr[24 + k, lane : lane + 1].copy().view(np.uint8)
    np.testing.assert_array_equal(m.bytes, before)


def test_scalar_offset_beyond_the_records_leaves_nothing_in_range() -> None:
    m = Memory()
    set_resource(m, 64)
    m.wave.vgpr[2], m.wave.sgpr[SOFFSET] = 0, 100
    m.wave.run([buffer_load("dword", 1, s(SOFFSET), offen=1)])
    assert not m.wave.vgpr[8].any()


def test_offsets_near_the_top_do_not_wrap_into_range() -> None:
    m = Memory()
    set_resource(m, 4096)
    m.wave.vgpr[2] = 0xFFFF_FFF8
    assert m.wave.run([buffer_load("dwordx4", 4, offen=1, offset=8)]) == Status.ENDED
    assert not m.wave.vgpr[8:12].any()


def test_a_buffer_access_in_range_still_has_to_be_allocated() -> None:
    m = Memory()
    set_resource(m, 1 << 20)
    m.wave.vgpr[2] = 4 * LANES
    m.wave.vgpr[2, 5] = 5000
    assert m.wave.run([buffer_load("dword", 1, offen=1)]) == Status.FAILED
    assert m.wave.error() == (ErrorKind.GLOBAL_BOUNDS, 5, 4)


def test_index_and_offset_with_a_stride() -> None:
    m = Memory()
    set_resource(m, 4096, stride=48)
    m.wave.vgpr[2], m.wave.vgpr[3] = LANES, 4 * (LANES % 8)
    m.wave.run([buffer_load("dword", 1, idxen=1, offen=1, offset=4)])
    np.testing.assert_array_equal(m.wave.vgpr[8], dwords_at(m.bytes, 48 * LANES + 4 * (LANES % 8) + 4, 1)[0])


def test_swizzled_buffer_interleaves_records_and_checks_the_index() -> None:
    """Index stride 16, element 4: dword d of record i is at ((i // 16) * stride + 4 d) * 16 + 4 * (i % 16)."""
    m = Memory(8192)
    set_resource(m, 60, stride=32, swizzle=True, word3=1 << 21)
    m.wave.vgpr[2] = LANES
    m.wave.run([buffer_load("dwordx2", 2, idxen=1, offset=8)])
    for k in range(2):
        places = (LANES // 16 * 32 + 8 + 4 * k) * 16 + 4 * (LANES % 16)
        np.testing.assert_array_equal(m.wave.vgpr[8 + k], np.where(LANES < 60, dwords_at(m.bytes, places, 1)[0], 0))


def test_private_segment_resource_agrees_with_scratch_instructions() -> None:
    from ckmlir.sim.launch import private_resource

    m = Memory()
    scratch = with_scratch(m)
    m.wave.sgpr[RESOURCE : RESOURCE + 4] = private_resource(int(scratch.ctypes.data), "gfx90a")
    m.wave.vgpr[2] = 4 * (LANES % 4)
    m.wave.run(
        [
            buffer_load("dwordx2", 2, offen=1, offset=8),
            make("scratch_load_dwordx2", [v(10, 2)], [v(2), OFF], "SCRATCH", offset=8),
        ]
    )
    np.testing.assert_array_equal(m.wave.vgpr[8:10], m.wave.vgpr[10:12])
    np.testing.assert_array_equal(m.wave.vgpr[8], scratch[LANES % 4 + 2, LANES])


def test_d16_buffer_load_out_of_range_clears_only_its_half() -> None:
    m = Memory()
    set_resource(m, 16)
    m.wave.vgpr[2] = 2 * LANES
    old = m.wave.vgpr[8].copy()
    m.wave.run([buffer_load("short_d16_hi", 1, offen=1)])
    halves = np.where(LANES < 8, m.bytes.view(np.uint16)[LANES].astype(np.uint32), 0)
    np.testing.assert_array_equal(m.wave.vgpr[8], old & 0xFFFF | halves << 16)


# -- direct to LDS ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix,count", [("dword", 1), ("dwordx3", 3), ("dwordx4", 4)])
def test_buffer_load_to_lds(suffix: str, count: int) -> None:
    m = Memory()
    limit = 40 * 4 * count
    set_resource(m, limit)
    m.wave.vgpr[2], m.wave.sgpr[124], m.wave.exec = 4 * count * LANES, 256, ALL & ~2
    before = m.wave.lds.copy()
    load = make(f"buffer_load_{suffix}", [], [v(2), s(RESOURCE, 4), imm(0)], "MUBUF", offset=16, offen=1, lds=1)
    assert m.wave.run([load], "gfx950") == Status.ENDED
    for lane in range(64):
        if lane == 1:
            continue
        place = 256 + 16 + 4 * count * lane
        for k in range(count):
            source = 4 * count * lane + 16 + 4 * k
            before[place + 4 * k : place + 4 * k + 4] = m.bytes[source : source + 4] if source < limit else 0
    np.testing.assert_array_equal(m.wave.lds, before)


def test_global_load_to_lds() -> None:
    m = Memory()
    offsets = scattered(64, 4, 4000)
    m.point(2, offsets)
    m.wave.sgpr[124] = 512
    m.wave.run([make("global_load_lds_dword", [], [v(2, 2), OFF], "GLOBAL", offset=8, lds=1)])
    np.testing.assert_array_equal(m.wave.lds[520 : 520 + 256].view(np.uint32), dwords_at(m.bytes, offsets + 8, 1)[0])


# -- scalar memory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_scalar_loads(count: int) -> None:
    m = Memory()
    m.wave.set_pair(4, m.address)
    m.wave.sgpr[6] = 100
    suffix = "dword" if count == 1 else f"dwordx{count}"
    m.wave.run([make(f"s_load_{suffix}", [s(16, count)], [s(4, 2), s(6)], "SMEM", offset=24)])
    np.testing.assert_array_equal(m.wave.sgpr[16 : 16 + count], m.bytes[124:].view(np.uint32)[:count])


def test_scalar_load_out_of_bounds() -> None:
    m = Memory()
    m.wave.set_pair(4, m.address)
    assert m.wave.run([make("s_load_dwordx4", [s(16, 4)], [s(4, 2), OFF], "SMEM", offset=4084)]) == Status.FAILED
    assert m.wave.error()[0] == ErrorKind.GLOBAL_BOUNDS


def test_scalar_buffer_load_gives_zero_beyond_the_records() -> None:
    m = Memory()
    set_resource(m, 40)
    m.wave.run([make("s_buffer_load_dwordx4", [s(16, 4)], [s(RESOURCE, 4), imm(32)], "SMEM", offset=0)])
    np.testing.assert_array_equal(m.wave.sgpr[16:20], [*m.bytes[32:40].view(np.uint32), 0, 0])
