"""SDWA and DPP forms of every instruction that has them, and every packed instruction.

A form only changes which bits of the operands the operation sees and where its result goes. So it is compared with the
plain instruction, whose operands NumPy has prepared; the plain one is tested in test_alu_operations.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from instruction_registry import register
from single_wave import SingleWave, make, s, selection_of, v
from test_alu_operations import random_patterns
from test_vector_forms import DPP_SOURCES

from ckmlir.sim.chips import TARGETS
from ckmlir.sim.decode import Instruction, Operand
from ckmlir.sim.decode.opcodes import opcode_table
from ckmlir.sim.element import F16, F32, FORMATS, MASK, ElementType
from ckmlir.sim.library import library
from ckmlir.sim.numpy_builder import NumPyBuilder, dtype_of
from ckmlir.sim.operation import OPERATIONS, Operation, Place

Array = np.ndarray[Any, Any]
LANES = np.arange(64)
DESTINATION, CARRY = 4, 30
FIELDS = {0: (0, 8), 1: (8, 8), 2: (16, 8), 3: (24, 8), 4: (0, 16), 5: (16, 16), 6: (0, 32)}
FIXED = {"fnuz": 1, "op_sel": 0, "op_sel_hi": 0, "neg_lo": 0, "neg_hi": 0, "bitop3": 0xCA}


def with_flag(flag: str) -> list[str]:
    return sorted(
        {row.mnemonic for target in TARGETS for row in opcode_table(target).values() if flag in row.flags}
        & OPERATIONS.keys()
    )


class Form:
    """A wave with random registers, an instruction in a form, and the same without the form on prepared operands."""

    def __init__(self, name: str, form: str, seed: int) -> None:
        self.operation = OPERATIONS[name]
        self.rng = np.random.default_rng([seed, *name.encode()])
        self.form, self.wave, self.plain = form, SingleWave(), SingleWave()
        self.wave.vgpr[:] = self.rng.integers(0, 1 << 32, (512, 64), np.uint32)
        self.wave.exec = int(self.rng.integers(0, 1 << 63)) * 2 + 1
        self.wave.set_pair(106, int(self.rng.integers(0, 1 << 63)))
        self.wave.set_pair(CARRY + 4, int(self.rng.integers(0, 1 << 63)))
        self.fields = {field: FIXED[field] for field in self.operation.modifiers}
        self.active = np.array([self.wave.exec >> lane & 1 for lane in range(64)], bool)
        self.written = self.active
        self.sources: list[Operand] = []
        self.plain_sources: list[Operand] = []
        self.prepared: dict[int, Array] = {}
        self.controls = self._controls()
        named = [place for place in self.operation.operands if not place.implicit]
        for position, place in enumerate(named):
            self._operand(position, place)
        self.destinations = [
            s(CARRY, 2) if place.type is MASK else v(DESTINATION, place.registers)
            for place in self.operation.results
            if not place.implicit
        ]

    def _wide(self) -> bool:
        places = self.operation.results + self.operation.operands
        return any(place.type.bits == 64 for place in places if place.type is not MASK)

    def _controls(self) -> dict[str, int]:
        rng = self.rng
        if self.form == "SDWA":
            wide = self.operation.results[0].type.bits == 64  # conversions of two fp8, which have no dst_sel
            return {"dst_sel": 6 if wide else int(rng.integers(0, 7)), "dst_unused": int(rng.integers(0, 3))}
        known = [0x153] if self._wide() else list(DPP_SOURCES)
        control, bound = int(rng.choice(known)), int(rng.integers(0, 2))
        rows, banks = int(rng.integers(1, 16)), int(rng.integers(1, 16))
        sources = [DPP_SOURCES[control](lane) for lane in range(64)]
        valid = np.array([lane is not None and self.active[lane] for lane in sources])
        self.moved = np.array([lane if lane is not None else 0 for lane in sources]), valid
        enabled = (rows >> LANES // 16 & banks >> LANES % 16 // 4 & 1).astype(bool)
        self.written = self.active & enabled & (valid | bool(bound))
        return {"dpp_ctrl": control, "row_mask": rows, "bank_mask": banks, "bound_ctrl": bound}

    def _operand(self, position: int, place: Place) -> None:
        type = place.type
        if type is MASK:
            self.sources.append(s(CARRY + 4, 2))
            self.plain_sources.append(s(CARRY + 4, 2))
            return
        first = 10 + 4 * position
        bits = self._numbers(type)
        if type.bits < 32:
            bits = bits | self._numbers(type) << np.uint64(16)
        for part in range(type.registers):
            self.wave.vgpr[first + part] = (bits >> np.uint64(32 * part) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        flags = dict.fromkeys(("negate", "absolute", "sext"), False)
        if type.is_float:
            flags["negate"], flags["absolute"] = (bool(self.rng.integers(0, 2)) for _ in range(2))
        elif self.form == "SDWA":
            flags["sext"] = bool(self.rng.integers(0, 2))
        self.sources.append(v(first, type.registers, **flags))
        self.plain_sources.append(v(first, type.registers))
        if self.form == "SDWA":
            bits = self._selected(position, bits, flags["sext"])
        elif position == 0:
            lanes, valid = self.moved
            bits = np.where(valid | (self.controls["bound_ctrl"] == 0), bits[lanes], np.uint64(0))
        self.prepared[first] = _signed(bits, type, flags["absolute"], flags["negate"])

    def _numbers(self, type: ElementType) -> Array:
        """Patterns without NaN, whose payload may come from either operand."""
        bits = random_patterns(self.rng, type)
        if not type.is_float:
            return bits
        infinity = np.uint64(FORMATS[type].exponent_mask)
        return np.where(bits & np.uint64(FORMATS[type].sign_mask - 1) > infinity, infinity, bits)

    def _selected(self, position: int, bits: Array, sext: bool) -> Array:
        chosen = int(self.rng.integers(0, 7))
        self.controls[f"src{position}_sel"] = chosen
        first, width = FIELDS[chosen]
        part = bits >> np.uint64(first) & np.uint64((1 << width) - 1)
        if sext:
            top = np.uint64(1 << width - 1)
            part = ((part ^ top) - top) & np.uint64(0xFFFFFFFF)
        return part

    def instruction(self) -> Instruction:
        return make(self.operation.mnemonic, self.destinations, self.sources, self.form, **self.fields, **self.controls)

    def plain_instruction(self) -> Instruction:
        return make(self.operation.mnemonic, self.destinations, self.plain_sources, "VOP3", **self.fields)

    def check(self) -> None:
        before = self.wave.vgpr.copy()
        self.plain.vgpr[:], self.plain.sgpr[:] = before, self.wave.sgpr
        self.plain.exec = int(np.packbits(self.written, bitorder="little").view(np.uint64)[0])
        for first, bits in self.prepared.items():
            for part in range(2 if self._is_pair(first) else 1):
                word = bits >> np.uint64(32 * part) & np.uint64(0xFFFFFFFF)
                self.plain.vgpr[first + part] = word.astype(np.uint32)
        assert self.wave.run([self.instruction()]) == 0
        assert self.plain.run([self.plain_instruction()]) == 0
        expected = before.copy()
        for destination in self.destinations:
            if destination.kind == "s":
                assert self.wave.mask(CARRY) == self.plain.mask(CARRY)
                continue
            result = self.plain.vgpr[DESTINATION : DESTINATION + destination.count]
            if self.form == "SDWA":
                result = self._placed(result.astype(np.int64), before[DESTINATION])
            expected[DESTINATION : DESTINATION + destination.count] = np.where(
                self.written, result, before[DESTINATION : DESTINATION + destination.count]
            )
        np.testing.assert_array_equal(self.wave.vgpr, expected)
        if any(place.implicit == "lanes" for place in self.operation.results):
            assert self.wave.exec == self.plain.exec

    def _is_pair(self, first: int) -> bool:
        return any(source.index == first and source.count == 2 for source in self.sources)

    def _placed(self, result: Array, old: Array) -> Array:
        """The result in the part of the destination that dst_sel names."""
        first, width = FIELDS[self.controls["dst_sel"]]
        if width == 32:
            return result
        mask, unused = (1 << width) - 1, self.controls["dst_unused"]
        part = result & mask
        if unused == 1:
            part = (part ^ 1 << width - 1) - (1 << width - 1)
        part = part << first & 0xFFFFFFFF
        return part | old.astype(np.int64) & ~(mask << first) if unused == 2 else part


def _signed(bits: Array, type: ElementType, absolute: bool, negate: bool) -> Array:
    sign = np.uint64(1 << type.bits - 1)
    bits = bits & ~sign if absolute else bits
    return bits ^ sign if negate else bits


CASES = [(name, form) for form in ("SDWA", "DPP") for name in with_flag(form.lower())]
PACKED = [name for name, operation in OPERATIONS.items() if operation.packed]
register(PACKED, "test_packed_operation")


@pytest.fixture(scope="module", autouse=True)
def compiled_together() -> None:
    forms = [Form(name, form, 0) for name, form in CASES]
    chosen = [item for form in forms for item in (form.instruction(), form.plain_instruction())]
    chosen += [packed_instruction(name, np.random.default_rng(seed))[0] for name in PACKED for seed in range(3)]
    library().addresses(dict.fromkeys(selection_of(item).key for item in chosen))


@pytest.mark.parametrize("name,form", CASES)
def test_form_agrees_with_the_plain_instruction(name: str, form: str) -> None:
    Form(name, form, 0).check()


@pytest.mark.full
@pytest.mark.parametrize("name,form", CASES)
def test_more_forms(name: str, form: str) -> None:
    for seed in range(1, 6):
        Form(name, form, seed).check()


# -- packed ----------------------------------------------------------------------------------------------------------


def packed_instruction(name: str, rng: np.random.Generator) -> tuple[Instruction, dict[str, int]]:
    operation = OPERATIONS[name]
    pair = 2 if operation.operands[0].type is F32 else 1
    fields = {field: int(rng.integers(0, 8)) for field in ("op_sel", "op_sel_hi")}
    is_float = operation.operands[0].type.is_float
    fields |= {field: int(rng.integers(0, 8)) if is_float else 0 for field in ("neg_lo", "neg_hi")}
    fields["clamp"] = int(rng.integers(0, 2)) if operation.saturated else 0
    sources = [v(10 + 2 * k, pair) for k in range(len(operation.operands))]
    return make(name, [v(DESTINATION, pair)], sources, "VOP3P", **fields), fields


def _element(wave: SingleWave, register: int, chosen: int, type: ElementType, negate: int) -> Array:
    if type is F32:
        bits = wave.vgpr[register + chosen].astype(np.uint64)
    else:
        bits = (wave.vgpr[register] >> np.uint32(16 * chosen) & np.uint32(0xFFFF)).astype(np.uint64)
    return bits ^ np.uint64((1 << type.bits - 1) * negate)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PACKED)
def test_packed_operation(name: str, seed: int) -> None:
    """Halves chosen by op_sel and op_sel_hi, signs by neg_lo and neg_hi, through the NumPy evaluator."""
    operation: Operation = OPERATIONS[name]
    instruction, fields = packed_instruction(name, np.random.default_rng(seed))
    rng, wave, b = np.random.default_rng(seed + 9), SingleWave(), NumPyBuilder()
    wave.vgpr[:] = rng.integers(0, 1 << 32, (512, 64), np.uint32)
    for k, place in enumerate(operation.operands):
        for part in range(2):
            low, high = (random_patterns(rng, place.type) for _ in range(2))
            word = low if place.type is F32 else low | high << np.uint64(16)
            wave.vgpr[10 + 2 * k + part] = word.astype(np.uint32)
    semantics = operation.saturated if fields["clamp"] else operation.evaluate
    assert semantics is not None
    wanted = []
    for choice, sign in (("op_sel", "neg_lo"), ("op_sel_hi", "neg_hi")):
        values = []
        for k, place in enumerate(operation.operands):
            bits = _element(wave, 10 + 2 * k, fields[choice] >> k & 1, place.type, fields[sign] >> k & 1)
            unsigned = bits.astype(dtype_of(ElementType("u", place.type.bits)))
            values.append(b.value(place.type, unsigned.view(dtype_of(place.type))))
        with np.errstate(all="ignore"):
            wanted.append(np.asarray(semantics(b, *values).handle))
    assert wave.run([instruction]) == 0
    type = operation.results[0].type
    for half, expected in enumerate(wanted):
        got = _element(wave, DESTINATION, half, type, 0).astype(dtype_of(ElementType("u", type.bits)))
        if type in (F16, F32):
            np.testing.assert_array_equal(got.view(dtype_of(type)), expected)
            zero = expected == 0
            np.testing.assert_array_equal(np.signbit(got.view(dtype_of(type)))[zero], np.signbit(expected)[zero])
        else:
            np.testing.assert_array_equal(got, expected.view(got.dtype))
