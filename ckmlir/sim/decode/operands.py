"""From the number in a register or source field to an Operand, as precomputed lists.

A field's list has one entry for every number the field can hold: an Operand, LITERAL where a literal dword follows, or
None where the number is reserved or the register range does not exist. The numbers are those of AMD's CDNA3 ISA
document (encodings of SSRC, SRC and SDST), spelled as LLVM prints them, and checked against LLVM's disassembler.
"""

import struct
from functools import cache
from typing import Final

from ckmlir.sim.decode.instruction import Operand

LITERAL: Final = "literal"
"""Entry of an operand list that stands for "the constant is the next dword"."""

Entry = Operand | str | None

WAIT_COUNTS: Final = {"vmcnt": 63, "expcnt": 7, "lgkmcnt": 15}
"""The largest number of each field of s_waitcnt, which means not to wait (CDNA3 ISA, SOPP S_WAITCNT)."""

OFF: Final = Operand("off", 0, 0, "off")
VCC: Final = Operand("s", 106, 2, "vcc")

SPECIAL_PAIRS = {102: "flat_scratch", 104: "xnack_mask", 106: "vcc", 126: "exec"}
_SPECIAL_SOURCES = {
    235: "src_shared_base",
    236: "src_shared_limit",
    237: "src_private_base",
    238: "src_private_limit",
    239: "src_pops_exiting_wave_id",
    251: "src_vccz",
    252: "src_execz",
    253: "src_scc",
}
_INLINE_FLOATS = {
    240: "0.5", 241: "-0.5", 242: "1.0", 243: "-1.0", 244: "2.0", 245: "-2.0", 246: "4.0", 247: "-4.0",
    248: "0.15915494",
}  # fmt: skip
_ONE_OVER_TWO_PI = {16: 0x3118, 32: 0x3E22F983, 64: 0x3FC45F306DC9C882}

_FIRST_TTMP, FIRST_VGPR = 108, 256


