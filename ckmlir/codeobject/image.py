"""A code object in memory: where its parts go and how a loader patches them for a base address.

Source: LLVM's AMDGPUUsage, "Relocation Records".
"""


from msgspec import Struct

from ckmlir.codeobject.elf import ET_DYN, PT_LOAD, SHF_ALLOC, ElfFile, Relocation, Symbol
from ckmlir.codeobject.errors import CodeObjectError

MAXIMUM_SIZE = 1 << 28
"""Largest image accepted, bytes; a larger one is a damaged header."""

_SHN_ABS = 0xFFF1

# number: (bytes patched, subtract the place, bits to shift right)
_RELOCATION_KINDS = {
    1: (4, False, 0),  # R_AMDGPU_ABS32_LO
    2: (4, False, 32),  # R_AMDGPU_ABS32_HI
    3: (8, False, 0),  # R_AMDGPU_ABS64
    4: (4, True, 0),  # R_AMDGPU_REL32
    5: (8, True, 0),  # R_AMDGPU_REL64
    6: (4, False, 0),  # R_AMDGPU_ABS32
    10: (4, True, 0),  # R_AMDGPU_REL32_LO
    11: (4, True, 32),  # R_AMDGPU_REL32_HI
    13: (8, False, 0),  # R_AMDGPU_RELATIVE64
}
_NO_RELOCATION = 0


class Image(Struct, frozen=True):
    """A code object laid out from address 0.

    Attributes:
        contents: The bytes, before relocation.
        relocations: Address, kind and value before the base is added, for each relocation.
        symbols: Address and size of every defined symbol.
        stored: First address and end of each part that the file holds; the rest of `contents` is zeros.
    """

    contents: bytes
    relocations: tuple[tuple[int, int, int], ...]
    symbols: dict[str, tuple[int, int]]
    stored: tuple[tuple[int, int], ...]

    def holds(self, address: int, size: int) -> bool:
        """The file holds these bytes: all code must be such, while zeros may be data."""
        return any(first <= address and address + size <= end for first, end in self.stored)

    def load(self, base: int) -> bytes:
        """The bytes as they are in memory when the image starts at address `base`."""
        memory = bytearray(self.contents)
        for place, kind, value in self.relocations:
            size, relative, shift = _RELOCATION_KINDS[kind]
            result = value - place if relative else value + base
            result = result >> shift & (1 << 8 * size) - 1
            memory[place : place + size] = result.to_bytes(size, "little")
        return bytes(memory)


def make_image(elf: ElfFile) -> Image:
    """Lays out the segments of a shared object, or the sections of a relocatable one.

    Raises:
        CodeObjectError: A part lies outside of a plausible image, or a relocation has an unknown kind or place.
    """
    starts = _section_addresses(elf)
    parts = (
        [(item.address, elf.segment_contents(item), item.memory_size) for item in elf.segments if item.kind == PT_LOAD]
        if elf.kind == ET_DYN
        else [(start, elf.contents(elf.sections[index]), elf.sections[index].size) for index, start in starts.items()]
    )
    size = max((address + memory_size for address, _, memory_size in parts), default=0)
    if size > MAXIMUM_SIZE or any(len(contents) > memory_size for _, contents, memory_size in parts):
        raise CodeObjectError(f"damaged code object: its image would take {size} bytes")
    memory = bytearray(size)
    for address, contents, _ in parts:
        memory[address : address + len(contents)] = contents
    relocations = [_resolve(item, starts, size) for item in elf.relocations() if item.kind != _NO_RELOCATION]
    symbols = {
        symbol.name: (_address(symbol, starts), symbol.size)
        for symbol in elf.symbols().values()
        if symbol.section != _SHN_ABS
    }
    stored = tuple((address, address + len(contents)) for address, contents, _ in parts)
    return Image(bytes(memory), tuple(relocations), symbols, stored)


def _section_addresses(elf: ElfFile) -> dict[int, int]:
    """Where each loaded section of a relocatable file goes; empty for a shared object, whose addresses are final."""
    starts: dict[int, int] = {}
    if elf.kind == ET_DYN:
        return starts
    position = 0
    for index, section in enumerate(elf.sections):
        if section.flags & SHF_ALLOC:
            alignment = max(section.alignment, 1)
            position = -(-position // alignment) * alignment
            starts[index] = position
            position += section.size
            if position > MAXIMUM_SIZE:
                raise CodeObjectError(f"damaged code object: section {section.name} would end at byte {position}")
    return starts


def _address(symbol: Symbol, starts: dict[int, int]) -> int:
    return symbol.value + starts.get(symbol.section, 0)


def _resolve(relocation: Relocation, starts: dict[int, int], size: int) -> tuple[int, int, int]:
    known = _RELOCATION_KINDS.get(relocation.kind)
    if known is None:
        raise CodeObjectError(f"relocation of kind {relocation.kind} in the code object is not supported")
    place = relocation.offset + starts.get(relocation.section, 0)
    if place + known[0] > size:
        raise CodeObjectError(f"damaged code object: a relocation patches byte {place} of an image of {size}")
    if relocation.symbol is not None and not relocation.symbol.section:
        raise CodeObjectError(f"the code object needs the undefined symbol {relocation.symbol.name or '(no name)'}")
    target = _address(relocation.symbol, starts) if relocation.symbol else 0
    return place, relocation.kind, target + relocation.addend
