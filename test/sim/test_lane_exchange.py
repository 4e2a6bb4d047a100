"""Instructions that move data between lanes."""

from __future__ import annotations

import numpy as np
import pytest
from instruction_registry import covers, register
from single_wave import SingleWave, imm, make, s, v

LANES = np.arange(64)


def random_wave(lds_bytes: int = 4096) -> SingleWave:
    wave = SingleWave(lds_bytes)
    wave.vgpr[:] = np.random.default_rng(5).integers(0, 1 << 32, (512, 64), np.uint32)
    return wave


@covers("v_readlane_b32")
def test_readlane_takes_the_lane_modulo_64_whether_active_or_not() -> None:
    wave = random_wave()
    wave.exec = 1
    wave.sgpr[4] = 64 + 9
    wave.run([make("v_readlane_b32", [s(0)], [v(1), s(4)]), make("v_readlane_b32", [s(1)], [v(1), imm(63)])])
    assert wave.sgpr[0] == wave.vgpr[1, 9] and wave.sgpr[1] == wave.vgpr[1, 63]


register(["v_readfirstlane_b32"], "test_readfirstlane")


@pytest.mark.parametrize("exec,lane", [((1 << 64) - 1, 0), (0xFF00, 8), (1 << 63, 63), (0, 0)])
def test_readfirstlane(exec: int, lane: int) -> None:
    wave = random_wave()
    wave.exec = exec
    wave.run([make("v_readfirstlane_b32", [s(0)], [v(1)], "VOP1")])
    assert wave.sgpr[0] == wave.vgpr[1, lane]


@covers("v_writelane_b32")
def test_writelane_ignores_exec() -> None:
    wave = random_wave()
    wave.exec, wave.sgpr[3] = 0, 77
    before = wave.vgpr[1].copy()
    wave.run([make("v_writelane_b32", [v(1)], [s(3), imm(17)])])
    before[17] = 77
    np.testing.assert_array_equal(wave.vgpr[1], before)


register(["v_permlane16_swap_b32", "v_permlane32_swap_b32"], "test_permlane_swap_exchanges_odd_rows_with_even_rows")


@pytest.mark.parametrize("row", [16, 32])
def test_permlane_swap_exchanges_odd_rows_with_even_rows(row: int) -> None:
    wave = random_wave()
    x, y = wave.vgpr[1].copy(), wave.vgpr[2].copy()
    wave.run([make(f"v_permlane{row}_swap_b32", [v(1), v(2)], [v(2), v(1)], "VOP1")], "gfx950")
    for start in range(0, 64, 2 * row):
        even, odd = slice(start, start + row), slice(start + row, start + 2 * row)
        x[odd], y[even] = y[even].copy(), x[odd].copy()
    np.testing.assert_array_equal(wave.vgpr[1], x)
    np.testing.assert_array_equal(wave.vgpr[2], y)


@covers("ds_bpermute_b32")
def test_backward_permute_reads_zero_from_inactive_lanes() -> None:
    wave = random_wave()
    wave.exec = 0xFFFF_FFFF_FFFF_FFF0
    old, data = wave.vgpr[0].copy(), wave.vgpr[2].copy()
    sources = np.random.default_rng(1).integers(0, 128, 64)
    wave.vgpr[1] = 4 * sources
    wave.run([make("ds_bpermute_b32", [v(0)], [v(1), v(2)], "DS", offset=8, gds=0)])
    lanes = (sources + 2) % 64
    expected = np.where(lanes < 4, 0, data[lanes])
    expected[:4] = old[:4]
    np.testing.assert_array_equal(wave.vgpr[0], expected)


