"""The ELF container of a code object: segments, sections, symbols, notes, relocations, every read checked.

Formats: System V ABI, chapters 4 and 5 (ELF-64, little endian); LLVM's AMDGPUUsage, "ELF Code Object".
"""

import struct
from typing import NamedTuple

from ckmlir.codeobject.errors import CodeObjectError

ET_REL, ET_DYN = 1, 3
PT_LOAD, PT_NOTE = 1, 4
SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_DYNSYM, SHT_NOTE = 2, 4, 8, 11, 7
SHF_ALLOC = 2
EM_AMDGPU = 224
ELFOSABI_AMDGPU_HSA = 64

FILE_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
_NOTE = struct.Struct("<III")


class Segment(NamedTuple):
    """A program header: file bytes [offset, offset + file_size) at address, `memory_size` bytes in memory."""

    kind: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int


class Section(NamedTuple):
    """A section header."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class Symbol(NamedTuple):
    """A symbol; `section` is 0 when it is undefined, and in a relocatable file `value` counts from the section."""

    name: str
    value: int
    size: int
    section: int


class Relocation(NamedTuple):
    """A relocation with addend; `section` is the section it patches (0 in a dynamic relocation table)."""

    offset: int
    kind: int
    symbol: Symbol | None
    addend: int
    section: int


class ElfFile:
    """An AMDGPU ELF file.

    Raises:
        CodeObjectError: The bytes are not one, or a header points outside of them.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        if not data:
            raise CodeObjectError("empty file: not an AMDGPU code object")
        if data[:4] != b"\x7fELF":
            raise CodeObjectError("not an ELF file, so not an AMDGPU code object")
        header = FILE_HEADER.unpack(self._bytes(0, FILE_HEADER.size, "ELF header"))
        identity, self.kind, machine = header[0], header[1], header[2]
        if identity[4] != 2 or identity[5] != 1:
            raise CodeObjectError("not a 64-bit little-endian ELF file, so not an AMDGPU code object")
        if machine != EM_AMDGPU:
            raise CodeObjectError(f"an ELF file for machine {machine}, not for AMDGPU (machine {EM_AMDGPU})")
        if identity[7] != ELFOSABI_AMDGPU_HSA:
            raise CodeObjectError(f"an AMDGPU ELF file for OS ABI {identity[7]}, not for HSA ({ELFOSABI_AMDGPU_HSA})")
        if self.kind not in (ET_REL, ET_DYN):
            raise CodeObjectError(f"an ELF file of type {self.kind}, neither a shared object nor relocatable")
        self.abi_version, self.flags = identity[8], header[7]
        self.segments = self._segments(offset=header[5], entry_size=header[9], count=header[10])
        self.sections = self._sections(offset=header[6], entry_size=header[11], count=header[12], names=header[13])
        self._symbols = {
            i: self._symbol_table(section)
            for i, section in enumerate(self.sections)
            if section.kind in (SHT_SYMTAB, SHT_DYNSYM)
        }

    def _bytes(self, offset: int, size: int, what: str) -> bytes:
        if offset + size > len(self.data):
            raise CodeObjectError(
                f"damaged code object: {what} ends at byte {offset + size}, the file has {len(self.data)}"
            )
        return self.data[offset : offset + size]

    def _table(self, layout: struct.Struct, offset: int, size: int, what: str) -> list[tuple[int, ...]]:
        if size % layout.size:
            raise CodeObjectError(f"damaged code object: {what} of {size} bytes, entries take {layout.size}")
        return list(layout.iter_unpack(self._bytes(offset, size, what)))

    def _segments(self, *, offset: int, entry_size: int, count: int) -> list[Segment]:
        if count and entry_size != PROGRAM_HEADER.size:
            raise CodeObjectError(
                f"damaged code object: program headers of {entry_size} bytes, not {PROGRAM_HEADER.size}"
            )
        rows = self._table(PROGRAM_HEADER, offset, count * PROGRAM_HEADER.size, "program header table")
        return [Segment(row[0], row[1], row[2], row[3], row[5], row[6]) for row in rows]

    def _sections(self, *, offset: int, entry_size: int, count: int, names: int) -> list[Section]:
        if count and entry_size != SECTION_HEADER.size:
            raise CodeObjectError(
                f"damaged code object: section headers of {entry_size} bytes, not {SECTION_HEADER.size}"
            )
        rows = self._table(SECTION_HEADER, offset, count * SECTION_HEADER.size, "section header table")
        if rows and names >= len(rows):
            raise CodeObjectError(f"damaged code object: section names in section {names} of {len(rows)}")
        texts = self._bytes(rows[names][4], rows[names][5], "section names") if rows else b""
        return [
            Section(_text(texts, row[0]), row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8])
            for row in rows
        ]

    def _symbol_table(self, section: Section) -> list[Symbol]:
        return [Symbol(name, value, size, index) for name, (_, _, _, index, value, size) in self.symbol_rows(section)]

    def symbol_rows(self, section: Section) -> list[tuple[str, tuple[int, ...]]]:
        """Name and entry (in the order of SYMBOL's fields) of every symbol of a symbol table."""
        if section.link >= len(self.sections):
            raise CodeObjectError(f"damaged code object: symbol names in section {section.link}, which is none")
        texts = self.contents(self.sections[section.link])
        rows = self._table(SYMBOL, section.offset, section.size, f"section {section.name}")
        return [(_text(texts, row[0]), row) for row in rows]

    def contents(self, section: Section) -> bytes:
        """The bytes of a section in the file."""
        if section.kind == SHT_NOBITS:
            return b""
        return self._bytes(section.offset, section.size, f"section {section.name}")

    def segment_contents(self, segment: Segment) -> bytes:
        """The bytes of a segment in the file."""
        return self._bytes(segment.offset, segment.file_size, f"segment at address 0x{segment.address:x}")

    def symbols(self) -> dict[str, Symbol]:
        """All named, defined symbols; those of .symtab take precedence over .dynsym's."""
        found: dict[str, Symbol] = {}
        order = sorted(self._symbols, key=lambda i: self.sections[i].kind == SHT_SYMTAB)
        for index in order:
            found.update((symbol.name, symbol) for symbol in self._symbols[index] if symbol.name and symbol.section)
        return found

    def relocations(self) -> list[Relocation]:
        """The relocations a loader has to apply (all have an addend; those of debug sections are left out)."""
        found: list[Relocation] = []
        for section in self.sections:
            if section.kind != SHT_RELA or not self._is_loaded(section):
                continue
            symbols = self._symbols.get(section.link, [])
            for offset, info, addend in self.relocation_rows(section):
                number = info >> 32
                if number and number >= len(symbols):
                    raise CodeObjectError(f"damaged code object: relocation against symbol {number}, which is none")
                symbol = symbols[number] if number else None
                found.append(Relocation(offset, info & 0xFFFFFFFF, symbol, addend, section.info))
        return found

    def relocation_rows(self, section: Section) -> list[tuple[int, ...]]:
        """Offset, symbol and kind in one word, and addend of every entry of a relocation table."""
        return self._table(RELOCATION, section.offset, section.size, f"section {section.name}")

    def _is_loaded(self, relocations: Section) -> bool:
        if self.kind == ET_DYN:
            return bool(relocations.flags & SHF_ALLOC)
        if relocations.info >= len(self.sections):
            raise CodeObjectError(f"damaged code object: {relocations.name} patches section {relocations.info}")
        return bool(self.sections[relocations.info].flags & SHF_ALLOC)

    def notes(self) -> list[tuple[str, int, bytes]]:
        """Owner, type and contents of every note."""
        areas = [self.segment_contents(segment) for segment in self.segments if segment.kind == PT_NOTE]
        areas = areas or [self.contents(section) for section in self.sections if section.kind == SHT_NOTE]
        found: list[tuple[str, int, bytes]] = []
        for area in areas:
            position = 0
            while position + _NOTE.size <= len(area):
                name_size, size, kind = _NOTE.unpack_from(area, position)
                start = position + _NOTE.size
                body = start + (name_size + 3 & ~3)
                if body + size > len(area):
                    raise CodeObjectError("damaged code object: a note is longer than its segment")
                owner = area[start : start + name_size].rstrip(b"\0").decode("latin-1")
                found.append((owner, kind, area[body : body + size]))
                position = body + (size + 3 & ~3)
        return found


def _text(texts: bytes, offset: int) -> str:
    end = texts.find(b"\0", offset)
    if offset > len(texts) or end < 0:
        raise CodeObjectError(f"damaged code object: a name at byte {offset} of a string table of {len(texts)}")
    return texts[offset:end].decode("utf-8", errors="replace")
