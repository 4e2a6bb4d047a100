"""The opcode table: which number means which instruction, with which operands, on which chip.

The rows are text in `tables/`. A line without indentation starts a section and says what its rows have in common:

    VOP2 e32 e64 sdwa dpp clamp omod | vdst:b32 <- src0:f32 vsrc1:f32
      001 v_add_f32
      016 v_mac_f32  gfx90a

Before the bar: the encoding, then flags. After it: the fields written and the fields read, in the order of LLVM's
assembly text, each with the type of its constants and its width (`operands.OperandType`). A row is the opcode number
(hexadecimal), the mnemonic, and the chips that have it when not all three do.

Flags: `e32` the text has the suffix _e32; `e64` the instruction also exists as VOP3; `sdwa`, `dpp` it exists in these
forms; `clamp`, `omod`, `op_sel` its VOP3 form has these fields; `offset2` two 8-bit offsets rather than one of 16 bits;
`gds` only with the GDS bit; `returns` the destination is written only when sc0 (glc) is set; `lds` the LDS bit sends
the loaded data to LDS; `from_lds` stores what is in LDS, with the LDS bit always set; `plain` no modifiers at all.
"""

from functools import cache
from typing import NamedTuple

from ckmlir.sim.chips import TARGETS
from ckmlir.sim.decode.tables import buffer, flat, lds, matrix, scalar, vector, vector_compare, vector_long

_VOP3_OPCODE_OF = {"VOPC": 0x000, "VOP2": 0x100, "VOP1": 0x140}
"""Where the VOP3 opcode space repeats the 32-bit encodings."""


class OperandField(NamedTuple):
    """A field of an encoding that names an operand, and the operand's type."""

    field: str
    type: str


class Opcode(NamedTuple):
    """One row of the table, as one target has it.

    Attributes:
        encoding: The encoding whose fields and opcode space it uses.
        number: Opcode number in that space.
        mnemonic: LLVM's name without the suffix of the form.
        suffix: "_e32", "_e64" or "", what LLVM appends in this encoding.
        flags: What its forms may have, of those the module's docstring lists.
        destinations: Fields written.
        sources: Fields read.
    """

    encoding: str
    number: int
    mnemonic: str
    suffix: str
    flags: frozenset[str]
    destinations: tuple[OperandField, ...]
    sources: tuple[OperandField, ...]


def _operand_fields(text: str) -> tuple[OperandField, ...]:
    return tuple(OperandField(*item.split(":")) for item in text.split())


def _as_vop3(row: Opcode) -> Opcode:
    """The 64-bit form of a VOP1, VOP2 or VOPC row: any source may be a scalar, and vcc is named by a field."""
    names = {"vsrc1": "src1", "sdst": "vsdst"}

    def rename(operand: OperandField, vcc: str) -> OperandField:
        return OperandField(vcc, "b64") if operand.field == "vcc" else operand._replace(
            field=names.get(operand.field, operand.field)
        )  # fmt: skip

    carry = "vsdst" if row.encoding == "VOPC" else "sdst"
    return row._replace(
        encoding="VOP3",
        number=row.number + _VOP3_OPCODE_OF[row.encoding],
        suffix="_e64",
        destinations=tuple(rename(operand, carry) for operand in row.destinations),
        sources=tuple(rename(operand, "sgpr2") for operand in row.sources),
    )


def _rows(table: str, target: str) -> list[Opcode]:
    rows: list[Opcode] = []
    section: Opcode | None = None
    for line in table.splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            head, _, operands = line.partition("|")
            encoding, *flags = head.split()
            written, _, read = operands.partition("<-")
            suffix = "_e32" if "e32" in flags else ""
            section = Opcode(encoding, 0, "", suffix, frozenset(flags), _operand_fields(written), _operand_fields(read))
            continue
        number, mnemonic, *chips = line.split()
        if section is None:
            raise ValueError(f"opcode table: row before the first section: {line.strip()}")
        if chips and target not in chips:
            continue
        row = section._replace(number=int(number, 16), mnemonic=mnemonic)
        rows.append(row)
        if "e64" in row.flags:
            rows.append(_as_vop3(row))
    return rows


@cache
def opcode_table(target: str) -> dict[tuple[str, int], Opcode]:
    """All instructions of a chip by (encoding, opcode number).

    Raises:
        ValueError: The target is not one of TARGETS, or a number is used twice.
    """
    if target not in TARGETS:
        raise ValueError(f"no opcode table for target {target!r}; known: {', '.join(TARGETS)}")
    table: dict[tuple[str, int], Opcode] = {}
    for module in (scalar, vector, vector_compare, vector_long, matrix, lds, flat, buffer):
        for row in _rows(module.TABLE, target):
            if (row.encoding, row.number) in table:
                raise ValueError(f"opcode table: {row.encoding} {row.number:#x} twice, second time {row.mnemonic}")
            table[row.encoding, row.number] = row
    return table
