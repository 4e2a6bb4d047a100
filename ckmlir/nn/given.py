"""Arrays that users give, of whatever library, in one form: shape, strides, element type, views, and new arrays beside.

| array | its home | what a call does with it |
|---|---|---|
| `ckmlir.nn.Array` | a device | passes its memory; results are arrays of the device |
| NumPy | the host | copies it to the device, and results back |
| PyTorch | the host, or a GPU | passes memory of a GPU, copies that of the host; results are tensors beside it |
| CuPy and others with `__cuda_array_interface__` | a GPU | passes its memory; results are CuPy's |

What is copied to the device is copied without gaps, however it lies on the host. Memory of a GPU, and what is written,
is taken as it lies. An operator's keys are read off shape and strides; `Given.strided` makes the view that has an
array's memory as the operator wants it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.nn.array import Array, reshaped_strides
from ckmlir.nn.homes import Home, by_known_type, home_of
from ckmlir.nn.plain import shown
from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.dtypes import DTYPES, PACKED_TYPES, POWER, find_dtype, numpy_dtype
from ckmlir.ops.request import RequestError
from ckmlir.ops.shared_places import crossing
from ckmlir.runtime.arguments import check_unmasked, packed_strides, view_of
from ckmlir.runtime.device import DeviceError
from ckmlir.targets import Target
from ckmlir.targets.cdna import ACCESS_BYTES


class Given(Struct, frozen=True):
    """An array that a function was given.

    Attributes:
        what: the parameter's name, for messages.
        array: itself.
        shape, strides: strides in elements.
        dtype: as operators call it.
        address: of the first element; 0 where the array is copied to memory of its own.
    """

    what: str
    array: Any
    home: Home
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    address: int

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def argument(self) -> Any:
        """What executables take."""
        return self.array.data if isinstance(self.array, Array) else self.array

    @property
    def base(self) -> int:
        """Bytes that divide the address, as far as kernels ask."""
        return math.gcd(self.address, ACCESS_BYTES) if self.address else ACCESS_BYTES

    def strided(self, shape: Sequence[int], strides: Sequence[int]) -> Given:
        """A view from the same first element."""
        if (tuple(shape), tuple(strides)) == (self.shape, self.strides):
            return self
        array = self.home.strided(self.array, shape, strides)
        return Given(self.what, array, self.home, tuple(shape), tuple(strides), self.dtype, self.address)

    def reshaped(self, *shape: int) -> Given:
        """A view with another shape. Raises DeviceError where the elements do not lie so."""
        wanted = list(shape)
        if -1 in wanted:
            elements, rest = math.prod(self.shape), math.prod(one for one in wanted if one != -1)
            wanted[wanted.index(-1)] = elements // rest if rest else 0
        strides = reshaped_strides(self.shape, self.strides, wanted)
        if strides is None:
            raise DeviceError(
                f"{self.what}: shape {self.shape} with strides {self.strides} is not an array of shape {tuple(wanted)}"
                "; make a contiguous copy first"
            )
        return self.strided(wanted, strides)

    def with_a_dimension(self) -> Given:
        """The array, a number as a vector of one."""
        return self if self.shape else self.strided((1,), (1,))

    def rows(self) -> Given:
        """All but the last dimension as one: a matrix whose rows are contiguous. Raises DeviceError for another one."""
        self._check_neighbours()
        found = self.reshaped(math.prod(self.shape[:-1]), self.shape[-1])
        return found.strided(found.shape, (pitch_of(found), 1))

    def matrices(self) -> Given:
        """The last two dimensions as matrices whose rows are contiguous. Raises DeviceError for others."""
        self._check_neighbours()
        return self.strided(self.shape, (*self.strides[:-2], pitch_of(self), 1))

    @property
    def has_rows(self) -> bool:
        """Whether `rows` takes it: rows are contiguous and all at one distance."""
        return self.ndim > 0 and self.as_rows() is not None

    def as_rows(self, dims: int = 1) -> Given | None:
        """A matrix whose rows are the last dimensions; None where those are not contiguous or differ in distance."""
        ahead = self.ndim - dims
        flat = math.prod(self.shape[:ahead]), math.prod(self.shape[ahead:])
        strides = reshaped_strides(self.shape, self.strides, flat)
        if strides is None or (flat[1] > 1 and strides[1] != 1):
            return None
        return self.strided(flat, strides)

    @property
    def is_told(self) -> bool:
        """Whether kernels are told how it lies: not where it is copied, or has no elements."""
        return self.address != 0 and 0 not in self.shape

    @property
    def _step(self) -> int:
        """Elements from one of a row to the next."""
        return self.strides[-1] if self.shape[-1] > 1 and 0 not in self.shape else 1

    def _check_neighbours(self) -> None:
        if not self.shape:
            raise DeviceError(f"{self.what}: a number has no rows; expected at least one dimension")
        if self._step != 1:
            raise DeviceError(
                f"{self.what}: neighbours of a row lie {self._step} elements apart; make a contiguous copy first"
            )

    def apart(self) -> Given:
        """The array, if all elements have places of their own. Raises DeviceError."""
        if crossing(self.shape, self.strides) is not None:
            raise DeviceError(
                f"{self.what}: elements share places by strides {self.strides}; make a contiguous copy first"
            )
        return self

    def contiguous(self) -> Given:
        """With the strides of a packed array. Raises DeviceError for one with gaps, or in another order."""
        packed = packed_strides(self.shape)
        lies = all(
            own == wanted or size == 1 for own, wanted, size in zip(self.strides, packed, self.shape, strict=True)
        )
        if not lies and 0 not in self.shape:
            raise DeviceError(
                f"{self.what}: strides {self.strides} of shape {self.shape}; make a contiguous copy first"
            )
        return self.strided(self.shape, packed)

    def as_written(self, array: ArraySpec) -> Given | None:
        """The array in the shape in which a kernel writes it; None where it does not lie so.

        That of the host is copied there however it lies. One of a device without gaps may begin anywhere: the call
        takes a copy that begins where the kernel expects it (`Executable.aligned`); between gaps others may write.
        """
        strides = reshaped_strides(self.shape, self.strides, array.shape) if self.shape != array.shape else self.strides
        if strides is None:
            return None
        found = self.strided(array.shape, strides)
        if not self.address or 0 in self.shape:
            return found
        asked = zip(array.shape, strides, array.strides, strict=True)
        lies = all(length == 1 or own == wanted for length, own, wanted in asked)
        return found if lies and (array.is_dense or not self.address % array.align) else None

    def require(
        self, *, ndim: int | None = None, dtype: str | None = None, shape: tuple[int, ...] | None = None
    ) -> Given:
        """The array, if it is as asked. Raises DeviceError naming it."""
        if ndim is not None and self.ndim != ndim:
            raise DeviceError(f"{self.what}: shape {self.shape}; expected {ndim} dimensions")
        if shape is not None and self.shape != shape:
            raise DeviceError(f"{self.what}: shape {self.shape}; expected {shape}")
        if dtype is not None and self.dtype != dtype:
            raise DeviceError(f"{self.what}: elements are {self.dtype}; expected {dtype}")
        return self


def pitch_of(matrix: Given) -> int:
    """Elements from one row of a matrix to the next, or of several; where there is none, the length of a row.

    Rows of no elements are as far apart as the widest vectors: in one launch with others they make no loads narrow.
    Raises DeviceError for rows that share places.
    """
    rows, n = matrix.shape[-2:]
    if rows < 2 or 0 in matrix.shape:
        return n or ACCESS_BYTES // find_dtype(matrix.dtype).bytes
    pitch = matrix.strides[-2]
    if pitch < n:
        raise DeviceError(f"{matrix.what}: rows of {n} elements lie {pitch} apart; make a contiguous copy first")
    return pitch


def pitch_key(name: str, out: Given | None, dims: int = 1) -> dict[str, object]:
    """The key that says how far apart the rows of an output lie, its last dimensions: of one that is given and has
    such rows. Of others the session makes a copy (`Given.as_written`)."""
    rows = out.as_rows(dims) if out is not None and out.is_told else None
    return {} if rows is None else {name: pitch_of(rows)}


def batch_keys(out: Given | None) -> dict[str, object]:
    """As `pitch_key`, of matrices C, the last two dimensions: how far apart rows and matrices lie."""
    if out is None or not out.is_told or out._step != 1 or (out.shape[-2] > 1 and out.strides[-2] < out.shape[-1]):
        return {}
    return {"ldc": pitch_of(out), "c_batch_strides": out.strides[:-2]}


def align_of(arrays: Sequence[Given], *dtypes: str) -> int:
    """What divides all addresses but those of arrays that begin within an element of another one, which are copied."""
    largest = max((find_dtype(one).bytes for one in dtypes), default=1)
    return math.gcd(*(one.base for one in arrays if one.base >= largest)) or ACCESS_BYTES


def elements_in(dtype: str, size: int) -> int:
    """Elements in so many of an array's own, which are bytes of packed types."""
    packing = find_dtype(dtype).packing
    return size if packing is None else packing.count(size)


