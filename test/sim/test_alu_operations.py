"""Every operation of the table: compiled handlers against the NumPy builder, on random and special operands."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from instruction_registry import register
from single_wave import SingleWave, make, s, selection_of, v

from ckmlir.sim.builder import Value
from ckmlir.sim.decode import Instruction, Operand
from ckmlir.sim.element import F16, F32, F64, FORMATS, MASK, U32, ElementType
from ckmlir.sim.library import library
from ckmlir.sim.numpy_builder import NumPyBuilder, dtype_of
from ckmlir.sim.operation import OPERATIONS, Operation, Place

LANES = 64
register((op.mnemonic for op in OPERATIONS.values() if not op.packed), "test_vector_operation_agrees_with_numpy")
VECTOR = [op for op in OPERATIONS.values() if op.is_vector and not op.packed]
SCALAR = [op for op in OPERATIONS.values() if not op.is_vector]
FIELD_VALUES = {
    "bitop3": (0x27, 0xCA),
    "fnuz": (0, 1),
    "op_sel": (0, 1, 2, 7),
    "op_sel_hi": (0, 5),
    "neg_lo": (0, 3),
    "neg_hi": (0, 4),
}

HALF_PAIRS = ("_mix", "pk_fmac_f16", "pk_f16", "pkrtz_f16")  # results that hold f16 in an integer: any NaN will do


def _same_half(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    halves = [(z & np.uint64(0xFFFF)).astype(np.uint16).view(np.float16) for z in (x, y)]
    return (halves[0].view(np.uint16) == halves[1].view(np.uint16)) | (np.isnan(halves[0]) & np.isnan(halves[1]))


def special_values(type: ElementType) -> np.ndarray[Any, Any]:
    """Bit patterns at which things go wrong."""
    bits = type.bits
    whole = [
        0,
        1,
        2,
        3,
        31,
        32,
        63,
        (1 << bits) - 1,
        (1 << bits) - 2,
        1 << (bits - 1),
        (1 << (bits - 1)) - 1,
        (1 << (bits - 1)) + 1,
    ]
    if type in FORMATS:
        f = FORMATS[type]
        one = f.bias << f.mantissa_bits
        for sign in (0, f.sign_mask):
            exact = f.bias + (f.mantissa_bits if type is F16 else 31)
            magnitudes = [f.exponent_mask + offset for offset in (-1, 0, 1, f.quiet_bit)]
            magnitudes += [1, f.mantissa_mask, f.mantissa_mask + 1, exact << f.mantissa_bits]
            magnitudes += [one + offset for offset in (-1, 0, 1, f.quiet_bit, 1 << f.mantissa_bits)]
            whole += [sign | magnitude for magnitude in magnitudes]
    return np.array(whole, np.uint64)


def random_patterns(rng: np.random.Generator, type: ElementType) -> np.ndarray[Any, Any]:
    """64 bit patterns: special ones, random bits, small integers, and floats of moderate size."""
    bits = type.bits
    patterns = rng.integers(0, 1 << 63, LANES, np.uint64) * np.uint64(2) + rng.integers(0, 2, LANES, np.uint64)
    patterns >>= np.uint64(64 - bits)
    kind = rng.integers(0, 4, LANES)
    patterns = np.where(kind == 0, rng.choice(special_values(type), LANES), patterns)
    small = rng.integers(0, 70, LANES).astype(np.uint64)
    if type in FORMATS:
        moderate = (rng.standard_normal(LANES) * 2.0 ** rng.integers(-8, 9, LANES)).astype(dtype_of(type))
        small = moderate.view(dtype_of(ElementType("u", bits))).astype(np.uint64)
    return np.where(kind == 1, small, patterns)


def value_of(b: NumPyBuilder, type: ElementType, patterns: np.ndarray[Any, Any]) -> Value:
    unsigned = patterns.astype(dtype_of(ElementType("u", type.bits)))
    return b.value(type, unsigned.view(dtype_of(type)))


class Case:
    """An operation with registers chosen for its operands, and the same values for both builders."""

    def __init__(self, operation: Operation, rng: np.random.Generator, fields: dict[str, int]) -> None:
        self.operation, self.fields = operation, fields
        self.clamp = operation.saturated is not None and bool(rng.integers(0, 2))
        self.wave = SingleWave()
        self.builder = NumPyBuilder(LANES if operation.is_vector else 0)
        self.wave.vgpr[:] = rng.integers(0, 1 << 32, (512, 64), np.uint32)
        self.destinations: list[Operand] = []
        self.sources: list[Operand] = []
        self.values: list[Value | list[Value]] = []
        exec = int(rng.integers(0, 1 << 63)) * 2 + 1
        self.wave.exec = exec
        self.exec = exec
        place = 0
        for result in operation.results:
            if not result.implicit:
                self.destinations.append(self._register(result.type, place, result.registers))
                place += max(4, result.registers)
        place = 40
        for operand in operation.operands:
            if operand.count > 1:
                self._set_block(operand, place, rng)
                place += 32
                continue
            patterns = random_patterns(rng, operand.type)
            if operand.type is not MASK and not operation.is_vector:
                patterns = patterns[0]
            if operand.implicit:
                self.values.append(self._set_implicit(operand.implicit, operand.type, patterns, rng))
            else:
                register = self._register(operand.type, place)
                self.sources.append(register)
                self.values.append(self._set(register, operand.type, patterns))
                place += 4

    def _set_block(self, operand: Place, first: int, rng: np.random.Generator) -> None:
        """A block operand: half of its registers hold moderate floats, of any width."""
        registers = []
        for number in range(operand.count):
            patterns = random_patterns(rng, F32 if number % 2 else U32)
            self.wave.vgpr[first + number] = patterns.astype(np.uint32)
            registers.append(value_of(self.builder, U32, patterns))
        self.sources.append(v(first, operand.count))
        self.values.append(registers)

    def _register(self, type: ElementType, place: int, count: int = 0) -> Operand:
        count = count or type.registers
        return s(place, count) if type is MASK or not self.operation.is_vector else v(place, count)

    def _set(self, register: Operand, type: ElementType, patterns: Any) -> Value:
        if type is MASK:
            bits = int(patterns[0]) | int(patterns[1]) << 32 if np.ndim(patterns) else int(patterns)
            bits = int(np.packbits(np.asarray(patterns & np.uint64(1), np.uint8), bitorder="little").view(np.uint64)[0])
            self.wave.set_pair(register.index, bits)
            return self.builder.value(MASK, (np.asarray(patterns) & np.uint64(1)).astype(bool))
        if register.kind == "s":
            word = int(patterns)
            self.wave.sgpr[register.index] = word & 0xFFFFFFFF
            if type.bits == 64:
                self.wave.sgpr[register.index + 1] = word >> 32
            return value_of(self.builder, type, np.asarray(patterns))
        self.wave.vgpr[register.index] = (patterns & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        if type.bits == 64:
            self.wave.vgpr[register.index + 1] = (patterns >> np.uint64(32)).astype(np.uint32)
        return value_of(self.builder, type, patterns)

    def _set_implicit(self, name: str, type: ElementType, patterns: Any, rng: np.random.Generator) -> Value:
        if name == "old":
            return self._set(self.destinations[0], type, patterns)
        if name == "scc":
            self.wave.scc = int(rng.integers(0, 2))
            return self.builder.value(MASK, np.asarray(bool(self.wave.scc)))
        if name == "vcc":
            return self._set(s(106, 2), MASK, patterns)
        if name == "exec":
            return value_of(self.builder, type, np.asarray(self.exec, np.uint64))
        raise AssertionError(name)

    def instruction(self) -> Instruction:
        encoding = "VOP3" if self.operation.is_vector else "SOP2"
        return make(self.operation.mnemonic, self.destinations, self.sources, encoding, clamp=self.clamp, **self.fields)

    def expected(self) -> list[Value | list[Value]]:
        with np.errstate(all="ignore"):
            semantics = self.operation.saturated if self.clamp else self.operation.evaluate
            assert semantics is not None
            return self.operation.outcomes(semantics(self.builder, *self.values, **self.fields))

    def check(self) -> None:
        before = self.wave.vgpr.copy()
        fnuz = self.fields.get("fnuz", 1)
        assert self.wave.run([self.instruction()], target="gfx942" if fnuz else "gfx950") == 0
        lanes = np.array([self.exec >> lane & 1 for lane in range(64)], bool)
        named = iter(self.destinations)
        for place, result in zip(self.operation.results, self.expected()):
            if isinstance(result, list):
                register = next(named)
                for number, word in enumerate(result):
                    self._compare(v(register.index + number), word, before, lanes)
            elif place.implicit == "scc":
                assert self.wave.scc == int(result.handle)
            elif place.implicit in ("exec", "lanes"):
                bits = (
                    np.packbits(result.handle & lanes, bitorder="little").view(np.uint64)[0]
                    if place.type is MASK
                    else result.handle
                )
                assert self.wave.exec == int(bits)
            elif place.type is MASK:
                bits = np.packbits(np.broadcast_to(result.handle, 64) & lanes, bitorder="little").view(np.uint64)[0]
                assert self.wave.mask(next(named).index) == int(bits)
            else:
                self._compare(next(named), result, before, lanes)

    def _compare(
        self, register: Operand, result: Value, before: np.ndarray[Any, Any], lanes: np.ndarray[Any, Any]
    ) -> None:
        bits = np.asarray(result.handle).view(dtype_of(ElementType("u", result.type.bits))).astype(np.uint64)
        if register.kind == "s":
            got: Any = np.uint64(
                self.wave.mask(register.index) if result.type.bits == 64 else int(self.wave.sgpr[register.index])
            )
            assert int(got) == int(bits)
            return
        got = self.wave.vgpr[register.index].astype(np.uint64)
        old = before[register.index].astype(np.uint64)
        if result.type.bits == 64:
            got |= self.wave.vgpr[register.index + 1].astype(np.uint64) << np.uint64(32)
            old |= before[register.index + 1].astype(np.uint64) << np.uint64(32)
        if result.type.bits == 16 and self.operation.keeps_high:
            bits = bits | (old & np.uint64(0xFFFF0000))
        wanted = np.where(lanes, bits, old)
        equal = got == wanted
        if result.type.is_float:
            low = np.uint64((1 << result.type.bits) - 1)
            floats = [
                (x & low).astype(dtype_of(ElementType("u", result.type.bits))).view(dtype_of(result.type))
                for x in (got, wanted)
            ]
            equal |= np.isnan(floats[0]) & np.isnan(floats[1])
        if any(name in self.operation.mnemonic for name in HALF_PAIRS):
            equal |= np.logical_and.reduce([_same_half(got >> np.uint64(k), wanted >> np.uint64(k)) for k in (0, 16)])
        if not equal.all():
            lane = int(np.argmin(equal))
            inputs = [
                "block"
                if isinstance(x, list)
                else hex(int(np.asarray(x.handle).view(dtype_of(ElementType("u", x.type.bits)))[lane]))
                if x.type is not MASK
                else x.handle[lane]
                for x in self.values
            ]
            raise AssertionError(
                f"lane {lane}: operands {inputs}: handler {int(got[lane]):#x}, NumPy {int(wanted[lane]):#x}"
            )


def cases(operation: Operation, rng: np.random.Generator, rounds: int) -> list[Case]:
    fields = [{}]
    for name in operation.modifiers:
        fields = [{**known, name: value} for known in fields for value in FIELD_VALUES[name]]
    return [Case(operation, rng, chosen) for chosen in fields for _ in range(max(1, rounds // len(fields)))]


TOGETHER = 40


@functools.cache
def compile_together(batch: int) -> None:
    rng = np.random.default_rng(1)
    chosen = (VECTOR + SCALAR)[batch * TOGETHER :][:TOGETHER]
    keys = [selection_of(case.instruction()).key for operation in chosen for case in cases(operation, rng, 1)]
    library().addresses(dict.fromkeys(keys))


@pytest.fixture(autouse=True)
def compiled(operation: Operation) -> None:
    """Handlers of operations that are tested one after another are compiled in batches rather than one by one."""
    compile_together((VECTOR + SCALAR).index(operation) // TOGETHER)


@pytest.mark.parametrize("operation", VECTOR, ids=lambda operation: operation.mnemonic)
def test_vector_operation_agrees_with_numpy(operation: Operation) -> None:
    slow = any(place.type in (F16, F32, F64) for place in operation.operands)
    for case in cases(operation, np.random.default_rng(7), 4 if slow else 8):
        case.check()


@pytest.mark.parametrize("operation", SCALAR, ids=lambda operation: operation.mnemonic)
def test_scalar_operation_agrees_with_numpy(operation: Operation) -> None:
    for case in cases(operation, np.random.default_rng(8), 40):
        case.check()
