"""The wait states that software must put between two instructions: one table for the three chips.

A rule says which registers its first instruction leaves in a dangerous state, which of them its second instruction
must not touch yet, and how many wait states have to lie between. Every instruction is one wait state, s_nop n is
n + 1. Rules of matrix instructions are in `matrix_hazards.py`. Sources: AMD CDNA2 and CDNA3 ISA, section 4.5 "Manually
Inserted Wait States (NOPs)"; LLVM's GCNHazardRecognizer.cpp, whose functions the rules name.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from ckmlir.sim.analysis.effects import Category
from ckmlir.sim.analysis.hazard_rule import (
    GFX940,
    TRANSCENDENTAL,
    Described,
    Rule,
    fixed,
    form,
    is_vector,
    is_vector_or_matrix,
    named,
    sources,
    touches,
    when,
    within,
    writes,
)
from ckmlir.sim.analysis.matrix_hazards import MATRIX_RULES
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

_HARDWARE_REGISTERS: Final = 704
_VSKIP: Final = span(769, 1)
"""Resources other than registers, numbered behind them."""
_TRAP_STATUS: Final = 3

_vector_writes_scalar = when(is_vector, within(SCALAR_REGISTERS & ~EXEC, writes))
_vector_writes_exec = when(is_vector, within(EXEC, writes))
_vector_writes_vector = when(is_vector, within(VECTOR_REGISTERS, writes))


# -- scalar registers, exec and vcc -----------------------------------------------------------------------------------


def _lane_select(one: Described) -> RegisterSet:
    return registers_of(one.instruction.sources[1])


def _scalar_reads(one: Described) -> RegisterSet:
    return one.effects.reads & SCALAR_REGISTERS & ~EXEC  # exec as the mask of lanes is interlocked


def _status_source(one: Described) -> RegisterSet:
    """vcc or exec when vccz or execz is a data source."""
    found = 0
    for operand in one.instruction.sources:
        if operand.kind == "s" and operand.index in (251, 252):
            found |= registers_of(operand)
    return found


_TAKES_MASK = named("v_(addc|subb|subbrev)_co_u32|v_cndmask_b32")

_SCALAR_RULES: Final = (
    # LLVM checkVMEMHazards
    fixed("VALU writes SGPR, VMEM reads it", 5, _vector_writes_scalar,
          when(lambda one: one.effects.category is Category.VMEM, _scalar_reads)),
    # LLVM checkRWLaneHazards
    fixed("VALU writes SGPR, v_readlane or v_writelane selects a lane with it", 4, _vector_writes_scalar,
          when(named("v_(read|write)lane_b32"), _lane_select)),
    # LLVM checkDivFMasHazards
    fixed("VALU writes vcc, v_div_fmas reads it", 4, when(is_vector, within(VCC, writes)),
          when(named("v_div_fmas_f(32|64)"), lambda one: VCC)),
    # LLVM checkDPPHazards
    fixed("VALU writes exec, DPP instruction", 5, _vector_writes_exec, when(form("DPP"), lambda one: EXEC)),
    # LLVM checkMAIHazards90A
    fixed("VALU writes exec, matrix instruction", 4, _vector_writes_exec,
          when(lambda one: one.is_matrix, lambda one: EXEC)),
    fixed("VALU writes vcc or exec, VALU reads vccz or execz", 5, when(is_vector, within(VCC | EXEC, writes)),
          when(is_vector, _status_source)),
    # LLVM checkVALUHazards, hasVDecCoExecHazard
    fixed("VALU writes SGPR or vcc, VALU reads it", 2, _vector_writes_scalar,
          when(lambda one: is_vector(one) and not _TAKES_MASK(one), _scalar_reads), GFX940),
    fixed("VALU writes SGPR or vcc, VALU reads it as carry or mask", 2, _vector_writes_scalar,
          when(lambda one: is_vector(one) and _TAKES_MASK(one), _scalar_reads), GFX940,
          advisory="AMD's own assembly for these chips reads carries and masks at once"),
    fixed("VALU writes exec, v_readlane, v_readfirstlane or v_writelane", 4, _vector_writes_exec,
          when(named("v_readlane_b32|v_readfirstlane_b32|v_writelane_b32"), lambda one: EXEC), GFX940),
    # LLVM checkPermlaneHazards
    fixed("v_cmpx writes exec, v_permlane swap", 4, _vector_writes_exec,
          when(named("v_permlane.*"), lambda one: EXEC), ("gfx950",)),
)  # fmt: skip
# -- vector registers --------------------------------------------------------------------------------------------------

_TRANSCENDENTAL = named(TRANSCENDENTAL)


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


def _has_scalar_offset(one: Described) -> bool:
    """Whether a buffer access has its scalar offset in a register."""
    is_buffer = one.instruction.encoding in ("MUBUF", "MTBUF")
    return is_buffer and any(operand.kind == "s" for operand in one.instruction.sources[-1:])


def _wide_store_data(one: Described) -> RegisterSet:
    """Data registers of a store of more than 64 bits, which it reads a little later."""
    if one.effects.category is not Category.VMEM or "load" in one.name:
        return 0
    found = 0
    for operand in one.instruction.sources:
        found |= registers_of(operand) if operand.kind in "va" and operand.count > 2 else 0
    return found


def _first_source(one: Described) -> RegisterSet:
    """What DPP moves between lanes; the other operands are read as ever."""
    return registers_of(one.instruction.sources[0])


_VECTOR_RULES: Final = (
    # LLVM checkDPPHazards
    fixed("a write of a VGPR, DPP instruction reads it", 2, within(VECTOR_REGISTERS, writes),
          when(form("DPP"), within(VECTOR_REGISTERS, _first_source))),
    # LLVM checkVALUHazards: hasTransForwardingHazard, hasDstSelForwardingHazard, hasVDecCoExecHazard
    fixed("transcendental result, another VALU instruction reads it", 1, when(_TRANSCENDENTAL, writes),
          when(lambda one: is_vector_or_matrix(one) and not _TRANSCENDENTAL(one), sources), GFX940),
    fixed("result moved by SDWA or OP_SEL, VALU uses its register", 1, when(is_vector, _shifted_result),
          when(is_vector_or_matrix, touches), GFX940),
    fixed("VALU writes VGPR, v_readlane or v_readfirstlane reads it", 1, _vector_writes_vector,
          when(named("v_readlane_b32|v_readfirstlane_b32"), sources), GFX940),
    # LLVM checkPermlaneHazards
    fixed("VALU writes VGPR, v_permlane swap reads it", 2, _vector_writes_vector,
          when(named("v_permlane.*"), sources), ("gfx950",)),
    # LLVM checkVALUHazardsHelper
    # Buffer stores with an SGPR offset take a cycle longer to issue.
    fixed("store of more than 64 bits, VALU overwrites its data", 1,
          when(lambda one: not _has_scalar_offset(one), _wide_store_data),
          when(is_vector_or_matrix, writes), ("gfx90a",), ends=False),
    fixed("store of more than 64 bits, VALU overwrites its data", 2,
          when(lambda one: not _has_scalar_offset(one), _wide_store_data),
          when(is_vector_or_matrix, writes), GFX940, ends=False),
    # llvm-project pull request 197267, seen on a gfx950
    fixed("store of more than 64 bits with an SGPR offset, VALU overwrites its data", 1,
          when(_has_scalar_offset, _wide_store_data), when(is_vector_or_matrix, writes), GFX940, ends=False),
)  # fmt: skip
# -- hardware registers and m0 -----------------------------------------------------------------------------------------


def _hardware_register(one: Described) -> RegisterSet:
    number = one.instruction.modifiers["hwreg"]
    return span(_HARDWARE_REGISTERS + number, 1)


def _sets_vskip(one: Described) -> RegisterSet:
    modifiers = one.instruction.modifiers
    last = modifiers["hwreg_offset"] + modifiers["hwreg_size"]
    return _VSKIP if modifiers["hwreg"] == 1 and modifiers["hwreg_offset"] <= 28 < last else 0


_SET_REGISTER = named("s_setreg(_imm32)?_b32")
_USES_M0 = named("s_movrel[sd]_b(32|64)|s_sendmsg(halt)?|s_ttracedata|ds_(read|write)_addtid_b32|ds_gws_.*")


def _copies_to_lds(one: Described) -> bool:
    return one.effects.lds is not None and one.effects.lds.direct


def _m0_user(one: Described) -> bool:
    lds_operand = any(operand.kind == "s" and operand.index == 254 for operand in one.instruction.sources)
    return _USES_M0(one) or lds_operand or bool(one.instruction.modifiers.get("gds"))


def _scalar_writes_m0(one: Described) -> RegisterSet:
    return one.effects.writes & M0 if one.effects.category is Category.SALU else 0


_STATUS_RULES: Final = (
    # LLVM checkGetRegHazards, checkSetRegHazards, checkRFEHazards
    fixed("s_setreg, s_getreg or s_setreg of the same register", 2, when(_SET_REGISTER, _hardware_register),
          when(lambda one: _SET_REGISTER(one) or one.name == "s_getreg_b32", _hardware_register)),
    fixed("s_setreg of MODE.VSKIP, vector instruction", 2, when(_SET_REGISTER, _sets_vskip),
          when(lambda one: is_vector_or_matrix(one) or one.is_memory, lambda one: _VSKIP)),
    fixed("s_setreg of TRAPSTS, s_rfe", 1, when(_SET_REGISTER, _hardware_register),
          when(named("s_rfe(_restore)?_b64"), lambda one: span(_HARDWARE_REGISTERS + _TRAP_STATUS, 1))),
    # LLVM checkReadM0Hazards
    fixed("SALU writes m0, GDS, message or indexed move uses it", 1, _scalar_writes_m0,
          when(_m0_user, lambda one: M0)),
    fixed("SALU writes m0, copy to LDS uses it", 1, _scalar_writes_m0, when(_copies_to_lds, lambda one: M0),
          advisory="AMD's own assembly writes m0 right before such copies"),
)  # fmt: skip

RULES: Final = (*_SCALAR_RULES, *_VECTOR_RULES, *MATRIX_RULES, *_STATUS_RULES)
"""All rules."""


@cache
def rules_of(target: str) -> tuple[Rule, ...]:
    """The rules of a chip."""
    return tuple(rule for rule in RULES if target in rule.chips)


def wait_states(instruction: Instruction) -> int:
    """How many wait states an instruction is for those around it."""
    return (instruction.modifiers["simm16"] & 15) + 1 if instruction.mnemonic == "s_nop" else 1
