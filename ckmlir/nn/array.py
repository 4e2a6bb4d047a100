"""Arrays in device memory: shape, strides and element type, views, NumPy and DLPack in and out.

    x = asarray(numpy_array, device)          # copied to the device
    x[2:, ::2].T                              # views of the same memory
    x.numpy()                                 # copied back, when the device has come so far

Strides are never negative, so that an array begins where it is lowest in memory. Memory is given back when the last
view of it is gone, as the device does it: behind everything that is queued.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ckmlir.ops.dtypes import named_dtype
from ckmlir.runtime.arguments import packed_strides
from ckmlir.runtime.device import Device, DeviceError, Stream
from ckmlir.runtime.device_array import DeviceArray, download, typed, upload
from ckmlir.runtime.device_array import empty as empty_memory
from ckmlir.runtime.dlpack import HOST_DEVICE, ROCM_DEVICE, write_dlpack

NumpyArray = npt.NDArray[Any]


class Array:
    """An array of a device.

    Attributes:
        device: whose memory it is.
        data: the memory with its description; operators take it.
    """

    __slots__ = ("data", "device")

    def __init__(self, device: Device, data: DeviceArray) -> None:
        self.device, self.data = device, data

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self.data.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each dimension."""
        return self.data.strides

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type as NumPy or ml_dtypes have it."""
        return named_dtype(self.data.dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def address(self) -> int:
        """Of the first element."""
        return self.data.address

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Array({self.dtype.name}, shape={self.shape}, strides={self.strides}, {self.device.properties.name})"

    # -- views ---------------------------------------------------------------------------------------------------------

    def strided(self, shape: Sequence[int], strides: Sequence[int], first: int = 0) -> Array:
        """A view with any shape and strides, from element `first` on. Raises DeviceError beyond the memory."""
        offset = self.data.offset + first * self.dtype.itemsize
        return Array(self.device, typed(self.data.whole, shape, self.dtype, strides, offset))

    def __getitem__(self, key: object) -> Array:
        """A view: whole numbers, slices with positive steps, `...` and None, as NumPy has them."""
        keys = key if isinstance(key, tuple) else (key,)
        keys = self._without_ellipsis(keys)
        shape, strides, first, dim = list[int](), list[int](), 0, 0
        for one in keys:
            if one is None:
                shape, strides = [*shape, 1], [*strides, 0]
                continue
            length, stride = self.shape[dim], self.strides[dim]
            dim += 1
            if isinstance(one, slice):
                try:
                    start, stop, step = one.indices(length)
                except (TypeError, ValueError) as error:
                    raise DeviceError(f"{one}: {error}") from None
                if step < 1:
                    raise DeviceError(f"a slice with step {step}: strides are not negative; expected a step above 0")
                count = max(-(-(stop - start) // step), 0)
                shape, strides = [*shape, count], [*strides, stride * step]
                first += start * stride
            else:
                first += self._index(one, length) * stride
        return self.strided(shape, strides, 0 if 0 in shape else first)  # no elements: no place beyond the memory

    def _without_ellipsis(self, keys: tuple[object, ...]) -> tuple[object, ...]:
        """One key for each dimension, and those that add one."""
        given = sum(one is not None and one is not Ellipsis for one in keys)
        if given > self.ndim:
            raise DeviceError(f"{given} indices for an array of shape {self.shape}")
        whole = (slice(None),) * (self.ndim - given)
        places = [place for place, one in enumerate(keys) if one is Ellipsis]
        if len(places) > 1:
            raise DeviceError("an index can have only one ellipsis")
        if not places:
            return (*keys, *whole)
        return (*keys[: places[0]], *whole, *keys[places[0] + 1 :])

    def _index(self, key: object, length: int) -> int:
        try:
            number = _whole(key)
        except TypeError:
            what = f"{type(key).__name__} is not an index"
            raise DeviceError(f"{what}; expected whole numbers, slices, ... and None") from None
        if not -length <= number < length:
            raise IndexError(f"index {number} is out of bounds: the dimension has length {length}")
        return number % length

    def permute(self, *dims: int | Sequence[int]) -> Array:
        """A view with the dimensions in another order, given one by one or as one sequence."""
        order = [dim + self.ndim if dim < 0 else dim for dim in _whole_numbers("permute", dims)]
        if sorted(order) != list(range(self.ndim)):
            raise DeviceError(f"permute{dims}: expected each of {self.ndim} dimensions once")
        return self.strided([self.shape[dim] for dim in order], [self.strides[dim] for dim in order])

    @property
    def T(self) -> Array:
        """A view with the dimensions in the opposite order."""
        return self.permute(*reversed(range(self.ndim)))

    def reshape(self, *shape: int | Sequence[int]) -> Array:
        """A view with other dimensions over the same elements, given one by one or as one sequence; one may be -1.

        Raises DeviceError where the elements do not lie so; a copy does (`ckmlir.nn.contiguous`).
        """
        wanted = _whole_numbers("reshape", shape)
        if wanted.count(-1) == 1:
            rest = math.prod(one for one in wanted if one != -1)
            wanted[wanted.index(-1)] = self.size // rest if rest else 0
        if math.prod(wanted) != self.size or min(wanted, default=0) < 0:
            raise DeviceError(f"reshape{shape}: an array of shape {self.shape} has {self.size} elements")
        strides = reshaped_strides(self.shape, self.strides, wanted)
        if strides is None:
            raise DeviceError(
                f"reshape{shape}: elements of shape {self.shape} with strides {self.strides} do not lie so; make a "
                "contiguous copy first"
            )
        return self.strided(wanted, strides)

    @property
    def is_contiguous(self) -> bool:
        """Whether elements follow each other without gaps, the last dimension's first."""
        packed = packed_strides(self.shape)
        pairs = zip(self.shape, self.strides, packed, strict=True)
        return not self.size or all(length == 1 or given == wanted for length, given, wanted in pairs)

    # -- other libraries -----------------------------------------------------------------------------------------------

    def numpy(self, stream: Stream | None = None) -> NumpyArray:
        """A copy on the host, when the stream has come so far."""
        return download(self.device, self.data, stream)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> NumpyArray:
        if copy is False:
            raise ValueError("an array of a device is copied to the host")
        return np.asarray(self.numpy(), dtype)

    def __dlpack_device__(self) -> tuple[int, int]:
        """ROCm and the GPU's number; the simulator's memory is the host's."""
        ordinal = getattr(getattr(self.device, "gpu", None), "ordinal", None)
        return (HOST_DEVICE, 0) if ordinal is None else (ROCM_DEVICE, ordinal)

    def __dlpack__(self, *, stream: object = None, **others: object) -> object:
        """The array for another library, without copying; that library keeps the memory.

        Everything that is queued is waited for, so that the consumer's stream need not be known.
        """
        if others.get("copy"):
            raise BufferError("a copy was asked for: take numpy(), or copy what is exported")
        self.device.synchronize()
        return write_dlpack(self.address, self.shape, self.strides, self.dtype.name, self.__dlpack_device__(), self)


