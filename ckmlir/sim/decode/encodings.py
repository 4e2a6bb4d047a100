"""The bit formats of the gfx9 instruction encodings, as data.

Bit numbers count from the first word's bit 0; the second word (or the SDWA, DPP or literal word) is bits 32-63.
The formats are those of AMD's CDNA2, CDNA3 and CDNA4 ISA documents ("Microcode Formats"); that every field is where
this table says was checked by comparing random words with LLVM's disassembler (test_decode_llvm.py).
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ckmlir.sim.decode import operands as lists
from ckmlir.sim.decode.operands import Entry, operand_type

ListOf = Callable[[str], list[Entry]]
"""From an operand's type name to the entries of its field."""


class Field(NamedTuple):
    """Where an operand is named: `width` bits from `shift`, looked up in the list of its type."""

    shift: int
    width: int
    entries: ListOf


class Modifier(NamedTuple):
    """A field that is a number: `width` bits from `shift`."""

    name: str
    shift: int
    width: int
    signed: bool = False


class Encoding(NamedTuple):
    """One encoding.

    Attributes:
        words: Dwords without a literal.
        opcode_shift: Lowest bit of the opcode.
        opcode_width: Bits of the opcode.
        fields: Operand fields by name.
        modifiers: Number fields.
        mode: Bits that change which operands there are, or their registers' kind.
    """

    words: int
    opcode_shift: int
    opcode_width: int
    fields: dict[str, Field]
    modifiers: tuple[Modifier, ...] = ()
    mode: int = 0


def _registers(name: str) -> int:
    return operand_type(name).registers


def _sgpr(name: str) -> list[Entry]:
    return lists.scalar_registers(_registers(name))


def _sgpr_in_8_bits(name: str) -> list[Entry]:
    return _sgpr(name) + [None] * 128


def vgpr_entries(name: str) -> list[Entry]:
    """The entries of an 8-bit field that names VGPRs."""
    return lists.vector_registers("v", _registers(name))


def _accumulation(name: str) -> list[Entry]:
    return lists.vector_registers("a", _registers(name))


def _vgpr_source(name: str) -> list[Entry]:
    return lists.vector_sources_only("v", _registers(name))


def _accumulation_source(name: str) -> list[Entry]:
    return lists.vector_sources_only("a", _registers(name))


def _scalar_source_in_9_bits(name: str) -> list[Entry]:
    return [None if entry is lists.LITERAL else entry for entry in lists.scalar_sources(name)] + [None] * 256


def _vop3_sources(prefix: str, entries: ListOf) -> dict[str, Field]:
    return {f"{prefix}{i}": Field(32 + 9 * i, 9, entries) for i in range(3)}


_SSRC0 = {"ssrc0": Field(0, 8, lists.scalar_sources)}
_SSRC = {**_SSRC0, "ssrc1": Field(8, 8, lists.scalar_sources)}
_SDST = {"sdst": Field(16, 7, _sgpr)}
_SIMM16 = (Modifier("simm16", 0, 16),)

_VOP_SOURCE = {
    "src0": Field(0, 9, lists.vector_sources),
    "vsrc0": Field(0, 9, _vgpr_source),
    "acc0": Field(0, 9, _accumulation_source),
}
_VOP_SECOND_SOURCE = {"vsrc1": Field(9, 8, vgpr_entries)}
_VOP_DESTINATION = {
    "vdst": Field(17, 8, vgpr_entries),
    "adst": Field(17, 8, _accumulation),
    "sdst": Field(17, 8, _sgpr_in_8_bits),
}
_VOP3 = {
    "vdst": Field(0, 8, vgpr_entries),
    "adst": Field(0, 8, _accumulation),
    "vsdst": Field(0, 8, _sgpr_in_8_bits),
    "sdst": Field(8, 7, _sgpr),
    **_vop3_sources("src", lists.without_literal),
    **_vop3_sources("vsrc", _vgpr_source),
    **_vop3_sources("ssrc", _scalar_source_in_9_bits),
    **_vop3_sources("acc", _accumulation_source),
    "sgpr2": Field(50, 9, lambda name: _sgpr(name) + [None] * 384),
}
_FLAT = {
    "addr": Field(32, 8, vgpr_entries),
    "data": Field(40, 8, vgpr_entries),
    "saddr": Field(48, 7, lambda name: lists.optional_scalar(_registers(name))),
    "vdst": Field(56, 8, vgpr_entries),
}
_FLAT_CACHE = (Modifier("lds", 13, 1), Modifier("sc0", 16, 1), Modifier("nt", 17, 1), Modifier("sc1", 25, 1))
_FLAT_MODE = 1 << 13 | 1 << 16 | 0x7F << 48 | 1 << 55
_BUFFER = {
    "vaddr": Field(32, 8, vgpr_entries),
    "vdata": Field(40, 8, vgpr_entries),
    "srsrc": Field(48, 5, lambda name: lists.scaled_scalar(_registers(name), 4, 32)),
    "soffset": Field(56, 8, _scalar_source_in_9_bits),
}

