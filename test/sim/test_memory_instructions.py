"""Every load, store and atomic of LDS, global, flat, scratch, buffer and scalar memory against the model of
`memory_model.py`, on words that the decoder made."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest
from decode_words import base_word
from instruction_registry import register
from memory_model import PARTS, atomic_of, loaded, run_atomic, store
from single_wave import Instruction
from wave_memory import LANES, RESOURCE, Memory, active_lanes, set_resource, with_scratch

from ckmlir.sim import state
from ckmlir.sim.chips import TARGETS
from ckmlir.sim.decode import decode
from ckmlir.sim.decode.opcodes import Opcode, opcode_table
from ckmlir.sim.library import library
from ckmlir.sim.selected import Environment
from ckmlir.sim.selection import select
from ckmlir.sim.state import Status

Array = np.ndarray[Any, Any]
ADDRESS, DATA, SECOND, RESULT = 2, 8, 12, 20
MASK = 0xF0F0_1234_FFFF_0F01


def rows(*encodings: str) -> dict[str, tuple[str, Opcode]]:
    """Mnemonic to a chip that has it and its row."""
    return {
        row.mnemonic: (target, row)
        for target in reversed(TARGETS)
        for row in opcode_table(target).values()
        if row.encoding in encodings
    }


_FIELDS = {  # operand field: (first bit, register number as it is encoded), by encoding
    "DS": {"addr": (32, ADDRESS), "data0": (40, DATA), "data1": (48, SECOND), "vdst": (56, RESULT)},
    "FLAT": {"addr": (32, ADDRESS), "data": (40, DATA), "vdst": (56, RESULT)},
    "MUBUF": {"vaddr": (32, ADDRESS), "vdata": (40, DATA), "srsrc": (48, RESOURCE // 4)},
    "SMEM": {"sdata": (6, 40), "sbase": (0, RESOURCE // 2)},
}


def instruction(target: str, row: Opcode, **fields: int) -> Instruction:
    """Decodes the row's word with the registers above and other fields by (name: value) of this function's table."""
    places = _FIELDS.get(row.encoding) or _FIELDS["FLAT" if row.encoding in ("GLOBAL", "SCRATCH") else "MUBUF"]
    word = base_word(row)
    for item in {*row.destinations, *row.sources}:
        if item.field in places:
            shift, number = places[item.field]
            word |= number << shift
    bits = {
        "offset": 32 if row.encoding == "SMEM" else 0, "offset1": 8, "glc": 14 if row.encoding == "MUBUF" else 16,
        "offen": 12, "soffset": 56, "saddr": 48, "sve": 13, "imm": 17, "lds": 16, "dfmt": 19, "nfmt": 23, "idxen": 13,
    }  # fmt: skip
    for name, value in fields.items():
        word |= value << bits[name]
    found = decode(word.to_bytes(8, "little"), 0, target)
    assert found.mnemonic == row.mnemonic
    return found


def registers(m: Memory, first: int, count: int, lane: int) -> list[int]:
    return [int(word) for word in m.wave.vgpr[first : first + count, lane]]


class Place:
    """One kind of memory: where its lanes point, and the bytes a test compares."""

    def __init__(self, kind: str, offsets: Array, rng: np.random.Generator) -> None:
        self.m = Memory(4096, 4096)
        self.m.wave.exec = MASK
        self.offsets = offsets
        self.kind = kind
        if kind in ("GLOBAL", "FLAT"):
            self.m.point(ADDRESS, offsets)
        else:
            self.m.wave.vgpr[ADDRESS] = offsets.astype(np.uint32)
        if kind == "SCRATCH":
            self.scratch = with_scratch(self.m, 4096)
        if kind == "MUBUF":
            set_resource(self.m, 4096)

    def memory(self) -> Array:
        """A copy of the bytes as the lanes' offsets count them; scratch has 4096 bytes for each lane."""
        if self.kind == "DS":
            return self.m.wave.lds.copy()
        if self.kind == "SCRATCH":
            return self.scratch.T.copy().view(np.uint8).reshape(-1)
        return self.m.bytes.copy()

    def offset_of(self, lane: int) -> int:
        return int(self.offsets[lane]) + (4096 * lane if self.kind == "SCRATCH" else 0)


