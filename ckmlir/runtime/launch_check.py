"""Checks of a launch that a device has no good words for: against the code object, before anything is queued.

HIP answers most of these mistakes with the same error code, or with a fault in the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any, cast

import numpy as np

from ckmlir.codeobject import Argument as ArgumentMetadata
from ckmlir.codeobject import CodeObject, Kernel
from ckmlir.runtime.arguments import as_host_array, check_unmasked
from ckmlir.runtime.device import Argument, Array, DeviceError, DeviceProperties, Extent, Memory

MAXIMUM_GRID_ITEMS = 2**32 - 1
"""Work-items along one dimension: 32 bits of the dispatch packet (HSA System Architecture, "AQL kernel dispatch")."""
MAXIMUM_FURTHER = 65535
"""Workgroups along the second or third dimension (HIP, `hipDeviceProp_t.maxGridSize`)."""

SCALARS = (np.int32, np.int64, np.float32, np.float64)
"""The types of scalar arguments."""


def check_target(code_object: CodeObject, properties: DeviceProperties) -> None:
    """Refuse code for another chip, or for another setting of it than the device's.

    Settings that code or device leave open suit any (LLVM AMDGPUUsage, "Target ID").
    """
    if code_object.target != properties.target:
        raise DeviceError(f"the code object is for {code_object.target}, {properties.name} runs {properties.target}")
    settings = {part[:-1]: part[-1] for part in properties.target_id.split(":")[1:]}
    for feature, sign in code_object.features.items():
        if settings.get(feature, sign) != sign:
            raise DeviceError(
                f"the code object is for {code_object.target_id}, {properties.name} runs {properties.target_id}: "
                f"compile for {feature}{settings[feature]}, or for any {feature}"
            )


def check_launch(
    code_object: CodeObject,
    kernel: str,
    grid: Extent,
    block: Extent,
    arguments: Sequence[Argument],
    dynamic_lds: int,
    properties: DeviceProperties,
) -> None:
    """Raise DeviceError for a launch that cannot be right."""
    check_geometry(code_object, kernel, grid, block, dynamic_lds, properties)
    check_arguments(kernel, explicit_arguments(code_object.kernels[kernel]), arguments)


def check_geometry(
    code_object: CodeObject, kernel: str, grid: Extent, block: Extent, dynamic_lds: int, properties: DeviceProperties
) -> None:
    """Raise DeviceError for a kernel, grid, block or LDS size that cannot be right."""
    if kernel not in code_object.kernels:
        raise DeviceError(f"the code object has no kernel {kernel}; it has {', '.join(code_object.kernels) or 'none'}")
    metadata = code_object.kernels[kernel].metadata
    try:
        grid, block = cast("list[Extent]", [tuple(map(index, extent)) for extent in (grid, block)])
        dynamic_lds = index(dynamic_lds)
    except TypeError:
        given = f"grid {grid}, block {block} and dynamic_lds {dynamic_lds!r}"
        raise DeviceError(f"{kernel}: {given} must be whole numbers") from None
    if len(grid) != 3 or len(block) != 3:
        raise DeviceError(f"{kernel}: grid {grid} and block {block} must have three sizes")
    check_grid(kernel, grid, block)
    size, most = math.prod(block), min(metadata.max_flat_workgroup_size, properties.workgroup_size)
    if size > most:
        raise DeviceError(f"{kernel}: a workgroup of {size} work-items; the kernel takes at most {most}")
    if metadata.required_workgroup_size not in (None, block):
        raise DeviceError(f"{kernel}: block {block}; the kernel requires {metadata.required_workgroup_size}")
    if dynamic_lds < 0:
        raise DeviceError(f"{kernel}: dynamic_lds {dynamic_lds}; it is at least 0")
    lds = metadata.group_segment_size + dynamic_lds
    if lds > properties.lds_bytes:
        raise DeviceError(f"{kernel}: {lds} bytes of LDS; {properties.name} has {properties.lds_bytes} a workgroup")


def check_grid(kernel: str, grid: Extent, block: Extent) -> None:
    """Raise DeviceError for a grid that cannot be right of workgroups like these."""
    x, y, z = grid
    further = 0 < y <= MAXIMUM_FURTHER and 0 < z <= MAXIMUM_FURTHER and y * block[1] + z * block[2] < MAXIMUM_GRID_ITEMS
    if further and 0 < x * block[0] <= MAXIMUM_GRID_ITEMS and min(block) > 0:
        return  # what nearly all are
    if min(grid) < 1 or min(block) < 1:
        raise DeviceError(f"{kernel}: grid {grid} and block {block} must be positive; do not queue empty launches")
    for blocks, items in zip(grid, block, strict=True):
        if blocks * items > MAXIMUM_GRID_ITEMS:
            raise DeviceError(f"{kernel}: {blocks} workgroups of {items} work-items exceed {MAXIMUM_GRID_ITEMS}")
    if max(grid[1:]) > MAXIMUM_FURTHER:
        raise DeviceError(f"{kernel}: grid {grid}; HIP takes at most {MAXIMUM_FURTHER} along the second and third axis")


def explicit_arguments(kernel: Kernel) -> list[ArgumentMetadata]:
    """The arguments that a caller passes: neither hidden ones nor the only place of dynamic LDS."""
    return list(kernel.given_arguments)


def check_arguments(kernel: str, expected: Sequence[ArgumentMetadata], arguments: Sequence[Argument]) -> None:
    """Raise DeviceError for arguments of the wrong number, kind or size."""
    if not isinstance(arguments, Sequence):
        raise DeviceError(f"{kernel}: arguments are a sequence, such as a list; got {type(arguments).__name__}")
    if len(arguments) != len(expected):
        raise DeviceError(f"{kernel} takes {len(expected)} arguments, not {len(arguments)}")
    for place, (given, wanted) in enumerate(zip(arguments, expected, strict=True)):
        name = wanted.name or str(place)
        is_pointer = wanted.value_kind == "global_buffer"
        if is_pointer and not isinstance(getattr(given, "address", None), int):
            raise DeviceError(f"{kernel}: argument {name} is memory of the device, got {type(given).__name__}")
        if not is_pointer and not isinstance(given, SCALARS):
            kinds = ", ".join(kind.__name__ for kind in SCALARS)
            raise DeviceError(f"{kernel}: argument {name} is a scalar ({kinds}), got {given!r}")
        if isinstance(given, np.generic) and given.nbytes != wanted.size:
            raise DeviceError(f"{kernel}: argument {name} takes {wanted.size} bytes, {given.dtype} has {given.nbytes}")


def check_size(size: Any) -> None:
    """Raise DeviceError for what is not a number of bytes to allocate."""
    if not _is_whole(size):
        raise DeviceError(f"cannot allocate {size} bytes; expected a whole number, 0 or more")


def check_move(destination: Any, source: Any, size: Any) -> None:
    """Raise DeviceError for a copy between memories that they do not hold."""
    for memory in (destination, source):
        if not hasattr(memory, "size"):
            raise DeviceError(f"memory of the device, or what allocate_host gave, is copied; got {memory!r}")
    if not _is_whole(size) or size > min(destination.size, source.size):
        raise DeviceError(f"a copy of {size} bytes, from {source.size} to {destination.size} bytes of memory")


def check_fill(destination: Memory, byte: Any, size: Any) -> None:
    """Raise DeviceError for a value that is not a byte, or more bytes than the memory has."""
    _check_memory(destination)
    if not _is_whole(byte) or byte > 255 or not _is_whole(size) or size > destination.size:
        raise DeviceError(f"cannot fill {size} of {destination.size} bytes with {byte}")


def _is_whole(number: Any) -> bool:
    return isinstance(number, (int, np.integer)) and bool(number >= 0)


def source_of_copy(memory: Memory, array: Any) -> Array:
    """An array of the host that is copied to device memory, as NumPy's. Raises DeviceError where it cannot be."""
    found = as_host_array(array)
    check_copy(memory, found)
    return found


def check_destination(memory: Memory, array: Any) -> None:
    """Raise DeviceError for an array that device memory cannot be copied to as it is."""
    if not isinstance(array, np.ndarray):
        raise DeviceError(f"memory is read into NumPy's arrays, not into {type(array).__name__}")
    check_unmasked(array)
    if not array.dtype.isnative:
        raise DeviceError(f"memory cannot be read into elements of type {array.dtype}, of another byte order")
    if not array.flags.writeable:
        raise DeviceError("the array to read into is read-only")
    check_copy(memory, array)


def check_copy(memory: Memory, array: Array) -> None:
    """Raise DeviceError for an array that cannot be copied to or from device memory as it is."""
    _check_memory(memory)
    if not array.flags.c_contiguous:
        raise DeviceError("copies take contiguous arrays")
    if array.nbytes > memory.size:
        raise DeviceError(f"a copy of {array.nbytes} bytes exceeds the {memory.size} bytes of device memory")


def _check_memory(memory: Any) -> None:
    if not hasattr(memory, "address") or not hasattr(memory, "size"):
        raise DeviceError(f"expected memory of the device, as allocate gives it, not {type(memory).__name__}")
