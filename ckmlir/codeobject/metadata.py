"""The code object's metadata note (MessagePack), as checked dataclasses.

Source: LLVM's AMDGPUUsage, "Code Object V3 Metadata" to "Code Object V5 Metadata" (V6 has V5's).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from ckmlir.codeobject.descriptor import KernelDescriptor
from ckmlir.codeobject.errors import CodeObjectError

DESCRIPTOR_SUFFIX = ".kd"
"""Of a kernel descriptor's symbol, behind the kernel's name."""
NOTE = "ckmlir."
"""What the keys of this package's own entries begin with."""


class Argument(Struct, frozen=True):
    """A kernel argument.

    Attributes:
        name: As in the source; empty when not recorded.
        offset: Byte in the kernel argument segment.
        size: Bytes.
        value_kind: "by_value", "global_buffer", "dynamic_shared_pointer", "hidden_block_count_x", ...
        address_space: "global", "constant", ... or "".
        access: What the kernel may do ("read_only", ...) or "".
        type_name: Type in the source, or "".
        alignment: Alignment of the pointed-to LDS of a dynamic_shared_pointer, or 0.
    """

    name: str
    offset: int
    size: int
    value_kind: str
    address_space: str = ""
    access: str = ""
    type_name: str = ""
    alignment: int = 0

    @property
    def end(self) -> int:
        """The byte behind it."""
        return self.offset + self.size

    @property
    def is_lds(self) -> bool:
        """It is the address of LDS whose size the launch says."""
        return self.value_kind == "dynamic_shared_pointer"

    @property
    def is_hidden(self) -> bool:
        """The runtime, not the caller, provides the argument."""
        return self.value_kind.startswith("hidden_")


@dataclass(frozen=True)
class KernelMetadata:
    """What the metadata says of a kernel; numbers not stated are 0, `None` where 0 would mean something.

    Attributes:
        name: The kernel's name.
        symbol: Its descriptor's symbol.
        arguments: In order of offset, hidden ones included.
        kernarg_size: Bytes.
        kernarg_alignment: Bytes.
        group_segment_size: Static LDS, bytes.
        private_segment_size: Scratch of a work-item, bytes.
        vgpr_count, agpr_count, sgpr_count: Registers used; vgpr_count includes the AccVGPRs on gfx90a and later.
        vgpr_spill_count, sgpr_spill_count: Registers spilled.
        max_flat_workgroup_size: Largest workgroup, work-items.
        required_workgroup_size: x, y, z if the kernel demands a size.
        wavefront_size: Lanes.
        uses_dynamic_stack: The scratch size is not known statically.
        notes: What the compiler said besides: entries whose keys begin with `ckmlir.`, by the rest of the key.
        is_stated: Whether there is metadata; without it arguments and workgroups are not known.
    """

    name: str
    symbol: str
    arguments: tuple[Argument, ...]
    kernarg_size: int
    kernarg_alignment: int
    group_segment_size: int
    private_segment_size: int
    vgpr_count: int
    agpr_count: int
    sgpr_count: int
    vgpr_spill_count: int
    sgpr_spill_count: int
    max_flat_workgroup_size: int
    required_workgroup_size: tuple[int, int, int] | None
    wavefront_size: int
    uses_dynamic_stack: bool
    notes: Mapping[str, Any] = field(default_factory=dict, compare=False)
    is_stated: bool = True


def metadata_of(symbol: str, descriptor: KernelDescriptor) -> KernelMetadata:
    """What a kernel descriptor says of a kernel without metadata."""
    registers = descriptor.allocated_vgprs
    return KernelMetadata(
        name=symbol.removesuffix(DESCRIPTOR_SUFFIX),
        symbol=symbol,
        arguments=(),
        kernarg_size=descriptor.kernarg_size,
        kernarg_alignment=8,
        group_segment_size=descriptor.group_segment_size,
        private_segment_size=descriptor.private_segment_size,
        vgpr_count=registers,
        agpr_count=max(0, registers - descriptor.accum_offset),
        sgpr_count=descriptor.allocated_sgprs,
        vgpr_spill_count=0,
        sgpr_spill_count=0,
        max_flat_workgroup_size=1024,
        required_workgroup_size=None,
        wavefront_size=descriptor.wavefront_size,
        uses_dynamic_stack=descriptor.uses_dynamic_stack,
        is_stated=False,
    )