PLAIN = re.compile(r"(?:ds_(read|write)|(?:global|flat|scratch|buffer)_(load|store))_(\w+)$")
PLAIN_ROWS = {
    name: entry
    for name, entry in rows("DS", "GLOBAL", "FLAT", "SCRATCH", "MUBUF").items()
    if (match := PLAIN.match(name)) and match[3] in PARTS
}
ATOMIC_ROWS = {name: entry for name, entry in rows("DS", "GLOBAL", "FLAT", "MUBUF", "SMEM").items() if atomic_of(name)}
SCALAR = re.compile(r"s_(buffer_|scratch_)?(load|store)_dword(?:x(\d+))?$")
SCALAR_ROWS = {name: entry for name, entry in rows("SMEM").items() if SCALAR.match(name)}
register(PLAIN_ROWS, "test_load_or_store")
register(ATOMIC_ROWS, "test_atomic")
register(SCALAR_ROWS, "test_scalar_load_or_store")


def plain(name: str) -> Instruction:
    target, row = PLAIN_ROWS[name]
    fields = {"DS": {}, "MUBUF": {"offen": 1, "soffset": 128}, "FLAT": {}, "GLOBAL": {"saddr": 127},
              "SCRATCH": {"saddr": 127, **({} if target == "gfx90a" else {"sve": 1})}}[row.encoding]  # fmt: skip
    return instruction(target, row, offset=24, **fields)


def atomic(name: str, returns: bool) -> Instruction:
    target, row = ATOMIC_ROWS[name]
    fields = {"MUBUF": {"offen": 1, "soffset": 128}, "GLOBAL": {"saddr": 127}, "SMEM": {"imm": 1}}.get(row.encoding, {})
    glc = {"glc": int(returns)} if row.encoding != "DS" else {}
    return instruction(target, row, offset=16, **fields, **glc)


def scalar(name: str, by_register: bool = False) -> Instruction:
    target, row = SCALAR_ROWS[name]
    return instruction(target, row, offset=4, **({} if by_register else {"imm": 1}))


@pytest.fixture(scope="module", autouse=True)
def compiled_together() -> None:
    chosen = [(PLAIN_ROWS[name][0], plain(name)) for name in PLAIN_ROWS]
    chosen += [(ATOMIC_ROWS[name][0], atomic(name, returns)) for name in ATOMIC_ROWS for returns in (False, True)]
    chosen += [(SCALAR_ROWS[name][0], scalar(name, r)) for name in SCALAR_ROWS for r in (False, True)]
    selections = [select(item, Environment(target)) for target, item in chosen]
    library().addresses(dict.fromkeys(item.key for item in selections if item))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PLAIN_ROWS)