def asarray(array: object, device: Device, stream: Stream | None = None) -> Array:
    """An array of a device as it is; one of the host copied there, packed.

    Raises DeviceError for what is not an array, an array of another device, or elements that are not numbers.
    """
    if isinstance(array, Array):
        if array.device is not device:
            raise DeviceError(f"{array!r} is of another device than {device.properties.name}")
        return array
    given = np.asarray(array) if isinstance(array, (list, tuple, int, float, np.generic)) else array
    return Array(device, upload(device, given, stream))


def empty(shape: int | Sequence[int], dtype: npt.DTypeLike, device: Device) -> Array:
    """A new packed array; what is in it is not defined.

    Raises:
        DeviceError: a shape that is none, or as `Device.allocate`.
    """
    lengths = _whole_numbers("shape ", (shape,))
    if any(length < 0 for length in lengths):
        raise DeviceError(f"shape {shape}: expected no length below 0")
    return Array(device, empty_memory(device, lengths, dtype))


def _whole(value: Any) -> int:
    """A whole number. Raises TypeError for what is none, and for conditions, which NumPy takes for masks."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError
    return operator.index(value)


def _whole_numbers(what: str, given: tuple[Any, ...]) -> list[int]:
    """Numbers that were given one by one, or as one sequence. Raises DeviceError unless all are whole."""
    words = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    try:
        return [_whole(one) for one in words]
    except TypeError:
        raise DeviceError(f"{what}{words}: expected whole numbers") from None


def reshaped_strides(shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...] | None:
    """The strides of the same elements in another shape of as many; None where there are none."""
    if 0 in wanted:
        return packed_strides(tuple(wanted))
    # Dimensions that follow each other without a gap are one run: (length, stride), the last first.
    runs: list[list[int]] = []
    for length, stride in reversed([pair for pair in zip(shape, strides, strict=True) if pair[0] != 1]):
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= length
        else:
            runs.append([length, stride])
    found: list[int] = []
    for length in reversed(wanted):
        if length == 1:  # any stride will do: that of rows without gaps
            found.append(found[-1] * wanted[len(wanted) - len(found)] if found else 1)
            continue
        while runs and runs[0][0] == 1:
            runs.pop(0)
        if not runs or runs[0][0] % length:
            return None
        found.append(runs[0][1])
        runs[0] = [runs[0][0] // length, runs[0][1] * length]
    return tuple(reversed(found))
