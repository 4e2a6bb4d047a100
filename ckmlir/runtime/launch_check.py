"""Checks of a launch that a device has no good words for: against the code object, before anything is queued.

HIP answers most of these mistakes with the same error code, or with a fault in the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ckmlir.codeobject import CodeObject
from ckmlir.runtime.device import Argument, DeviceError, DeviceProperties, Extent

MAXIMUM_GRID_ITEMS = 2**32 - 1
"""Work-items along one dimension: 32 bits of the dispatch packet (HSA System Architecture, "AQL kernel dispatch")."""


def check_target(code_object: CodeObject, properties: DeviceProperties) -> None:
    """Refuse code for another chip."""
    if code_object.target != properties.target:
        raise DeviceError(f"the code object is for {code_object.target}, {properties.name} runs {properties.target}")


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
    if kernel not in code_object.kernels:
        raise DeviceError(f"the code object has no kernel {kernel}; it has {', '.join(code_object.kernels) or 'none'}")
    metadata = code_object.kernels[kernel].metadata
    if min(grid) < 1 or min(block) < 1:
        raise DeviceError(f"{kernel}: grid {grid} and block {block} must be positive; skip a launch of nothing")
    for blocks, items in zip(grid, block, strict=True):
        if blocks * items > MAXIMUM_GRID_ITEMS:
            raise DeviceError(f"{kernel}: {blocks} workgroups of {items} work-items exceed {MAXIMUM_GRID_ITEMS}")
    size, most = math.prod(block), min(metadata.max_flat_workgroup_size, properties.workgroup_size)
    if size > most:
        raise DeviceError(f"{kernel}: a workgroup of {size} work-items; the kernel takes at most {most}")
    if metadata.required_workgroup_size not in (None, block):
        raise DeviceError(f"{kernel}: block {block}; the kernel requires {metadata.required_workgroup_size}")
    lds = metadata.group_segment_size + dynamic_lds
    if dynamic_lds < 0 or lds > properties.lds_bytes:
        raise DeviceError(f"{kernel}: {lds} bytes of LDS; {properties.name} has {properties.lds_bytes} a workgroup")
    _check_arguments(code_object, kernel, arguments)


def _check_arguments(code_object: CodeObject, kernel: str, arguments: Sequence[Argument]) -> None:
    expected = [argument for argument in code_object.kernels[kernel].arguments if not argument.is_hidden]
    if len(arguments) != len(expected):
        raise DeviceError(f"{kernel} takes {len(expected)} arguments, not {len(arguments)}")
    for place, (given, wanted) in enumerate(zip(arguments, expected, strict=True)):
        name = wanted.name or str(place)
        is_pointer = wanted.value_kind == "global_buffer"
        if is_pointer is isinstance(given, np.generic):
            raise DeviceError(f"{kernel}: argument {name} is {'memory' if is_pointer else 'a scalar'}, got {given!r}")
        if isinstance(given, np.generic) and given.nbytes != wanted.size:
            raise DeviceError(f"{kernel}: argument {name} takes {wanted.size} bytes, {given.dtype} has {given.nbytes}")
