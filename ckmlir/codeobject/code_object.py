"""Reading an AMDGPU code object: target, kernels, memory image, source lines."""

import dataclasses
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from msgspec import Struct, structs

from ckmlir.codeobject.bundle import from_bundle, is_bundle
from ckmlir.codeobject.descriptor import DESCRIPTOR_SIZE, KernelDescriptor
from ckmlir.codeobject.elf import ET_REL, ElfFile
from ckmlir.codeobject.errors import CodeObjectError
from ckmlir.codeobject.image import Image, make_image
from ckmlir.codeobject.lines import LineTable, read_line_table
from ckmlir.codeobject.metadata import (
    DESCRIPTOR_SUFFIX,
    Argument,
    KernelMetadata,
    chip_in_metadata,
    kernels_metadata,
    metadata_of,
    unpack_metadata,
)

_METADATA_NOTE = ("AMDGPU", 32)
_ABI_VERSIONS = {1: 3, 2: 4, 3: 5, 4: 6}
"""EI_ABIVERSION to code object version (AMDGPUUsage, "ELFABIVERSION_AMDGPU_HSA_*")."""

_TARGETS = {
    0x2C: "gfx900", 0x2D: "gfx902", 0x2E: "gfx904", 0x2F: "gfx906", 0x30: "gfx908", 0x31: "gfx909", 0x32: "gfx90c",
    0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012", 0x36: "gfx1030", 0x37: "gfx1031", 0x38: "gfx1032",
    0x39: "gfx1033", 0x3D: "gfx1035", 0x3E: "gfx1034", 0x3F: "gfx90a", 0x41: "gfx1100", 0x42: "gfx1013",
    0x43: "gfx1150", 0x44: "gfx1103", 0x45: "gfx1036", 0x46: "gfx1101", 0x47: "gfx1102", 0x48: "gfx1200",
    0x4A: "gfx1151", 0x4C: "gfx942", 0x4E: "gfx1201", 0x4F: "gfx950",
    0x51: "gfx9-generic", 0x52: "gfx10-1-generic", 0x53: "gfx10-3-generic", 0x54: "gfx11-generic",
    0x59: "gfx12-generic", 0x5F: "gfx9-4-generic",
}  # fmt: skip
"""EF_AMDGPU_MACH in e_flags (AMDGPUUsage, "AMDGPU ELF Header e_flags for Code Object V4 and After")."""

GENERIC = {"gfx9-4-generic": ("gfx942", "gfx950")}
"""The chips of ours that run code for a generic target (AMDGPUUsage, "Generic Processors")."""


class Kernel(Struct, frozen=True):
    """A kernel of a code object.

    Attributes:
        name: Its name in the metadata, which is also the code's symbol.
        address: Of the first instruction, in the image (from 0).
        size: Bytes of code.
        descriptor_address: Of the kernel descriptor, in the image.
        descriptor: What the hardware is told.
        metadata: What the compiler says.
    """

    name: str
    address: int
    size: int
    descriptor_address: int
    descriptor: KernelDescriptor
    metadata: KernelMetadata

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """All arguments in order of offset, hidden ones included."""
        return self.metadata.arguments

    @property
    def given_arguments(self) -> tuple[Argument, ...]:
        """The arguments that a caller passes. The only pointer to dynamic LDS is not one of them, since it can only be
        the address behind the kernel's own LDS; of several the caller says which is where."""
        own = [one for one in self.arguments if not one.is_hidden]
        one_pointer = sum(one.is_lds for one in own) == 1
        return tuple(one for one in own if not (one.is_lds and one_pointer))


