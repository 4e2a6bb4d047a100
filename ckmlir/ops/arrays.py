"""Arrays that kernels read and write: shapes, strides, what divides them, and what kernels can address."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct

from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.request import RequestError
from ckmlir.ops.scalars import gcd

MAXIMUM_ARRAY_BYTES = 2**31 - 1
"""Kernels address an array with 32-bit byte offsets from its start."""

MAXIMUM_ADDRESS = 2**63 - 1
ALIGNMENT = 16
"""Bytes: kernels read whole vectors from an array's start (`ckmlir.lang.ptr`), unless a request says otherwise."""


class ArraySpec(Struct, frozen=True):
    """An array that a kernel reads or writes.

    Attributes:
        shape: the shape of memory, outermost dimension first.
        dtype: element type by name.
        role: "in" or "out".
        strides: distance of neighbours along each dimension, in elements; the last is 1.
        align: bytes that divide the address of the first element.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str
    strides: tuple[int, ...]
    align: int = ALIGNMENT

    @property
    def elements(self) -> int:
        """Elements from the first to one past the last, gaps between rows included."""
        if 0 in self.shape:
            return 0
        found = 1
        for length, stride in zip(self.shape, self.strides, strict=True):
            found += (length - 1) * stride
        return found

    @property
    def nbytes(self) -> int:
        """Bytes from the first to one past the last element."""
        return self.elements * find_dtype(self.dtype).bytes

    @property
    def is_dense(self) -> bool:
        """Whether elements fill the memory from the first to the last."""
        run = 1
        for stride, length in sorted(zip(self.strides, self.shape, strict=True)):
            if length > 1 and stride > run:
                return False
            run += (length - 1) * stride
        return True


def array_spec(
    name: str,
    shape: Sequence[int],
    dtype: str,
    role: str,
    pitch: int | None = None,
    *,
    limited: bool = True,
    align: int = ALIGNMENT,
) -> ArraySpec:
    """An array whose rows lie `pitch` elements apart (default: packed); all other dimensions are packed.

    Raises RequestError for an array that is too large to be addressed from its beginning, unless it is not `limited`:
    kernels address it from the first row of each workgroup.
    """
    strides = [1] * len(shape)
    step = pitch if pitch is not None else shape[-1] if shape else 1
    for place in range(len(shape) - 2, -1, -1):
        strides[place] = step
        step *= shape[place]
    array = ArraySpec(name, tuple(shape), dtype, role, tuple(strides), align)
    if limited and array.nbytes > MAXIMUM_ARRAY_BYTES:
        apart = "" if pitch in (None, *shape[-1:]) else f" with rows {pitch} elements apart"
        raise RequestError(
            f"array {name} of shape {'x'.join(map(str, shape))}{apart} takes {array.nbytes} bytes; "
            f"kernels address at most {MAXIMUM_ARRAY_BYTES}"
        )
    return array


def find_array(arrays: Iterable[ArraySpec], name: str) -> ArraySpec:
    """The array of a name, which is one of them."""
    return next(array for array in arrays if array.name == name)


def require_reachable(key: str, pitch: int, rows: int, array: ArraySpec) -> None:
    """Refuse rows that lie so far apart that those of a block, of which the last do not exist, pass 4 GiB.

    What lies behind the last row is refused by the size of a buffer, and offsets have 32 bits: rows further behind
    would come back to the first.

    Raises:
        RequestError: `rows` rows of the array, `pitch` elements apart, pass 4 GiB. `key` is what the pitch is called.
    """
    most = (1 << 32) // (max(rows, 1) * find_dtype(array.dtype).bytes)
    if pitch > most:
        raise RequestError(
            f"{key}={pitch}: a block has {rows} rows of array {array.name}, some of them behind its last, and offsets "
            f"have 32 bits; expected at most {most}"
        )


def check_addressable(array: ArraySpec) -> None:
    """Raise RequestError for an array that no address space holds; NumPy asks that of arrays without elements too, and
    references compute in float64.
    """
    elements = math.prod(max(length, 1) for length in array.shape)
    if max(elements * max(find_dtype(array.dtype).bytes, np.float64().itemsize), array.nbytes) > MAXIMUM_ADDRESS:
        shape = "x".join(map(str, array.shape))
        raise RequestError(f"array {array.name} of shape {shape}: its lengths span more than 2^63 - 1 bytes in float64")


def alignment(element_bytes: int, *sizes: int) -> int:
    """The widest vector, in elements, up to 16 bytes, that divides every one of `sizes` (each a length or a stride).

    A vector that starts at a multiple of it is then aligned and never crosses the end of a row.
    """
    return gcd(16 // element_bytes, *sizes)
