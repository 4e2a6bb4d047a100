"""Typed buffer instructions: every mnemonic, every format, against conversions in exact arithmetic."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from instruction_registry import register
from single_wave import imm, make, s, v
from wave_memory import ALL, LANES, RESOURCE, Memory, set_resource

from ckmlir.sim.decode import Instruction
from ckmlir.sim.decode.opcodes import opcode_table
from ckmlir.sim.element import U32
from ckmlir.sim.numpy_builder import NumPyBuilder
from ckmlir.sim.semantics import buffer_formats
from ckmlir.sim.state import Status

Array = np.ndarray[Any, Any]
WIDTHS = {  # from the lowest bit up: X, Y, Z, W
    1: [8], 2: [16], 3: [8, 8], 4: [32], 5: [16, 16], 6: [11, 11, 10], 7: [10, 11, 11], 8: [2, 10, 10, 10],
    9: [10, 10, 10, 2], 10: [8, 8, 8, 8], 11: [32, 32], 12: [16] * 4, 13: [32] * 3, 14: [32] * 4,
}  # fmt: skip
UNORM, SNORM, USCALED, SSCALED, UINT, SINT, FLOAT = 0, 1, 2, 3, 4, 5, 7
FORMATS = [
    (data, number)
    for data, widths in WIDTHS.items()
    for number in (UNORM, SNORM, USCALED, SSCALED, UINT, SINT, FLOAT)
    if not (number == FLOAT and min(widths) < 10) and not (number in (UNORM, SNORM, USCALED, SSCALED) and 32 in widths)
]
NAMES = sorted(
    {row.mnemonic for row in opcode_table("gfx942").values() if "_format_" in row.mnemonic},
    key=lambda name: (name[0], name),
)
register(NAMES, "test_formats")


def as_bits(number: Fraction | float) -> int:
    """The nearest f32."""
    with np.errstate(over="ignore"):
        return int(np.float32(float(number)).view(np.uint32))


def component(raw: int, width: int, number: int) -> int:
    """A component's 32-bit pattern after a load."""
    signed = raw - (1 << width) if raw >> (width - 1) else raw
    if number == UNORM:
        return as_bits(Fraction(raw, (1 << width) - 1))
    if number == SNORM:
        return as_bits(max(Fraction(signed, (1 << width - 1) - 1), Fraction(-1)))
    if number in (USCALED, SSCALED):
        return as_bits(raw if number == USCALED else signed)
    if number == UINT:
        return raw
    if number == SINT:
        return signed & 0xFFFFFFFF
    if width == 32:
        return raw
    half = {16: raw, 11: raw << 4, 10: raw << 5}[width]
    return as_bits(struct.unpack("<e", struct.pack("<H", half))[0])


def fields(element: int, data: int) -> list[int]:
    found = []
    for width in WIDTHS[data]:
        found.append(element & (1 << width) - 1)
        element >>= width
    return found


def expected_load(element: int, data: int, number: int) -> list[int]:
    parts = [component(raw, width, number) for raw, width in zip(fields(element, data), WIDTHS[data])]
    one = 1 if number in (UINT, SINT) else 0x3F800000
    return (parts + [0, 0, 0, one][len(parts) :])[:4]


def stored_component(pattern: int, width: int, number: int) -> int:
    """The bits that a 32-bit pattern becomes in memory."""
    mask, top = (1 << width) - 1, (1 << width - 1) - 1
    x = struct.unpack("<f", struct.pack("<I", pattern))[0]
    if number in (UNORM, SNORM):
        low, scale = (0.0, mask) if number == UNORM else (-1.0, top)
        limited = 0.0 if x != x else min(max(x, low), 1.0)
        return int(np.rint(np.float32(limited) * np.float32(scale))) & mask
    if number in (USCALED, SSCALED):
        low, high = (0, mask) if number == USCALED else (-top - 1, top)
        return (0 if x != x else int(min(max(x, low), high))) & mask
    if number == UINT:
        return min(pattern, mask)
    if number == SINT:
        signed = pattern - (1 << 32) if pattern >> 31 else pattern
        return min(max(signed, -top - 1), top) & mask
    if width == 32:
        return pattern
    with np.errstate(over="ignore"):
        half = int(np.float32(x).astype(np.float16).view(np.uint16))
    if width == 16:
        return half
    return _unsigned_float(x, width)


