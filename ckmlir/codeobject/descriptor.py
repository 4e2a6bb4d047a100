"""The kernel descriptor: the 64 bytes that tell the hardware how to start a kernel.

Source: LLVM's AMDGPUUsage, "Kernel Descriptor" and the tables of COMPUTE_PGM_RSRC1, 2 and 3 (gfx90a, gfx942).
"""

import struct

from msgspec import Struct

DESCRIPTOR_SIZE = 64

_LAYOUT = struct.Struct("<III4xq20xIIIHH4x")
_REGISTERS = (
    # (name, SGPRs) in the order they are loaded, by the bit of kernel_code_properties that asks for them
    ("private_segment_buffer", 4),
    ("dispatch_ptr", 2),
    ("queue_ptr", 2),
    ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2),
    ("flat_scratch_init", 2),
    ("private_segment_size", 1),
)


def _bits(value: int, low: int, width: int = 1) -> int:
    return value >> low & (1 << width) - 1


class KernelDescriptor(Struct, frozen=True):
    """A kernel descriptor, decoded for gfx90a and later gfx9 chips.

    Attributes:
        group_segment_size: Static LDS, bytes.
        private_segment_size: Scratch of one work-item, bytes.
        kernarg_size: Bytes of the kernel argument segment (0 when not stated).
        entry_offset: Entry address minus the descriptor's address.
        rsrc1, rsrc2, rsrc3: COMPUTE_PGM_RSRC registers.
        properties: kernel_code_properties.
        kernarg_preload: Preload length (bits 0-6) and offset (bits 7-15), in dwords.
    """

    group_segment_size: int
    private_segment_size: int
    kernarg_size: int
    entry_offset: int
    rsrc3: int
    rsrc1: int
    rsrc2: int
    properties: int
    kernarg_preload: int

    @classmethod
    def parse(cls, data: bytes) -> "KernelDescriptor":
        """Decodes 64 bytes."""
        return cls(*_LAYOUT.unpack(data))

    @property
    def allocated_vgprs(self) -> int:
        """VGPRs and AccVGPRs of a lane together; allocated by eights."""
        return 8 * (_bits(self.rsrc1, 0, 6) + 1)

    @property
    def allocated_sgprs(self) -> int:
        """SGPRs of a wave, vcc, flat_scratch and xnack_mask included; allocated by sixteens."""
        return 16 * (_bits(self.rsrc1, 6, 4) // 2 + 1)

    @property
    def accum_offset(self) -> int:
        """The unified register number where AccVGPR 0 is."""
        return 4 * (_bits(self.rsrc3, 0, 6) + 1)

    @property
    def threadgroup_split(self) -> bool:
        """TG_SPLIT: waves of a workgroup may run on different compute units."""
        return bool(_bits(self.rsrc3, 16))

    @property
    def float_mode(self) -> int:
        """FLOAT_MODE, 8 bits: round f32, round f16/f64, denormals f32, denormals f16/f64, two bits each."""
        return _bits(self.rsrc1, 12, 8)

    @property
    def dx10_clamp(self) -> bool:
        """Clamping turns NaN into 0."""
        return bool(_bits(self.rsrc1, 21))

    @property
    def ieee_mode(self) -> bool:
        """Signalling NaNs are quieted as IEEE 754 says."""
        return bool(_bits(self.rsrc1, 23))

    @property
    def fp16_overflow(self) -> bool:
        """An f16 result that overflows becomes the largest finite number."""
        return bool(_bits(self.rsrc1, 26))

    @property
    def enable_private_segment(self) -> bool:
        """The wave has scratch."""
        return bool(_bits(self.rsrc2, 0))

    @property
    def user_sgpr_count(self) -> int:
        """User SGPRs, preloaded kernel arguments included."""
        return _bits(self.rsrc2, 1, 5)

    @property
    def workgroup_id_enabled(self) -> tuple[bool, bool, bool]:
        """Which of workgroup id x, y, z follow the user SGPRs, one SGPR each."""
        return bool(_bits(self.rsrc2, 7)), bool(_bits(self.rsrc2, 8)), bool(_bits(self.rsrc2, 9))

    @property
    def workgroup_info_enabled(self) -> bool:
        """The workgroup info SGPR follows the workgroup ids."""
        return bool(_bits(self.rsrc2, 10))

    @property
    def workitem_id_dimensions(self) -> int:
        """How many of x, y, z the packed work-item id in v0 has: 1, 2 or 3."""
        return min(_bits(self.rsrc2, 11, 2), 2) + 1

    @property
    def wavefront_size(self) -> int:
        """32 or 64 lanes."""
        return 32 if _bits(self.properties, 10) else 64

    @property
    def uses_dynamic_stack(self) -> bool:
        """The scratch size is not known statically."""
        return bool(_bits(self.properties, 11))

    @property
    def kernarg_preload_length(self) -> int:
        """Dwords of kernel arguments that are preloaded into SGPRs."""
        return _bits(self.kernarg_preload, 0, 7)

    @property
    def kernarg_preload_offset(self) -> int:
        """Dword of the kernel argument segment where the preload starts."""
        return _bits(self.kernarg_preload, 7, 9)

    @property
    def user_sgprs(self) -> tuple[tuple[str, int], ...]:
        """The user SGPRs in order, as (what, how many SGPRs); preloaded arguments last, as "kernarg_preload"."""
        found = [item for bit, item in enumerate(_REGISTERS) if _bits(self.properties, bit)]
        if self.kernarg_preload_length:
            found.append(("kernarg_preload", self.kernarg_preload_length))
        return tuple(found)