@covers("ds_permute_b32")
def test_forward_permute_gives_zero_to_lanes_nobody_names() -> None:
    wave = random_wave()
    data = wave.vgpr[2].copy()
    wave.vgpr[1] = 4 * (LANES // 2)
    wave.run([make("ds_permute_b32", [v(0)], [v(1), v(2)], "DS", offset=0, gds=0)])
    np.testing.assert_array_equal(wave.vgpr[0], np.concatenate([data[1::2], np.zeros(32, np.uint32)]))


@pytest.mark.parametrize(
    "offset,source",
    [
        (0x8000 | 0b00_01_10_11, lambda lane: lane // 4 * 4 + 3 - lane % 4),
        (0x1F | 1 << 10, lambda lane: lane ^ 1),  # and 31, or 0, xor 1
        (0x1F | 16 << 10, lambda lane: lane ^ 16),
        (0x18 | 3 << 5, lambda lane: lane // 8 * 8 + 3),  # broadcast lane 3 of eight
        (0xC000 | 3 << 5, lambda lane: lane // 32 * 32 + (lane + 3) % 32),  # rotate
    ],
)
def test_swizzle_patterns(offset: int, source: object) -> None:
    wave = random_wave()
    data = wave.vgpr[1].copy()
    wave.run([make("ds_swizzle_b32", [v(0)], [v(1)], "DS", offset=offset, gds=0)])
    np.testing.assert_array_equal(wave.vgpr[0], data[[source(lane) for lane in range(64)]])  # type: ignore[operator]


# The ISA document's tables of DS_SWIZZLE_B32, whose entries count lanes from 1.
FFT = {
    0x00: "1 11 9 19 5 15 d 1d 3 13 b 1b 7 17 f 1f 2 12 a 1a 6 16 e 1e 4 14 c 1c 8 18 10 20",
    0x10: "1 9 5 d 3 b 7 f 2 a 6 e 4 c 8 10 11 19 15 1d 13 1b 17 1f 12 1a 16 1e 14 1c 18 20",
    0x1F: " ".join(f"{lane:x}" for lane in range(1, 33)),
}


@covers("ds_swizzle_b32")
def test_swizzle_in_fft_order() -> None:
    for mask, table in FFT.items():
        wave = random_wave()
        data = wave.vgpr[1].copy()
        wave.run([make("ds_swizzle_b32", [v(0)], [v(1)], "DS", offset=0xE000 | mask, gds=0)])
        first = [int(number, 16) - 1 for number in table.split()]
        np.testing.assert_array_equal(wave.vgpr[0], data[first + [lane + 32 for lane in first]])


def test_swizzle_of_an_inactive_lane_is_zero() -> None:
    wave = random_wave()
    wave.exec = ~1 & (1 << 64) - 1
    wave.run([make("ds_swizzle_b32", [v(0)], [v(1)], "DS", offset=0x1F | 1 << 10, gds=0)])
    assert wave.vgpr[0, 1] == 0 and wave.vgpr[0, 2] == wave.vgpr[1, 3]


TRANSPOSING = {16: "ds_read_b64_tr_b16", 8: "ds_read_b64_tr_b8", 4: "ds_read_b64_tr_b4", 6: "ds_read_b96_tr_b6"}
register(TRANSPOSING.values(), "test_transposing_reads")


@pytest.mark.parametrize("bits,name", TRANSPOSING.items())
def test_transposing_reads(bits: int, name: str) -> None:
    """Each 16 lanes read a block of rows of 16 elements, and lane i receives column i."""
    wave = random_wave()
    rng = np.random.default_rng(2)
    bytes_a_lane = 12 if bits == 6 else 8
    rows = 8 * bytes_a_lane // bits
    elements = rng.integers(0, 1 << bits, (4, rows, 16))
    stream = ((elements.reshape(4, -1)[:, :, None] >> np.arange(bits)) & 1).astype(np.uint8).reshape(4, -1)
    wave.lds[: 64 * bytes_a_lane] = np.packbits(stream, axis=1, bitorder="little").reshape(-1)
    wave.vgpr[1] = LANES * bytes_a_lane
    wave.run([make(name, [v(4, bytes_a_lane // 4)], [v(1)], "DS", offset=0, gds=0)], "gfx950")
    words = wave.vgpr[4 : 4 + bytes_a_lane // 4].T.copy()
    received = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").reshape(64, rows, bits)
    numbers = (received.astype(np.int64) << np.arange(bits)).sum(axis=2)
    np.testing.assert_array_equal(numbers.reshape(4, 16, rows), elements.transpose(0, 2, 1))