@dataclass(frozen=True)
class CodeObject:
    """An AMDGPU code object (ELF shared object, or a relocatable one that needs no linker).

    Attributes:
        data: The file.
        target: The chip, for example "gfx942"; "unknown-0x.." for a machine number this table lacks.
        features: Target features that are fixed, for example {"sramecc": "+", "xnack": "-"}; absent means any.
        version: Code object version: 3, 4, 5 or 6.
        kernels: By name, in the metadata's order.
        image: The memory image.
    """

    data: bytes = field(repr=False)
    target: str
    features: dict[str, str]
    version: int
    kernels: dict[str, Kernel]
    image: Image = field(repr=False)

    def __repr__(self) -> str:
        """Which kernels it has; what is said of each fills pages."""
        return f"CodeObject({self.target!r}, kernels={list(self.kernels)})"

    @classmethod
    def parse(cls, source: bytes | str | os.PathLike[str], chip: str = "") -> "CodeObject":
        """Reads a code object from its bytes or from a file. `chip`: which one of a bundle for several chips is meant,
        and which chip is to run code for a generic target; may be left out where there is only one.

        Raises:
            CodeObjectError: The file cannot be read, or is not an AMDGPU code object, or is damaged, or not for `chip`.
        """
        if not isinstance(source, (bytes, str, os.PathLike)):
            raise CodeObjectError(f"a code object is bytes or the name of a file, not {type(source).__name__}")
        data = source if isinstance(source, bytes) else _read(Path(source))
        if is_bundle(data):
            data = from_bundle(data, chip)
        elf = ElfFile(data)
        version = _ABI_VERSIONS.get(elf.abi_version)
        if version is None:
            raise CodeObjectError(f"code object of unknown ABI version {elf.abi_version}")
        image = make_image(elf)
        machine = elf.flags & 0xFF
        target = _TARGETS.get(machine, f"unknown-0x{machine:02x}")
        memory = image.load(0)
        notes = [contents for owner, kind, contents in elf.notes() if (owner, kind) == _METADATA_NOTE]
        root = unpack_metadata(notes[0]) if notes else {}
        named = chip_in_metadata(root)
        if named and named != target and machine in _TARGETS:
            raise CodeObjectError(f"damaged code object: its ELF header is for {target}, its metadata for {named}")
        stated = kernels_metadata(root) or _without_metadata(image, memory)
        if not notes and not stated:
            raise CodeObjectError("code object without AMDGPU metadata and without kernel descriptors")
        kernels = [_kernel(metadata, image, memory) for metadata in stated]
        if chip in GENERIC.get(target, ()):
            target = chip
        elif chip and chip.partition(":")[0] != target:
            raise CodeObjectError(f"a code object for {target}, not for {chip}")
        return cls(data, target, _features(elf.flags), version, {kernel.name: kernel for kernel in kernels}, image)

    @property
    def target_id(self) -> str:
        """Target and features as the runtime writes them, for example "gfx942:sramecc+:xnack-"."""
        return ":".join([self.target, *(name + sign for name, sign in sorted(self.features.items()))])

    def with_arguments(self, kernel: str, arguments: tuple[Argument, ...]) -> "CodeObject":
        """The same, with what a caller says of the arguments of a kernel whose metadata is missing."""
        old = self.kernels[kernel]
        metadata = dataclasses.replace(old.metadata, arguments=arguments)
        return dataclasses.replace(self, kernels={**self.kernels, kernel: structs.replace(old, metadata=metadata)})

    def kernel(self, name: str | None = None) -> Kernel:
        """The kernel with a name, or the only one.

        Raises:
            CodeObjectError: There is no such kernel, or several and no name.
        """
        if name is None and len(self.kernels) == 1:
            return next(iter(self.kernels.values()))
        if name is not None and name in self.kernels:
            return self.kernels[name]
        known = ", ".join(self.kernels) or "none"
        problem = "name one of its kernels" if name is None else f"no kernel {name!r}"
        raise CodeObjectError(f"{problem}; the code object has: {known}")

    def code(self, kernel: Kernel) -> bytes:
        """The machine code of a kernel."""
        return self.image.contents[kernel.address : kernel.address + kernel.size]

    @cached_property
    def line_table(self) -> LineTable:
        """Source lines by address in the image; read on first use. Empty for a relocatable object.

        Raises:
            CodeObjectError: The debug information is damaged.
        """
        if int.from_bytes(self.data[16:18], "little") == ET_REL:
            return LineTable([])
        return read_line_table(self.data)

    def line_of(self, address: int) -> tuple[str, int] | None:
        """File and line of an instruction, None where no sound line table has them."""
        try:
            found = self.line_table.lookup(address)
        except CodeObjectError:
            return None
        return (found.file, found.line) if found else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CodeObjectError(f"cannot read {path}: {error.strerror or error}") from error


def _features(flags: int) -> dict[str, str]:
    """xnack in bits 8-9 and sramecc in bits 10-11: 0 unsupported, 1 any, 2 off, 3 on (versions 4 and later)."""
    signs = {2: "-", 3: "+"}
    found = {"xnack": flags >> 8 & 3, "sramecc": flags >> 10 & 3}
    return {name: signs[value] for name, value in found.items() if value in signs}


def _without_metadata(image: Image, memory: bytes) -> list[KernelMetadata]:
    """The kernels of a code object whose metadata names none, such as hand-written assembly: what descriptors say."""
    places = sorted((place, name) for name, place in image.symbols.items() if name.endswith(DESCRIPTOR_SUFFIX))
    return [metadata_of(name, _descriptor(name, image, memory)[1]) for _, name in places]


def _descriptor(symbol: str, image: Image, memory: bytes) -> tuple[int, KernelDescriptor]:
    """Where the descriptor at a symbol is, and the descriptor."""
    if symbol not in image.symbols:
        raise CodeObjectError(f"damaged code object: no descriptor symbol {symbol}")
    where = image.symbols[symbol][0]
    if where + DESCRIPTOR_SIZE > len(memory):
        raise CodeObjectError(f"damaged code object: the descriptor {symbol} lies outside")
    return where, KernelDescriptor.parse(memory[where : where + DESCRIPTOR_SIZE])


def _kernel(metadata: KernelMetadata, image: Image, memory: bytes) -> Kernel:
    where, descriptor = _descriptor(metadata.symbol, image, memory)
    entry = where + descriptor.entry_offset
    code, size = image.symbols.get(metadata.symbol.removesuffix(DESCRIPTOR_SUFFIX), (entry, 0))
    end = max((end for first, end in image.stored if first <= entry < end), default=0)
    size = size if code == entry and size else end - entry
    if not 0 <= entry < len(memory) or entry % 4 or size < 0 or not image.holds(entry, size):
        raise CodeObjectError(f"damaged code object: the code of kernel {metadata.name} lies outside")
    return Kernel(metadata.name, entry, size, where, descriptor, metadata)
