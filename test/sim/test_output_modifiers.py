"""Clamp, omod and flushing of denormals on every vector operation whose VOP3 form takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from single_wave import SingleWave, make, selection_of
from test_alu_operations import Case

from ckmlir.sim.builder import Value
from ckmlir.sim.chips import TARGETS
from ckmlir.sim.decode import Instruction
from ckmlir.sim.decode.opcodes import opcode_table
from ckmlir.sim.element import FORMATS, ElementType
from ckmlir.sim.library import library
from ckmlir.sim.numpy_builder import dtype_of
from ckmlir.sim.operation import OPERATIONS, Operation

Array = np.ndarray[Any, Any]
FLAGS = {
    row.mnemonic: row.flags for target in TARGETS for row in opcode_table(target).values() if row.encoding == "VOP3"
}
FLOATS = [
    operation
    for name, operation in OPERATIONS.items()
    if "clamp" in FLAGS.get(name, ())
    and not operation.packed
    and not operation.modifiers
    and operation.uses_float_mode
    and operation.results[0].type.is_float
]
FLUSHING = 0x100  # round to nearest, all denormals flushed, DX10_CLAMP, not IEEE
FACTORS = {0: 1.0, 1: 2.0, 2: 4.0, 3: 0.5}


def flushed(values: Array, type: ElementType, zero_sign: bool = True) -> Array:
    word = dtype_of(ElementType("u", type.bits))
    bits = values.view(word)
    small = bits & word(FORMATS[type].exponent_mask) == 0
    return np.where(small, bits & word(FORMATS[type].sign_mask) if zero_sign else word(0), bits).view(values.dtype)


class ModifiedCase(Case):
    """As its base, in a mode that flushes denormals, with output modifiers."""

    def __init__(self, operation: Operation, rng: np.random.Generator) -> None:
        super().__init__(operation, rng, {})
        self.clamp = bool(rng.integers(0, 2))
        self.omod = int(rng.integers(0, 4)) if "omod" in FLAGS[operation.mnemonic] else 0
        self.wave.mode = self.builder.mode = FLUSHING

    def instruction(self) -> Instruction:
        return make(self.operation.mnemonic, self.destinations, self.sources, "VOP3", clamp=self.clamp, omod=self.omod)

    def run(self) -> SingleWave:
        assert self.wave.run([self.instruction()], dynamic_mode=True) == 0
        return self.wave

    def expected_first(self) -> Value:
        values = []
        for value in self.values:
            assert isinstance(value, Value)
            if value.type.is_float:
                value = self.builder.value(value.type, flushed(np.ascontiguousarray(value.handle), value.type))
            values.append(value)
        with np.errstate(all="ignore"):
            outcome = self.operation.outcomes(self.operation.evaluate(self.builder, *values))[0]
            assert isinstance(outcome, Value)
            result = np.ascontiguousarray(outcome.handle)
            if self.omod:
                result = flushed(result * result.dtype.type(FACTORS[self.omod]), outcome.type, zero_sign=False)
            result = flushed(result, outcome.type)
            if self.clamp:
                result = np.where(result > 0, np.minimum(result, 1), 0).astype(result.dtype)
        return self.builder.value(outcome.type, result)


@pytest.fixture(scope="module", autouse=True)
def compiled_together() -> None:
    cases = [case for operation in FLOATS for case in cases_of(operation)]
    library().addresses(dict.fromkeys(selection_of(case.instruction(), dynamic_mode=True).key for case in cases))


def cases_of(operation: Operation) -> list[ModifiedCase]:
    rng = np.random.default_rng([3, *operation.mnemonic.encode()])
    return [ModifiedCase(operation, rng) for _ in range(2)]


@pytest.mark.parametrize("operation", FLOATS, ids=lambda operation: operation.mnemonic)
def test_output_modifiers(operation: Operation) -> None:
    for case in cases_of(operation):
        before = case.wave.vgpr.copy()
        wanted = case.expected_first()
        wave = case.run()
        lanes = np.array([case.exec >> lane & 1 for lane in range(64)], bool)
        register, type = case.destinations[0].index, wanted.type
        got = wave.vgpr[register].astype(np.uint64)
        if type.bits == 64:
            got |= wave.vgpr[register + 1].astype(np.uint64) << np.uint64(32)
        word = dtype_of(ElementType("u", type.bits))
        numbers = got.astype(word).view(dtype_of(type))
        np.testing.assert_array_equal(numbers[lanes], np.asarray(wanted.handle)[lanes])
        np.testing.assert_array_equal(wave.vgpr[register][~lanes], before[register][~lanes])
