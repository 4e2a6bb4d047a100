"""The wait states that software must put between two instructions: one table for the three chips.

A rule says which registers its first instruction leaves in a dangerous state, which of them its second instruction
must not touch yet, and how many wait states have to lie between. Every instruction is one wait state, s_nop n is
n + 1. Sources: AMD CDNA2 and CDNA3 ISA, section 4.5 "Manually Inserted Wait States (NOPs)", CDNA3 ISA section 7.5 and
CDNA4 ISA for matrix instructions; and GCNHazardRecognizer.cpp of LLVM, whose functions the rules name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from ckmlir.sim.analysis import matrix_passes
from ckmlir.sim.analysis.effects import Category, Effects
from ckmlir.sim.analysis.registers import (
    EXEC,
    M0,
    SCALAR_REGISTERS,
    VCC,
    VECTOR_REGISTERS,
    RegisterSet,
    registers_of,
    span,
)
from ckmlir.sim.decode import Instruction

ALL: Final = ("gfx90a", "gfx942", "gfx950")
GFX940: Final = ("gfx942", "gfx950")

# Resources that are no registers, numbered behind them.
_HARDWARE_REGISTERS = 704
_ANY_DOUBLE_MATRIX: Final = span(768, 1)
_VSKIP: Final = span(769, 1)
_TRAP_STATUS: Final = 3


class Described(NamedTuple):
    """An instruction with what rules ask about."""

    instruction: Instruction
    effects: Effects

    @property
    def name(self) -> str:
        """The mnemonic."""
        return self.instruction.mnemonic

    @property
    def is_vector(self) -> bool:
        """A vector ALU instruction other than a matrix instruction."""
        return self.effects.category is Category.VALU

    @property
    def is_matrix(self) -> bool:
        """A matrix instruction."""
        return self.effects.category is Category.MATRIX

    @property
    def is_memory(self) -> bool:
        """An instruction that reads vector registers on its way to memory or LDS."""
        return self.effects.category in (Category.VMEM, Category.LDS)

    @property
    def is_double(self) -> bool:
        """A matrix instruction on f64."""
        return self.is_matrix and matrix_passes.is_double(self.name)

    @property
    def is_xdl(self) -> bool:
        """A matrix instruction on the XDL pipeline."""
        return self.is_matrix and matrix_passes.runs_on_xdl(self.name, self.instruction.target)

    @property
    def passes(self) -> int:
        """Of a matrix instruction."""
        modifiers = self.instruction.modifiers
        fast = modifiers.get("cbsz", 0) > 1 and modifiers.get("blgp", 0) > 1
        return matrix_passes.passes(self.name, self.instruction.target, fast)

    @property
    def accumulator(self) -> RegisterSet:
        """The registers a matrix instruction adds to: operand C, or the destination of v_smfmac."""
        if self.name.startswith("v_smfmac"):
            return self.effects.writes
        return registers_of(self.instruction.sources[2])


Produces = Callable[[Described, "Described | None"], RegisterSet]
Consumes = Callable[[Described], RegisterSet]
States = Callable[[Described, Described], int]


class Rule(NamedTuple):
    """One hazard.

    Attributes:
        name: What it is, for reports.
        chips: Where it applies.
        window: The largest number of wait states it asks for.
        produces: Registers (or other resources) the first instruction leaves behind; its second argument is the
            instruction before it in its block.
        consumes: Those the second instruction must not touch yet.
        states: Wait states between the two.
        ends: Another write of the register ends the danger.
    """

    name: str
    chips: tuple[str, ...]
    window: int
    produces: Produces
    consumes: Consumes
    states: States
    ends: bool = True


RULES: list[Rule] = []


def _rule(
    name: str, states: int, produces: Consumes, consumes: Consumes, chips: tuple[str, ...] = ALL, ends: bool = True
) -> None:
    """A rule with a fixed number of wait states."""
    RULES.append(Rule(name, chips, states, lambda one, _: produces(one), consumes, lambda one, two: states, ends))


def _when(condition: Callable[[Described], bool], registers: Consumes) -> Consumes:
    return lambda one: registers(one) if condition(one) else 0


def _reads(one: Described) -> RegisterSet:
    return one.effects.named_reads


def _writes(one: Described) -> RegisterSet:
    return one.effects.writes


def _touches(one: Described) -> RegisterSet:
    return one.effects.named_reads | one.effects.writes


def _within(registers: RegisterSet, of: Consumes) -> Consumes:
    return lambda one: of(one) & registers


def _vector(one: Described) -> bool:
    return one.is_vector


def _vector_or_matrix(one: Described) -> bool:
    return one.is_vector or one.is_matrix


def _named(pattern: str) -> Callable[[Described], bool]:
    compiled = re.compile(pattern)
    return lambda one: compiled.fullmatch(one.name) is not None


def _form(encoding: str) -> Callable[[Described], bool]:
    return lambda one: one.instruction.encoding == encoding


_vector_writes_scalar = _when(_vector, _within(SCALAR_REGISTERS & ~EXEC, _writes))
_vector_writes_exec = _when(_vector, _within(EXEC, _writes))
_vector_writes_vector = _when(_vector, _within(VECTOR_REGISTERS, _writes))


# -- scalar registers, exec and vcc (CDNA3 ISA, 4.5) -------------------------------------------------------------------


def _lane_select(one: Described) -> RegisterSet:
    return registers_of(one.instruction.sources[1])


def _status_source(one: Described) -> RegisterSet:
    """vcc or exec when vccz or execz is a data source."""
    found = 0
    for operand in one.instruction.sources:
        if operand.kind == "s" and operand.index in (251, 252):
            found |= registers_of(operand)
    return found


_rule(
    "VALU writes SGPR, VMEM reads it", 5, _vector_writes_scalar,
    _when(lambda one: one.effects.category is Category.VMEM,
          lambda one: one.effects.reads & SCALAR_REGISTERS & ~EXEC),
)  # fmt: skip  # LLVM checkVMEMHazards
_rule(
    "VALU writes SGPR, v_readlane or v_writelane selects a lane with it", 4, _vector_writes_scalar,
    _when(_named("v_(read|write)lane_b32"), _lane_select),
)  # fmt: skip  # LLVM checkRWLaneHazards
_rule(
    "VALU writes vcc, v_div_fmas reads it", 4, _when(_vector, _within(VCC, _writes)),
    _when(_named("v_div_fmas_f(32|64)"), lambda one: VCC),
)  # fmt: skip  # LLVM checkDivFMasHazards
_rule("VALU writes exec, DPP instruction", 5, _vector_writes_exec, _when(_form("DPP"), lambda one: EXEC))
_rule("VALU writes exec, matrix instruction", 4, _vector_writes_exec, _when(lambda one: one.is_matrix, lambda one: EXEC))
_rule("VALU writes vcc or exec, VALU reads vccz or execz", 5, _when(_vector, _within(VCC | EXEC, _writes)),
      _when(_vector, _status_source))  # fmt: skip
_rule(
    "VALU writes SGPR or vcc, VALU reads it", 2, _vector_writes_scalar,
    _when(_vector, lambda one: one.effects.reads & SCALAR_REGISTERS & ~EXEC), GFX940,
)  # fmt: skip  # LLVM checkVALUHazards, hasVDecCoExecHazard
_rule(
    "VALU writes exec, v_readlane, v_readfirstlane or v_writelane", 4, _vector_writes_exec,
    _when(_named("v_readlane_b32|v_readfirstlane_b32|v_writelane_b32"), lambda one: EXEC), GFX940,
)  # fmt: skip
_rule("v_cmpx writes exec, v_permlane swap", 4, _vector_writes_exec,
      _when(_named("v_permlane.*"), lambda one: EXEC), ("gfx950",))  # fmt: skip  # LLVM checkPermlaneHazards


# -- vector registers --------------------------------------------------------------------------------------------------

_TRANSCENDENTAL = _named("v_(exp|log|rcp|rsq|sqrt|sin|cos)(_iflag|_legacy)?_f(16|32|64)")


def _explicit_sources(one: Described) -> RegisterSet:
    found = 0
    for operand in one.instruction.sources:
        found |= registers_of(operand)
    return found


def _shifted_result(one: Described) -> RegisterSet:
    """The destination of an instruction that moves its result to another part of the register."""
    modifiers, encoding = one.instruction.modifiers, one.instruction.encoding
    opcode = one.instruction.opcode
    has_op_sel = encoding == "VOP3" and opcode is not None and bool(opcode.flags & {"op_sel", "op_sel4"})
    op_sel = modifiers.get("op_sel", 0) if has_op_sel else 0  # its bits are another field's in other instructions
    moved = (
        (encoding == "SDWA" and modifiers.get("dst_sel", 6) != 6)
        or op_sel & 8
        or (op_sel & 12 and re.fullmatch(r"v_cvt_(scalef32_)?sr_(fp8|bf8)_\w+", one.name))
        or re.fullmatch(r"v_cvt_scalef32_(sr_)?pk_fp4_\w+", one.name)
    )
    return one.effects.writes & VECTOR_REGISTERS if moved else 0


def _wide_store_data(one: Described) -> RegisterSet:
    """Data registers of a store of more than 64 bits, which it reads a little later. Buffer stores with an SGPR offset
    take a cycle longer to issue and are free of it."""
    if one.effects.category is not Category.VMEM or "load" in one.name:
        return 0
    data = max(one.instruction.sources, key=lambda operand: operand.count if operand.kind in "va" else 0)
    if data.kind not in "va" or data.count <= 2 or not data.count:
        return 0
    if one.instruction.encoding in ("MUBUF", "MTBUF") and one.instruction.sources[-1].kind == "s":
        return 0
    return registers_of(data)


_rule("a write of a VGPR, DPP instruction reads it", 2, lambda one: one.effects.writes & VECTOR_REGISTERS,
      _when(_form("DPP"), _within(VECTOR_REGISTERS, _explicit_sources)))  # fmt: skip  # LLVM checkDPPHazards
_rule("transcendental result, another VALU instruction reads it", 1, _when(_TRANSCENDENTAL, _writes),
      _when(lambda one: _vector_or_matrix(one) and not _TRANSCENDENTAL(one), _explicit_sources), GFX940)  # fmt: skip
_rule("result moved by SDWA or OP_SEL, VALU uses its register", 1, _when(_vector, _shifted_result),
      _when(_vector_or_matrix, _touches), GFX940)  # fmt: skip  # LLVM hasDstSelForwardingHazard
_rule("VALU writes VGPR, v_readlane or v_readfirstlane reads it", 1, _vector_writes_vector,
      _when(_named("v_readlane_b32|v_readfirstlane_b32"), _explicit_sources), GFX940)  # fmt: skip
_rule("VALU writes VGPR, v_permlane swap reads it", 2, _vector_writes_vector,
      _when(_named("v_permlane.*"), _explicit_sources), ("gfx950",))  # fmt: skip
_rule("store of more than 64 bits, VALU overwrites its data", 1, _wide_store_data,
      _when(_vector_or_matrix, _writes), ("gfx90a",), ends=False)  # fmt: skip  # LLVM checkVALUHazardsHelper
_rule("store of more than 64 bits, VALU overwrites its data", 2, _wide_store_data,
      _when(_vector_or_matrix, _writes), GFX940, ends=False)  # fmt: skip


# -- dot products (LLVM checkMAIVALUHazards) ---------------------------------------------------------------------------

_DOT = _named("v_dot.*")


def _dot_states(one: Described, two: Described) -> int:
    """The same dot product may add to the result at once; reading it as a factor, or by anything else, has to wait."""
    if one.name != two.name:
        return 3
    factors = two.instruction.sources[:2]
    return 3 if any(registers_of(operand) & one.effects.writes for operand in factors) else 0


RULES.append(
    Rule("result of a dot product, another instruction uses it", ALL, 3,
         lambda one, _: one.effects.writes if _DOT(one) else 0,
         lambda one: _touches(one) & VECTOR_REGISTERS if one.is_vector or one.is_memory else 0, _dot_states)
)  # fmt: skip


# -- matrix instructions (LLVM checkMAIHazards90A and checkMAIVALUHazards) ---------------------------------------------


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
    count, target = one.passes, one.instruction.target
    if target == "gfx90a" and one.is_double and not two.is_double:
        return 0
    if one.effects.writes == two.accumulator:
        if one.is_double and two.is_double and one.passes == two.passes == 4:
            return 4
        return 2 if target != "gfx90a" and count == 2 else 0
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


RULES += [
    Rule("matrix result, matrix instruction multiplies it", ALL, 20, _matrix_result,
         _when(_is_matrix, _factors), _matrix_to_factor),
    Rule("matrix result, matrix instruction adds to it", ALL, 18, _matrix_result,
         _when(_is_matrix, lambda one: one.accumulator), _matrix_to_accumulator),
    Rule("matrix result, VALU, memory or LDS reads it", ALL, 20, _matrix_result,
         _when(_other, _reads), _matrix_to_other),
    Rule("matrix result, VALU, memory or LDS overwrites it", ALL, 20, _matrix_result,
         _when(_other, _writes), _matrix_overwritten),
    Rule("matrix instruction reads C, VALU, memory or LDS overwrites it", ALL, 15, lambda one, _: _late_reads(one),
         _when(_other, _writes), lambda one, two: one.passes - 1, ends=False),
    Rule("VALU writes VGPR, f64 matrix instruction, memory or LDS reads the VGPR", ("gfx90a",), 1,
         lambda one, before: before.effects.writes & VECTOR_REGISTERS
         if one.is_double and before is not None and before.is_vector else 0,
         _when(lambda one: one.is_memory, _reads), lambda one, two: 1),
]  # fmt: skip
_rule("VALU writes VGPR, matrix instruction reads it", 2, _when(lambda one: one.is_vector and not _DOT(one), _writes),
      _when(_is_matrix, lambda one: one.effects.named_reads))  # fmt: skip
_rule("f64 matrix instruction, v_fma_f64 or v_fmac_f64", 2, lambda one: _ANY_DOUBLE_MATRIX if one.is_double else 0,
      _when(_named("v_fmac?_f64"), lambda one: _ANY_DOUBLE_MATRIX))  # fmt: skip


# -- hardware registers and m0 -----------------------------------------------------------------------------------------


def _hardware_register(one: Described) -> RegisterSet:
    number = one.instruction.modifiers["hwreg"]
    return span(_HARDWARE_REGISTERS + number, 1)


def _sets_vskip(one: Described) -> RegisterSet:
    modifiers = one.instruction.modifiers
    last = modifiers["hwreg_offset"] + modifiers["hwreg_size"]
    return _VSKIP if modifiers["hwreg"] == 1 and modifiers["hwreg_offset"] <= 28 < last else 0


_SET_REGISTER = _named("s_setreg(_imm32)?_b32")
_USES_M0 = _named("s_movrel[sd]_b(32|64)|s_sendmsg(halt)?|s_ttracedata|ds_(read|write)_addtid_b32|ds_gws_.*")


def _m0_user(one: Described) -> bool:
    direct = one.effects.lds is not None and one.effects.lds.direct
    lds_operand = any(operand.kind == "s" and operand.index == 254 for operand in one.instruction.sources)
    return _USES_M0(one) or direct or lds_operand or bool(one.instruction.modifiers.get("gds"))


_rule("s_setreg, s_getreg or s_setreg of the same register", 2, _when(_SET_REGISTER, _hardware_register),
      _when(lambda one: _SET_REGISTER(one) or one.name == "s_getreg_b32", _hardware_register))  # fmt: skip
_rule("s_setreg of MODE.VSKIP, vector instruction", 2, _when(_SET_REGISTER, _sets_vskip),
      _when(lambda one: _vector_or_matrix(one) or one.is_memory, lambda one: _VSKIP))  # fmt: skip
_rule("s_setreg of TRAPSTS, s_rfe", 1, _when(_SET_REGISTER, _hardware_register),
      _when(_named("s_rfe(_restore)?_b64"), lambda one: span(_HARDWARE_REGISTERS + _TRAP_STATUS, 1)))  # fmt: skip
_rule("SALU writes m0, LDS copy, GDS, message or indexed move uses it", 1,
      _when(lambda one: one.effects.category is Category.SALU, _within(M0, _writes)),
      _when(_m0_user, lambda one: M0))  # fmt: skip  # LLVM checkReadM0Hazards


@lru_cache(maxsize=None)
def rules_of(target: str) -> tuple[Rule, ...]:
    """The rules of a chip."""
    return tuple(rule for rule in RULES if target in rule.chips)


def wait_states(instruction: Instruction) -> int:
    """How many wait states an instruction is for those around it."""
    return (instruction.modifiers["simm16"] & 15) + 1 if instruction.mnemonic == "s_nop" else 1