def read(
    what: str, array: Any, target: Target, packed: str | None = None, *, octets: str | None = None,
    written: bool = False,
) -> Given:  # fmt: skip
    """An array of any library.

    Args:
        packed: what its bytes (uint8; of fp4 also float4_e2m1fn_x2) hold, where they do.
        octets: the type of elements where an array has bytes; it may have another type as well.
        written: it is taken as it lies, wherever that is.

    Raises DeviceError for what is none, and for elements that no operator has.
    """
    home = home_of(what, array)
    if written and isinstance(array, np.ndarray) and not array.flags.writeable:
        raise DeviceError(f"{what}: a read-only array, which would be written; expected one that may be")
    array = by_known_type(home, array, packed, None if octets is None else numpy_dtype(octets, target))
    if isinstance(array, Array):
        dtype = _dtype(what, array.dtype, target, packed)
        return Given(what, array, home, array.shape, array.strides, dtype, array.address)
    check_unmasked(array)
    lies = array if written else home.packed(array)
    view = view_of(lies)
    dtype = _dtype(what, view.dtype, target, packed)
    strides = view.strides
    if not written and not view.on_gpu:  # a dimension without neighbours may have any stride, below 0 too
        strides = packed_strides(tuple(max(length, 1) for length in view.shape))
    return Given(what, lies, home, view.shape, strides, dtype, view.address if view.on_gpu else 0)


