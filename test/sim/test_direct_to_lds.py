"""Every load that goes to LDS without a register, and the LDS instructions that take their address from M0."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from instruction_registry import covers, register
from memory_model import PARTS, loaded
from single_wave import Instruction, make, v
from test_memory_instructions import DATA, MASK, RESULT, Place, instruction
from wave_memory import LANES, Memory, active_lanes

from ckmlir.sim.chips import TARGETS
from ckmlir.sim.decode.opcodes import Opcode, opcode_table
from ckmlir.sim.library import library
from ckmlir.sim.selected import Environment
from ckmlir.sim.selection import select
from ckmlir.sim.state import ErrorKind, Status

BASE, OFFSET = 512, 24
LOADS: dict[tuple[str, str], Opcode] = {
    (target, row.mnemonic): row
    for target in TARGETS
    for row in opcode_table(target).values()
    if ("lds" in row.flags or "_load_lds_" in row.mnemonic) and "format" not in row.mnemonic
}
register((name for _, name in LOADS if "_lds_" in name), "test_load_to_lds")


def load(target: str, row: Opcode) -> Instruction:
    fields = {"MUBUF": {"offen": 1, "soffset": 128, "lds": 1}, "GLOBAL": {"saddr": 127}, "SCRATCH": {"saddr": 127}}
    chosen = fields[row.encoding]
    if row.encoding != "MUBUF" and (target == "gfx90a" or row.encoding == "SCRATCH"):
        chosen = {**chosen, "sve": 1}  # the LDS bit of gfx90a, the address bit of later scratch instructions
    return instruction(target, row, offset=OFFSET, **chosen)


@pytest.fixture(scope="module", autouse=True)
def compiled_together() -> None:
    keys = [select(load(target, row), Environment(target)) for (target, _), row in LOADS.items()]
    library().addresses(dict.fromkeys(item.key for item in keys if item))


@pytest.mark.parametrize("target,name", LOADS)
def test_load_to_lds(target: str, name: str) -> None:
    row = LOADS[target, name]
    ending = re.sub(r".*_load_(lds_)?", "", name)
    part = PARTS[ending]
    words = max(1, part[0] // 4)
    rng = np.random.default_rng(4)
    place = Place(row.encoding, rng.permutation(200)[:64] * 4, rng)
    m, memory = place.m, place.memory()
    m.wave.sgpr[124] = BASE
    expected = m.wave.lds.copy()
    for lane in np.flatnonzero(active_lanes(MASK)):
        data = np.array(loaded(memory, place.offset_of(lane) + OFFSET, part, [0] * words), np.uint32)
        start = BASE + OFFSET + 4 * words * lane
        expected[start : start + 4 * words] = data.view(np.uint8)
    before = m.wave.vgpr.copy()
    assert m.wave.run([load(target, row)], target) == Status.ENDED
    np.testing.assert_array_equal(m.wave.lds, expected)
    np.testing.assert_array_equal(m.wave.vgpr, before)


# -- addresses from M0 -----------------------------------------------------------------------------------------------


@covers("ds_append ds_consume")
def test_append_and_consume_count_the_active_lanes() -> None:
    m = Memory()
    m.wave.lds[:] = 0
    m.wave.sgpr[124] = 0xABCD_0040  # the upper half does not count
    old = m.wave.vgpr[RESULT : RESULT + 2].copy()
    m.wave.exec = 0xFF00_0000_0000_0007
    names = ("ds_append", "ds_append", "ds_consume")
    m.wave.run([make(name, [v(RESULT + n % 2)], (), "DS", offset=8, gds=0) for n, name in enumerate(names)])
    active = active_lanes(m.wave.exec)
    assert m.wave.lds[0x48:0x4C].view(np.uint32)[0] == 11
    np.testing.assert_array_equal(m.wave.vgpr[RESULT], np.where(active, 22, old[0]))
    np.testing.assert_array_equal(m.wave.vgpr[RESULT + 1], np.where(active, 11, old[1]))
    m.wave.exec = 0
    m.wave.sgpr[124] = 0xFFFF  # nobody asks, so nothing is out of bounds
    assert m.wave.run([make("ds_append", [v(RESULT)], (), "DS", offset=0, gds=0)]) == Status.ENDED


@covers("ds_read_addtid_b32 ds_write_addtid_b32")
def test_lane_numbered_access() -> None:
    m = Memory()
    m.wave.sgpr[124], m.wave.exec = 100, MASK
    old, active, lds = m.wave.vgpr[RESULT].copy(), active_lanes(MASK), m.wave.lds.copy()
    m.wave.run(
        [
            make("ds_read_addtid_b32", [v(RESULT)], (), "DS", offset=60, gds=0),
            make("ds_write_addtid_b32", (), [v(DATA)], "DS", offset=1000, gds=0),
        ]
    )
    np.testing.assert_array_equal(m.wave.vgpr[RESULT], np.where(active, lds[160:416].view(np.uint32), old))
    written = np.where(active, m.wave.vgpr[DATA], lds[1100:1356].view(np.uint32))
    np.testing.assert_array_equal(m.wave.lds[1100:1356].view(np.uint32), written)
    m.wave.sgpr[124] = 4000
    assert m.wave.run([make("ds_write_addtid_b32", (), [v(DATA)], "DS", offset=0, gds=0)]) == Status.FAILED
    assert m.wave.error()[0] == ErrorKind.LDS_BOUNDS


# -- two exchanges ---------------------------------------------------------------------------------------------------

PAIRS = [f"ds_wrxchg2{infix}_rtn_b{bits}" for infix in ("", "st64") for bits in (32, 64)]
register(PAIRS, "test_exchange_of_two_places")


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("offsets", [(1, 3), (2, 2)])
@pytest.mark.parametrize("result", [RESULT, DATA])
def test_exchange_of_two_places(name: str, offsets: tuple[int, int], result: int) -> None:
    """Both places are read before they are written; the second data wins where they are one. The result may lie over
    the data."""
    count = int(name[-2:]) // 32
    size, spacing = 4 * count, 64 if "st64" in name else 1
    m = Memory(lds_bytes=4096)
    m.wave.vgpr[2], m.wave.exec = 32 * LANES, MASK
    expected, registers = m.wave.lds.copy(), m.wave.vgpr.copy()

    def word(first: int, lane: int) -> Any:
        return np.ascontiguousarray(m.wave.vgpr[first : first + count, lane]).view(np.uint8)

    for lane in np.flatnonzero(active_lanes(MASK)):
        places = [32 * lane + offset * size * spacing for offset in offsets]
        if max(places) + size > 4096:
            m.wave.exec = m.wave.exec & ~(1 << int(lane))
            continue
        old = [expected[place : place + size].copy() for place in places]
        for place, data in zip(places, (DATA, DATA + 4)):
            expected[place : place + size] = word(data, lane)
        for k in range(2):
            registers[result + k * count : result + (k + 1) * count, lane] = old[k].view(np.uint32)
    m.wave.run(
        [make(name, [v(result, 2 * count)], [v(2), v(DATA, count), v(DATA + 4, count)], "DS",
              offset0=offsets[0], offset1=offsets[1], gds=0)]
    )  # fmt: skip
    np.testing.assert_array_equal(m.wave.lds, expected)
    np.testing.assert_array_equal(m.wave.vgpr, registers)
