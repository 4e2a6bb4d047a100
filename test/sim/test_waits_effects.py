"""What instructions read, write and start: every row of the opcode table, and the semantics as a second opinion."""

from __future__ import annotations

import random
import re

import pytest
from decode_words import random_instruction

from ckmlir.sim import semantics
from ckmlir.sim.analysis.effects import Category, Counter, Effects, Kind, effects_of
from ckmlir.sim.analysis.registers import EXEC, M0, SCC, VCC, VECTOR_REGISTERS, names, registers_of, span
from ckmlir.sim.chips import TARGETS
from ckmlir.sim.decode import Instruction, UnknownInstruction, decode
from ckmlir.sim.decode.opcodes import opcode_table
from ckmlir.sim.operation import OPERATIONS

assert semantics
_IMPLICIT = {"scc": SCC, "exec": EXEC, "m0": M0, "vcc": VCC}
_STATUS = SCC | EXEC | M0 | VCC


def instructions_of_every_row(target: str) -> dict[tuple[str, int], Instruction]:
    """One decoded instruction of each row of a chip's table, in its own encoding."""
    rng = random.Random(11)
    found: dict[tuple[str, int], Instruction] = {}
    for key, row in opcode_table(target).items():
        for _ in range(2000):
            try:
                instruction = decode(random_instruction(row, rng).ljust(16, b"\0"), 0, target)
            except UnknownInstruction:
                continue
            if instruction.mnemonic == row.mnemonic and instruction.encoding == row.encoding:
                found[key] = instruction
                break
    return found


EVERY = {target: instructions_of_every_row(target) for target in TARGETS}


@pytest.mark.parametrize("target", TARGETS)
def test_every_row_of_the_table_has_effects_that_contain_its_operands(target: str) -> None:
    assert EVERY[target].keys() == opcode_table(target).keys()
    for instruction in EVERY[target].values():
        effects = effects_of(instruction)
        for operand in instruction.sources:
            assert effects.reads & registers_of(operand) == registers_of(operand), instruction.text
        for operand in instruction.destinations:
            assert effects.writes & registers_of(operand) == registers_of(operand), instruction.text


COUNTED = {
    "FLAT": {Counter.VM: Kind.FLAT, Counter.LGKM: Kind.FLAT},
    "GLOBAL": {Counter.VM: Kind.VMEM},
    "SCRATCH": {Counter.VM: Kind.VMEM},
    "MUBUF": {Counter.VM: Kind.VMEM},
    "MTBUF": {Counter.VM: Kind.VMEM},
    "SMEM": {Counter.LGKM: Kind.SMEM},
    "DS": {Counter.LGKM: Kind.LDS},
}
GDS = {Counter.LGKM: Kind.GDS, Counter.EXP: Kind.GDS}
MESSAGE = {Counter.LGKM: Kind.MESSAGE}
UNCOUNTED = {"buffer_inv", "buffer_invl2", "buffer_wbinvl1", "buffer_wbinvl1_vol", "ds_nop"}


@pytest.mark.parametrize("target", TARGETS)
def test_every_memory_instruction_counts_and_nothing_else_does(target: str) -> None:
    for instruction in EVERY[target].values():
        expected = COUNTED.get(instruction.encoding, {})
        if instruction.mnemonic in UNCOUNTED:
            expected = {}
        elif instruction.mnemonic.startswith("ds_gws") or instruction.modifiers.get("gds"):
            expected = GDS
        elif instruction.mnemonic.startswith("s_sendmsg"):
            expected = MESSAGE
        assert dict(effects_of(instruction).events) == expected, instruction.text


def test_implicit_registers_are_those_of_the_semantics() -> None:
    """`operation.py` names scc, exec, vcc and m0 where an operation computes with them: written by others, for another
    purpose."""
    checked = set()
    for instruction in (item for target in TARGETS for item in EVERY[target].values()):
        operation = OPERATIONS.get(instruction.mnemonic)
        if operation is None:
            continue
        checked.add(instruction.mnemonic)
        effects = effects_of(instruction)
        named = {True: 0, False: 0}
        for written, operands in ((True, instruction.destinations), (False, instruction.sources)):
            for operand in operands:
                named[written] |= registers_of(operand)
        for written, places, found in (
            (True, operation.results, effects.writes),
            (False, operation.operands, effects.reads),
        ):
            expected = 0
            for place in places:
                expected |= _IMPLICIT.get(place.implicit, 0)
            if instruction.mnemonic.startswith("v_"):  # lanes: of every vector instruction; v_cmpx: by its handler
                expected |= EXEC & (found if not written or "cmpx" in instruction.mnemonic else 0)
            extra = named[True] if effects.named_reads & named[True] else 0
            assert found & _STATUS & ~(named[written] | extra) == expected & ~(named[written] | extra), instruction.text
    assert checked == set(OPERATIONS)