class OperandType:
    """What an operand's constants mean and how many registers it spans, from a name such as f16, i64, b128.

    The names are letter, bits and, where the operand has several elements, `x` and their number: `f32x2` is two
    registers, `f16x2` one; an inline constant is the pattern of one element.
    """

    def __init__(self, name: str) -> None:
        base, _, repeat = name.partition("x")
        letter = base.rstrip("0123456789")
        self.is_float = letter in ("f", "bf")
        self.is_bfloat = letter == "bf"
        self.spells_patterns = name == "b16"
        self.is_signed = letter == "i"
        bits = int(base[len(letter) :])
        self.registers = max(1, bits * int(repeat or 1) // 32)
        self.constant_bits = bits if bits in (16, 64) else 32
        self.literal_bits = 16 if name in ("b16", "f16", "bf16") else 32

    def inline_float(self, encoding: int) -> int:
        """Bit pattern of the inline float constant with this encoding number."""
        if self.is_bfloat:
            return operand_type("f32").inline_float(encoding) >> 16
        if encoding == 248:
            return _ONE_OVER_TWO_PI[self.constant_bits]
        packed = struct.pack({16: "<e", 32: "<f", 64: "<d"}[self.constant_bits], float(_INLINE_FLOATS[encoding]))
        return int.from_bytes(packed, "little")

    def literal(self, word: int) -> int:
        """Bit pattern of a 32-bit literal; a 64-bit float has it in its upper half, an i64 extends its sign."""
        if self.constant_bits == 64:
            if self.is_float:
                return word << 32
            if self.is_signed and word >> 31:
                return word | 0xFFFF_FFFF_0000_0000
        return word

    def constant(self, pattern: int, text: str, *, literal: bool = False) -> Operand:
        """An "imm" operand of this type."""
        return Operand("imm", pattern, 2 if self.constant_bits == 64 else 1, text, literal=literal)

    def literal_operand(self, word: int) -> Operand:
        """The operand that a literal dword makes; a 16-bit operand reads its lower half."""
        pattern = self.literal(word) & 0xFFFF if self.literal_bits == 16 else self.literal(word)
        shown = pattern if self.literal_bits == 16 and not self.is_bfloat else word
        is_double_zero = self.is_float and self.constant_bits == 64 and not word  # LLVM spells it as a number
        return self.constant(pattern, "0" if is_double_zero else f"0x{shown:x}", literal=True)


@cache
def operand_type(name: str) -> OperandType:
    """The operand type with this name."""
    return OperandType(name)


HARDWARE_REGISTERS = {
    1: "HW_REG_MODE", 2: "HW_REG_STATUS", 3: "HW_REG_TRAPSTS", 4: "HW_REG_HW_ID", 5: "HW_REG_GPR_ALLOC",
    6: "HW_REG_LDS_ALLOC", 7: "HW_REG_IB_STS", 15: "HW_REG_SH_MEM_BASES", 16: "HW_REG_TBA_LO", 17: "HW_REG_TBA_HI",
    18: "HW_REG_TMA_LO", 19: "HW_REG_TMA_HI", 20: "HW_REG_XCC_ID", 21: "HW_REG_SQ_PERF_SNAPSHOT_DATA",
    22: "HW_REG_SQ_PERF_SNAPSHOT_DATA1", 23: "HW_REG_SQ_PERF_SNAPSHOT_PC_LO", 24: "HW_REG_SQ_PERF_SNAPSHOT_PC_HI",
}  # fmt: skip

_FIRST_GFX942_REGISTER = 20


def hardware_register_text(value: int, target: str) -> str:
    """LLVM's spelling of the s_getreg/s_setreg constant: register, first bit and number of bits."""
    register, offset, size = value & 0x3F, value >> 6 & 0x1F, (value >> 11) + 1
    has_name = register < _FIRST_GFX942_REGISTER or target != "gfx90a"
    name = HARDWARE_REGISTERS.get(register, str(register)) if has_name else str(register)
    return f"hwreg({name})" if (offset, size) == (0, 32) else f"hwreg({name}, {offset}, {size})"


def register_text(kind: str, first: int, count: int) -> str:
    """LLVM's spelling of a range of vector or plain scalar registers, for example `v7` or `s[4:7]`."""
    return f"{kind}{first}" if count == 1 else f"{kind}[{first}:{first + count - 1}]"


def _scalar_text(number: int, count: int) -> str | None:
    """LLVM's spelling of `count` scalar registers from encoding `number`; None where there is no such range."""
    alignment = min(count, 4) if count != 3 else 1
    if number <= 101:
        return register_text("s", number, count) if number % alignment == 0 and number + count <= 102 else None
    if _FIRST_TTMP <= number <= 123:
        first = number - _FIRST_TTMP
        return register_text("ttmp", first, count) if first % alignment == 0 and first + count <= 16 else None
    if number == 124:
        return "m0" if count == 1 else None
    pair = SPECIAL_PAIRS.get(number & ~1)
    if pair is None or count > 2 or (count == 2 and number % 2):
        return None
    return pair if count == 2 else pair + ("_hi" if number % 2 else "_lo")


@cache
def scalar_registers(count: int) -> list[Entry]:
    """128 entries: a scalar destination of `count` registers."""
    texts = (_scalar_text(number, count) for number in range(128))
    return [None if text is None else Operand("s", number, count, text) for number, text in enumerate(texts)]


@cache
def scalar_sources(type_name: str) -> list[Entry]:
    """256 entries: scalar registers, inline constants, special values, a literal."""
    kind = operand_type(type_name)
    entries: list[Entry] = scalar_registers(kind.registers) + [None] * 128
    for number in range(128, 209):
        value = number - 128 if number <= 192 else 192 - number
        entries[number] = kind.constant(value & ((1 << max(32, kind.constant_bits)) - 1), str(value))
    for number, text in _SPECIAL_SOURCES.items():
        entries[number] = Operand("s", number, kind.registers, text)
    for number, text in _INLINE_FLOATS.items():
        if number == 248 and kind.constant_bits == 64:
            text = "0.15915494309189532"
        if kind.spells_patterns:
            text = f"0x{kind.inline_float(number):x}"
        entries[number] = kind.constant(kind.inline_float(number), text)
    entries[255] = LITERAL
    return entries


@cache
def scalar_data(count: int) -> list[Entry]:
    """128 entries: a scalar register that memory can be loaded to or stored from, so neither m0 nor exec."""
    return scalar_registers(count)[:124] + [None] * 4


def number_text(value: int) -> str:
    """LLVM's spelling of an unsigned constant: decimal where it would be an inline constant, else hexadecimal."""
    return str(value) if value <= 64 else f"0x{value:x}"


@cache
def immediates(count: int) -> list[Entry]:
    """A field that is a number itself."""
    return [Operand("imm", number, 1, number_text(number)) for number in range(count)]


@cache
def vector_registers(kind: str, count: int) -> list[Entry]:
    """256 entries: `count` VGPRs ("v") or AccVGPRs ("a"); ranges start at even registers on these chips."""
    entries: list[Entry] = [None] * 256
    for first in range(0, 257 - count, 1 if count == 1 else 2):
        entries[first] = Operand(kind, first, count, register_text(kind, first, count))
    return entries


@cache
def vector_sources(type_name: str) -> list[Entry]:
    """512 entries: a scalar source, then VGPRs."""
    entries = list(scalar_sources(type_name))
    if operand_type(type_name).registers == 1:
        entries[254] = Operand("s", 254, 1, "src_lds_direct")
    return entries + vector_registers("v", operand_type(type_name).registers)


@cache
def without_literal(type_name: str) -> list[Entry]:
    """As `vector_sources`, for encodings that cannot have a literal on gfx9 (VOP3, VOP3P)."""
    return [None if entry is LITERAL else entry for entry in vector_sources(type_name)]


@cache
def vector_sources_only(kind: str, count: int) -> list[Entry]:
    """512 entries of a 9-bit source field that may only name vector registers of one kind."""
    return [None] * FIRST_VGPR + vector_registers(kind, count)


@cache
def matrix_accumulators(kind: str, type_name: str) -> list[Entry]:
    """512 entries: the C operand of an MFMA, an inline constant or registers of one kind."""
    constants = [
        entry if isinstance(entry, Operand) and entry.kind == "imm" else None for entry in scalar_sources(type_name)
    ]
    return constants + vector_registers(kind, operand_type(type_name).registers)


@cache
def optional_scalar(count: int) -> list[Entry]:
    """128 entries: the SADDR field, where 127 (exec_hi) means no register; 64-bit addresses are not in exec."""
    return [*scalar_registers(count)[:126], scalar_registers(count)[126] if count == 1 else None, OFF]


@cache
def scaled_scalar(count: int, scale: int, entries: int) -> list[Entry]:
    """A field that holds a scalar register number divided by `scale` (SMEM's SBASE, the buffer SRSRC)."""
    return [scalar_registers(count)[number] for number in range(0, entries * scale, scale)]