def _unsigned_float(x: float, width: int) -> int:
    """The nearest float with 5 exponent bits and no sign, ties to even."""
    mantissa = width - 5
    if x != x:
        return 0x3F << mantissa - 1 & (1 << width) - 1
    codes = np.arange(31 << mantissa)
    normal = (1 + (codes & (1 << mantissa) - 1) / 2.0**mantissa) * 2.0 ** ((codes >> mantissa) - 15)
    values = np.where(codes >> mantissa, normal, codes * 2.0 ** (-14 - mantissa))
    if x <= 0:
        return 0
    if x > float(values[-1] + (values[-1] - values[-2]) / 2):
        return 31 << mantissa
    distance = np.abs(values - x)
    best = np.flatnonzero(distance == distance.min())
    return int(best[0] if len(best) == 1 or best[0] % 2 == 0 else best[1])


def instruction(name: str, data: int, number: int, **more: int) -> Instruction:
    count = len(name.rsplit("_", 1)[1])
    registers = (count + 1) // 2 if "d16" in name else count
    modifiers = {"offset": 8, "offen": 1, **more}
    encoding = "MUBUF"
    if name.startswith("t"):
        encoding, modifiers = "MTBUF", {**modifiers, "dfmt": data, "nfmt": number}
    rest = [v(2), s(RESOURCE, 4), imm(0)]
    if "load" in name:
        return make(name, [v(20, registers)] if not more.get("lds") else [], rest, encoding, **modifiers)
    return make(name, [], [v(20, registers), *rest], encoding, **modifiers)


def formats_of(name: str) -> list[tuple[int, int]]:
    """MUBUF's format is data, so every one costs little; MTBUF's is compiled in: a share for each mnemonic."""
    if not name.startswith("t"):
        return FORMATS
    position = 2 * (NAMES.index(name) % 16)
    return [FORMATS[(position + k) % len(FORMATS)] for k in range(2)]


def resource(m: Memory, data: int, number: int, records: int, select_xyzw: int = 0o7654) -> None:
    set_resource(m, records, word3=data << 15 | number << 12 | select_xyzw)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", NAMES)
def test_formats(name: str) -> None:
    for data, number in formats_of(name):
        check_load(name, data, number) if "load" in name else check_store(name, data, number)


