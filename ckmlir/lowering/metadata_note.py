"""Names of kernel arguments and the compiler's notes in an object's metadata, where tools, debuggers and checkers look.

MLIR's export to LLVM drops the names of arguments, and LLVM writes those into the metadata note that its functions
have; of notes it knows nothing. So the note of the relocatable object is written again before the object is linked
(LLVM's AMDGPUUsage, "Code Object V3 Metadata": `.name` of an argument; "Metadata": keys of other vendors).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from ckmlir.codeobject.elf import FILE_HEADER, SECTION_HEADER, SHT_NOTE, ElfFile
from ckmlir.codeobject.metadata import unpack_metadata

ELF = b"\x7fELF"
NOTE = struct.Struct("<III")
OWNER, METADATA = b"AMDGPU\0", 32
"""Owner and type of the note (AMDGPUUsage, "Note Records", NT_AMDGPU_METADATA)."""
COUNTS = (b"vgpr_spill_count", b"sgpr_spill_count")
SPILLED = re.compile(rb"gpr_spill_count[^\0]")
"""A count that is not zero: MessagePack writes the key as it is, and 0 as one byte."""


class KernelNotes(Struct, frozen=True):
    """What the metadata is to say of a kernel: the names of its explicit arguments (none: as they are), and entries."""

    arguments: Sequence[str] = ()
    entries: Mapping[str, Any] = field(default_factory=dict)


def with_notes(relocatable: bytes, notes: Mapping[str, KernelNotes]) -> bytes:
    """The relocatable object with `notes` on its kernels, by kernel, in its metadata.

    Kernels that `notes` leaves out keep what they have. The new note stands at the end of the file.
    """
    elf = ElfFile(relocatable)
    number, section = next(
        (number, one) for number, one in enumerate(elf.sections) if one.kind == SHT_NOTE and one.name == ".note"
    )
    content = next(body for owner, kind, body in elf.notes() if owner == "AMDGPU" and kind == METADATA)
    packed = _note(_noted(unpack_metadata(content), notes))
    data = bytearray(relocatable)
    data += bytes(-len(data) % max(section.alignment, 1))
    header = FILE_HEADER.unpack_from(data)
    place = header[6] + number * SECTION_HEADER.size
    fields = list(SECTION_HEADER.unpack_from(data, place))
    fields[4:6] = len(data), len(packed)
    SECTION_HEADER.pack_into(data, place, *fields)
    return bytes(data + packed)


class Spilled(NamedTuple):
    """Registers that kernels spill: vector ones, and scalar ones, which lie in lanes of vector registers."""

    vectors: int
    scalars: int


def spilled_registers(output: bytes) -> Spilled:
    """How many registers kernels spill, by LLVM's output, which is assembly or a relocatable object."""
    if not output.startswith(ELF):
        return Spilled(*(sum(map(int, re.findall(rb"\.%b: *(\d+)" % key, output))) for key in COUNTS))
    if not SPILLED.search(output):
        return Spilled(0, 0)  # as of nearly all, which takes a hundredth of the time of reading the notes
    notes = (body for owner, kind, body in ElfFile(output).notes() if owner == "AMDGPU" and kind == METADATA)
    kernels = [one for body in notes for one in unpack_metadata(body)["amdhsa.kernels"]]
    return Spilled(*(sum(int(one.get(f".{key.decode()}", 0)) for one in kernels) for key in COUNTS))


def _noted(metadata: dict[str, Any], notes: Mapping[str, KernelNotes]) -> dict[str, Any]:
    metadata["amdhsa.kernels"] = [
        _with(kernel, notes[kernel[".name"]]) if kernel[".name"] in notes else kernel
        for kernel in metadata["amdhsa.kernels"]
    ]
    return metadata


def _with(kernel: dict[str, Any], notes: KernelNotes) -> dict[str, Any]:
    if notes.arguments:
        explicit = [one for one in kernel.get(".args", ()) if not one[".value_kind"].startswith("hidden_")]
        kernel[".args"][: len(explicit)] = [
            _ordered({**argument, ".name": name}) for argument, name in zip(explicit, notes.arguments, strict=True)
        ]
    return _ordered({**kernel, **notes.entries})


def _ordered(entries: dict[str, Any]) -> dict[str, Any]:
    """As LLVM writes a map: by key."""
    return dict(sorted(entries.items()))


def _note(metadata: dict[str, Any]) -> bytes:
    content = msgspec.msgpack.encode(metadata)
    owner = OWNER + bytes(-len(OWNER) % 4)
    return NOTE.pack(len(OWNER), len(content), METADATA) + owner + content + bytes(-len(content) % 4)
