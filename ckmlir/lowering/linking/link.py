"""Link one relocatable object to a code object: the same bytes as LLVM's linker, without a process and its files.

A kernel's object needs little of a linker: its sections get addresses, distances between code and kernel descriptors
are filled in, and a loader's tables are made of two symbols a kernel. What is not of that kind raises NotCovered.
"""

from __future__ import annotations

import struct

from ckmlir.codeobject.elf import (
    ET_DYN,
    FILE_HEADER,
    PROGRAM_HEADER,
    SECTION_HEADER,
    SHF_ALLOC,
    SHT_DYNSYM,
    SHT_NOBITS,
    SHT_SYMTAB,
    SYMBOL,
)
from ckmlir.lowering.linking import relocatable
from ckmlir.lowering.linking.layout import Image, Part, written
from ckmlir.lowering.linking.relocatable import (
    LOADED,
    R_REL64,
    RELOCATION_BYTES,
    SHF_MERGE,
    SHF_STRINGS,
    SHF_WRITE,
    SHN_ABS,
    SHT_PROGBITS,
    SHT_STRTAB,
    STB_GLOBAL,
    STB_LOCAL,
    STT_NOTYPE,
    NotCovered,
    Relocatable,
    Symbol,
)
from ckmlir.lowering.linking.tables import Strings, gnu_hash_table, in_gnu_order, system_v_hash_table

SHT_HASH, SHT_DYNAMIC, SHT_GNU_HASH = 5, 6, 0x6FFFFFF6
DT_NULL, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_GNU_HASH = 0, 4, 5, 6, 10, 11, 0x6FFFFEF5
STV_HIDDEN = 2
DYNAMIC = struct.Struct("<QQ")
DYNAMIC_ENTRIES = 7
COMMENT = "Linker: ckmlir"


def link_object(data: bytes, comment: str = COMMENT) -> bytes:
    """The code object (`.hsaco`) made of one relocatable object; `comment` is what names the linker in it.

    Raises NotCovered for an object that needs another linker.
    """
    source = relocatable.read(data)
    exported = [symbol for symbol in source.symbols if symbol.binding == STB_GLOBAL]
    names = in_gnu_order([symbol.name for symbol in exported])
    by_number = {number: _kept(source, number) for number in source.sections}
    image = _parts(by_number, [symbol.name for symbol in exported], names, comment)
    image.place()
    _relocate(source, by_number)
    parts = {part.name: part for part in image.parts}
    number = {part.name: index + 1 for index, part in enumerate(image.parts)}

    def entry(symbol: Symbol, texts: Strings) -> bytes:
        """A symbol's entry, its value now an address."""
        where, value = symbol.section, symbol.value
        if where != SHN_ABS:
            part = by_number[where]
            where, value = number[part.name], part.address + value
        return SYMBOL.pack(texts.place(symbol.name), symbol.info, symbol.other, where, value, symbol.size)

    texts = Strings(symbol.name for symbol in exported)
    of_name = {symbol.name: symbol for symbol in exported}
    parts[".dynsym"].content = bytes(SYMBOL.size) + b"".join(entry(of_name[name], texts) for name in names)
    parts[".dynamic"].content = _dynamic(parts)
    local = [symbol for symbol in source.symbols if symbol.binding == STB_LOCAL]
    texts = Strings(symbol.name for symbol in source.symbols)
    dynamic = (STB_LOCAL << 4 | STT_NOTYPE, STV_HIDDEN, number[".dynamic"], parts[".dynamic"].address, 0)
    rows = [bytes(SYMBOL.size), *(entry(symbol, texts) for symbol in local)]
    rows.append(SYMBOL.pack(texts.place("_DYNAMIC"), *dynamic))
    parts[".symtab"].info = len(rows)
    parts[".symtab"].content = b"".join([*rows, *(entry(symbol, texts) for symbol in exported)])
    parts[".strtab"].content = texts.content
    return _file(source, image)


def _kept(source: Relocatable, number: int) -> Part:
    """A section of the object as a part of the output."""
    section, content = source.sections[number]
    entry = 1 if section.flags & SHF_STRINGS else 0
    return Part(section.name, section.kind, section.flags, content, section.alignment, entry)


