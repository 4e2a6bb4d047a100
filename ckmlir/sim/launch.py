"""The launch ABI: kernel arguments, initial registers of the waves, and the state blocks of a launch.

LLVM's AMDGPU user guide, sections "Kernel Dispatch", "Initial Kernel Execution State" and "Code Object V5 Metadata"
(hidden arguments).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ckmlir.codeobject import Argument, Kernel
from ckmlir.sim import state
from ckmlir.sim.checks import layout
from ckmlir.sim.errors import LaunchError
from ckmlir.sim.memory import DeviceMemory, aligned_bytes, aligned_zeros
from ckmlir.sim.program import initial_mode

KernelArgument = int | float | bool | np.generic | DeviceMemory
Dimensions = tuple[int, int, int]

LDS_BYTES = {"gfx90a": 64 << 10, "gfx942": 64 << 10, "gfx950": 160 << 10}
MAX_WORKITEMS = 1024
MAX_LANE_SCRATCH = 1024 * ((1 << 13) - 1) // 64  # COMPUTE_TMPRING_SIZE.WAVESIZE: 13 bits, in KiB a wave of 64 lanes
_HW_ID, _SH_MEM_BASES = 4, 15  # s_getreg numbers
_STATUS_VALID = 1 << 16
MAX_KERNARG = 1 << 20  # bytes; no language allows as many, a damaged code object may state them
KERNARG_PADDING = 256  # a wide scalar load may read past the last argument


# -- arguments -------------------------------------------------------------------------------------------------------


def _bytes_of(argument: Argument, value: KernelArgument) -> bytes:
    """The bytes of a value as the kernel expects them."""
    what = f"argument {argument.name or 'at offset ' + str(argument.offset)}"
    if isinstance(value, DeviceMemory):
        data = value.address.to_bytes(8, "little")
    elif isinstance(value, np.generic):
        data = value.tobytes()
    elif isinstance(value, float):
        formats = {2: "<e", 4: "<f", 8: "<d"}
        if argument.size not in formats:
            raise LaunchError(f"{what} has {argument.size} bytes and cannot be a float")
        data = struct.pack(formats[argument.size], value)
    elif isinstance(value, int):
        bits = 8 * argument.size
        if not bits:
            raise LaunchError(f"{what} has no bytes; the code object is damaged")
        if not -(1 << (bits - 1)) <= value < 1 << bits:
            raise LaunchError(f"{what} has {argument.size} bytes, too few for {value}")
        data = (value & ((1 << bits) - 1)).to_bytes(argument.size, "little")
    else:
        raise LaunchError(f"{what} is a {type(value).__name__}; pass an int, a float, a NumPy scalar or device memory")
    if len(data) != argument.size:
        raise LaunchError(f"{what} has {argument.size} bytes, but the value given has {len(data)}")
    return data


def _hidden(argument: Argument, grid: Dimensions, block: Dimensions, dynamic_lds: int) -> int:
    """The value of an argument that the runtime provides."""
    kind = argument.value_kind.removeprefix("hidden_")
    axis = "xyz".find(kind[-1:])
    if kind.startswith("block_count_"):
        return grid[axis]
    if kind.startswith("group_size_"):
        return block[axis]
    values = {
        "grid_dims": 3 if grid[2] * block[2] > 1 else 2 if grid[1] * block[1] > 1 else 1,
        "dynamic_lds_size": dynamic_lds,
        "private_base": state.PRIVATE_APERTURE >> 32,
        "shared_base": state.SHARED_APERTURE >> 32,
    }
    return values.get(kind, 0)  # remainders and global offsets are 0; there is no printf, host call, heap or queue


def _kernarg_bytes(kernel: Kernel) -> int:
    """What a kernel says of the size of its arguments, or where the last of them ends."""
    ends = [one.end for one in kernel.arguments]
    return max([kernel.descriptor.kernarg_size, kernel.metadata.kernarg_size, *ends])


def pack_arguments(
    kernel: Kernel,
    arguments: Sequence[KernelArgument],
    grid: Dimensions,
    block: Dimensions,
    static_lds: int,
    dynamic_lds: int,
) -> bytes:
    """The kernel argument segment.

    Raises:
        LaunchError: Wrong number, type or size of arguments.
    """
    segment = bytearray(_kernarg_bytes(kernel) + KERNARG_PADDING)
    expected = kernel.given_arguments
    if len(arguments) != len(expected):
        names = ", ".join(item.name or f"{item.size} bytes at {item.offset}" for item in expected)
        raise LaunchError(
            f"kernel {kernel.name} takes {len(expected)} arguments ({names}), {len(arguments)} were given"
        )
    given = iter(arguments)
    for item in kernel.arguments:
        if item.is_hidden:
            data = (_hidden(item, grid, block, dynamic_lds) & ((1 << 8 * item.size) - 1)).to_bytes(item.size, "little")
        elif item.is_lds and item not in expected:
            data = (static_lds & ((1 << 8 * item.size) - 1)).to_bytes(item.size, "little")
        else:
            data = _bytes_of(item, next(given))
        segment[item.offset : item.offset + item.size] = data
    return bytes(segment)


def argument_names(kernel: Kernel, arguments: Sequence[KernelArgument]) -> dict[int, str]:
    """Names of the memory that is passed, by address, where the code object names its arguments."""
    return {
        value.address: f"argument {item.name}"
        for item, value in zip(kernel.given_arguments, arguments)
        if item.name and isinstance(value, DeviceMemory)
    }


# -- initial registers -----------------------------------------------------------------------------------------------


def private_resource(address: int, target: str) -> tuple[int, ...]:
    """The private segment's buffer resource: dwords of 64 lanes interleaved (swizzle, index stride 64, element 4, lane
    added)."""
    swizzle, index_stride_64, add_lane = 1 << 31, 3 << 21, 1 << 23
    return address & 0xFFFF_FFFF, address >> 32 & 0xFFFF | swizzle | 4 << 16, 0xFFFF_FFFF, index_stride_64 | add_lane


def user_registers(
    kernel: Kernel, kernarg: DeviceMemory, packet: DeviceMemory, scratch_address: int, target: str
) -> list[int]:
    """Values of the user SGPRs in order."""
    descriptor = kernel.descriptor

    def pair(address: int) -> tuple[int, int]:
        return address & 0xFFFF_FFFF, address >> 32

    preloaded = kernarg.read(np.uint32)[descriptor.kernarg_preload_offset :][: descriptor.kernarg_preload_length]
    values = {
        "private_segment_buffer": private_resource(scratch_address, target),
        "dispatch_ptr": pair(packet.address),
        "queue_ptr": pair(packet.address),
        "kernarg_segment_ptr": pair(kernarg.address),
        "dispatch_id": (0, 0),
        "flat_scratch_init": pair(scratch_address),
        "private_segment_size": (descriptor.private_segment_size,),
        "kernarg_preload": tuple(int(word) for word in preloaded),
    }
    registers = [word for name, _ in descriptor.user_sgprs for word in values[name]]
    return registers + [0] * (descriptor.user_sgpr_count - len(registers))


def dispatch_packet(kernel: Kernel, grid: Dimensions, block: Dimensions, kernarg_address: int, lds: int) -> bytes:
    """The AQL kernel dispatch packet (HSA runtime specification, section 2.9.6), padded for what a queue pointer may
    read."""
    workitems = tuple(g * b for g, b in zip(grid, block))
    packet = struct.pack(
        "<HHHHHHIIIIIQQQQ",
        0x1402,
        3,
        *block,
        0,
        *workitems,
        kernel.descriptor.private_segment_size,
        lds,
        0,
        kernarg_address,
        0,
        0,
    )
    return packet.ljust(256, b"\0")


def workitem_ids(block: Dimensions, waves: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]]:
    """v0 of every wave (x | y << 10 | z << 20), and EXEC."""
    flat = np.arange(waves * 64, dtype=np.uint32)
    x, rest = flat % block[0], flat // block[0]
    packed = (x | (rest % block[1]) << 10 | (rest // block[1]) << 20).astype(np.uint32).reshape(waves, 64)
    present = (flat < block[0] * block[1] * block[2]).reshape(waves, 64)
    return packed, np.packbits(present, axis=1, bitorder="little").view(np.uint64).reshape(waves)


class WaveBlocks:
    """The state blocks of a workgroup's waves (or their template), as arrays."""

    def __init__(self, waves: int, flags: int = 0) -> None:
        """With room for what checks keep behind the blocks (`checks/layout.py`): `shadow` of all blocks and `mixed`, a
        byte a vector register of each, for initialisation; more for waits. `kept`: all of it that is in use."""
        size = waves * state.WAVE_BYTES
        behind = layout.WAITS if flags & layout.WAIT else layout.MIXED if flags & layout.INITIALISATION else 0
        region = aligned_zeros(behind + size) if behind else aligned_bytes(size)
        self.bytes = region[:size].reshape(waves, state.WAVE_BYTES)
        self.address = int(self.bytes.ctypes.data)
        self.shadow = region[layout.SHADOW : layout.SHADOW + size].reshape(-1, state.WAVE_BYTES)
        places = [0, layout.SHADOW, layout.MIXED, layout.WAITS]
        self.kept = [region[place : place + size] for place in places if place + size <= len(region)]
        self.mixed = region[layout.MIXED : layout.MIXED + size].reshape(-1, state.WAVE_BYTES)[:, :512]

    def words(self, offset: int, count: int, dtype: Any = np.uint32) -> npt.NDArray[Any]:
        """A field of all waves: rows of `count` elements."""
        width = count * np.dtype(dtype).itemsize
        return self.bytes[:, offset : offset + width].view(dtype)