def unpack_metadata(note: bytes) -> dict[str, Any]:
    """The metadata as a dictionary.

    Raises:
        CodeObjectError: The note is not a MessagePack map.
    """
    try:
        root = msgspec.msgpack.decode(note)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise CodeObjectError(f"damaged code object: metadata note is not MessagePack ({error})") from error
    if not isinstance(root, dict):
        raise CodeObjectError("damaged code object: the metadata note is not a map")
    return root


def chip_in_metadata(root: Mapping[str, Any]) -> str:
    """The chip that a metadata map is for, which follows the triple's four parts: "amdgcn-amd-amdhsa--gfx942:sramecc+".
    "" where it names none, as before code object version 4.

    Raises:
        CodeObjectError: the target is not text.
    """
    parts = _Reader(root, "the metadata").text("amdhsa.target").partition(":")[0].split("-", 4)
    return parts[4] if len(parts) == 5 else ""


def kernels_metadata(root: Mapping[str, Any]) -> list[KernelMetadata]:
    """The kernels of a metadata map.

    Raises:
        CodeObjectError: A field is missing or has the wrong type.
    """
    kernels = root.get("amdhsa.kernels", [])
    if not isinstance(kernels, list):
        raise CodeObjectError("damaged code object: amdhsa.kernels is not a list")
    return [_kernel(_Reader(kernel, "a kernel's metadata")) for kernel in kernels]


class _Reader:
    """Typed access to a metadata map."""

    def __init__(self, fields: object, what: str) -> None:
        if not isinstance(fields, dict):
            raise CodeObjectError(f"damaged code object: {what} is not a map")
        self.fields: dict[object, object] = fields
        self.what = what

    def integer(self, key: str, default: int | None = 0) -> int:
        value = self.fields.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise CodeObjectError(f"damaged code object: {key} of {self.what} is {value!r}, not a size")
        return value

    def text(self, key: str, default: str | None = "") -> str:
        value = self.fields.get(key, default)
        if not isinstance(value, str):
            raise CodeObjectError(f"damaged code object: {key} of {self.what} is {value!r}, not a text")
        return value

    def items(self, key: str) -> list[object]:
        value = self.fields.get(key, [])
        if not isinstance(value, list):
            raise CodeObjectError(f"damaged code object: {key} of {self.what} is {value!r}, not a list")
        return value


def _argument(reader: _Reader) -> Argument:
    return Argument(
        name=reader.text(".name"),
        offset=reader.integer(".offset", None),
        size=reader.integer(".size", None),
        value_kind=reader.text(".value_kind", None),
        address_space=reader.text(".address_space"),
        access=reader.text(".actual_access") or reader.text(".access"),
        type_name=reader.text(".type_name"),
        alignment=reader.integer(".pointee_align"),
    )


def _kernel(reader: _Reader) -> KernelMetadata:
    name = reader.text(".name", None)
    reader.what = f"kernel {name}"
    what = f"an argument of kernel {name}"
    arguments = [_argument(_Reader(item, what)) for item in reader.items(".args")]
    required = reader.items(".reqd_workgroup_size")
    sizes = [size for size in required if isinstance(size, int) and not isinstance(size, bool) and size > 0]
    if required and (len(required) != 3 or len(sizes) != 3):
        raise CodeObjectError(f"damaged code object: .reqd_workgroup_size of kernel {name} is {required!r}")
    return KernelMetadata(
        name=name,
        symbol=reader.text(".symbol", None),
        arguments=tuple(sorted(arguments, key=lambda argument: argument.offset)),
        kernarg_size=reader.integer(".kernarg_segment_size"),
        kernarg_alignment=reader.integer(".kernarg_segment_align"),
        group_segment_size=reader.integer(".group_segment_fixed_size"),
        private_segment_size=reader.integer(".private_segment_fixed_size"),
        vgpr_count=reader.integer(".vgpr_count"),
        agpr_count=reader.integer(".agpr_count"),
        sgpr_count=reader.integer(".sgpr_count"),
        vgpr_spill_count=reader.integer(".vgpr_spill_count"),
        sgpr_spill_count=reader.integer(".sgpr_spill_count"),
        max_flat_workgroup_size=reader.integer(".max_flat_workgroup_size"),
        required_workgroup_size=(sizes[0], sizes[1], sizes[2]) if sizes else None,
        wavefront_size=reader.integer(".wavefront_size", 64),
        uses_dynamic_stack=reader.fields.get(".uses_dynamic_stack") is True,
        notes={
            key.removeprefix(NOTE): value
            for key, value in reader.fields.items()
            if isinstance(key, str) and key.startswith(NOTE)
        },
    )
