"""From a table row and the mode bits of a word to a plan: exactly which bits become which operands.

A plan is made once for each row and combination of mode bits that occurs; the decoder then only follows it.
"""

from typing import Final, NamedTuple

from ckmlir.sim.decode import operands
from ckmlir.sim.decode.encodings import ENCODINGS, Encoding, Modifier
from ckmlir.sim.decode.instruction import Operand
from ckmlir.sim.decode.opcodes import Opcode, OperandField
from ckmlir.sim.decode.operands import OFF, VCC, Entry, operand_type
from ckmlir.sim.decode.reserved import ACC, CONSTANT_FIELDS, is_float, reserved_bits, sends_to_lds

Lookup = tuple[int, int, list[Entry], str]
"""Shift, mask, entries and type name: operand = entries[(word >> shift) & mask]."""


class Constant(NamedTuple):
    """A constant operand that has no register field: where it is among the sources, its field and its type."""

    position: int
    field: str
    type: str


class InputModifier(NamedTuple):
    """The bits that negate the source at a position, clear its sign, and extend its sign (0: it cannot be)."""

    position: int
    negate: int
    absolute: int
    sext: int


class Plan(NamedTuple):
    """How to read one form of one instruction.

    Attributes:
        opcode: The row.
        encoding: Name for `Instruction.encoding`.
        size: Dwords without a literal operand's.
        destinations, sources: Operand lookups.
        modifiers: Name, shift, mask and sign bit of each number field.
        input_modifiers: Bits that negate a source, clear its sign or extend it.
        input_mask: All bits of input_modifiers.
        reserved: Bits that must be zero.
        constants: The 16-bit constant and the literal where they are operands by themselves.
    """

    opcode: Opcode
    encoding: str
    size: int
    destinations: tuple[Lookup, ...]
    sources: tuple[Lookup, ...]
    modifiers: tuple[tuple[str, int, int, int], ...]
    input_modifiers: tuple[InputModifier, ...]
    input_mask: int
    reserved: int
    constants: tuple[Constant, ...]


F8F6F4_FORMATS: Final = 0b111 << 8 | 0b111 << 61
"""CBSZ and BLGP, which select the formats of A and B of the f8f6f4 instructions, and so their register counts."""
_F8F6F4_TYPE = {0: "b256", 1: "b256", 2: "b192", 3: "b192", 4: "b128"}


_ANY_BIT: Final = (1 << 64) - 1
"""The reserved bits of a form that does not exist: every word has one of them."""
_LDS_BIT_OF_BUFFER: Final = 16


def mode_bits(row: Opcode) -> int:
    """Bits of the word that select the plan of a row."""
    return ENCODINGS[row.encoding].mode | (F8F6F4_FORMATS if row.mnemonic.endswith("f8f6f4") else 0)


def every_bit(inputs: tuple[InputModifier, ...]) -> int:
    """All bits that the input modifiers look at."""
    return sum(item.negate | item.absolute | item.sext for item in inputs)


def modifier_lookup(modifier: Modifier) -> tuple[str, int, int, int]:
    """Name, shift, mask and sign bit of a number field."""
    mask = (1 << modifier.width) - 1
    return modifier.name, modifier.shift, mask, (mask + 1) // 2 if modifier.signed else 0


def field_lookup(encoding: Encoding, operand: OperandField) -> Lookup:
    """The lookup of an operand in the field the table names."""
    field = encoding.fields[operand.field]
    return field.shift, (1 << field.width) - 1, field.entries(operand.type), operand.type


def fixed(operand: Operand) -> Lookup:
    """The lookup of an operand that no field names."""
    return 0, 0, [operand], "b32"


def _with_entries(lookup: Lookup, entries: list[Entry]) -> Lookup:
    return lookup[0], lookup[1], entries, lookup[3]


