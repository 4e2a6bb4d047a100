"""LDS instructions, and atomic operations on LDS, global memory and buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from instruction_registry import register
from single_wave import imm, make, s, v
from wave_memory import (
    LANES,
    MASKS,
    OFF,
    RESOURCE,
    Memory,
    active_lanes,
    bytes_at,
    dwords_at,
    scattered,
    set_resource,
)

from ckmlir.sim.state import ErrorKind, Status

# -- LDS -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("count,suffix", [(1, "b32"), (2, "b64"), (3, "b96"), (4, "b128")])
def test_lds_read_and_write(count: int, suffix: str, mask: int) -> None:
    m = Memory()
    offsets = scattered(64, 16, 4000)
    m.wave.vgpr[2], m.wave.exec = offsets, mask
    old, lanes = m.wave.vgpr[8 : 8 + count].copy(), active_lanes(mask)
    m.wave.run([make(f"ds_read_{suffix}", [v(8, count)], [v(2)], "DS", offset=64, gds=0)])
    np.testing.assert_array_equal(
        m.wave.vgpr[8 : 8 + count], np.where(lanes, dwords_at(m.wave.lds, offsets + 64, count), old)
    )
    before = m.wave.lds.copy()
    m.wave.run([make(f"ds_write_{suffix}", [], [v(2), v(20, count)], "DS", offset=16, gds=0)])
    for lane in np.flatnonzero(lanes):
        before[offsets[lane] + 16 : offsets[lane] + 16 + 4 * count] = (
            m.wave.vgpr[20 : 20 + count, lane].copy().view(np.uint8)
        )
    np.testing.assert_array_equal(m.wave.lds, before)


register(
    (f"ds_{verb}2{infix}_b{bits}" for verb in ("read", "write") for infix in ("", "st64") for bits in (32, 64)),
    "test_lds_pairs",
)


@pytest.mark.parametrize("infix,spacing", [("2", 1), ("2st64", 64)])
@pytest.mark.parametrize("count,suffix", [(1, "b32"), (2, "b64")])
def test_lds_pairs(infix: str, spacing: int, count: int, suffix: str) -> None:
    m = Memory(lds_bytes=16384)
    m.wave.vgpr[2] = 8 * LANES
    size, second = 4 * count, 130 if spacing == 1 else 20
    m.wave.run([make(f"ds_read{infix}_{suffix}", [v(8, 2 * count)], [v(2)], "DS", offset0=3, offset1=9, gds=0)])
    for k, offset in enumerate((3, 9)):
        expected = dwords_at(m.wave.lds, 8 * LANES + offset * size * spacing, count)
        np.testing.assert_array_equal(m.wave.vgpr[8 + k * count : 8 + (k + 1) * count], expected)
    m.wave.run(
        [
            make(
                f"ds_write{infix}_{suffix}",
                [],
                [v(2), v(20, count), v(30, count)],
                "DS",
                offset0=0,
                offset1=second,
                gds=0,
            )
        ]
    )
    for k, offset in enumerate((0, second)):
        expected = dwords_at(m.wave.lds, 8 * LANES + offset * size * spacing, count)
        np.testing.assert_array_equal(expected, m.wave.vgpr[20 + 10 * k : 20 + 10 * k + count])


def test_lds_partial_widths() -> None:
    m = Memory()
    m.wave.vgpr[2] = 3 * LANES
    old = m.wave.vgpr[9].copy()
    m.wave.run(
        [
            make("ds_read_i8", [v(8)], [v(2)], "DS", offset=1, gds=0),
            make("ds_read_u16_d16_hi", [v(9)], [v(2)], "DS", offset=0, gds=0),
            make("ds_write_b8_d16_hi", [], [v(2), v(20)], "DS", offset=1000, gds=0),
            make("ds_write_b16", [], [v(2), v(21)], "DS", offset=2001, gds=0),
        ]
    )
    assert m.wave.vgpr[8].view(np.int32).tolist() == m.wave.lds[3 * LANES + 1].view(np.int8).tolist()
    halves = np.ascontiguousarray(bytes_at(m.wave.lds, 3 * LANES, 2)).view(np.uint16)[:, 0].astype(np.uint32)
    np.testing.assert_array_equal(m.wave.vgpr[9], old & 0xFFFF | halves << 16)
    np.testing.assert_array_equal(m.wave.lds[3 * LANES + 1000], m.wave.vgpr[20] >> 16 & 0xFF)
    np.testing.assert_array_equal(m.wave.lds[3 * LANES + 2001], m.wave.vgpr[21] & 0xFF)


def test_lds_addresses_wrap_at_32_bits() -> None:
    """LLVM folds constants into the offset of a negative base on these chips."""
    m = Memory()
    m.wave.vgpr[2] = -4 * LANES
    m.wave.run([make("ds_read_b32", [v(8)], [v(2)], "DS", offset=1020, gds=0)])
    np.testing.assert_array_equal(m.wave.vgpr[8], m.wave.lds[:1024].view(np.uint32)[255 - LANES])


@pytest.mark.parametrize(
    "address,bytes,suffix", [(4093, 4, "b32"), (4096, 4, "b32"), (4088, 16, "b128"), (0xFFFFFFF0, 4, "b32")]
)
def test_lds_bounds(address: int, bytes: int, suffix: str) -> None:
    m = Memory()
    m.wave.vgpr[2] = 0
    m.wave.vgpr[2, 50] = address
    assert m.wave.run([make(f"ds_read_{suffix}", [v(8, bytes // 4)], [v(2)], "DS", offset=0, gds=0)]) == Status.FAILED
    assert m.wave.error() == (ErrorKind.LDS_BOUNDS, 50, bytes)


# -- atomics ---------------------------------------------------------------------------------------------------------


def sequential(old: int, data: list[int], combine: Any, mask: int) -> tuple[int, list[int]]:
    """All lanes on one address, one after another: the final content, and what each lane saw."""
    seen = []
    for item in data:
        seen.append(old)
        old = combine(old, item) & mask
    return old, seen


COMBINES = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "swap": lambda x, y: y, "and": lambda x, y: x & y,
    "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y, "umin": min, "umax": max,
    "inc": lambda x, y: 0 if x >= y else x + 1, "dec": lambda x, y: y if x == 0 or x > y else x - 1,
}  # fmt: skip


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", COMBINES)
def test_global_atomics_return_what_they_replace(name: str, wide: bool) -> None:
    m = Memory()
    m.point(2, np.full(64, 128))
    count, mask = 1 + wide, (1 << 32 * (1 + wide)) - 1
    data = (
        [int(x) for x in m.wave.vgpr[8]]
        if not wide
        else [int(x) | int(y) << 32 for x, y in zip(m.wave.vgpr[8], m.wave.vgpr[9])]
    )
    initial = int.from_bytes(m.bytes[128 : 128 + 4 * count].tobytes(), "little")
    final, seen = sequential(initial, data, COMBINES[name], mask)
    m.wave.run(
        [
            make(
                f"global_atomic_{name}{'_x2' if wide else ''}",
                [v(20, count)],
                [v(2, 2), v(8, count), OFF],
                "GLOBAL",
                offset=0,
            )
        ]
    )
    assert int.from_bytes(m.bytes[128 : 128 + 4 * count].tobytes(), "little") == final
    got = [int(m.wave.vgpr[20, lane]) | (int(m.wave.vgpr[21, lane]) << 32 if wide else 0) for lane in range(64)]
    assert got == seen


def test_signed_atomics_and_compare_and_swap() -> None:
    m = Memory()
    m.point(2, 4 * LANES)
    before = m.bytes[:256].view(np.int32).copy()
    data = m.wave.vgpr[8].view(np.int32).copy()
    m.wave.run([make("global_atomic_smin", [], [v(2, 2), v(8), OFF], "GLOBAL", offset=0)])
    np.testing.assert_array_equal(m.bytes[:256].view(np.int32), np.minimum(before, data))
    now = m.bytes[:256].view(np.uint32).copy()
    m.wave.vgpr[11] = np.where(LANES % 2, now, now + 1)  # v10 new, v11 comparison
    m.wave.run([make("global_atomic_cmpswap", [v(20)], [v(2, 2), v(10, 2), OFF], "GLOBAL", offset=0)])
    np.testing.assert_array_equal(m.bytes[:256].view(np.uint32), np.where(LANES % 2, m.wave.vgpr[10], now))
    np.testing.assert_array_equal(m.wave.vgpr[20], now)


def test_float_atomics() -> None:
    m = Memory()
    m.bytes[:256].view(np.float32)[:] = LANES
    m.wave.vgpr[8] = (LANES * 0.5).astype(np.float32).view(np.uint32)
    m.point(2, 4 * LANES)
    m.wave.run([make("global_atomic_add_f32", [], [v(2, 2), v(8), OFF], "GLOBAL", offset=0)])
    np.testing.assert_array_equal(m.bytes[:256].view(np.float32), (LANES * 1.5).astype(np.float32))
    m.bytes[:256].view(np.float16)[:] = 1.5
    m.wave.vgpr[8] = 0x3C00_4000  # 2.0, 1.0
    m.wave.run([make("global_atomic_pk_add_f16", [], [v(2, 2), v(8), OFF], "GLOBAL", offset=0)])
    assert m.bytes[:256].view(np.float16).tolist() == [3.5, 2.5] * 64


def test_buffer_atomics_out_of_range_do_nothing() -> None:
    m = Memory()
    set_resource(m, 128)
    m.wave.vgpr[2], m.wave.vgpr[8] = 4 * LANES, 1
    before = m.bytes[:256].view(np.uint32).copy()
    m.wave.run([make("buffer_atomic_add", [v(8)], [v(8), v(2), s(RESOURCE, 4), imm(0)], "MUBUF", offset=0, offen=1)])
    np.testing.assert_array_equal(m.bytes[:256].view(np.uint32), before + (LANES < 32))
    np.testing.assert_array_equal(m.wave.vgpr[8], np.where(LANES < 32, before, 0))


def test_lds_atomics() -> None:
    m = Memory()
    m.wave.vgpr[2] = 4 * (LANES // 2)
    before = m.wave.lds[:128].view(np.uint32).copy()
    data = m.wave.vgpr[8].copy()
    m.wave.run([make("ds_add_u32", [], [v(2), v(8)], "DS", offset=0, gds=0)])
    np.testing.assert_array_equal(m.wave.lds[:128].view(np.uint32), before + data[::2] + data[1::2])
    now = m.wave.lds[:128].view(np.uint32).copy()
    m.wave.vgpr[8] = np.repeat(now, 2)  # comparison first, then the new value
    m.wave.run([make("ds_cmpst_rtn_b32", [v(20)], [v(2), v(8), v(9)], "DS", offset=0, gds=0)])
    np.testing.assert_array_equal(m.wave.lds[:128].view(np.uint32), m.wave.vgpr[9][::2])
    np.testing.assert_array_equal(m.wave.vgpr[20][::2], now)