def read_numbers(what: str, array: Any, target: Target) -> Given:
    """Numbers of rows, lengths and the like: as `read`, with i32 for whatever integers arrays of the host have.

    Raises DeviceError as `read`, and for numbers that 32 bits do not hold.
    """
    narrowed = home_of(what, array).narrowed(array)
    if narrowed is not array and not (narrowed == array).all():
        raise DeviceError(f"{what}: number {array[narrowed != array][0].item()}; expected numbers of 32 bits")
    return read(what, narrowed, target)


def _dtype(what: str, dtype: Any, target: Target, packed: str | None = None) -> str:
    """What operators call an element type."""
    name = dtype if isinstance(dtype, str) else dtype.name
    if packed is not None:
        if not isinstance(packed, str) or packed not in PACKED_TYPES:
            raise DeviceError(f"{what}: {shown(packed)} is not a packed type; expected {', '.join(PACKED_TYPES)}")
        if name != "uint8":
            raise DeviceError(f"{what}: {packed} lies in bytes, uint8, not in {name}")
        return packed
    if name == "uint8":
        held = ", ".join(PACKED_TYPES)
        raise DeviceError(
            f"{what}: bytes may hold {held}; say which, as nn.cast(x, 'f32', packed='fp4'). Scales that are powers of "
            "two are float8_e8m0fnu: view them as that"
        )
    for known in (*DTYPES, POWER.name):
        try:
            if numpy_dtype(known, target).name == name:
                return known
        except RequestError:  # the chip has no such type
            continue
    raise DeviceError(f"{what}: no operator has elements of type {name} on {target.name}")
