"""Which instructions of the opcode table the simulator executes, chip by chip.

python -m ckmlir.sim.coverage      # the table, and what is refused with the reason
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from msgspec import Struct

from ckmlir.sim import semantics
from ckmlir.sim.chips import TARGETS
from ckmlir.sim.decode import Instruction, UnknownInstruction, decode
from ckmlir.sim.decode.encodings import ENCODINGS, encoding_of_prefix
from ckmlir.sim.decode.opcodes import Opcode, opcode_table
from ckmlir.sim.decode.operands import FIRST_VGPR
from ckmlir.sim.selected import Environment
from ckmlir.sim.selection import select, why_not

assert semantics
_PREFIXES = {name: number for number, name in reversed(list(enumerate(encoding_of_prefix()))) if name}
_SEGMENTS = {"FLAT": 0, "SCRATCH": 1, "GLOBAL": 2}
_CONSTANTS = {
    "s_sendmsg": 1, "s_getreg_b32": 1, "s_setreg_b32": 1, "s_setreg_imm32_b32": 1, "buffer_store_lds_dword": 1 << 16,
}  # fmt: skip
"""Fields of instructions of which only some forms make sense: an interrupt, the MODE register, the LDS bit."""

GROUPS = {
    "scalar ALU": ("SOP1", "SOP2", "SOPC", "SOPK"),
    "program flow": ("SOPP",),
    "scalar memory": ("SMEM",),
    "vector ALU": ("VOP1", "VOP2", "VOPC", "VOP3"),
    "packed, mixed, dot": ("VOP3P",),
    "matrix": ("MFMA",),
    "LDS": ("DS",),
    "global, flat, scratch": ("FLAT", "GLOBAL", "SCRATCH"),
    "buffer": ("MUBUF", "MTBUF"),
}
"""Rows of the table: encodings."""


class Support(Struct, frozen=True):
    """What the simulator does with an instruction of a chip: `reason` is empty if it executes it."""

    target: str
    mnemonic: str
    encoding: str
    reason: str


def specimen(target: str, row: Opcode) -> Instruction:
    """A plain instruction of a row: its lowest registers, modifiers at zero.

    Raises:
        UnknownInstruction: The decoder does not take it.
    """
    encoding = ENCODINGS[row.encoding]
    prefix = "FLAT" if row.encoding in _SEGMENTS else {"MFMA": "VOP3P"}.get(row.encoding, row.encoding)
    word = _PREFIXES[prefix] << 23 | row.number << encoding.opcode_shift | _SEGMENTS.get(row.encoding, 0) << 14
    for operand in (*row.destinations, *row.sources):
        field = encoding.fields.get(operand.field)
        if field and field.width == 9 and not operand.field.startswith(("ssrc", "sgpr")):
            word |= FIRST_VGPR << field.shift
    word |= _CONSTANTS.get(row.mnemonic, 0)
    if any(operand.field == "soffset" for operand in row.sources) and row.encoding == "SMEM":
        word |= 1 << 17  # the offset is a constant
    return decode(word.to_bytes(8, "little") + bytes(8), 0, target)


@cache
def support() -> tuple[Support, ...]:
    """Every mnemonic of every chip, once (VOP3 forms of other encodings are not counted again)."""
    return tuple(_supports())


def _supports() -> Iterator[Support]:
    for target in TARGETS:
        seen = set()
        for row in opcode_table(target).values():
            if row.mnemonic in seen:
                continue
            seen.add(row.mnemonic)
            environment = Environment(target)
            try:
                instruction = specimen(target, row)
            except UnknownInstruction as error:
                yield Support(target, row.mnemonic, row.encoding, str(error))
                continue
            reason = "" if select(instruction, environment) else why_not(instruction, environment)
            yield Support(target, row.mnemonic, row.encoding, reason)


def executed() -> frozenset[str]:
    """The mnemonics that execute on some chip."""
    return frozenset(item.mnemonic for item in support() if not item.reason)


def refused() -> dict[str, str]:
    """The mnemonics that do not, with the reason."""
    return {item.mnemonic: item.reason for item in support() if item.reason}


def table(tested: frozenset[str] | None = None) -> str:
    """The table of docs/simulator.md in Markdown: opcodes decoded, executed and, if known, tested, by chip."""
    columns = "decoded / executed" + (" / tested" if tested is not None else "")
    lines = [f"| {columns} | {' | '.join(TARGETS)} | all |", "|---" * (len(TARGETS) + 2) + "|"]
    for group, encodings in (*GROUPS.items(), ("all", tuple(ENCODINGS))):
        cells = []
        for target in (*TARGETS, ""):
            found = [item for item in support() if item.encoding in encodings and item.target.startswith(target)]
            decoded = {item.mnemonic for item in found}
            runs = {item.mnemonic for item in found if not item.reason}
            counts = [len(decoded), len(runs)] + ([len(runs & tested)] if tested is not None else [])
            cells.append(" / ".join(map(str, counts)))
        lines.append(f"| {group} | {' | '.join(cells)} |")
    return "\n".join(lines)


def refusals() -> str:
    """What is refused, by reason, in Markdown."""
    by_reason: dict[str, list[str]] = {}
    for mnemonic, reason in sorted(refused().items()):
        by_reason.setdefault(reason, []).append(mnemonic)
    return "\n".join(f"- {', '.join(f'`{name}`' for name in names)}: {reason}" for reason, names in by_reason.items())


if __name__ == "__main__":
    print(f"{table()}\n\n{refusals()}")
