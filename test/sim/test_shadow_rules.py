"""The law of definedness: whatever undefined bits of the operands are, defined bits of the results stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckmlir.sim import semantics
from ckmlir.sim.builder import Value
from ckmlir.sim.checks.shadow_rules import bits_type, result_shadows
from ckmlir.sim.element import MASK, ElementType
from ckmlir.sim.numpy_builder import NumPyBuilder, dtype_of
from ckmlir.sim.operation import OPERATIONS, Operation

assert semantics
LANES = 64
SUBJECTS = [op for op in OPERATIONS.values() if not op.packed and not op.has_blocks]
UNTRACKED = ("exec", "lanes", "m0")
FIELDS = {"fnuz": 0, "op_sel": 0, "op_sel_hi": 0, "neg_lo": 0, "neg_hi": 0, "bitop3": 0xCA}


def as_value(b: NumPyBuilder, type: ElementType, bits: np.ndarray[Any, Any]) -> Value:
    """64 lanes, or the first as a scalar."""
    if type is MASK:
        data: Any = (bits & 1).astype(bool)
    else:
        data = bits.astype(dtype_of(bits_type(type))).view(dtype_of(type))
    return b.value(type, data if b.lanes else data[0])


def as_bits(value: Value) -> np.ndarray[Any, Any]:
    data = np.atleast_1d(np.asarray(value.handle))
    if value.type is MASK:
        return data.astype(np.uint64)
    return data.view(dtype_of(bits_type(value.type))).astype(np.uint64)


def width_mask(type: ElementType) -> np.uint64:
    return np.uint64((1 << type.bits) - 1)


def check(operation: Operation, random: np.random.Generator, op_sel: int) -> bool:
    """One set of operands; returns whether a result bit was defined although an operand was not."""
    b = NumPyBuilder(LANES if operation.is_vector else 0)
    fields = {name: FIELDS[name] for name in operation.modifiers} | ({"op_sel": op_sel} if op_sel else {})
    types = [place.type for place in operation.operands]
    small = random.random() < 0.5  # amounts, positions and selectors are small numbers
    patterns = [random.integers(0, 1 << (6 if small and k else 63), LANES, np.uint64) for k in range(len(types))]
    patterns = [pattern & width_mask(type) for pattern, type in zip(patterns, types)]
    shadows = []
    for place in operation.operands:
        shadow = random.integers(0, 1 << 63, LANES, np.uint64) & random.integers(0, 1 << 63, LANES, np.uint64)
        shadow[random.random(LANES) < 0.5] = 0
        if not b.lanes and random.random() < 0.5:
            shadow[:] = 0
        shadows.append(np.zeros_like(shadow) if place.implicit in UNTRACKED else shadow & width_mask(place.type))
    changed = [
        pattern ^ (shadow & random.integers(0, 1 << 63, LANES, np.uint64)) for pattern, shadow in zip(patterns, shadows)
    ]

    def evaluate(data: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        operands = [as_value(b, type, bits) for type, bits in zip(types, data)]
        with np.errstate(all="ignore"):
            outcome = operation.outcomes(operation.evaluate(b, *operands, **fields))
        return [as_bits(one) for one in outcome if isinstance(one, Value)]

    shadow_values = [as_value(b, bits_type(type), shadow) for type, shadow in zip(types, shadows)]
    with np.errstate(all="ignore"):
        found = result_shadows(
            b, operation, shadow_values, lambda: [as_value(b, *pair) for pair in zip(types, patterns)], fields
        )
    exact = False
    for place, before, after, undefined in zip(operation.results, evaluate(patterns), evaluate(changed), found):
        bits = as_bits(undefined)
        differing = (before ^ after) & ~bits & width_mask(place.type)
        assert not differing.any(), (operation.mnemonic, place, fields)
        any_operand = np.bitwise_or.reduce([shadow[: len(bits)] != 0 for shadow in shadows])
        exact |= bool((any_operand & (bits != width_mask(place.type))).any())
    return exact


@pytest.mark.parametrize("operation", SUBJECTS, ids=lambda op: op.mnemonic)
def test_defined_bits_do_not_depend_on_undefined_ones(operation: Operation) -> None:
    random = np.random.default_rng(len(operation.mnemonic))
    choices = (0, 8) if "op_sel" in operation.modifiers else (0,)
    for _ in range(2 if operation.is_vector else 24):
        for op_sel in choices:
            check(operation, random, op_sel)


EXACT = [
    *("v_and_b32", "v_or_b32", "v_lshlrev_b32", "v_lshl_or_b32", "v_bfe_u32", "v_bfi_b32", "v_perm_b32", "v_mov_b32"),
    *("v_cndmask_b32", "v_pack_b32_f16", "s_and_b64", "s_or_b64", "s_andn2_b64", "s_lshl_b64", "s_cselect_b64"),
    "s_bfe_u32",
    *("v_add_u32", "v_mad_u64_u32", "s_add_u32"),
]


@pytest.mark.parametrize("name", EXACT)
def test_moves_and_logic_are_exact(name: str) -> None:
    random = np.random.default_rng(1)
    assert any(check(OPERATIONS[name], random, 0) for _ in range(40))


@pytest.mark.parametrize("operation", SUBJECTS, ids=lambda op: op.mnemonic)
def test_of_defined_operands_results_are_defined(operation: Operation) -> None:
    """Bits that an instruction makes itself too, as v_perm_b32 does of selectors from 12 on."""
    random = np.random.default_rng(1)
    b = NumPyBuilder(LANES if operation.is_vector else 0)
    fields = {name: FIELDS[name] for name in operation.modifiers}
    types = [place.type for place in operation.operands]
    for small in (False, True):
        patterns = [random.integers(0, 1 << (4 if small else 63), LANES, np.uint64) & width_mask(one) for one in types]
        if small:  # each byte is a small number
            patterns = [pattern * np.uint64(0x0101_0101_0101_0101) & width_mask(one)
                        for pattern, one in zip(patterns, types)]  # fmt: skip
        shadows = [as_value(b, bits_type(one), np.zeros(LANES, np.uint64)) for one in types]
        with np.errstate(all="ignore"):
            found = result_shadows(
                b, operation, shadows, lambda data=patterns: [as_value(b, *pair) for pair in zip(types, data)], fields
            )  # fmt: skip
        assert not any(as_bits(one).any() for one in found), operation.mnemonic