def test_destinations_that_are_read_are_those_of_the_semantics() -> None:
    """Where the semantics keep the old destination, or a part of it. (v_cvt_scalef32_f32_* share theirs with the f16
    forms, which keep half; f32 results keep nothing.)"""
    more = re.compile(r"v_cvt_(pk|sr)_(fp8|bf8)_f32|v_cvt_sr_b?f16_f32|v_fma_mixlo_f16")  # by op_sel, or half kept
    for instruction in EVERY["gfx950"].values():
        operation = OPERATIONS.get(instruction.mnemonic)
        if operation is None or not instruction.destinations:
            continue
        destination = registers_of(instruction.destinations[0])
        sources = 0
        for operand in instruction.sources:
            sources |= registers_of(operand)
        if destination & sources or not destination or instruction.mnemonic.startswith("v_cvt_scalef32_f32"):
            continue
        keeps = any(place.implicit == "old" for place in operation.operands)
        reads = bool(effects_of(instruction).named_reads & destination)
        assert reads or not keeps, instruction.text
        assert keeps or not reads or more.fullmatch(instruction.mnemonic), instruction.text


def effects(text: str, target: str = "gfx942") -> Effects:
    from assembly import words_of

    return effects_of(decode(words_of(text, target), 0, target))


@pytest.mark.parametrize(
    ("text", "target", "reads", "writes"),
    [
        ("buffer_load_dwordx4 v[4:7], v1, s[8:11], s3 offen", "gfx942", "v1, s3, s[8:11], exec", "v[4:7]"),
        ("buffer_load_dword v1, s[8:11], 0 offen lds", "gfx90a", "v1, s[8:11], m0, exec", ""),
        ("global_load_lds_dwordx4 v[2:3], off", "gfx950", "v[2:3], m0, exec", ""),
        ("global_atomic_add_f32 v[2:3], v4, off", "gfx942", "v[2:4], exec", ""),
        ("global_atomic_add_f32 v1, v[2:3], v4, off sc0", "gfx942", "v[2:4], exec", "v1"),
        ("flat_load_dword v1, v[2:3]", "gfx90a", "v[2:3], flat_scratch, exec", "v1"),
        (
            "v_mfma_f32_32x32x8_f16 a[0:15], v[20:21], a[22:23], a[0:15]",
            "gfx942",
            "v[20:21], a[0:15], a[22:23]",
            "a[0:15]",
        ),
        ("v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[6:9], v10", "gfx942", "v[0:10]", "v[0:3]"),
        ("v_cmpx_lt_f32_e64 s[2:3], v1, v2", "gfx942", "v[1:2], exec", "s[2:3], exec"),
        ("v_fmac_f32_e32 v1, v2, v3", "gfx942", "v[1:3], exec", "v1"),
        ("v_swap_b32 v1, v2", "gfx942", "v[1:2], exec", "v[1:2]"),
        ("v_div_fmas_f32 v1, v2, v3, v4", "gfx942", "v[2:4], vcc, exec", "v1"),
        ("v_addc_co_u32_e32 v1, vcc, v2, v3, vcc", "gfx942", "v[2:3], vcc, exec", "v1, vcc"),
        ("s_and_saveexec_b64 s[2:3], vcc", "gfx942", "vcc, exec", "s[2:3], exec, scc"),
        ("s_addc_u32 s1, s2, s3", "gfx942", "s[2:3], scc", "s1, scc"),
        ("ds_read_u16_d16_hi v1, v2", "gfx942", "v[1:2], exec", "v1"),
    ],
)
def test_registers_of_examples(text: str, target: str, reads: str, writes: str) -> None:
    found = effects(text, target)
    assert (names(found.reads), names(found.writes)) == (reads, writes)


def test_copies_to_lds_write_lds_and_count_as_memory() -> None:
    for text, target in (
        ("buffer_load_dword v1, s[8:11], 0 offen lds", "gfx90a"),
        ("global_load_lds_dwordx4 v[2:3], off", "gfx950"),
    ):
        found = effects(text, target)
        assert found.category is Category.VMEM and found.lds == (False, True, True)
        assert [event.counter for event in found.events] == [Counter.VM]


def test_a_store_from_lds_reads_lds_and_m0_and_counts_as_memory() -> None:
    found = effects("buffer_store_lds_dword s[8:11], s12 lds", "gfx90a")
    assert found.category is Category.VMEM and found.lds == (True, False, True)
    assert [event.counter for event in found.events] == [Counter.VM]
    assert names(found.reads) == "s[8:12], m0, exec" and not found.writes


def test_scratch_addressing_is_no_copy_to_lds() -> None:
    """Bit 13 means LDS in gfx90a's scratch loads, and a VGPR address in those of later chips."""
    assert effects("scratch_load_dword v1, v2, s3", "gfx942").lds is None


def test_names_of_register_sets() -> None:
    assert names(span(4, 4) | span(256, 2) | VCC | SCC | span(512 + 5, 1)) == "v[4:7], a[0:1], s5, vcc, scc"
    assert names(span(255, 2) & VECTOR_REGISTERS) == "v255, a0"
    assert names(span(512 + 107, 1)) == "vcc_hi"
