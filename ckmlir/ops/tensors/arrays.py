"""Strided arrays of any rank, and the keys that name their shapes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ALIGNMENT, ArraySpec
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.packing import packed_shape, packed_strides, unpack_values
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError, show
from ckmlir.ops.shared_places import crossing


class Operand(Struct, frozen=True):
    """An array and how it lies in the index space of an operator.

    Attributes:
        shape, strides: of the array as its user sees it; strides in elements.
        axes: for every dimension of the index space, the array's dimension that runs along it; -1: the array repeats.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def index_strides(self) -> tuple[int, ...]:
        """Distance of neighbours along every dimension of the index space, 0 where the array repeats.

        Between elements that do not exist it is 1: what was asked for need not fit a kernel's arguments.
        """
        strides = self.strides if 0 not in self.shape else (1,) * len(self.shape)
        return tuple(strides[axis] if axis >= 0 and self.shape[axis] != 1 else 0 for axis in self.axes)

    def array(self, role: str, align: int = ALIGNMENT) -> ArraySpec:
        """The array as kernels take it, at an address that `align` bytes divide; of packed elements its bytes.

        Raises RequestError for packed elements that do not fill them.
        """
        shape, strides = self.shape, self.strides
        if find_dtype(self.dtype).packing is not None:
            shape = packed_shape(self.name, self.shape, self.dtype)
            strides = packed_strides(self.name, self.strides, self.shape, self.dtype)
        return ArraySpec(self.name, shape, self.dtype, role, strides, align)

    def in_index_space(self, array: Array, lengths: Sequence[int]) -> Array:
        """The array's elements by the coordinates of the index space."""
        if find_dtype(self.dtype).packing is not None:
            array = unpack_values(array, self.dtype)
        order = [axis for axis in self.axes if axis >= 0]
        moved = np.transpose(array, order) if order else array.reshape(())
        places = tuple(slice(None) if axis >= 0 else None for axis in self.axes)
        found: Array = np.broadcast_to(moved[places], tuple(lengths))
        return found

    def from_index_space(self, values: Array) -> Array:
        """The array, which repeats nowhere, from its elements by the coordinates of the index space."""
        order = [self.axes.index(axis) for axis in range(len(self.shape))]
        return np.transpose(values, order)


def packed(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides without gaps, the last dimension the fastest."""
    return tuple(prod(max(length, 1) for length in shape[dim + 1 :]) for dim in range(len(shape)))


def checked_strides(
    key: str, shape: Sequence[int], strides: Sequence[int] | None, *, shared: bool = False
) -> tuple[int, ...]:
    """Strides of an array, packed ones unless given.

    Args:
        shared: elements may share a place; see `ckmlir.ops.shared_places`.

    Raises RequestError for a wrong number of strides, for elements that share a place, and for strides that the
    kernel's arguments cannot hold.
    """
    found = packed(shape) if strides is None else tuple(strides)
    if len(found) != len(shape):
        raise RequestError(
            f"{key}={show(found)}: {len(found)} strides; expected one for each of {len(shape)} dimensions"
        )
    if 0 in shape:
        return found
    far = next((one for one, length in zip(found, shape, strict=True) if length > 1 and one > MAXIMUM_SIZE), None)
    if far is not None:
        raise RequestError(f"{key}={show(found)}: a stride of {far}; kernels take at most {MAXIMUM_SIZE}")
    reach = None if shared else crossing(shape, found)
    if reach is not None:
        raise RequestError(
            f"{key}={show(found)}: elements of shape {show(tuple(shape))} would share a place; "
            f"expected a stride above {reach}"
        )
    return found


def aligned_elements(dtype: str, base: int, *numbers: int) -> int:
    """The power of two, in elements up to 16 bytes, that divides all numbers and a base address divisible by `base`; of
    packed elements at least those that fill whole bytes.
    """
    kind = find_dtype(dtype)
    found, least = max(kind.widest, 1), kind.packing.elements if kind.packing else 1
    while found > least and (base % address_unit(dtype, found) or any(number % found for number in numbers)):
        found //= 2
    return found


def address_unit(dtype: str, elements: int) -> int:
    """The power of two, up to 16, that divides the addresses of every so many elements, the first at address 0."""
    size = find_dtype(dtype).size(elements)
    return min(size & -size, 16)


def broadcast_axes(key: str, shape: Sequence[int], lengths: Sequence[int]) -> tuple[int, ...]:
    """How an array of a shape lies in an index space by NumPy's rule: aligned at the last dimension, length 1 repeats.

    Raises RequestError for shapes that do not fit.
    """
    missing = len(lengths) - len(shape)
    fits = missing >= 0 and all(
        length in (1, whole) for length, whole in zip(shape, lengths[max(missing, 0) :], strict=False)
    )
    if not fits:
        raise RequestError(f"{key}={show(tuple(shape))}: does not broadcast to {show(tuple(lengths))}")
    return (-1,) * missing + tuple(range(len(shape)))


def row_strides(key: str, shape: tuple[int, int], pitch: int | None) -> tuple[int, int]:
    """Strides of a matrix whose rows lie `pitch` elements apart (default: packed). Raises RequestError for less."""
    if pitch is not None and pitch < shape[1]:
        raise RequestError(f"{key}={pitch}: rows have {shape[1]} elements; expected at least that")
    return shape[1] if pitch is None else pitch, 1