ENCODINGS: Final[dict[str, Encoding]] = {
    "SOP2": Encoding(1, 23, 7, {**_SSRC, **_SDST}),
    "SOPK": Encoding(1, 23, 5, _SDST, _SIMM16),
    "SOP1": Encoding(1, 8, 8, {**_SSRC0, "sgpr0": Field(0, 8, _sgpr_in_8_bits), **_SDST}),
    "SOPC": Encoding(1, 16, 7, _SSRC),
    "SOPP": Encoding(1, 16, 7, {}, _SIMM16),
    "SMEM": Encoding(
        2,
        18,
        8,
        {
            "sbase": Field(0, 6, lambda name: lists.scaled_scalar(_registers(name), 2, 64)),
            "sdata": Field(6, 7, lambda name: lists.scalar_data(_registers(name))),
            "soffset": Field(57, 7, _sgpr),
        },
        (Modifier("sc0", 16, 1), Modifier("offset", 32, 21, signed=True)),
        mode=1 << 14 | 1 << 16 | 1 << 17,
    ),
    "VOP1": Encoding(1, 9, 8, {**_VOP_SOURCE, **_VOP_DESTINATION}),
    "VOP2": Encoding(1, 25, 6, {**_VOP_SOURCE, **_VOP_SECOND_SOURCE, **_VOP_DESTINATION}),
    "VOPC": Encoding(1, 17, 8, {**_VOP_SOURCE, **_VOP_SECOND_SOURCE}),
    "VOP3": Encoding(2, 16, 10, _VOP3, (Modifier("op_sel", 11, 4), Modifier("clamp", 15, 1), Modifier("omod", 59, 2))),
    "VOP3P": Encoding(
        2,
        16,
        7,
        _VOP3,
        (
            Modifier("neg_hi", 8, 3),
            Modifier("op_sel", 11, 3),
            Modifier("clamp", 15, 1),
            Modifier("neg_lo", 61, 3),
        ),
    ),
    "MFMA": Encoding(
        2,
        16,
        7,
        {
            "vdst": Field(0, 8, vgpr_entries),
            **_vop3_sources("src", lists.vector_sources),
            **_vop3_sources("vsrc", _vgpr_source),
        },
        (Modifier("cbsz", 8, 3), Modifier("abid", 11, 4), Modifier("blgp", 61, 3)),
        mode=1 << 15 | 1 << 59 | 1 << 60,
    ),
    "DS": Encoding(
        2,
        17,
        8,
        {
            "addr": Field(32, 8, vgpr_entries),
            "data0": Field(40, 8, vgpr_entries),
            "data1": Field(48, 8, vgpr_entries),
            "vdst": Field(56, 8, vgpr_entries),
        },
        (Modifier("gds", 16, 1),),
        mode=1 << 25,
    ),
    "FLAT": Encoding(2, 18, 7, _FLAT, (Modifier("offset", 0, 12), *_FLAT_CACHE), _FLAT_MODE),
    "GLOBAL": Encoding(2, 18, 7, _FLAT, (Modifier("offset", 0, 13, signed=True), *_FLAT_CACHE), _FLAT_MODE),
    "SCRATCH": Encoding(2, 18, 7, _FLAT, (Modifier("offset", 0, 13, signed=True), *_FLAT_CACHE), _FLAT_MODE),
    "MUBUF": Encoding(
        2,
        18,
        7,
        _BUFFER,
        (
            Modifier("offset", 0, 12),
            Modifier("offen", 12, 1),
            Modifier("idxen", 13, 1),
            Modifier("sc0", 14, 1),
            Modifier("sc1", 15, 1),
            Modifier("lds", 16, 1),
            Modifier("nt", 17, 1),
        ),
        mode=0b1_0111 << 12 | 1 << 55,
    ),
    "MTBUF": Encoding(
        2,
        15,
        4,
        _BUFFER,
        (
            Modifier("offset", 0, 12),
            Modifier("offen", 12, 1),
            Modifier("idxen", 13, 1),
            Modifier("sc0", 14, 1),
            Modifier("dfmt", 19, 4),
            Modifier("nfmt", 23, 3),
            Modifier("sc1", 53, 1),
            Modifier("nt", 54, 1),
        ),
        mode=0b111 << 12 | 1 << 55,
    ),
}

_PREFIXES: Final = (
    # (highest bits of the first word, how many, encoding); longer prefixes take precedence.
    ("0", "VOP2"),
    ("0111110", "VOPC"),
    ("0111111", "VOP1"),
    ("10", "SOP2"),
    ("1011", "SOPK"),
    ("101111101", "SOP1"),
    ("101111110", "SOPC"),
    ("101111111", "SOPP"),
    ("110000", "SMEM"),
    ("110100", "VOP3"),
    ("110100111", "VOP3P"),
    ("110110", "DS"),
    ("110111", "FLAT"),
    ("111000", "MUBUF"),
    ("111010", "MTBUF"),
)


def encoding_of_prefix() -> list[str | None]:
    """The encoding's name for each value of the first word's 9 highest bits; None where there is none."""
    names: list[str | None] = [None] * 512
    for bits, name in sorted(_PREFIXES, key=lambda item: len(item[0])):
        for low in range(1 << (9 - len(bits))):
            names[int(bits, 2) << (9 - len(bits)) | low] = name
    return names