class _Builder:
    """The operands of a row under one mode, encoding by encoding."""

    def __init__(self, row: Opcode, mode: int, target: str) -> None:
        self.row, self.mode, self.target = row, mode, target
        self.encoding = ENCODINGS[row.encoding]

    def has(self, bit: int) -> bool:
        """Whether a mode bit is set."""
        return bool(self.mode >> bit & 1)

    def uses(self, modifier: Modifier) -> bool:
        """Whether this mode has a number field: without IMM, SMEM's offset names a register or nothing."""
        return self.row.encoding != "SMEM" or modifier.name != "offset" or self.has(17)

    def lookup(self, operand: OperandField) -> Lookup:
        """The lookup of an operand; OFF when this mode does not have it."""
        if operand.field == "vcc":
            return fixed(VCC)
        if operand.type.startswith("imm"):
            field = self.encoding.fields[operand.field]
            return field.shift, (1 << field.width) - 1, operands.immediates(1 << field.width), "b32"
        if operand.type == "address":
            operand = operand._replace(type=self.address_type(operand.field))
        special = {
            "MFMA": self.matrix,
            "DS": self.vector_data,
            "FLAT": self.vector_data,
            "GLOBAL": self.vector_data,
            "SCRATCH": self.scratch,
            "MUBUF": self.vector_data,
            "MTBUF": self.vector_data,
            "SMEM": self.scalar_offset,
        }.get(self.row.encoding)
        return special(operand) if special else field_lookup(self.encoding, operand)

    def address_type(self, field: str) -> str:
        """The type of an address operand, which other fields decide."""
        if field == "vaddr":
            return {0: "off", 1: "b32", 2: "b64"}[self.has(12) + self.has(13)]
        no_scalar = (self.mode >> 48 & 0x7F) == 0x7F
        return "b64" if no_scalar or field == "saddr" else "b32"

    def vector_data(self, operand: OperandField) -> Lookup:
        """Data registers of memory instructions are AccVGPRs when the ACC bit is set."""
        if operand.type == "off":
            return fixed(OFF)
        lookup = field_lookup(self.encoding, operand)
        if operand.field in ("data", "data0", "data1", "vdata", "vdst"):
            acc = self.has(25 if self.row.encoding == "DS" else 55)
            kind = "a" if acc else "v"
            return _with_entries(lookup, operands.vector_registers(kind, operand_type(operand.type).registers))
        return lookup

    def scratch(self, operand: OperandField) -> Lookup:
        """Scratch has an address from a VGPR, an SGPR, both (with SVE, bit 13, of gfx942 and later) or neither."""
        if operand.field == "addr":
            scalar = (self.mode >> 48 & 0x7F) != 0x7F
            uses_vector = not scalar if self.target == "gfx90a" else self.has(13)
            if not uses_vector:
                return fixed(OFF)
        return self.vector_data(operand)

    def scalar_offset(self, operand: OperandField) -> Lookup:
        """The scalar offset register: a field of its own (SOFFSET_EN), or OFFSET[6:0] when IMM is clear."""
        lookup = field_lookup(self.encoding, operand)
        if operand.field == "soffset" and not self.has(14):
            return fixed(OFF) if self.has(17) else (32, 0x7F, lookup[2], lookup[3])
        return lookup

    def matrix(self, operand: OperandField) -> Lookup:
        """MFMA operands: VGPRs or AccVGPRs by one ACC bit for A, one for B, one for C and D together."""
        lookup = field_lookup(self.encoding, operand._replace(type="b32"))
        if operand.field == "vsrc2":
            return lookup
        acc_bit = {"src0": 59, "src1": 60, "src2": 15, "vdst": 15}[operand.field]
        kind = "a" if self.has(acc_bit) else "v"
        name = operand.type
        if self.row.mnemonic.endswith("f8f6f4") and operand.field in ("src0", "src1"):
            format_number = self.mode >> (8 if operand.field == "src0" else 61) & 7
            if format_number not in _F8F6F4_TYPE:
                return _with_entries(lookup, [None] * 512)
            name = _F8F6F4_TYPE[format_number]
        count = operand_type(name).registers
        if operand.field == "vdst":
            return _with_entries(lookup, operands.vector_registers(kind, count))
        if operand.field == "src2":
            return _with_entries(lookup, operands.matrix_accumulators(kind, name))
        return _with_entries(lookup, operands.vector_sources_only(kind, count))


def _loads_to_lds(row: Opcode, mode: int, target: str) -> bool:
    """Whether the LDS bit of a load is set."""
    return sends_to_lds(row, target) and bool(mode >> {"MUBUF": _LDS_BIT_OF_BUFFER}.get(row.encoding, 13) & 1)


def _drops_result(row: Opcode, mode: int) -> bool:
    """Whether this is an atomic without sc0, which returns nothing."""
    return "returns" in row.flags and not mode >> {"MUBUF": 14}.get(row.encoding, 16) & 1


def make_plan(row: Opcode, mode: int, target: str) -> Plan:
    """The plan of a row when the word's mode bits (see `mode_bits`) are `mode`."""
    builder = _Builder(row, mode, target)
    encoding = builder.encoding
    constants = [Constant(i, *item) for i, item in enumerate(row.sources) if item.field in CONSTANT_FIELDS]
    read = [operand for operand in row.sources if operand.field not in CONSTANT_FIELDS]
    to_lds = _loads_to_lds(row, mode, target)
    exists = "from_lds" not in row.flags or builder.has(_LDS_BIT_OF_BUFFER)
    written = () if to_lds or _drops_result(row, mode) else row.destinations
    inputs = _input_modifiers(row, read, target)
    return Plan(
        row,
        row.encoding,
        encoding.words,
        tuple(builder.lookup(operand) for operand in written),
        tuple(builder.lookup(operand) for operand in read),
        tuple(
            modifier_lookup(modifier) for modifier in encoding.modifiers + _row_modifiers(row) if builder.uses(modifier)
        ),
        inputs,
        every_bit(inputs),
        reserved_bits(row, target) | (ACC if to_lds else 0) if exists else _ANY_BIT,
        tuple(constants),
    )


def _row_modifiers(row: Opcode) -> tuple[Modifier, ...]:
    """Number fields that only some rows of an encoding have."""
    if row.encoding == "DS":
        pair = (Modifier("offset0", 0, 8), Modifier("offset1", 8, 8))
        return pair if "offset2" in row.flags else (Modifier("offset", 0, 16),)
    if row.encoding == "VOP3" and "permlane" in row.mnemonic:  # the lowest bits of OP_SEL
        return Modifier("fi", 11, 1), Modifier("bound_ctrl", 12, 1)
    return ()


def _input_modifiers(row: Opcode, read: list[OperandField], target: str) -> tuple[InputModifier, ...]:
    """Where the word negates sources and clears their sign."""
    if row.encoding == "VOP3":
        has_scalar_destination = any(operand.field == "sdst" for operand in row.destinations)
        return tuple(
            InputModifier(position, 1 << 61 + position, 0 if has_scalar_destination else 1 << 8 + position, 0)
            for position, operand in enumerate(read)
            if is_float(operand) and not row.mnemonic.startswith("v_bitop3")
        )
    if "mix" in row.flags:  # NEG_HI is ABS here
        return tuple(InputModifier(position, 1 << 61 + position, 1 << 8 + position, 0) for position in range(3))
    if row.mnemonic.startswith("v_mfma_f64") and target != "gfx90a":  # BLGP negates A, B and C
        return tuple(InputModifier(position, 1 << 61 + position, 0, 0) for position in range(3))
    return ()