def _halves(parts: list[int], number: int, old: list[int], high: bool) -> list[int]:
    """Registers of a d16 load."""
    if number in (UINT, SINT):
        small = [part & 0xFFFF for part in parts]
    else:
        with np.errstate(over="ignore"):
            small = [int(np.uint32(part).view(np.float32).astype(np.float16).view(np.uint16)) for part in parts]
    words = list(old)
    for position, half in enumerate(small):
        shift = 16 * (position % 2 or high)
        words[position // 2] = words[position // 2] & ~(0xFFFF << shift) | half << shift
    return words


def check_load(name: str, data: int, number: int) -> None:
    size = sum(WIDTHS[data]) // 8
    m = Memory(64 * 16 + 64)
    if number == FLOAT and 16 in WIDTHS[data]:  # NaN payloads differ between conversions
        m.bytes[:] = np.random.default_rng(data).standard_normal(m.bytes.size // 2).astype(np.float16).view(np.uint8)
    limit = 8 + 60 * size - 1  # the last byte of lane 59 and all of the later ones are out of range
    resource(m, data, number, limit)
    m.wave.vgpr[2] = size * LANES
    item = instruction(name, data, number)
    count, registers = len(name.rsplit("_", 1)[1]), item.destinations[0].count
    old = m.wave.vgpr[20 : 20 + registers].copy()
    assert m.wave.run([item]) == Status.ENDED
    for lane in range(64):
        start = 8 + size * lane
        element = int.from_bytes(m.bytes[start : start + size].tobytes(), "little")
        parts = expected_load(element, data, number)[:count] if start + size <= limit else [0] * count
        got = [int(word) for word in m.wave.vgpr[20 : 20 + registers, lane]]
        wanted = parts
        if "d16" in name:
            wanted = _halves(parts, number, [int(word) for word in old[:, lane]], "hi" in name)
        if number == FLOAT:
            got, wanted = _without_nan(got, "d16" in name), _without_nan(wanted, "d16" in name)
        assert got == wanted, f"format {data}, {number}, lane {lane}: {[hex(x) for x in got + wanted]}"


def _without_nan(words: list[int], halves: bool) -> list[int]:
    """NaNs of all payloads made equal."""
    kind = np.float16 if halves else np.float32
    numbers = np.array(words, np.uint32).view(kind).copy()
    numbers[np.isnan(numbers)] = np.nan
    return [int(x) for x in numbers.view(np.uint32)]


def check_store(name: str, data: int, number: int) -> None:
    size = sum(WIDTHS[data]) // 8
    m = Memory(64 * 16 + 64)
    limit = 8 + 60 * size - 1
    resource(m, data, number, limit)
    m.wave.vgpr[2] = size * LANES
    rng = np.random.default_rng(data * 8 + number)
    numbers = rng.standard_normal((4, 64)) * rng.choice([0.3, 1.0, 40.0, 70000.0], (4, 64))
    halves = "d16" in name
    if number in (UINT, SINT):
        words = rng.integers(0, 1 << 32, (4, 64), np.uint32) >> rng.integers(0, 32, (4, 64), np.uint32)
    elif halves:
        with np.errstate(over="ignore"):
            words = numbers.astype(np.float16).view(np.uint16).reshape(4, 64).astype(np.uint32)
        words |= words[::-1] << 16
    else:
        words = numbers.astype(np.float32).view(np.uint32)
    m.wave.vgpr[20:24] = words
    item = instruction(name, data, number)
    expected = m.bytes.copy()
    for lane in range(64):
        start = 8 + size * lane
        if start + size > limit:
            continue
        values = _values(name, [int(x) for x in words[:, lane]], number)
        element = 0
        first = 0
        for position, width in enumerate(WIDTHS[data]):
            if position < len(values):
                element |= stored_component(values[position], width, number) << first
            first += width
        expected[start : start + size] = np.frombuffer(element.to_bytes(size, "little"), np.uint8)
    assert m.wave.run([item]) == Status.ENDED
    np.testing.assert_array_equal(m.bytes, expected, err_msg=f"format {data}, {number}")


def _values(name: str, words: list[int], number: int) -> list[int]:
    count = len(name.rsplit("_", 1)[1])
    if "d16" not in name:
        return words[:count]
    high = "hi" in name
    halves = [words[k // 2] >> 16 * (k % 2 or high) & 0xFFFF for k in range(count)]
    if number == UINT:
        return halves
    if number == SINT:
        return [(half ^ 0x8000) - 0x8000 & 0xFFFFFFFF for half in halves]
    return [as_bits(struct.unpack("<e", struct.pack("<H", half))[0]) for half in halves]


def test_an_invalid_format_loads_zero_and_stores_nothing() -> None:
    for data in (0, 15):
        m = Memory()
        resource(m, data, FLOAT, 4096)
        m.wave.vgpr[2] = 16 * LANES
        before = m.bytes.copy()
        loads = (
            instruction("buffer_load_format_xyzw", data, FLOAT),
            instruction("buffer_store_format_xyzw", data, FLOAT),
        )
        assert m.wave.run(loads) == Status.ENDED
        assert not m.wave.vgpr[20:24].any()
        np.testing.assert_array_equal(m.bytes, before)


def test_the_resource_selects_components_for_loads() -> None:
    m = Memory()
    resource(m, 10, UINT, 4096, select_xyzw=4 << 9 | 1 << 6 | 0 << 3 | 7)  # X from W, Y 0, Z 1, W from X
    m.wave.vgpr[2] = 4 * LANES
    m.wave.run([instruction("buffer_load_format_xyzw", 10, UINT)])
    element = m.bytes[8 : 8 + 256].reshape(64, 4)
    np.testing.assert_array_equal(
        m.wave.vgpr[20:24].T, np.stack([element[:, 3], 0 * LANES, 0 * LANES + 1, element[:, 0]], 1)
    )


def test_a_typed_load_may_go_to_lds() -> None:
    m = Memory()
    resource(m, 1, UNORM, 4096)
    m.wave.vgpr[2], m.wave.sgpr[124] = LANES, 128
    m.wave.run([instruction("buffer_load_format_x", 1, UNORM, lds=1)])
    got = m.wave.lds[128 + 8 : 128 + 8 + 256].view(np.uint32)
    assert got.tolist() == [component(int(raw), 8, UNORM) for raw in m.bytes[8:72]]


def test_swizzled_typed_elements_are_interleaved_by_dword() -> None:
    m = Memory(8192)
    set_resource(m, 60, stride=32, swizzle=True, word3=1 << 21 | 11 << 15 | UINT << 12 | 0o7654)
    m.wave.vgpr[2] = LANES
    m.wave.run([instruction("buffer_load_format_xy", 11, UINT, offen=0, idxen=1)])
    for k in range(2):
        places = (LANES // 16 * 32 + 8 + 4 * k) * 16 + 4 * (LANES % 16)
        words = m.bytes.view(np.uint32)[places // 4]
        np.testing.assert_array_equal(m.wave.vgpr[20 + k], np.where(LANES < 60, words, 0))


def test_add_tid_adds_the_lane_and_takes_the_data_format_for_the_stride() -> None:
    """Untyped accesses have bits 17:14 of the stride in the data format field."""
    m = Memory(64 * 1024)
    for data, stride in ((0, 16), (1, 16)):
        set_resource(m, 1 << 30, stride=stride, word3=1 << 23 | data << 15)
        m.wave.vgpr[2], m.wave.exec = 0, 7 if data else ALL
        m.wave.run([make("buffer_load_dword", [v(20)], [v(2), s(RESOURCE, 4), imm(0)], "MUBUF", offset=8, offen=1)])
        places = (stride + (data << 14)) * LANES + 8
        lanes = LANES < 3 if data else LANES < 64
        np.testing.assert_array_equal(m.wave.vgpr[20][lanes], m.bytes.view(np.uint32)[places[lanes] // 4])


@pytest.mark.parametrize("data,number", FORMATS)
def test_the_numpy_evaluator_agrees(data: int, number: int) -> None:
    """The same functions through the other builder, on random elements."""
    b = NumPyBuilder()
    rng = np.random.default_rng(data)
    raw = rng.integers(0, 1 << 32, (4, 64), np.uint32)
    if number == FLOAT:
        raw &= 0xBFFFBFFF if 16 in WIDTHS[data] else 0xFFFFFFFF
    words = [b.array(U32, row) for row in raw]
    for position in range(4):
        value = buffer_formats.loaded_component(b, words, position, b.u32(data), b.u32(number))
        for lane in range(64):
            element = int.from_bytes(raw[:, lane].astype("<u4").tobytes(), "little")
            wanted = expected_load(element, data, number)[position]
            got = int(np.asarray(value.handle)[lane])
            assert _without_nan([got], False) == _without_nan([wanted], False) if number == FLOAT else got == wanted
