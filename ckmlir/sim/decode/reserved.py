"""Bits of an instruction that have to be zero.

LLVM's disassembler refuses them, and so does this decoder: a word that has them set is more likely data, or has a field
that the tables do not know, than code. Source: what llvm-mc accepts for each opcode.
"""

from typing import Final

from ckmlir.sim.decode.encodings import ENCODINGS
from ckmlir.sim.decode.opcodes import Opcode, OperandField
from ckmlir.sim.decode.operands import operand_type

CONSTANT_FIELDS: Final = ("simm16", "literal")
"""Fields of the table that name no register field."""

_ABS, _NEG, _OP_SEL, _CLAMP, _OMOD = 0b111 << 8, 0b111 << 61, 0b1111 << 11, 1 << 15, 0b11 << 59
_FIELDS_MUST_BE_USED: Final = frozenset(("SOP2", "SOPC", "SOPK", "VOP1", "VOP2", "VOPC", "DS"))
"""Encodings whose register fields are zero when the row does not name them."""
_GDS, _ACC_OF_DS = 1 << 16, 1 << 25
_SC1 = {"MUBUF": 1 << 15, "FLAT": 1 << 25, "GLOBAL": 1 << 25}
_SOFFSET_IMMEDIATE, ACC, _LDS_OF_BUFFER, _LDS_OF_FLAT, _FLAT_OFFSET_SIGN = 1 << 17, 1 << 55, 1 << 16, 1 << 13, 1 << 12


def is_float(operand: OperandField) -> bool:
    """Whether a source can be negated and made absolute."""
    return operand.field not in ("vcc", *CONSTANT_FIELDS) and operand_type(operand.type).is_float


def sends_to_lds(row: Opcode, target: str) -> bool:
    """Whether a row has the LDS bit; global and scratch loads have it on gfx90a only (later chips: own opcodes)."""
    return "lds" in row.flags and (row.encoding == "MUBUF" or target == "gfx90a")


def reserved_bits(row: Opcode, target: str) -> int:
    """The bits of a word of this row that have to be zero."""
    if target == "gfx90a" and "returns" in row.flags and row.mnemonic.endswith(("_f16", "_f32", "_f64")):
        return _SC1[row.encoding] | _reserved_of_encoding(row, target)
    return _reserved_of_encoding(row, target)


def _reserved_of_encoding(row: Opcode, target: str) -> int:
    if row.encoding in _FIELDS_MUST_BE_USED:
        no_operands = 0xFFFF | _GDS | _ACC_OF_DS if row.mnemonic == "ds_nop" else 0
        return _unused_fields(row) | no_operands
    if row.encoding in ("VOP3", "VOP3P", "MFMA"):
        return {"VOP3": _vop3, "VOP3P": _packed, "MFMA": _matrix}[row.encoding](row)
    if row.encoding == "SOPP":
        return 0 if row.sources else 0xFFFF
    if row.encoding == "SMEM":
        return 0 if any(operand.field == "soffset" for operand in row.sources) else _SOFFSET_IMMEDIATE
    if row.encoding == "MUBUF":
        no_registers = 0 if any(operand.field == "vaddr" for operand in row.sources) else 0b11 << 12 | ACC
        return no_registers | (0 if sends_to_lds(row, target) or "from_lds" in row.flags else _LDS_OF_BUFFER)
    if row.encoding == "FLAT":
        return _FLAT_OFFSET_SIGN | _LDS_OF_FLAT | 0x7F << 48
    uses_bit_13 = sends_to_lds(row, target) or (row.encoding == "SCRATCH" and target != "gfx90a")
    has_data = any(operand.field in ("data", "vdst") for operand in row.sources + row.destinations)
    if row.encoding in ("GLOBAL", "SCRATCH"):
        return (0 if uses_bit_13 else _LDS_OF_FLAT) | (0 if has_data else ACC)
    return 0


def _unused_fields(row: Opcode) -> int:
    fields = ENCODINGS[row.encoding].fields
    names = {operand.field for operand in row.sources + row.destinations}
    bits = {name: (1 << field.width) - 1 << field.shift for name, field in fields.items()}
    used = 0
    for name in names & bits.keys():
        used |= bits[name]
    every = 0
    for mask in bits.values():
        every |= mask
    return every & ~used


def _vop3(row: Opcode) -> int:
    if row.mnemonic.startswith("v_bitop3"):  # its truth table is in the bits of NEG, ABS and OMOD
        return _CLAMP | (0 if "op_sel" in row.flags else _OP_SEL)
    has_scalar_destination = any(operand.field == "sdst" for operand in row.destinations)
    read = [operand for operand in row.sources if operand.field not in CONSTANT_FIELDS]
    reserved = _NEG | (0 if has_scalar_destination else _ABS)
    if not row.sources and not row.destinations:
        return reserved | _CLAMP | _OMOD | 0xFF
    for position, operand in enumerate(read):
        if is_float(operand):
            reserved &= ~(1 << 61 + position | 1 << 8 + position)
    if "clamp" not in row.flags:
        reserved |= _CLAMP
    if "omod" not in row.flags:
        reserved |= _OMOD
    if ("op_sel" in row.flags and len(read) < 3) or row.mnemonic == "v_cvt_pk_bf16_f32":
        reserved |= 1 << 13
    return reserved


def _packed(row: Opcode) -> int:
    reserved = 0 if "op_sel" in row.flags else 0b111 << 11
    if "plain" in row.flags:
        return reserved | _NEG | _ABS
    return reserved | (1 << 63 | 1 << 13 | 1 << 10 if len(row.sources) == 2 else 0)


def _matrix(row: Opcode) -> int:
    if row.mnemonic.startswith("v_smfmac"):
        return _NEG
    return _OP_SEL if row.mnemonic.endswith("f8f6f4") else 0