def test_load_or_store(name: str) -> None:
    match = PLAIN.match(name)
    assert match
    part, rng = PARTS[match[3]], np.random.default_rng(3)
    target, row = PLAIN_ROWS[name]
    place = Place(row.encoding, rng.permutation(200)[:64] * 16 + rng.integers(0, 4, 64), rng)
    if row.encoding == "SCRATCH":
        place = Place(row.encoding, rng.permutation(200)[:64] * 4, rng)
    m, item = place.m, plain(name)
    memory, words = place.memory(), max(1, part[0] // 4)
    is_load = bool(item.destinations)
    first = item.destinations[0].index if is_load else DATA
    expected = m.wave.vgpr.copy()
    for lane in np.flatnonzero(active_lanes(MASK)):
        where = place.offset_of(lane) + 24
        held = registers(m, first, words, lane)
        if is_load:
            expected[first : first + words, lane] = loaded(memory, where, part, held)
        else:
            store(memory, where, part, held)
    assert m.wave.run([item], target) == Status.ENDED
    np.testing.assert_array_equal(m.wave.vgpr, expected)
    np.testing.assert_array_equal(place.memory(), memory)


def numbers(m: Memory, first: int, bits: int) -> list[int]:
    low, high = m.wave.vgpr[first], m.wave.vgpr[first + 1]
    return [int(x) | int(y) << 32 if bits == 64 else int(x) for x, y in zip(low, high)]


def tame(name: str, bits: int, rng: np.random.Generator, count: int) -> Array:
    """Data of an atomic: for floats, numbers that neither overflow nor are NaN."""
    if "f16" in name:
        import ml_dtypes

        kind = ml_dtypes.bfloat16 if "bf16" in name else np.float16
        return rng.standard_normal(2 * count).astype(kind).view(np.uint32).astype(np.uint64)
    if name.endswith(("f32", "f64")):
        kind = np.float32 if bits == 32 else np.float64
        return rng.integers(-9, 9, count).astype(kind).view(f"u{bits // 8}").astype(np.uint64)
    return rng.integers(0, 1 << 63, count, np.uint64) * np.uint64(2) >> np.uint64(64 - bits)


def set_numbers(m: Memory, first: int, data: Array) -> None:
    m.wave.vgpr[first] = (data & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    m.wave.vgpr[first + 1] = (data >> np.uint64(32)).astype(np.uint32)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("name", [name for name, (_, row) in ATOMIC_ROWS.items() if row.encoding != "SMEM"])
def test_atomic(name: str, returns: bool) -> None:
    found = atomic_of(name)
    assert found
    operation, bits, count = found
    target, row = ATOMIC_ROWS[name]
    if row.encoding == "DS" and returns != ("_rtn_" in name):
        return
    rng = np.random.default_rng(5)
    place = Place(row.encoding, rng.integers(0, 12, 64) * 8 + 64, rng)
    m, step = place.m, bits // 32
    contents = tame(operation, bits, rng, 512)
    whole = m.wave.lds if row.encoding == "DS" else m.bytes
    whole[: 512 * bits // 8] = contents.astype(f"u{bits // 8}").view(np.uint8)
    second = SECOND if row.encoding == "DS" else DATA + step
    set_numbers(m, DATA, tame(operation, bits, rng, 64))
    if count == 2:  # half of the comparisons succeed
        held = whole[np.asarray(place.offsets)[:, None] + 16 + np.arange(bits // 8)]
        same = np.ascontiguousarray(held).view(f"u{bits // 8}")[:, 0].astype(np.uint64)
        data = np.where(LANES % 2, same, tame(operation, bits, rng, 64))
        compare_first = row.encoding == "DS"
        other = tame(operation, bits, rng, 64)
        low, high = (data, other) if compare_first else (other, data)
        if bits == 32:
            m.wave.vgpr[DATA], m.wave.vgpr[second] = low.astype(np.uint32), high.astype(np.uint32)
        else:
            set_numbers(m, DATA, low)
            set_numbers(m, second, high)
    memory = place.memory()
    first, other_data = numbers(m, DATA, bits), numbers(m, second, bits)
    swapped = count == 2 and operation.startswith("cmpswap") and row.encoding == "DS"
    pairs = list(zip(other_data, first) if swapped else zip(first, other_data))
    active = active_lanes(MASK)
    align = 7 if operation == "condxchg32" else 0
    places = [(place.offset_of(lane) + 16) & ~align if active[lane] else None for lane in range(64)]
    seen = run_atomic(memory, places, operation, bits, pairs)
    before, item = m.wave.vgpr.copy(), atomic(name, returns)
    assert m.wave.run([item], target) == Status.ENDED
    np.testing.assert_array_equal(place.memory(), memory)
    assert bool(item.destinations) == returns
    if returns:
        result = numbers(m, item.destinations[0].index, bits)
        assert [x for x, on in zip(result, active) if on] == [x for x, on in zip(seen, active) if on]
        before[item.destinations[0].index : item.destinations[0].index + step, active] = m.wave.vgpr[
            item.destinations[0].index : item.destinations[0].index + step, active
        ]
    np.testing.assert_array_equal(m.wave.vgpr, before)


# -- scalar memory ---------------------------------------------------------------------------------------------------


def scalar_memory(name: str) -> Memory:
    m = Memory()
    if "buffer" in name:
        set_resource(m, 64)
    else:
        m.wave.set_pair(RESOURCE, m.address)
    m.wave.sgpr[40:60] = np.random.default_rng(6).integers(0, 1 << 32, 20, np.uint32)
    return m


@pytest.mark.parametrize("by_register", [False, True])
@pytest.mark.parametrize("name", SCALAR_ROWS)
def test_scalar_load_or_store(name: str, by_register: bool) -> None:
    match = SCALAR.match(name)
    assert match
    m, dwords, item = scalar_memory(name), int(match[3] or 1), scalar(name, by_register)
    start = 4
    if by_register:  # OFFSET[6:0] names s4
        m.wave.sgpr[4] = 1 if match[1] == "scratch_" else 46  # the two low bits do not count
        start = 64 if match[1] == "scratch_" else 44
    memory, expected = m.bytes.copy(), m.wave.sgpr.copy()
    for k in range(dwords):
        where = start + 4 * k
        in_range = match[1] != "buffer_" or where < 64
        if match[2] == "load":
            word = memory[where : where + 4].view(np.uint32)[0] if in_range else 0
            expected[40 + k] = word
        elif in_range:
            memory[where : where + 4] = m.wave.sgpr[40 + k : 41 + k].view(np.uint8)
    assert m.wave.run([item], SCALAR_ROWS[name][0]) == Status.ENDED
    np.testing.assert_array_equal(m.bytes, memory)
    np.testing.assert_array_equal(m.wave.sgpr, expected)


@pytest.mark.parametrize("name", [name for name, (_, row) in ATOMIC_ROWS.items() if row.encoding == "SMEM"])
def test_scalar_atomic(name: str) -> None:
    found = atomic_of(name)
    assert found
    operation, bits, count = found
    rng = random.Random(name)
    for returns in (False, True):
        for out_of_range in (False, True) if "buffer" in name else (False,):
            m = scalar_memory(name)
            if out_of_range:
                set_resource(m, 18)
            size = bits // 8
            old = int.from_bytes(m.bytes[16 : 16 + size].tobytes(), "little")
            first, second = rng.getrandbits(bits), old if rng.random() < 0.5 else rng.getrandbits(bits)
            for k, word in enumerate((first, second)[:count]):
                for part in range(size // 4):
                    m.wave.sgpr[40 + k * size // 4 + part] = word >> 32 * part & 0xFFFFFFFF
            memory, expected = m.bytes.copy(), m.wave.sgpr.copy()
            (seen,) = run_atomic(memory, [None if out_of_range else 16], operation, bits, [(first, second)])
            if returns:
                for part in range(size // 4):
                    expected[40 + part] = seen >> 32 * part & 0xFFFFFFFF
            assert m.wave.run([atomic(name, returns)], ATOMIC_ROWS[name][0]) == Status.ENDED
            np.testing.assert_array_equal(m.bytes, memory)
            np.testing.assert_array_equal(m.wave.sgpr, expected)


def test_scalar_stores_are_checked_against_the_allocations() -> None:
    m = scalar_memory("s_store_dwordx4")
    m.wave.set_pair(RESOURCE, m.address + m.bytes.size - 12)
    assert m.wave.run([scalar("s_store_dwordx4")]) == Status.FAILED
    assert m.wave.error()[0] == state.ErrorKind.GLOBAL_BOUNDS