def fill_template(
    template: WaveBlocks,
    kernel: Kernel,
    block: Dimensions,
    registers: Sequence[int],
    scratch: tuple[int, int],
    target: str,
) -> tuple[int, ...]:
    """Set the special registers, user SGPRs and v0 of the waves; `scratch` is the address of the first wave's private
    memory and the bytes a lane. Returns the byte offset of the workgroup id's register for each dimension, -1 where it
    is not wanted."""
    descriptor, waves = kernel.descriptor, len(template.bytes)
    address, lane_bytes = scratch
    wave_scratch = lane_bytes * 64 * np.arange(waves, dtype=np.uint64)
    template.words(state.SGPR, len(registers))[:] = np.array(registers, np.uint32)
    position = len(registers)
    places = []
    for wanted in descriptor.workgroup_id_enabled:
        places.append(4 * position if wanted else -1)
        position += wanted
    position += descriptor.workgroup_info_enabled
    if descriptor.enable_private_segment and target == "gfx90a":  # later chips set up scratch by themselves
        template.words(4 * position, 1)[:, 0] = wave_scratch.astype(np.uint32)
    packed, exec = workitem_ids(block, waves)
    template.words(state.EXEC, 1, np.uint64)[:, 0] = exec
    template.words(state.VGPR, 64)[:] = packed
    template.words(state.SCC, 1)[:] = 0
    template.words(state.HARDWARE_REGISTERS, 32)[:] = 0
    for place, words in hardware_registers(kernel, waves).items():
        template.words(place, 1)[:, 0] = words
    template.words(state.SCRATCH, 1, np.uint64)[:, 0] = wave_scratch + np.uint64(address)
    template.words(state.SCRATCH_BYTES, 1, np.uint64)[:] = lane_bytes
    apertures = (
        state.SHARED_APERTURE,
        state.SHARED_APERTURE + 0xFFFF_FFFF,
        state.PRIVATE_APERTURE,
        state.PRIVATE_APERTURE + 0xFFFF_FFFF,
    )
    template.words(state.APERTURES, 4, np.uint64)[:] = np.array(apertures, np.uint64)
    template.words(state.WAVE_NUMBER, 1)[:, 0] = np.arange(waves)
    template.words(state.STATUS, 1)[:] = state.Status.YIELDED
    return tuple(places)


