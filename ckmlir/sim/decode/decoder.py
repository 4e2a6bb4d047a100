"""The decoder: dwords in, `Instruction`s out.

It looks up the encoding by the word's highest bits, the row by the opcode and the plan by the mode bits, and then
reads operands from precomputed lists. Nothing here knows a particular instruction but the scaled MFMA, which is two.
"""

import struct
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from ckmlir.codeobject import CodeObject
from ckmlir.sim.decode.encodings import ENCODINGS, encoding_of_prefix
from ckmlir.sim.decode.instruction import Instruction, Operand, UnknownInstruction
from ckmlir.sim.decode.opcodes import Opcode, opcode_table
from ckmlir.sim.decode.operands import hardware_register_text, operand_type, vector_sources_only
from ckmlir.sim.decode.plans import Constant, InputModifier, Plan, make_plan, mode_bits
from ckmlir.sim.decode.second_word import (
    DPP_MARKER,
    SDWA_MARKER,
    SDWA_MODE,
    SDWA_RESERVED,
    dpp_controls,
    make_dpp_plan,
    make_sdwa_plan,
)

_FLAT_SEGMENT = ("FLAT", "SCRATCH", "GLOBAL", None)
_MARKERS: Final = (SDWA_MARKER, DPP_MARKER)
_VOP_WITH_SECOND_WORD: Final = frozenset(("VOP1", "VOP2", "VOPC"))
_WITH_SPLIT_FIELDS: Final = frozenset(("VOP3", "VOP3P"))
_LOAD_SCALE: Final = 0xD3AC0000
"""First word of the prefix that gives an f8f6f4 MFMA its scales (gfx950; LLVM's v_mfma_ld_scale_b32)."""

_SCALED: Final = 1 << 11
"""The bit of the f8f6f4 MFMA's first word that says a prefix precedes it."""


class _Row(NamedTuple):
    opcode: Opcode
    mode: int
    plans: dict[int, Plan]


