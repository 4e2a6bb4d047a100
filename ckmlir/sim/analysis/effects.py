"""What an instruction does besides computing: registers it reads and writes, LDS it touches, counters it increments.

Operands that the assembly names come from the decoder. This file adds what they leave out: implicit registers, kept
halves of destinations, and the events of memory instructions. Sources: AMD CDNA3 ISA, sections 4.4 (S_WAITCNT and the
counters) and 16 (instructions); LLVM's AMDGPU back end for which events a counter holds.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from typing import Final, NamedTuple

from ckmlir.sim.analysis import registers
from ckmlir.sim.analysis.registers import EXEC, FLAT_SCRATCH, M0, MODE, SCC, VCC, RegisterSet, registers_of
from ckmlir.sim.decode.instruction import Instruction
from ckmlir.sim.decode.reserved import sends_to_lds


class Counter(Enum):
    """The three counters of gfx9; stores have none of their own (vscnt came with gfx10)."""

    VM = "vmcnt"
    LGKM = "lgkmcnt"
    EXP = "expcnt"


class Kind(Enum):
    """What an event of a counter is. A counter returns events of one kind in order, SMEM and FLAT excepted."""

    VMEM = "vector memory access"
    FLAT = "flat access"
    LDS = "LDS access"
    GDS = "GDS access"
    SMEM = "scalar memory access"
    MESSAGE = "message"


OUT_OF_ORDER: Final = frozenset((Kind.SMEM, Kind.FLAT))
"""Scalar loads return in any order; a flat access ends in LDS or in memory, and nobody knows which (section 4.4)."""


class Event(NamedTuple):
    """An increment of a counter when the instruction issues; the counter goes down when the access is complete."""

    counter: Counter
    kind: Kind


class LdsAccess(NamedTuple):
    """An access to LDS. `direct`: of a load from memory that lands in LDS, or of a store of what is in LDS; counted by
    vmcnt and addressed by M0."""

    reads: bool
    writes: bool
    direct: bool


class Category(Enum):
    """The part of the machine that executes an instruction."""

    VALU = "vector ALU"
    MATRIX = "matrix"
    SALU = "scalar ALU"
    SMEM = "scalar memory"
    VMEM = "vector memory"
    LDS = "LDS"
    CONTROL = "control"


class Effects(NamedTuple):
    """What one instruction does.

    Attributes:
        category: Where it executes. Flat accesses are VMEM.
        reads, writes: Registers, as sets of `registers.py`, implicit ones included.
        events: Counters it increments.
        locked: Registers that the hardware still reads after issue, until expcnt says otherwise (GDS only).
        lds: Its access to LDS, if any. A flat access is none: compilers make them for memory and stacks.
        named_reads: Reads that are operands, without exec and other implicit registers.
    """

    category: Category
    reads: RegisterSet
    writes: RegisterSet
    events: tuple[Event, ...]
    locked: RegisterSet
    lds: LdsAccess | None
    named_reads: RegisterSet


_CATEGORIES: Final = {
    "SOP1": Category.SALU, "SOP2": Category.SALU, "SOPC": Category.SALU, "SOPK": Category.SALU,
    "SOPP": Category.CONTROL, "SMEM": Category.SMEM, "MFMA": Category.MATRIX, "DS": Category.LDS,
    "FLAT": Category.VMEM, "GLOBAL": Category.VMEM, "SCRATCH": Category.VMEM, "MUBUF": Category.VMEM,
    "MTBUF": Category.VMEM,
}  # fmt: skip

_IMPLICIT_READS: Final = (
    (r"s_(addc|subb)_u32|s_cselect_b(32|64)|s_c(mov|movk)_[bi](32|64)|s_cbranch_scc[01]", SCC),
    (r"v_div_fmas_.*|s_cbranch_vccn?z", VCC),
    (r"s_.*_(saveexec|wrexec)_b64|s_cbranch_execn?z|s_cbranch_(g|i)_fork|s_wqm_.*_none", EXEC),
    (r"s_movrel[sd]_b(32|64)|s_sendmsg(halt)?|s_ttracedata|ds_gws_.*", M0),
    (r"ds_(read|write)_addtid_b32|ds_(consume|append)|s_set_gpr_idx_(on|idx|mode)", M0),
    (r".*_(load|store)_lds_.*", M0),
    (r"s_getreg_b32", MODE),
)
_SCC_WRITERS: Final = (
    r"s_(add|sub|addc|subb|min|max|absdiff|lshl[1-4]_add)_[ui]32|s_(addk|abs)_i32"
    r"|s_(and|or|xor|andn2|orn2|nand|nor|xnor|not|wqm|quadmask)_b(32|64)|s_(lshl|lshr|ashr|bfe)_[bui](32|64)"
    r"|s_bcnt[01]_i32_b(32|64)|s_.*_(saveexec|wrexec)_b64|s_(cmp|cmpk|bitcmp[01])_.*"
)
_IMPLICIT_WRITES: Final = (
    (_SCC_WRITERS, SCC),
    (r"v_cmpx_.*|s_.*_(saveexec|wrexec)_b64|s_cbranch_(join|(g|i)_fork)", EXEC),
    (r"s_set_gpr_idx_(on|idx|mode)", M0),
    (r"s_setreg(_imm32)?_b32|s_setvskip", MODE),
)
_READS_DESTINATION: Final = re.compile(
    r"v_(pk_)?(fmac|mac)_.*|v_dot[248]c_.*|v_smfmac_.*|v_writelane_b32|v_fma_mix(lo|hi)_f16|.*_d16(_hi)?(_x|_xyz)?"
    r"|v_cvt_(sr|pk)_(fp8|bf8)_f32|v_cvt_sr_b?f16_f32|v_cvt_scalef32_(sr_|pk_|sr_pk_)?(fp8|bf8|fp4)_.*"
    r"|v_cvt_scalef32_f16_(fp8|bf8)|v_cvt_pkaccum_u8_f32|s_(addk|mulk|cmovk)_i32|s_cmov_b(32|64)|s_bitset[01]_b(32|64)|s_movreld_b(32|64)"
)
_EXEC_FREE: Final = re.compile(r"v_readlane_b32|v_writelane_b32|v_nop|v_clrexcp|v_accvgpr_mov.*")
_NO_EVENT: Final = frozenset(("buffer_inv", "buffer_invl2", "buffer_wbinvl1", "buffer_wbinvl1_vol", "ds_nop"))
"""Cache invalidations return nothing and are not counted (LLVM waits for none of them)."""

_LDS_READS: Final = re.compile(r"ds_read.*|ds_.*_rtn_.*|ds_(consume|append)")
_LDS_EXCHANGES: Final = re.compile(r"ds_(b?permute|swizzle)_b32|ds_nop|ds_gws_.*")
"""DS instructions that move data between lanes without touching LDS."""


def _implicit(table: tuple[tuple[str, RegisterSet], ...], mnemonic: str) -> RegisterSet:
    found = 0
    for pattern, registers_ in table:
        if re.fullmatch(pattern, mnemonic):
            found |= registers_
    return found


@cache
def _by_mnemonic(mnemonic: str) -> tuple[RegisterSet, RegisterSet, bool]:
    """Implicit reads, implicit writes, and whether the destination is read: what depends on the name alone."""
    keeps = _READS_DESTINATION.fullmatch(mnemonic) is not None
    return _implicit(_IMPLICIT_READS, mnemonic), _implicit(_IMPLICIT_WRITES, mnemonic), keeps


def category_of(instruction: Instruction) -> Category:
    """Where an instruction executes."""
    if instruction.branch_target is not None or instruction.mnemonic in ("s_setpc_b64", "s_swappc_b64"):
        return Category.CONTROL
    return _CATEGORIES.get(instruction.encoding, Category.VALU)


def effects_of(instruction: Instruction) -> Effects:
    """The effects of a decoded instruction."""
    mnemonic, category = instruction.mnemonic, category_of(instruction)
    named_reads = named_writes = 0
    for operand in instruction.sources:
        named_reads |= registers_of(operand)
    for operand in instruction.destinations:
        named_writes |= registers_of(operand)
    reads, writes, keeps = _by_mnemonic(mnemonic)
    if keeps:
        named_reads |= named_writes
    elif instruction.encoding in ("DPP", "SDWA"):  # lanes or bytes that the form leaves alone are kept; masks have none
        named_reads |= named_writes & registers.VECTOR_REGISTERS
    direct = _direct_access(instruction)
    reads |= _machine_reads(instruction, category, direct is not None)
    events = _events(instruction, category)
    locked = named_reads & registers.VECTOR_REGISTERS if Event(Counter.EXP, Kind.GDS) in events else 0
    lds = direct or _lds_access(instruction)
    return Effects(category, reads | named_reads, writes | named_writes, events, locked, lds, named_reads)


def _direct_access(instruction: Instruction) -> LdsAccess | None:
    """The access to LDS of a load that lands there (by its name, or by the LDS bit where the row has one), or of a
    store from there."""
    if "_store_lds_" in instruction.mnemonic:
        return LdsAccess(True, False, True)
    opcode = instruction.opcode
    has_bit = opcode is not None and sends_to_lds(opcode, instruction.target)
    if (has_bit and instruction.modifiers.get("lds")) or "_load_lds_" in instruction.mnemonic:
        return LdsAccess(False, True, True)
    return None


def _machine_reads(instruction: Instruction, category: Category, direct: bool) -> RegisterSet:
    """Registers that whole classes of instructions read without naming them."""
    reads = M0 if direct else 0
    if category in (Category.VALU, Category.VMEM, Category.LDS) and not _EXEC_FREE.fullmatch(instruction.mnemonic):
        reads |= EXEC
    if instruction.target == "gfx90a" and instruction.encoding in ("FLAT", "SCRATCH"):
        reads |= FLAT_SCRATCH  # later chips keep it in a register of the hardware ("architected flat scratch")
    return reads


def _events(instruction: Instruction, category: Category) -> tuple[Event, ...]:
    """The counters an instruction increments (CDNA3 ISA, table "S_WAITCNT: what it counts")."""
    if instruction.mnemonic in _NO_EVENT:
        return ()
    if category is Category.VMEM:
        if instruction.encoding == "FLAT":
            return Event(Counter.VM, Kind.FLAT), Event(Counter.LGKM, Kind.FLAT)
        return (Event(Counter.VM, Kind.VMEM),)
    if category is Category.LDS:
        if instruction.modifiers.get("gds") or instruction.mnemonic.startswith("ds_gws_"):
            return Event(Counter.LGKM, Kind.GDS), Event(Counter.EXP, Kind.GDS)
        return (Event(Counter.LGKM, Kind.LDS),)
    if category is Category.SMEM:
        return (Event(Counter.LGKM, Kind.SMEM),)
    if instruction.mnemonic in ("s_sendmsg", "s_sendmsghalt"):
        return (Event(Counter.LGKM, Kind.MESSAGE),)
    return ()


def _lds_access(instruction: Instruction) -> LdsAccess | None:
    if instruction.encoding != "DS" or instruction.modifiers.get("gds"):
        return None
    if _LDS_EXCHANGES.fullmatch(instruction.mnemonic):
        return None
    reads = _LDS_READS.fullmatch(instruction.mnemonic) is not None
    return LdsAccess(reads, not instruction.mnemonic.startswith("ds_read"), False)