def _parts(kept: dict[int, Part], exported: list[str], ordered: list[str], comment: str) -> Image:
    """All parts; tables of symbols hold zeros until addresses are known."""
    loaded = {part.name: part for part in kept.values() if part.name in LOADED}
    data, writable = SHF_ALLOC, SHF_ALLOC | SHF_WRITE
    symbols = bytes(SYMBOL.size * (1 + len(ordered)))
    read = [
        loaded[".note"],
        Part(".dynsym", SHT_DYNSYM, data, symbols, 8, SYMBOL.size, ".dynstr", info=1),
        Part(".gnu.hash", SHT_GNU_HASH, data, gnu_hash_table(ordered), 8, 0, ".dynsym"),
        Part(".hash", SHT_HASH, data, system_v_hash_table(["", *ordered]), 4, 4, ".dynsym"),
        Part(".dynstr", SHT_STRTAB, data, Strings(exported).content),
        loaded[".rodata"],
    ]
    dynamic = Part(".dynamic", SHT_DYNAMIC, writable, bytes(DYNAMIC.size * DYNAMIC_ENTRIES), 8, DYNAMIC.size, ".dynstr")
    padding = Part(".relro_padding", SHT_NOBITS, writable, b"")
    other = [
        *(part for part in kept.values() if part.name not in LOADED),
        Part(".comment", SHT_PROGBITS, SHF_MERGE | SHF_STRINGS, comment.encode() + b"\0", entry=1),
        Part(".symtab", SHT_SYMTAB, 0, b"", 8, SYMBOL.size, ".strtab"),
        Part(".shstrtab", SHT_STRTAB, 0, b""),
        Part(".strtab", SHT_STRTAB, 0, b""),
    ]
    return Image(read, [loaded[".text"]], dynamic, padding, other)


def _relocate(source: Relocatable, parts: dict[int, Part]) -> None:
    """Patch every place that a relocation names."""
    for relocation in source.relocations:
        patched, size = parts[relocation.section], RELOCATION_BYTES[relocation.kind]
        target = relocation.symbol
        value = parts[target.section].address + target.value + relocation.addend
        if relocation.kind == R_REL64:
            value -= patched.address + relocation.offset
        if not -(1 << 8 * size - 1) <= value < 1 << 8 * size:
            raise NotCovered(f"the value {value} of a relocation does not fit {size} bytes")
        content = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        patched.content = b"".join(
            (patched.content[: relocation.offset], content, patched.content[relocation.offset + size :])
        )


def _dynamic(parts: dict[str, Part]) -> bytes:
    """Where a loader finds the tables of symbols."""
    rows = (
        (DT_SYMTAB, parts[".dynsym"].address),
        (DT_SYMENT, SYMBOL.size),
        (DT_STRTAB, parts[".dynstr"].address),
        (DT_STRSZ, parts[".dynstr"].size),
        (DT_GNU_HASH, parts[".gnu.hash"].address),
        (DT_HASH, parts[".hash"].address),
        (DT_NULL, 0),
    )
    return b"".join(DYNAMIC.pack(*row) for row in rows)


def _file(source: Relocatable, image: Image) -> bytes:
    names = Strings(part.name for part in image.parts)
    next(part for part in image.other if part.name == ".shstrtab").content = names.content
    headers_at = image.place_rest()
    headers = image.section_headers(names)
    parts = image.parts
    identity, _, machine, version, _, _, _, flags, *_ = FILE_HEADER.unpack(source.header)
    names_at = [part.name for part in parts].index(".shstrtab") + 1
    segments = image.segments()
    sizes = (FILE_HEADER.size, PROGRAM_HEADER.size, len(segments) // PROGRAM_HEADER.size)
    head = FILE_HEADER.pack(
        *(identity, ET_DYN, machine, version, 0, FILE_HEADER.size, headers_at, flags, *sizes),
        *(SECTION_HEADER.size, len(parts) + 1, names_at),
    )
    file = written(parts, headers_at + len(headers))
    file[: len(head) + len(segments)] = head + segments
    file[headers_at:] = headers
    return bytes(file)
