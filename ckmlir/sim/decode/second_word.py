"""Plans of the forms of VOP1, VOP2 and VOPC whose second word is an SDWA or a DPP word.

The formats are SDWA, SDWAB (for VOPC) and DPP of AMD's CDNA3 ISA document, checked against LLVM's disassembler.
"""

from typing import Final

from ckmlir.sim.decode.encodings import ENCODINGS, Modifier, vgpr_entries
from ckmlir.sim.decode.opcodes import Opcode, OperandField
from ckmlir.sim.decode.operands import VCC, scalar_registers, without_literal
from ckmlir.sim.decode.plans import InputModifier, Lookup, Plan, every_bit, field_lookup, fixed, modifier_lookup
from ckmlir.sim.decode.reserved import is_float

SDWA_MARKER, DPP_MARKER = 0xF9, 0xFA
"""Values of SRC0 that say the second word is an SDWA or a DPP word."""

SDWA_MODE: Final = 1 << 55 | 1 << 63 | 1 << 47
"""Bits of an SDWA form that select its plan: S0, S1 (the source is a scalar) and SD (the destination is)."""

SDWA_RESERVED: Final = {"dst_sel": 7, "src0_sel": 7, "src1_sel": 7, "dst_unused": 3}
"""Values of SDWA fields that mean nothing."""

_SDWA_RESULT: Final = (
    Modifier("dst_sel", 40, 3),
    Modifier("dst_unused", 43, 2),
    Modifier("clamp", 45, 1),
    Modifier("omod", 46, 2),
)
_SDWA_SELECTIONS: Final = (Modifier("src0_sel", 48, 3), Modifier("src1_sel", 56, 3))
_SDWA_SOURCES: Final = ((32, 55, 51), (9, 63, 59))
"""For each source: the field's shift, the bit that makes it a scalar, the first of SEXT, NEG and ABS."""

_DPP_MODIFIERS: Final = (
    Modifier("dpp_ctrl", 40, 9),
    Modifier("bound_ctrl", 51, 1),
    Modifier("bank_mask", 56, 4),
    Modifier("row_mask", 60, 4),
)
_DPP_INPUTS: Final = 0b1111 << 52
_ROW_NEWBCAST: Final = frozenset(range(0x150, 0x160))
_DPP_CONTROLS: Final = _ROW_NEWBCAST.union(
    range(0x100),  # quad_perm
    range(0x101, 0x110),  # row_shl
    range(0x111, 0x120),  # row_shr
    range(0x121, 0x130),  # row_ror
    range(0x130, 0x140, 4),  # wave_shl, wave_rol, wave_shr, wave_ror
    range(0x140, 0x144),  # row_mirror, row_half_mirror, row_bcast
)


def dpp_controls(row: Opcode) -> frozenset[int]:
    """The DPP_CTRL numbers a row can have; with 64-bit operands only row_newbcast."""
    named = [operand for operand in row.destinations + row.sources if operand.field != "vcc"]
    return _ROW_NEWBCAST if any(operand.type.endswith("64") for operand in named) else _DPP_CONTROLS


def make_sdwa_plan(row: Opcode, word: int) -> Plan:
    """The plan of a row's SDWA form, for a word's SDWA_MODE bits."""
    read = [operand for operand in row.sources if operand.field != "vcc"]
    sources: list[Lookup] = []
    inputs: list[InputModifier] = []
    reserved = 0
    for position, operand in enumerate(read):
        shift, scalar_bit, base = _SDWA_SOURCES[position]
        is_scalar = word >> scalar_bit & 1
        entries = without_literal(operand.type)[:256] if is_scalar else vgpr_entries(operand.type)
        sources.append((shift, 0xFF, entries, operand.type))
        sext, negate, absolute = 1 << base, 1 << base + 1, 1 << base + 2
        if is_float(operand):
            inputs.append(InputModifier(position, negate, absolute, 0))
            reserved |= sext
        else:
            inputs.append(InputModifier(position, 0, 0, sext))
            reserved |= negate | absolute
    is_compare = row.encoding == "VOPC"
    if not is_compare and "omod" not in row.flags:
        reserved |= 0b11 << 46
    if row.encoding == "VOP1":
        reserved |= 0xFF << 56
    destinations = [_destination(row, operand) for operand in row.destinations]
    if is_compare and word >> 47 & 1:
        destinations = [(40, 0x7F, scalar_registers(2), "b64")]
    modifiers = (() if is_compare else _SDWA_RESULT) + _SDWA_SELECTIONS[: len(read)]
    return _plan(row, "SDWA", destinations, sources, modifiers, inputs, reserved)


def make_dpp_plan(row: Opcode) -> Plan:
    """The plan of a row's DPP form."""
    read = [operand for operand in row.sources if operand.field != "vcc"]
    sources: list[Lookup] = []
    inputs: list[InputModifier] = []
    for position, operand in enumerate(read):
        sources.append(((32, 9)[position], 0xFF, vgpr_entries(operand.type), operand.type))
        if is_float(operand):
            inputs.append(InputModifier(position, 1 << 52 + 2 * position, 1 << 53 + 2 * position, 0))
    destinations = [_destination(row, operand) for operand in row.destinations]
    reserved = _DPP_INPUTS & ~every_bit(tuple(inputs))
    return _plan(row, "DPP", destinations, sources, _DPP_MODIFIERS, inputs, reserved)


def _destination(row: Opcode, operand: OperandField) -> Lookup:
    return fixed(VCC) if operand.field == "vcc" else field_lookup(ENCODINGS[row.encoding], operand)


def _plan(
    row: Opcode,
    form: str,
    destinations: list[Lookup],
    sources: list[Lookup],
    modifiers: tuple[Modifier, ...],
    inputs: list[InputModifier],
    reserved: int,
) -> Plan:
    carry = [fixed(VCC) for operand in row.sources if operand.field == "vcc"]
    return Plan(
        row._replace(suffix=f"_{form.lower()}"),
        form,
        2,
        tuple(destinations),
        tuple(sources + carry),
        tuple(modifier_lookup(modifier) for modifier in modifiers),
        tuple(inputs),
        every_bit(tuple(inputs)),
        reserved,
        (),
    )
