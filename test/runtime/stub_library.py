"""Writes a shared library for x86-64 without a compiler: functions that jump to wherever a slot says.

`make_library(names, soname)` gives an ELF file that exports every name as `jmp *[slot]` and, beside them, `slots`, an
array of 8-byte addresses, and `nothing`, a function that returns 0. Whoever loads it fills the slots.
Formats: System V ABI, "Object Files" and "Program Loading and Dynamic Linking"; x86-64 supplement, "Relocation".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

PAGE = 0x1000
STUB_BYTES = 8
SLOTS, NOTHING = "slots", "nothing"
RETURN_ZERO = b"\x31\xc0\xc3"  # xor eax, eax; ret
_DYNAMIC = {"NULL": 0, "HASH": 4, "STRTAB": 5, "SYMTAB": 6, "STRSZ": 10, "SYMENT": 11, "SONAME": 14}
_FUNCTION, _OBJECT = 0x12, 0x11  # STB_GLOBAL with STT_FUNC, STT_OBJECT
_SECTION_OF_CODE = 1  # any number but 0, which would mean undefined


class _Image:
    """A file that grows; offsets are also addresses."""

    def __init__(self) -> None:
        self.content = bytearray()

    def reserve(self, size: int, alignment: int = 16) -> int:
        """Room for `size` bytes; its offset."""
        start = -(-len(self.content) // alignment) * alignment
        self.content.extend(bytes(start + size - len(self.content)))
        return start

    def put(self, offset: int, data: bytes) -> None:
        self.content[offset : offset + len(data)] = data

    def add(self, data: bytes, alignment: int = 16) -> int:
        offset = self.reserve(len(data), alignment)
        self.put(offset, data)
        return offset


def make_library(names: Sequence[str], soname: str) -> bytes:
    """The bytes of the library."""
    image = _Image()
    headers = image.reserve(64 + 3 * 56)
    strings, place_of = bytearray(b"\0"), {}
    for text in (*names, SLOTS, NOTHING, soname):
        place_of[text] = len(strings)
        strings += text.encode() + b"\0"
    symbol_count = 1 + len(names) + 2
    string_table = image.add(bytes(strings))
    symbol_table = image.reserve(24 * symbol_count)
    # One bucket whose chain runs through all symbols.
    chain = [0, *range(2, symbol_count), 0]
    hash_table = image.add(struct.pack(f"<III{symbol_count}I", 1, symbol_count, 1, *chain))
    code = image.reserve(STUB_BYTES * len(names) + len(RETURN_ZERO))
    end_of_code = len(image.content)
    dynamic_entries = len(_DYNAMIC)
    dynamic = image.reserve(16 * dynamic_entries, PAGE)
    slots = image.reserve(8 * len(names))

    symbols = bytearray(24)
    for number, name in enumerate(names):
        stub = code + STUB_BYTES * number
        distance = slots + 8 * number - (stub + 6)
        image.put(stub, b"\xff\x25" + struct.pack("<i", distance) + b"\xcc\xcc")  # jmp [rip + distance]
        symbols += struct.pack("<IBBHQQ", place_of[name], _FUNCTION, 0, _SECTION_OF_CODE, stub, STUB_BYTES)
    nothing = code + STUB_BYTES * len(names)
    image.put(nothing, RETURN_ZERO)
    symbols += struct.pack("<IBBHQQ", place_of[SLOTS], _OBJECT, 0, _SECTION_OF_CODE, slots, 8 * len(names))
    symbols += struct.pack("<IBBHQQ", place_of[NOTHING], _FUNCTION, 0, _SECTION_OF_CODE, nothing, len(RETURN_ZERO))
    image.put(symbol_table, bytes(symbols))

    values = {
        "SONAME": place_of[soname], "HASH": hash_table, "STRTAB": string_table, "SYMTAB": symbol_table,
        "STRSZ": len(strings), "SYMENT": 24, "NULL": 0,
    }  # fmt: skip
    image.put(dynamic, b"".join(struct.pack("<qQ", _DYNAMIC[tag], value) for tag, value in values.items()))

    end = len(image.content)
    load, dynamic_segment, readable, writable, executable = 1, 2, 4, 2, 1
    segments = (
        (load, readable | executable, 0, end_of_code, PAGE),
        (load, readable | writable, dynamic, end - dynamic, PAGE),
        (dynamic_segment, readable | writable, dynamic, 16 * dynamic_entries, 8),
    )
    identification = b"\x7fELF" + bytes([2, 1, 1, 0]) + bytes(8)  # 64 bits, little-endian, current version
    shared_object, x86_64 = 3, 62
    header = identification + struct.pack(
        "<HHIQQQIHHHHHH", shared_object, x86_64, 1, 0, 64, 0, 0, 64, 56, len(segments), 64, 0, 0
    )
    image.put(headers, header)
    for number, (kind, flags, start, size, alignment) in enumerate(segments):
        entry = struct.pack("<IIQQQQQQ", kind, flags, start, start, start, size, size, alignment)
        image.put(headers + 64 + 56 * number, entry)
    return bytes(image.content)
