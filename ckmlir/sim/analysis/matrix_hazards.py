"""Wait states around matrix instructions and dot products.

Sources: AMD CDNA2 ISA, section 4.5; CDNA3 and CDNA4 ISA, section 7 (tables of dependencies between matrix instructions
and others); LLVM's GCNHazardRecognizer.cpp, functions checkMAIHazards90A and checkMAIVALUHazards.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ckmlir.sim.analysis.hazard_rule import (
    GFX940,
    Described,
    Rule,
    fixed,
    named,
    reads,
    touches,
    when,
    writes,
)
from ckmlir.sim.analysis.registers import VECTOR_REGISTERS, RegisterSet, registers_of, span
from ckmlir.sim.chips import TARGETS


class ResultStates(NamedTuple):
    """Wait states until the result of a matrix instruction may be used.

    Attributes:
        read: By VALU.
        factor: As A or B of a matrix instruction of the same kind.
        same_accumulator: As C of one, in the very registers.
        overlapping_accumulator: As C of one that names other registers as well.
    """

    read: int
    factor: int
    same_accumulator: int
    overlapping_accumulator: int


def result_states(one: Described) -> ResultStates:
    """The wait states after a matrix instruction, by how its result is used."""
    return ResultStates(
        _matrix_to_factor(one, one), _matrix_to_factor(one, one), _forwarded(one, one), _overlapping(one, one)
    )


_ANY_DOUBLE_MATRIX: Final = span(768, 1)
"""A resource that is not a register: that an f64 matrix instruction came before."""

_DOT = named("v_dot.*")


def _dot_states(one: Described, two: Described) -> int:
    """The same dot product may add to the result at once; reading it as a factor, or by anything else, has to wait."""
    if one.name != two.name:
        return 3
    factors = two.instruction.sources[:2]
    return 3 if any(registers_of(operand) & one.effects.writes for operand in factors) else 0


def _after_matrix(one: Described) -> int:
    """Wait states until anything may use the result of a matrix instruction that is not f64."""
    count = one.passes
    if one.instruction.target == "gfx90a":
        return count + 3
    if not one.is_xdl:
        return count + 2
    return count + 3 + (one.instruction.target == "gfx950" and count != 2)


def _matrix_to_factor(one: Described, two: Described) -> int:
    """A matrix instruction's result as factor A or B (or as index or scale) of another."""
    if not one.is_double:
        return _after_matrix(one)
    return 6 if one.passes == 4 else 19 if one.instruction.target == "gfx950" else 11


def _matrix_to_accumulator(one: Described, two: Described) -> int:
    """A matrix instruction's result as operand C of another. The hardware forwards it when the registers are the same
    ones, with few exceptions; not when they only overlap."""
    if one.instruction.target == "gfx90a" and one.is_double and not two.is_double:
        return 0
    return _forwarded(one, two) if one.effects.writes == two.accumulator else _overlapping(one, two)


def _forwarded(one: Described, two: Described) -> int:
    if one.is_double and two.is_double and one.passes == two.passes == 4:
        return 4
    return 2 if one.instruction.target != "gfx90a" and one.passes == 2 else 0


def _matrix_to_other_kind(one: Described, two: Described) -> int:
    """A matrix instruction's result as all of operand C of an instruction of another kind."""
    same = one.name == two.name or one.effects.writes != two.accumulator
    return 0 if same or one.is_double or two.is_double else _overlapping(one, two)


def _overlapping(one: Described, two: Described) -> int:
    count, target = one.passes, one.instruction.target
    if one.is_double:
        longer = 17 if target == "gfx950" else 9
        return 0 if two.is_xdl else 4 if count == 4 else longer
    if target == "gfx90a":
        return count + two.is_double
    if two.is_xdl and not one.is_xdl:
        return 0
    if not one.is_xdl:
        return count
    return count + 1 + (target == "gfx950" and (two.is_xdl or count != 2))


def _matrix_to_other(one: Described, two: Described) -> int:
    """A matrix instruction's result read by VALU, memory or LDS."""
    if not one.is_double:
        return _after_matrix(one)
    if two.is_memory:
        return 9 if one.passes == 4 else 18
    return _matrix_to_factor(one, two)


def _matrix_overwritten(one: Described, two: Described) -> int:
    """A matrix instruction's result overwritten by VALU, memory or LDS."""
    if not one.is_double:
        return _after_matrix(one)
    return 6 if one.passes == 4 else 11


def _matrix_result(one: Described, _: Described | None) -> RegisterSet:
    return one.effects.writes if one.is_matrix else 0


def _late_reads(one: Described) -> RegisterSet:
    """Operand C, which a matrix instruction reads pass by pass (on gfx942 and later only on the XDL pipeline)."""
    return one.accumulator if one.is_xdl else 0


def _factors(one: Described) -> RegisterSet:
    """All operands of a matrix instruction but C, and C itself where it is also a factor."""
    found = 0
    for position, operand in enumerate(one.instruction.sources):
        if position != 2 or one.name.startswith("v_smfmac"):
            found |= registers_of(operand)
    return found


def _is_matrix(one: Described) -> bool:
    return one.is_matrix


def _other(one: Described) -> bool:
    return one.is_vector or one.is_memory


MATRIX_RULES: Final = (
    Rule("result of a dot product, another instruction uses it", TARGETS, 3,
         lambda one, _: one.effects.writes if _DOT(one) else 0,
         lambda one: touches(one) & VECTOR_REGISTERS if one.is_vector or one.is_memory else 0, _dot_states),
    Rule("matrix result, matrix instruction multiplies it", TARGETS, 20, _matrix_result,
         when(_is_matrix, _factors), _matrix_to_factor),
    Rule("matrix result, matrix instruction adds to it", TARGETS, 18, _matrix_result,
         when(_is_matrix, lambda one: one.accumulator), _matrix_to_accumulator),
    Rule("matrix result, another kind of matrix instruction adds to it", GFX940, 18, _matrix_result,
         when(_is_matrix, lambda one: one.accumulator), _matrix_to_other_kind,
         advisory="llvm-project pull request 218363, open: accumulators are forwarded within one kind only"),
    Rule("matrix result, VALU, memory or LDS reads it", TARGETS, 20, _matrix_result,
         when(_other, reads), _matrix_to_other),
    Rule("matrix result, VALU, memory or LDS overwrites it", TARGETS, 20, _matrix_result,
         when(_other, writes), _matrix_overwritten),
    Rule("matrix instruction reads C, VALU, memory or LDS overwrites it", TARGETS, 15, lambda one, _: _late_reads(one),
         when(_other, writes), lambda one, two: one.passes - 1, ends=False),
    Rule("VALU writes VGPR, f64 matrix instruction, memory or LDS reads the VGPR", ("gfx90a",), 1,
         lambda one, before: before.effects.writes & VECTOR_REGISTERS
         if one.is_double and before is not None and before.is_vector else 0,
         when(lambda one: one.is_memory, reads), lambda one, two: 1),
    fixed("VALU writes VGPR, matrix instruction reads it", 2,
          when(lambda one: one.is_vector and not _DOT(one), writes), when(_is_matrix, reads)),
    fixed("f64 matrix instruction, v_fma_f64 or v_fmac_f64", 2,
          lambda one: _ANY_DOUBLE_MATRIX if one.is_double else 0,
          when(named("v_fmac?_f64"), lambda one: _ANY_DOUBLE_MATRIX)),
)  # fmt: skip
