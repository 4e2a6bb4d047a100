"""Vector registers chosen at run time: VGPR indexing.

AMD CDNA4 ISA, section 6.6. While MODE.GPR_IDX_EN is set, M0[7:0] is added to the numbers of the vector
registers that vector ALU instructions name, for the operands that M0[15:12] names (sources 0 to 2, destination). LLVM
uses it for arrays in registers.

Only kernels that contain an instruction which turns indexing on get handlers that look at it (key modifier "indexed").
An index past the registers of the wave reads v0 and writes nothing, as the ISA documents of earlier chips define it;
compilers rely on it for reads whose result they discard.
"""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.builder import Value
from ckmlir.sim.element import U32
from ckmlir.sim.handler import HandlerBuilder

NOT_INDEXED = -1
DESTINATION = 3
"""The operand's bit in M0[15:12]; sources are 0 to 2."""

GPR_INDEX_ENABLE = 27  # bit of MODE
TURNS_INDEXING_ON = "s_set_gpr_idx_on"
_FIRST_ACCUMULATION = state.VGPR + 256 * state.VGPR_BYTES


def _indexed(b: HandlerBuilder, slot: str, role: int, registers: int) -> tuple[str, str]:
    """The byte offset of the first of `registers` registers after indexing, and whether all of them exist (an i1)."""
    m0 = b.load_scalar(state.M0, U32)
    enabled = b.assign(f"lshr i32 {b.load_scalar(state.MODE, U32)}, {GPR_INDEX_ENABLE}")
    wanted = b.assign(f"and i32 {enabled}, {b.assign(f'lshr i32 {m0}, {12 + role}')}")
    applies = b.assign(f"trunc i32 {wanted} to i1")
    index = b.assign(f"zext i32 {b.assign(f'and i32 {m0}, 255')} to i64")
    moved = b.assign(f"add i64 {slot}, {b.assign(f'mul i64 {index}, {state.VGPR_BYTES}')}")
    accumulation = b.assign(f"icmp uge i64 {slot}, {_FIRST_ACCUMULATION}")
    first = b.assign(f"select i1 {accumulation}, i64 {_FIRST_ACCUMULATION}, i64 {state.VGPR}")
    used = b.assign(
        f"select i1 {accumulation}, i64 {b.context_field(state.USED_AGPR_BYTES)}, "
        f"i64 {b.context_field(state.USED_VGPR_BYTES)}"
    )
    end = b.assign(f"add i64 {first}, {used}")
    fits = b.assign(f"icmp ule i64 {b.assign(f'add i64 {moved}, {registers * state.VGPR_BYTES}')}, {end}")
    exists = b.assign(f"or i1 {fits}, {b.assign(f'xor i1 {applies}, true')}")
    return b.assign(f"select i1 {applies}, i64 {moved}, i64 {slot}"), exists


def source_register(b: HandlerBuilder, index: int, role: int, registers: int) -> str:
    """The byte offset of a vector source in slot `index`."""
    slot = b.slot(index)
    if role == NOT_INDEXED or not b.key.modifier("indexed"):
        return slot
    offset, exists = _indexed(b, slot, role, registers)
    return b.assign(f"select i1 {exists}, i64 {offset}, i64 {state.VGPR}")


def destination_register(b: HandlerBuilder, index: int, registers: int, mask: Value) -> tuple[str, Value]:
    """The byte offset of a vector destination in slot `index`, and the lanes of `mask` that may be written."""
    slot = b.slot(index)
    if not b.key.modifier("indexed"):
        return slot, mask
    offset, exists = _indexed(b, slot, DESTINATION, registers)
    place = b.assign(f"select i1 {exists}, i64 {offset}, i64 {slot}")
    return place, mask & b.mask_of_bits(b.assign(f"sext i1 {exists} to i64"))
