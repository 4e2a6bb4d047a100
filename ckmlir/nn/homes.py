"""Where arrays that users give live, by library: how to look at them otherwise, and how to make others beside them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ckmlir.nn.array import Array, empty
from ckmlir.runtime.arguments import as_host_array, check_tensor, check_unmasked
from ckmlir.runtime.device import Device, DeviceError
from ckmlir.runtime.device_array import typed


class Home(Protocol):
    """Where an array lives: how to look at it otherwise, and how to make others there."""

    def strided(self, array: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
        """A view from the same first element."""

    def packed(self, array: Any) -> Any:
        """The array, without gaps where it is the host's: then kernels do not depend on how it lay."""

    def narrowed(self, array: Any) -> Any:
        """The array, with elements of 32 bits where it is the host's and has integers of another type."""

    def viewed(self, array: Any, dtype: np.dtype[Any]) -> Any:
        """The same memory as elements of another type of as many bytes."""

    def empty(self, like: Any, shape: Sequence[int], dtype: np.dtype[Any], device: Device) -> Any:
        """A new packed array beside another one."""


class _OnDevice:
    def strided(self, array: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
        return array.strided(shape, strides)

    def packed(self, array: Any) -> Any:
        return array

    def narrowed(self, array: Any) -> Any:
        return array

    def viewed(self, array: Array, dtype: np.dtype[Any]) -> Array:
        return Array(array.device, typed(array.data.whole, array.shape, dtype, array.strides, array.data.offset))

    def empty(self, like: Array, shape: Sequence[int], dtype: np.dtype[Any], device: Device) -> Array:
        return empty(shape, dtype, device)


class _OnHost:
    def strided(self, array: np.ndarray[Any, Any], shape: Sequence[int], strides: Sequence[int]) -> Any:
        size = array.itemsize
        words = array.view(f"u{size}")  # as_strided loses the types of ml_dtypes
        steps = [stride * size for stride in strides]
        return np.lib.stride_tricks.as_strided(words, tuple(shape), steps).view(array.dtype)

    def empty(self, like: Any, shape: Sequence[int], dtype: np.dtype[Any], device: Device) -> Any:
        return np.empty(tuple(shape), dtype)

    def viewed(self, array: Any, dtype: np.dtype[Any]) -> Any:
        return array.view(dtype)

    def packed(self, array: Any) -> Any:
        return as_host_array(np.ascontiguousarray(array)).reshape(array.shape)

    def narrowed(self, array: Any) -> Any:
        check_unmasked(array)
        return array.astype(np.int32) if array.dtype.kind in "iu" and array.dtype != np.int32 else array


class _OfTorch:
    """Tensors; the module is the user's, which has been imported where there are tensors."""

    def strided(self, array: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
        return array.as_strided(tuple(shape), tuple(strides))

    def empty(self, like: Any, shape: Sequence[int], dtype: np.dtype[Any], device: Device) -> Any:
        torch: Any = sys.modules["torch"]
        return torch.empty(tuple(shape), dtype=getattr(torch, dtype.name), device=like.device)

    def packed(self, array: Any) -> Any:
        if array.device.type != "cpu":
            return array
        resolved = array.resolve_neg()
        check_tensor(resolved)
        return resolved.contiguous()

    def narrowed(self, array: Any) -> Any:
        torch: Any = sys.modules["torch"]
        is_whole = array.dtype in (torch.int64, torch.int16, torch.int8, torch.uint8)
        return array.to(torch.int32) if is_whole and array.device.type == "cpu" else array

    def viewed(self, array: Any, dtype: np.dtype[Any]) -> Any:
        torch: Any = sys.modules["torch"]
        return array.view(getattr(torch, dtype.name))


class _OfCupy:
    def strided(self, array: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
        cupy: Any = sys.modules["cupy"]
        steps = tuple(stride * array.dtype.itemsize for stride in strides)
        return cupy.lib.stride_tricks.as_strided(array, tuple(shape), steps)

    def packed(self, array: Any) -> Any:
        return array

    def narrowed(self, array: Any) -> Any:
        return array

    def empty(self, like: Any, shape: Sequence[int], dtype: np.dtype[Any], device: Device) -> Any:
        cupy: Any = sys.modules["cupy"]
        return cupy.empty(tuple(shape), dtype)

    def viewed(self, array: Any, dtype: np.dtype[Any]) -> Any:
        return array.view(dtype)


PAIRS = "float4_e2m1fn_x2"
"""PyTorch's type of two neighbours of fp4, the first in the low half."""
_HOMES: dict[str, Home] = {"torch": _OfTorch(), "cupy": _OfCupy()}
ON_DEVICE, ON_HOST = _OnDevice(), _OnHost()


def home_of(what: str, array: Any) -> Home:
    """Where an array lives. Raises DeviceError for what is not an array."""
    if isinstance(array, Array):
        return ON_DEVICE
    if isinstance(array, np.ndarray):
        return ON_HOST
    library = type(array).__module__.partition(".")[0]
    if library in _HOMES:
        return _HOMES[library]
    if hasattr(array, "__dlpack__"):
        raise DeviceError(
            f"{what}: arrays of {library} are not taken as they are; pass them through NumPy or ckmlir.nn.asarray"
        )
    raise DeviceError(f"{what}: {type(array).__name__} is not an array; expected NumPy, PyTorch, CuPy or ckmlir.nn")


def has_bytes(array: Any) -> bool:
    """Whether elements of an array are bytes, or pairs of fp4."""
    return _name_of(array) in ("uint8", PAIRS)


def _name_of(array: Any) -> str:
    """What an array's library calls its element type, without the library's name."""
    return str(getattr(array, "dtype", "")).removeprefix("torch.")


def by_known_type(home: Home, array: Any, packed: str | None, octets: np.dtype[Any] | None) -> Any:
    """The array with elements of the type by which kernels know them: pairs of fp4 are bytes, and bytes `octets`."""
    name = _name_of(array)
    if name == PAIRS and packed == "fp4":
        return home.viewed(array, np.dtype(np.uint8))
    return home.viewed(array, octets) if name == "uint8" and octets is not None else array