class Decoder:
    """Decodes the instructions of one target ("gfx90a", "gfx942" or "gfx950")."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._rows = {key: _Row(row, mode_bits(row), {}) for key, row in opcode_table(target).items()}
        self._prefixes = encoding_of_prefix()

    def decode(self, dwords: Sequence[int], position: int = 0, address: int = 0) -> Instruction:
        """The instruction at `dwords[position]`, whose byte address is `address`.

        Raises:
            UnknownInstruction: The words are not an instruction of the target, or are cut off.
        """
        first = dwords[position] if position < len(dwords) else None
        if first is None:
            raise UnknownInstruction(address, (), self.target, "no instruction")
        word = first
        if position + 1 < len(dwords):
            word |= dwords[position + 1] << 32
        if first & 0xFFFF_0000 == _LOAD_SCALE and self.target == "gfx950":
            return self._scaled_matrix(dwords, position, address)
        plan = self._plan(word)
        if plan is None:
            raise self._unknown(dwords, position, address)
        if word & plan.reserved:
            raise self._unknown(dwords, position, address, f"{plan.opcode.mnemonic} with reserved bits set")
        return self._follow(plan, word, dwords, position, address)

    def _unknown(
        self, dwords: Sequence[int], position: int, address: int, reason: str = "unknown instruction"
    ) -> UnknownInstruction:
        return UnknownInstruction(address, tuple(dwords[position : position + 2]), self.target, reason)

    def _plan(self, word: int) -> Plan | None:
        """The plan for a word (64 bits, the second word above the first); None if there is no such instruction."""
        name = self._prefixes[word >> 23 & 0x1FF]
        if name is None:
            return None
        if name == "FLAT":
            name = _FLAT_SEGMENT[word >> 14 & 3]
            if name is None:
                return None
        encoding = ENCODINGS[name]
        number = word >> encoding.opcode_shift & (1 << encoding.opcode_width) - 1
        row = self._rows.get((name, number))
        if row is None and name == "VOP3P":
            row = self._rows.get(("MFMA", number))
        if row is None:
            return None
        second = word & 0x1FF
        if name in _VOP_WITH_SECOND_WORD and second in _MARKERS:
            return self._plan_with_second_word(row, word, second)
        mode = word & row.mode
        plan = row.plans.get(mode)
        if plan is None:
            plan = row.plans[mode] = make_plan(row.opcode, mode, self.target)
        return plan

    def _plan_with_second_word(self, row: _Row, word: int, marker: int) -> Plan | None:
        """The plan of an SDWA or DPP form."""
        if marker == DPP_MARKER:
            if "dpp" not in row.opcode.flags:
                return None
            plan = row.plans.get(marker)
            if plan is None:
                plan = row.plans[marker] = make_dpp_plan(row.opcode)
            return plan if word >> 40 & 0x1FF in dpp_controls(row.opcode) else None
        if "sdwa" not in row.opcode.flags:
            return None
        key = word & SDWA_MODE | marker
        plan = row.plans.get(key)
        if plan is None:
            plan = row.plans[key] = make_sdwa_plan(row.opcode, word)
        return plan

    def _follow(self, plan: Plan, word: int, dwords: Sequence[int], position: int, address: int) -> Instruction:
        """Reads operands and modifiers as the plan says."""
        end = position + plan.size
        destinations: list[Operand] = []
        for shift, mask, entries, type_name in plan.destinations:
            entry = entries[word >> shift & mask]
            if not isinstance(entry, Operand):
                raise self._unknown(dwords, position, address, _no_operand(plan, word >> shift & mask, type_name))
            destinations.append(entry)
        sources, literal = self._sources(plan, word, dwords, position, address)
        if word & plan.input_mask:
            _apply_input_modifiers(plan.input_modifiers, word, sources)
        modifiers = {name: ((word >> shift & mask) ^ sign) - sign for name, shift, mask, sign in plan.modifiers}
        if plan.encoding in _WITH_SPLIT_FIELDS:
            _add_split_fields(plan.opcode.mnemonic, plan.encoding, word, modifiers)
        elif plan.encoding == "SDWA" and any(modifiers.get(name) == value for name, value in SDWA_RESERVED.items()):
            raise self._unknown(dwords, position, address, f"{plan.opcode.mnemonic} with reserved bits set")
        branch_target: int | None = None
        for constant in plan.constants:
            if constant.field == "literal":
                literal = self._literal(dwords, end, position, address)
                operand = operand_type(constant.type).literal_operand(literal)
                sources.insert(constant.position, operand.replace(text=f"0x{literal:x}"))
            elif constant.type == "branch":
                branch_target = address + 4 + 4 * _signed16(word & 0xFFFF)
            else:
                _add_constant(constant, word & 0xFFFF, self.target, sources, modifiers)
        if literal is not None:
            end += 1
        if end > len(dwords):
            raise self._unknown(dwords, position, address, f"{plan.opcode.mnemonic} is cut off")
        return Instruction(
            address,
            4 * (end - position),
            plan.opcode.mnemonic,
            plan.encoding,
            tuple(destinations),
            tuple(sources),
            modifiers,
            tuple(dwords[position:end]),
            self.target,
            branch_target,
            plan.opcode,
        )

    def _sources(
        self, plan: Plan, word: int, dwords: Sequence[int], position: int, address: int
    ) -> tuple[list[Operand], int | None]:
        """The operands that are read, and the literal constant, if one of them is one."""
        sources: list[Operand] = []
        literal: int | None = None
        for shift, mask, entries, type_name in plan.sources:
            entry = entries[word >> shift & mask]
            if entry is None:
                raise self._unknown(dwords, position, address, _no_operand(plan, word >> shift & mask, type_name))
            if not isinstance(entry, Operand):
                literal = self._literal(dwords, position + plan.size, position, address)
                entry = operand_type(type_name).literal_operand(literal)
            sources.append(entry)
        return sources, literal

    def _literal(self, dwords: Sequence[int], end: int, position: int, address: int) -> int:
        """The dword behind the instruction."""
        if end >= len(dwords):
            raise self._unknown(dwords, position, address, "the literal constant is cut off")
        return dwords[end]

    def _scaled_matrix(self, dwords: Sequence[int], position: int, address: int) -> Instruction:
        """The four-dword scaled MFMA: a prefix that names the scales, then the MFMA."""
        if position + 4 > len(dwords):
            raise self._unknown(dwords, position, address)
        prefix = dwords[position] | dwords[position + 1] << 32
        if not dwords[position + 2] & _SCALED:
            raise self._unknown(dwords, position, address)
        product = self.decode((dwords[position + 2] ^ _SCALED, dwords[position + 3]), 0, address)
        scales = [vector_sources_only("v", 1)[prefix >> shift & 0x1FF] for shift in (32, 41)]
        if not product.mnemonic.endswith("f8f6f4") or not all(isinstance(scale, Operand) for scale in scales):
            raise self._unknown(dwords, position, address)
        return product._replace(
            size=16,
            mnemonic=product.mnemonic.replace("v_mfma_", "v_mfma_scale_"),
            sources=product.sources + tuple(scale for scale in scales if isinstance(scale, Operand)),
            modifiers={**product.modifiers, "op_sel": prefix >> 11 & 3, "op_sel_hi": prefix >> 59 & 3},
            words=tuple(dwords[position : position + 4]),
        )


def _no_operand(plan: Plan, number: int, type_name: str) -> str:
    return f"{plan.opcode.mnemonic} with operand number {number}, which is not an operand of type {type_name}"


def _signed16(value: int) -> int:
    return (value ^ 0x8000) - 0x8000


def _apply_input_modifiers(inputs: tuple[InputModifier, ...], word: int, sources: list[Operand]) -> None:
    for position, negate, absolute, sext in inputs:
        if word & (negate | absolute | sext):
            sources[position] = sources[position].replace(
                negate=bool(word & negate), absolute=bool(word & absolute), sext=bool(word & sext)
            )


def _add_split_fields(mnemonic: str, encoding: str, word: int, modifiers: dict[str, int]) -> None:
    """Adds the number fields whose bits are not next to each other."""
    if encoding == "VOP3P":
        modifiers["op_sel_hi"] = word >> 59 & 3 | word >> 12 & 4
    elif mnemonic.startswith("v_bitop3"):
        modifiers["bitop3"] = word >> 61 & 7 | word >> 5 & 0x38 | word >> 53 & 0xC0


def _add_constant(
    constant: Constant, value: int, target: str, sources: list[Operand], modifiers: dict[str, int]
) -> None:
    """Adds what the 16-bit constant of SOPK and SOPP means, by the type the table gives it."""
    if constant.type == "waitcnt":
        modifiers["vmcnt"] = value & 0xF | value >> 10 & 0x30
        modifiers["expcnt"] = value >> 4 & 7
        modifiers["lgkmcnt"] = value >> 8 & 0xF
    elif constant.type == "hwreg":
        modifiers["hwreg"] = value & 0x3F
        modifiers["hwreg_offset"] = value >> 6 & 0x1F
        modifiers["hwreg_size"] = (value >> 11) + 1
        sources.insert(constant.position, Operand("imm", value, 1, hardware_register_text(value, target)))
    else:
        pattern = _signed16(value) & 0xFFFF_FFFF if constant.type == "i16" else value
        sources.insert(constant.position, Operand("imm", pattern, 1, f"0x{value:x}"))


@cache
def decoder(target: str) -> Decoder:
    """The decoder of a target.

    Raises:
        ValueError: There is no table for the target.
    """
    return Decoder(target)


def decode(data: bytes, address: int, target: str) -> Instruction:
    """Decodes the instruction at the start of `data`.

    Args:
        data: Code; an instruction takes 4, 8, 12 or 16 bytes of it.
        address: Byte address of the code, for branch targets and messages.
        target: "gfx90a", "gfx942" or "gfx950".

    Raises:
        UnknownInstruction: The bytes are not an instruction of the target, or are cut off.
        ValueError: There is no table for the target.
    """
    dwords = struct.unpack(f"<{min(len(data) // 4, 4)}I", data[: min(len(data) // 4, 4) * 4])
    return decoder(target).decode(dwords, 0, address)


def disassemble(code_object: CodeObject, kernel: str | None = None) -> list[Instruction]:
    """Decodes a kernel of a code object; addresses are those of its image.

    Raises:
        CodeObjectError: There is no such kernel.
        UnknownInstruction: Some words are not an instruction of the target.
        ValueError: There is no table for the code object's target.
    """
    chosen = code_object.kernel(kernel)
    return decode_all(code_object.code(chosen), chosen.address, code_object.target)


def decode_all(code: bytes, address: int, target: str) -> list[Instruction]:
    """Decodes all of `code`, which starts at `address`, one instruction after the other.

    Raises:
        UnknownInstruction: Some words are not an instruction of the target, or the last instruction is cut off.
        ValueError: There is no table for the target.
    """
    dwords = struct.unpack(f"<{len(code) // 4}I", code[: len(code) // 4 * 4])
    step = decoder(target).decode
    instructions: list[Instruction] = []
    position = 0
    while position < len(dwords):
        instruction = step(dwords, position, address + 4 * position)
        instructions.append(instruction)
        position += instruction.size // 4
    return instructions