def hardware_registers(kernel: Kernel, waves: int) -> dict[int, npt.NDArray[np.uint32]]:
    """What waves find in hardware registers at the start, by byte offset; others are 0. AMD CDNA3 ISA, chapter 3, and
    LLVM's use of SH_MEM_BASES for the apertures of flat addresses."""
    numbers = np.arange(waves, dtype=np.uint32)
    bases = (state.SHARED_APERTURE >> 48) << 16 | state.PRIVATE_APERTURE >> 48
    return {
        state.MODE: np.full(waves, initial_mode(kernel), np.uint32),
        state.STATUS_REGISTER: np.full(waves, _STATUS_VALID, np.uint32),
        state.HARDWARE_REGISTERS + 4 * _HW_ID: (numbers // 4 & 15 | (numbers & 3) << 4).astype(
            np.uint32
        ),  # wave of a SIMD, SIMD
        state.HARDWARE_REGISTERS + 4 * _SH_MEM_BASES: np.full(waves, bases, np.uint32),
    }


# -- checks ----------------------------------------------------------------------------------------------------------


def check_geometry(kernel: Kernel, grid: Dimensions, block: Dimensions, lds: int, target: str) -> None:
    """Refuse a launch that the hardware or the kernel does not allow."""
    for name, sizes in (("grid", grid), ("block", block)):
        if len(sizes) != 3 or any(not isinstance(size, (int, np.integer)) or size < 0 for size in sizes):
            raise LaunchError(f"{name} {sizes!r}: three sizes of 0 or more are needed")
    workitems = block[0] * block[1] * block[2]
    allowed = kernel.metadata.max_flat_workgroup_size or MAX_WORKITEMS
    if not 1 <= workitems <= min(allowed, MAX_WORKITEMS):
        raise LaunchError(
            f"block {block} has {workitems} work-items; kernel {kernel.name} allows 1 to {min(allowed, MAX_WORKITEMS)}"
        )
    required = kernel.metadata.required_workgroup_size
    if required is not None and tuple(required) != tuple(block):
        raise LaunchError(f"kernel {kernel.name} requires block {tuple(required)}, not {block}")
    scratch = max(kernel.descriptor.private_segment_size, kernel.metadata.private_segment_size)
    if scratch > MAX_LANE_SCRATCH:
        raise LaunchError(
            f"kernel {kernel.name} asks for {scratch} bytes of scratch a work-item; {MAX_LANE_SCRATCH} is the most"
        )
    if _kernarg_bytes(kernel) > MAX_KERNARG:
        raise LaunchError(f"kernel {kernel.name} states more than {MAX_KERNARG} bytes of arguments")
    if lds > LDS_BYTES[target]:
        raise LaunchError(f"{lds} bytes of LDS are more than the {LDS_BYTES[target]} of {target}")
    if any(size * width >= 1 << 32 for size, width in zip(grid, block)) or grid[0] * grid[1] * grid[2] >= 1 << 40:
        raise LaunchError(f"grid {grid} of blocks {block} is too large: a dimension has less than 2^32 work-items")
