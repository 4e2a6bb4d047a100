"""Memory of a device that says what it holds: shape, strides and element type.

    x = upload(device, numpy_array)
    y = empty(device, (128, 256), "float16")
    executable(x=x, y=y)
    result = download(device, y)

An operator's call refuses a `DeviceArray` that is not what the problem asks for. Bare memory (`Device.allocate`) is
bytes: of that only the size is checked, and what the host wrote to it last. `MemoryPart(memory, 0, memory.size)` is
bytes whatever was written.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ckmlir.errors import as_annotated
from ckmlir.ops.dtypes import named_dtype
from ckmlir.runtime.arguments import as_host_array, is_masked, packed_strides, reach_of
from ckmlir.runtime.device import Array, Device, DeviceError, Memory, MemoryPart, Stream

if TYPE_CHECKING:
    import numpy.typing as npt


class DeviceArray(MemoryPart, frozen=True, kw_only=True):
    """An array in device memory; it stands wherever memory does, but is not given back: `Device.free(array.whole)`.

    Attributes:
        shape, strides: in elements, strides not below 0.
        dtype: as NumPy and ml_dtypes call it, "float16", "bfloat16".
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


@as_annotated(DeviceError)
def typed(
    memory: Memory, shape: Sequence[int], dtype: npt.DTypeLike, strides: Sequence[int] | None = None, offset: int = 0
) -> DeviceArray:
    """The array that lies in device memory from a byte on; strides in elements, by default packed.

    Raises DeviceError for an unknown element type, negative lengths or strides, and for more than the memory has.
    """
    kind, lengths = _kind(dtype), tuple(int(length) for length in shape)
    steps = packed_strides(lengths) if strides is None else tuple(int(stride) for stride in strides)
    if len(steps) != len(lengths) or min(lengths, default=0) < 0 or min(steps, default=0) < 0:
        raise DeviceError(f"an array of shape {lengths} with strides {steps}: expected as many, none below 0")
    nbytes = reach_of(lengths, steps) * kind.itemsize
    return DeviceArray(memory, offset, nbytes, shape=lengths, strides=steps, dtype=kind.name)


@as_annotated(DeviceError)
def empty(device: Device, shape: Sequence[int], dtype: npt.DTypeLike) -> DeviceArray:
    """A new packed array. Raises DeviceError as `typed` and `Device.allocate`."""
    try:
        lengths = tuple(operator.index(length) for length in shape)
    except TypeError:
        raise DeviceError(f"shape={shape!r:.60}: expected whole numbers, one for each dimension") from None
    return typed(device.allocate(reach_of(lengths, packed_strides(lengths)) * _kind(dtype).itemsize), lengths, dtype)


@as_annotated(DeviceError)
def upload(device: Device, array: Any, stream: Stream | None = None) -> DeviceArray:
    """A new packed array with the contents of one of the host: NumPy's, or as `view_of` reads it.

    Raises DeviceError for what is not an array, a masked one, or one of a GPU.
    """
    if isinstance(array, np.ndarray) and not is_masked(array):  # a field of records has no strides in elements
        array = np.ascontiguousarray(array).reshape(array.shape)
    given = as_host_array(array)
    contents = np.ascontiguousarray(given)
    found = empty(device, given.shape, contents.dtype)
    device.write(found, contents, stream)
    return found


@as_annotated(DeviceError)
def download(device: Device, array: DeviceArray, stream: Stream | None = None) -> Array:
    """A copy on the host, packed, when the stream has come so far."""
    contents = np.empty(array.size, np.uint8)
    device.read(contents, array, stream)
    kind = _kind(array.dtype)
    words = contents.view(f"u{kind.itemsize}") if kind.itemsize in (1, 2, 4, 8) else contents.view(kind)
    steps = tuple(stride * kind.itemsize for stride in array.strides)
    found: Array = np.lib.stride_tricks.as_strided(words, array.shape, steps).copy().view(kind)
    return found


def _kind(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        found = named_dtype(dtype)
    except (TypeError, ValueError):
        raise DeviceError(f"{dtype!r} is not an element type that NumPy or ml_dtypes know") from None
    if found.kind in "OSUMm" or found.type is np.void:
        raise DeviceError(f"elements of type {found} are not numbers")
    if found.type is np.longdouble and found.itemsize > 8:  # to NumPy "f16" counts bytes
        wanted = "; expected 'float16'" if isinstance(dtype, str) and dtype == "f16" else ""
        raise DeviceError(f"{dtype!r} is {found} to NumPy, which no kernel has{wanted}")
    native: np.dtype[Any] = found.newbyteorder("=")
    return native
