"""What selecting a handler for an instruction gives: the handler's key, and the operands its record carries."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ckmlir.sim.decode.instruction import Operand
from ckmlir.sim.handler import HandlerKey
from ckmlir.sim.state import register_offset, scalar_offset


class Environment(Struct, frozen=True):
    """What selection depends on besides the instruction: the chip, whether the kernel leaves the default float mode,
    whether it indexes vector registers (`register_index.py`), and whether it skips vector instructions
    (s_setvskip)."""

    target: str
    dynamic_mode: bool = False
    indexed: bool = False
    skips: bool = False


class Selected(Struct, frozen=True):
    """A handler and the operands of one record. The last three are filled in when the program is placed in memory.

    Attributes:
        key: The handler.
        slots: Operand values in order.
        remembered: Slot of the pointer to the allocation hit last, or -1.
        branch: Slot of the distance to the branch target's record, or -1.
        after: Slot of the address of the next instruction, or -1.
    """

    key: HandlerKey
    slots: tuple[int, ...] = ()
    remembered: int = -1
    branch: int = -1
    after: int = -1


_KINDS = {"v": "v", "a": "v", "s": "s", "imm": "i", "off": "off"}


class Unsupported(Exception):
    """The instruction, or this form of it, has no semantics here."""


_SPECIAL_CODES = {251: "vccz", 252: "execz"}


def code_of(operand: Operand) -> str:
    """The operand's code in a handler key."""
    kind = _KINDS[operand.kind]
    if kind == "s" and operand.index > 127 and scalar_offset(operand.index) is None:
        if operand.index not in _SPECIAL_CODES:
            raise Unsupported(f"operand {operand.text}")
        kind = _SPECIAL_CODES[operand.index]
    if operand.negate or operand.absolute or operand.sext:
        kind += "-" * operand.negate + "|" * operand.absolute + "x" * operand.sext
    return kind


def slot_of(operand: Operand) -> int:
    """The operand's value in a record: a constant, or the byte offset of its register."""
    if operand.kind == "imm":
        return operand.index
    if operand.kind == "off" or (operand.kind == "s" and operand.index in _SPECIAL_CODES):
        return 0
    return register_offset(operand)


def select_operands(
    mnemonic: str, operands: Sequence[Operand], modifiers: dict[str, int] | None = None, **fields: int
) -> Selected:
    """A selection whose slots are these operands; `fields` are fields of Selected."""
    key = HandlerKey(mnemonic, tuple(map(code_of, operands)), tuple(sorted((modifiers or {}).items())))
    return Selected(key, tuple(map(slot_of, operands)), **fields)


def constant(number: int) -> Operand:
    return Operand("imm", number & 0xFFFF_FFFF_FFFF_FFFF)


OFF = Operand("off", 0, 0)
