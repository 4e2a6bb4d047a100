"""Arrays in device memory: rows may lie further apart than they are long.

Bytes that belong to no element are filled with a pattern before a kernel runs and must still hold it afterwards.
Outputs start as the same pattern, which is NaN as a float and -1 as an integer, so that elements nobody wrote show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec

if TYPE_CHECKING:
    from ckmlir.ops.comparison import Array

UNTOUCHED = 0xFF


def untouched(spec: ArraySpec) -> Array:
    """The bytes of an array's memory before anything is written."""
    return np.full(spec.nbytes, UNTOUCHED, np.uint8)


def to_memory(array: Array, spec: ArraySpec) -> Array:
    """The bytes of device memory that hold `array`, of any byte order, which has the specification's shape."""
    memory = np.empty(spec.nbytes, np.uint8) if spec.is_dense else untouched(spec)
    elements(memory, spec, array.dtype.newbyteorder("="))[...] = array
    return memory


def given_bytes(array: Array, spec: ArraySpec) -> Array:
    """As `to_memory`, but the array's own bytes, to be read only, where they lie as in device memory."""
    strides = tuple(stride * array.dtype.itemsize for stride in spec.strides)
    if array.dtype.isnative and array.flags.c_contiguous and array.strides == strides:
        own: Array = array.reshape(-1).view(np.uint8)
        return own
    return to_memory(array, spec)


def elements(memory: Array, spec: ArraySpec, dtype: np.dtype[Any]) -> Array:
    """The array whose bytes are `memory`, as a view of it."""
    strides = tuple(stride * dtype.itemsize for stride in spec.strides)
    bits = memory.view(f"u{dtype.itemsize}")  # as_strided loses the types of ml_dtypes
    return np.lib.stride_tricks.as_strided(bits, spec.shape, strides).view(dtype)


def touched_gap(memory: Array, spec: ArraySpec, dtype: np.dtype[Any]) -> int | None:
    """Where, in elements, something was written that belongs to no element of the array; None: nowhere."""
    if not spec.nbytes or spec.is_dense:
        return None
    is_gap = np.ones(spec.elements, np.bool_)
    strides = tuple(stride * is_gap.itemsize for stride in spec.strides)
    np.lib.stride_tricks.as_strided(is_gap, spec.shape, strides)[...] = False
    written = (memory.reshape(spec.elements, dtype.itemsize) != UNTOUCHED).any(axis=1)
    places = np.flatnonzero(is_gap & written)
    return int(places[0]) if places.size else None
