"""A relocatable object as LLVM's AMDGPU backend writes it, with everything refused that `link` does not know.

Kernels of this project are one object with `.text`, `.rodata` (kernel descriptors), a note with metadata and debugging
sections. Whatever else an object holds is for a real linker: `NotCovered` says what it was.
"""

from __future__ import annotations

from msgspec import Struct

from ckmlir.codeobject.elf import (
    ET_REL,
    FILE_HEADER,
    SHF_ALLOC,
    SHT_NOTE,
    SHT_RELA,
    SHT_SYMTAB,
    ElfFile,
    Section,
)
from ckmlir.codeobject.errors import CodeObjectError
from ckmlir.errors import CkmlirError

SHT_NULL, SHT_PROGBITS, SHT_STRTAB = 0, 1, 3
SHF_WRITE, SHF_EXECUTE, SHF_MERGE, SHF_STRINGS = 1, 4, 0x10, 0x20
STB_LOCAL, STB_GLOBAL = 0, 1
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION = 0, 1, 2, 3
STV_DEFAULT, STV_PROTECTED = 0, 3
SHN_UNDEF, SHN_ABS = 0, 0xFFF1

LOADED = {
    ".note": (SHT_NOTE, SHF_ALLOC),
    ".rodata": (SHT_PROGBITS, SHF_ALLOC),
    ".text": (SHT_PROGBITS, SHF_ALLOC | SHF_EXECUTE),
}
"""The sections that a loader sees, in the order of their addresses, with kind and flags."""
ALIGNMENTS = {1 << bit for bit in range(13)}
DROPPED = ".note.GNU-stack"
"""Says to the linker that the stack is not executable."""

R_ABS64, R_REL64, R_ABS32 = 3, 5, 6
RELOCATION_BYTES = {R_ABS64: 8, R_REL64: 8, R_ABS32: 4}
"""Bytes patched by number (LLVM's AMDGPUUsage, "Relocation Records")."""


class NotCovered(CkmlirError):
    """The object holds something that a linker has to see to; the text names it."""


class Symbol(Struct, frozen=True):
    """A symbol; `section` is the object's number of its section, or SHN_ABS."""

    name: str
    info: int
    other: int
    section: int
    value: int
    size: int

    @property
    def binding(self) -> int:
        return self.info >> 4

    @property
    def kind(self) -> int:
        return self.info & 15


class Relocation(Struct, frozen=True):
    """A place in the section of the object's number `section`, patched with symbol + addend."""

    section: int
    offset: int
    kind: int
    symbol: Symbol
    addend: int


class Relocatable(Struct, frozen=True):
    """What is to be linked.

    Attributes:
        header: the file's first bytes.
        sections: by the object's number, those that are kept, with their bytes.
        symbols: without the first, which stands for none, and without those of sections.
    """

    header: bytes
    sections: dict[int, tuple[Section, bytes]]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]


def read(data: bytes) -> Relocatable:
    """Read an object. Raises NotCovered for what this is not made for, damaged files included."""
    try:
        file = ElfFile(data)
        if file.kind != ET_REL:
            raise NotCovered("it is not a relocatable object")
        sections = {number: one for number, one in enumerate(file.sections) if _is_kept(one)}
        _require_loaded(sections)
        every = _symbols(file)
        named = tuple(symbol for symbol in every[1:] if symbol.kind != STT_SECTION)
        for symbol in named:
            _require_known(symbol, sections)
        relocations = tuple(one for section in file.sections for one in _relocations(file, section, sections, every))
        kept = {number: (section, file.contents(section)) for number, section in sections.items()}
    except CodeObjectError as problem:
        raise NotCovered(str(problem)) from None
    return Relocatable(data[: FILE_HEADER.size], kept, named, relocations)


def _is_kept(section: Section) -> bool:
    """Whether a section comes to the output. Raises NotCovered for one of another kind than LLVM emits here."""
    if section.kind in (SHT_NULL, SHT_SYMTAB, SHT_STRTAB, SHT_RELA):
        return False
    if section.name == DROPPED and not section.size:
        return False
    if section.alignment not in ALIGNMENTS:
        raise NotCovered(f"section {section.name} aligned to {section.alignment}")
    if section.flags & SHF_ALLOC:
        if (section.kind, section.flags) != LOADED.get(section.name):
            raise NotCovered(f"section {section.name} of kind {section.kind} with flags 0x{section.flags:x}")
    elif section.kind != SHT_PROGBITS or section.flags not in (0, SHF_MERGE | SHF_STRINGS):
        raise NotCovered(f"section {section.name} of kind {section.kind} with flags 0x{section.flags:x}")
    return True


def _require_loaded(sections: dict[int, Section]) -> None:
    names = [section.name for section in sections.values()]
    for name in LOADED:
        if names.count(name) != 1:
            raise NotCovered(f"{names.count(name)} sections {name}")


def _symbols(file: ElfFile) -> list[Symbol]:
    tables = [section for section in file.sections if section.kind == SHT_SYMTAB]
    if len(tables) != 1:
        raise NotCovered(f"{len(tables)} symbol tables")
    return [Symbol(name, *row[1:]) for name, row in file.symbol_rows(tables[0])]


def _require_known(symbol: Symbol, sections: dict[int, Section]) -> None:
    """Raises NotCovered for a symbol that needs more than an address."""
    what = f"symbol {symbol.name}"
    if symbol.section == SHN_UNDEF:
        raise NotCovered(f"{what}, which nothing defines")
    if symbol.binding == STB_LOCAL and symbol.section == SHN_ABS and symbol.kind == STT_NOTYPE and not symbol.other:
        return
    if symbol.section not in sections or sections[symbol.section].name not in LOADED:
        raise NotCovered(f"{what} in section {symbol.section}")
    expected = (symbol.binding, symbol.kind, symbol.other)
    if expected not in ((STB_GLOBAL, STT_FUNC, STV_PROTECTED), (STB_GLOBAL, STT_OBJECT, STV_DEFAULT)):
        raise NotCovered(f"{what} of binding {expected[0]}, kind {expected[1]} and visibility {expected[2]}")


def _relocations(
    file: ElfFile, table: Section, sections: dict[int, Section], symbols: list[Symbol]
) -> list[Relocation]:
    """The relocations of one table. Raises NotCovered for kinds, places and symbols that have to stay for a loader."""
    if table.kind != SHT_RELA:
        return []
    patched = sections.get(table.info)
    if patched is None or patched.name in (".note", ".text"):
        raise NotCovered(f"{table.name}, which patches {patched.name if patched else f'section {table.info}'}")
    found = []
    for offset, info, addend in file.relocation_rows(table):
        number, kind = info >> 32, info & 0xFFFFFFFF
        what = f"relocation of kind {kind} in {table.name}"
        # In what is loaded only a distance is known before loading.
        if kind not in ((R_REL64,) if patched.flags & SHF_ALLOC else (R_ABS64, R_ABS32)):
            raise NotCovered(what)
        if number >= len(symbols) or symbols[number].section not in sections:
            raise NotCovered(f"{what} against symbol {number}")
        symbol = symbols[number]
        if kind == R_REL64 and symbol.other != STV_PROTECTED:
            raise NotCovered(f"{what} against {symbol.name}, which another object could define")
        if offset + RELOCATION_BYTES[kind] > patched.size:
            raise NotCovered(f"{what} at byte {offset} of {patched.size}")
        found.append(Relocation(table.info, offset, kind, symbol, addend))
    return found
