"""Arrays whose elements share places in memory: those that repeat (a stride of 0), and windows that overlap.

Inputs may be such arrays where a kernel reads every element for its own sake, and nothing of what lies behind the last
one is taken for zero. Nobody can write one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ckmlir.ops.comparison import Array


def crossing(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """How far dimensions with smaller strides reach, in elements, beyond the stride of the next one; None: every
    element has a place of its own.
    """
    if 0 in shape:
        return None
    reach = 0
    for stride, length in sorted((stride, length) for stride, length in zip(strides, shape, strict=True) if length > 1):
        if stride <= reach:
            return reach
        reach += (length - 1) * stride
    return None


def from_shared_places(array: Array, strides: Sequence[int]) -> Array:
    """The array as it can be read from memory with these strides, in elements: of elements that share a place the last
    one's value. An array whose elements have places of their own is returned as it is.
    """
    if crossing(array.shape, strides) is None:
        return array
    words = array.view(f"u{array.itemsize}")  # as_strided loses the types of ml_dtypes
    reach = sum((length - 1) * stride for length, stride in zip(array.shape, strides, strict=True))
    memory = np.zeros(reach + 1, words.dtype)
    view = np.lib.stride_tricks.as_strided(memory, array.shape, [stride * words.itemsize for stride in strides])
    view[...] = words
    found: Array = view.copy().view(array.dtype)
    return found
