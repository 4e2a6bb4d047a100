"""Where the parts of a code object lie: sections in the file and in memory, and the segments that a loader maps.

The layout is that of LLVM's linker for AMDGPU, which ROCm's loader has always been given: what is read, then code, then
what the loader writes, each from a page of its own; the file keeps only the distance within the page.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ckmlir.codeobject.elf import FILE_HEADER, PROGRAM_HEADER, PT_LOAD, PT_NOTE, SECTION_HEADER
from ckmlir.lowering.linking.tables import Strings

PAGE = 0x1000  # lld's ELF/Arch/AMDGPU.cpp, as for all targets whose pages are no larger
PT_DYNAMIC, PT_PHDR = 2, 6
PT_GNU_STACK, PT_GNU_RELRO = 0x6474E551, 0x6474E552
PF_EXECUTE, PF_WRITE, PF_READ = 1, 2, 4
SEGMENTS = 8


class Part(Struct):
    """A section of the output. `size` counts where it has no contents in the file; `link` names another part."""

    name: str
    kind: int
    flags: int
    content: bytes | bytearray
    alignment: int = 1
    entry: int = 0
    link: str = ""
    info: int = 0
    size: int = 0
    address: int = 0
    offset: int = 0

    def __post_init__(self) -> None:
        self.size = self.size or len(self.content)

    @property
    def end(self) -> int:
        """The address after it."""
        return self.address + self.size


class Image(Struct):
    """The parts by what memory they are in, each list in the order of addresses. `padding` fills the last page."""

    read: list[Part]
    code: list[Part]
    dynamic: Part
    padding: Part
    other: list[Part]

    @property
    def parts(self) -> list[Part]:
        """All parts, in the order of their headers."""
        return [*self.read, *self.code, self.dynamic, self.padding, *self.other]

    def place(self) -> None:
        """Give every part that a loader sees its address, and its offset in the file."""
        end = FILE_HEADER.size + SEGMENTS * PROGRAM_HEADER.size
        offset = end
        for group in (self.read, self.code, [self.dynamic]):
            if group is not self.read:
                end = aligned(end, PAGE) + end % PAGE
            for number, part in enumerate(group):
                part.address = aligned(end, part.alignment)
                offset = _congruent(offset, part.address) if number == 0 else aligned(offset, part.alignment)
                part.offset = offset
                end, offset = part.end, offset + part.size
        self.padding.address, self.padding.offset = end, offset
        self.padding.size = aligned(end, PAGE) - end

    def place_rest(self) -> int:
        """Give every part that no loader sees its offset, once their contents are there; where the headers go."""
        offset = self.padding.offset
        for part in self.other:
            part.size = len(part.content)
            part.offset = aligned(offset, part.alignment)
            offset = part.offset + part.size
        return aligned(offset, 8)

    def segments(self) -> bytes:
        """The program headers."""
        headers = SEGMENTS * PROGRAM_HEADER.size
        dynamic, with_padding = self.dynamic, self.padding.end - self.dynamic.address
        note = next(part for part in self.read if part.name == ".note")
        first, code = self.read[-1].end, self.code[-1].end - self.code[0].address
        start = self.code[0]
        read, write = PF_READ, PF_READ | PF_WRITE
        rows = (
            (PT_PHDR, read, FILE_HEADER.size, FILE_HEADER.size, headers, headers, 8),
            (PT_LOAD, read, 0, 0, first, first, PAGE),
            (PT_LOAD, PF_READ | PF_EXECUTE, start.offset, start.address, code, code, PAGE),
            (PT_LOAD, write, dynamic.offset, dynamic.address, dynamic.size, with_padding, PAGE),
            (PT_DYNAMIC, write, dynamic.offset, dynamic.address, dynamic.size, dynamic.size, 8),
            (PT_GNU_RELRO, read, dynamic.offset, dynamic.address, dynamic.size, with_padding, 1),
            (PT_GNU_STACK, write, 0, 0, 0, 0, 0),
            (PT_NOTE, read, note.offset, note.address, note.size, note.size, note.alignment),
        )
        return b"".join(
            PROGRAM_HEADER.pack(kind, flags, offset, address, address, in_file, in_memory, alignment)
            for kind, flags, offset, address, in_file, in_memory, alignment in rows
        )

    def section_headers(self, names: Strings) -> bytes:
        """The section headers, the one of no section first."""
        parts = self.parts
        number = {part.name: index + 1 for index, part in enumerate(parts)}
        rows = [bytes(SECTION_HEADER.size)]
        for part in parts:
            place = (part.address, part.offset, part.size)
            link = number[part.link] if part.link else 0
            rows.append(
                SECTION_HEADER.pack(
                    names.place(part.name), part.kind, part.flags, *place, link, part.info, part.alignment, part.entry
                )
            )
        return b"".join(rows)


def written(parts: Sequence[Part], size: int) -> bytearray:
    """A file of `size` bytes with the contents of the parts in their places."""
    file = bytearray(size)
    for part in parts:
        file[part.offset : part.offset + len(part.content)] = part.content
    return file


def aligned(number: int, alignment: int) -> int:
    """The next multiple of `alignment` (0 and 1: any number)."""
    return -(-number // alignment) * alignment if alignment > 1 else number


def _congruent(offset: int, address: int) -> int:
    """The next offset that lies in a page of the file where `address` lies in its page of memory."""
    return offset + (address - offset) % PAGE
