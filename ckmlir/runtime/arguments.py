"""Arrays of other libraries as kernel arguments: where they lie and what they are, without copying.

| an array that has | is read as |
|---|---|
| `data_ptr`, `stride`, `dtype`, `device` (PyTorch) | its address, strides in elements, and its device |
| `__cuda_array_interface__` (CuPy, Numba, hip-python) | memory of a GPU |
| `__dlpack__` (JAX, NumPy and others) | memory of the host or of a GPU, as its DLPack device says |

NumPy's own arrays are memory of the host, in any byte order: what is copied is converted. Masked arrays are refused,
since nobody here looks at the mask. Memory of a GPU is passed as it is, views with strides too; what a kernel
cannot take is refused.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.dtypes import named_dtype, numpy_dtype
from ckmlir.runtime.device import DeviceError
from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.ops.comparison import Array


class ArrayView(Struct, frozen=True):
    """Where somebody else's array lies, and what it is.

    Attributes:
        address: of its first element.
        strides: in elements.
        dtype: the name that NumPy, ml_dtypes and PyTorch share, "float16", "bfloat16", "float8_e4m3fnuz".
        on_gpu: memory of a GPU, not of the host.
        ordinal: the GPU's number; None where that is not known.
        owner: what keeps the memory alive.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    on_gpu: bool
    ordinal: int | None
    owner: object


def view_of(array: Any) -> ArrayView:
    """What an array is. Raises DeviceError for an object that is not an array, or of an unknown kind."""
    if isinstance(array, np.ndarray):
        return _of_numpy(array)
    if hasattr(array, "data_ptr") and hasattr(array, "stride"):
        return _of_torch(array)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        return _of_interface(array, interface)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array)
    raise DeviceError(
        f"{type(array).__name__} is not an array: expected one of NumPy or PyTorch, one with __cuda_array_interface__ "
        "or __dlpack__, or memory of the device"
    )


def _of_numpy(array: Array) -> ArrayView:
    check_unmasked(array)
    if array.dtype.hasobject:
        raise DeviceError("an array of Python's objects holds addresses of the host; give it a type of elements")
    strides = _in_elements(array.strides, array.dtype)
    return ArrayView(array.ctypes.data, array.shape, strides, array.dtype.name, False, None, array)


def _in_elements(strides: Sequence[int], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Strides of bytes in elements. Raises DeviceError where they are no whole ones."""
    size = dtype.itemsize
    if size == 0 or any(stride % size for stride in strides):
        raise DeviceError(f"an array with strides of {tuple(strides)} bytes has none in elements of {size}")
    return tuple(stride // size for stride in strides)


def _of_torch(array: Any) -> ArrayView:
    check_tensor(array)
    on_gpu = array.device.type == "cuda"
    dtype = str(array.dtype).removeprefix("torch.")
    ordinal = array.device.index if on_gpu else None
    return ArrayView(array.data_ptr(), tuple(array.shape), tuple(array.stride()), dtype, on_gpu, ordinal, array)


def check_tensor(tensor: Any) -> None:
    """Raise DeviceError for a PyTorch tensor whose elements do not lie in memory of the host or of a GPU by strides."""
    if tensor.device.type not in ("cuda", "cpu"):  # PyTorch for ROCm calls its GPUs cuda
        raise DeviceError(f"an array on {tensor.device}: expected the host or a GPU of HIP")
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor):  # another library's, that looks like one
        return
    if tensor.is_nested or tensor.layout is not torch.strided:
        what = "nested" if tensor.is_nested else tensor.layout
        raise DeviceError(f"a tensor that is {what}: expected one with strides")
    if tensor.is_neg() or tensor.is_conj():
        raise DeviceError("a tensor that is negated or conjugated when it is read; pass resolve_neg(), resolve_conj()")
    if hasattr(tensor, "fake_mode") or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise DeviceError(
            "a tensor without memory, such as torch.compile, torch.vmap and torch.func make; expected one with values"
        )


def _of_interface(array: Any, interface: dict[str, Any]) -> ArrayView:
    """CUDA Array Interface, version 3 (Numba's documentation); ROCm's libraries use it under the same name."""
    try:
        dtype = np.dtype(interface["typestr"])
    except TypeError:
        raise DeviceError(f"{type(array).__name__}: element type {interface['typestr']!r} is not known") from None
    if not dtype.isnative:
        raise DeviceError(f"{type(array).__name__}: elements of type {dtype} have the bytes of another machine's order")
    if interface.get("mask") is not None:
        raise DeviceError(f"{type(array).__name__}: masked arrays are not taken")
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    if strides is None:
        steps = packed_strides(shape)
    else:
        steps = _in_elements(strides, dtype)
    return ArrayView(interface["data"][0], shape, steps, dtype.name, True, None, array)


def _of_dlpack(array: Any) -> ArrayView:
    from ckmlir.runtime.dlpack import DLPACK_DEVICES, read_dlpack

    kind, ordinal = array.__dlpack_device__()
    place = DLPACK_DEVICES.get(kind)
    if place is None:
        raise DeviceError(f"{type(array).__name__} is on DLPack device {kind}: expected the host or ROCm")
    read = read_dlpack(array)
    strides = packed_strides(read.shape) if read.strides is None else read.strides
    on_gpu = place == "gpu"
    return ArrayView(read.address, read.shape, strides, read.dtype, on_gpu, ordinal if on_gpu else None, read.owner)


def is_masked(array: object) -> bool:
    """Whether an array is one of `numpy.ma`, which is not imported for others: that takes 10 ms."""
    return type(array) is not np.ndarray and isinstance(array, np.ndarray) and isinstance(array, np.ma.MaskedArray)


def check_unmasked(array: object) -> None:
    """Raise DeviceError for a masked array."""
    if is_masked(array):
        raise DeviceError("a masked array: the mask would be ignored; pass array.filled(value), or array.data")


def as_host_array(array: Any) -> Array:
    """An array of the host as NumPy's, in this machine's byte order: shared where it has that, else a copy.

    Raises DeviceError for what is not an array, a masked one, and memory of a GPU.
    """
    view = view_of(array)
    if view.on_gpu:
        raise DeviceError(f"{type(array).__name__} is memory of a GPU; expected an array of the host")
    if isinstance(array, np.ndarray):
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    try:
        dtype = named_dtype(view.dtype)
    except TypeError:
        raise DeviceError(f"{type(array).__name__}: NumPy has no elements of type {view.dtype}") from None
    return host_array(view, dtype)


def reach_of(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to one past the last."""
    if 0 in shape:
        return 0
    return 1 + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))


def may_overlap(array: Array) -> bool:
    """Whether elements may share a place, as those of a dimension with stride 0 do: nobody can write such an array."""
    reach = 0
    steps = zip(map(abs, array.strides), array.shape, strict=True)
    for stride, length in sorted((stride, length) for stride, length in steps if length > 1):
        if stride < reach + array.itemsize:
            return array.size > 0
        reach += (length - 1) * stride
    return False


def packed_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of rows without gaps."""
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def check_kind(view: ArrayView, spec: ArraySpec, target: Target) -> None:
    """Raise DeviceError unless the array has the shape and element type that a kernel was made for."""
    if view.shape != spec.shape:
        raise DeviceError(f"array {spec.name} has shape {view.shape}; the problem asks for {spec.shape}")
    wanted = numpy_dtype(spec.dtype, target).name
    if view.dtype != wanted:
        raise DeviceError(f"array {spec.name} has type {view.dtype}; the problem's {spec.dtype} is {wanted}")


def check_place(view: ArrayView, spec: ArraySpec, ordinal: int | None) -> None:
    """Raise DeviceError unless the array lies as the kernel takes it: on this GPU, with these strides.

    Strides of dimensions without neighbours do not matter. Where it begins `check_alignment` asks.
    """
    if view.on_gpu and view.ordinal is not None and view.ordinal != ordinal:
        raise DeviceError(f"array {spec.name} is on GPU {view.ordinal}, the kernel runs on GPU {ordinal}")
    pairs = zip(view.shape, view.strides, spec.strides, strict=True)
    if spec.elements and any(length > 1 and given != wanted for length, given, wanted in pairs):
        raise DeviceError(
            f"array {spec.name} has strides {view.strides}; the problem asks for {spec.strides}: say so in its keys "
            "for strides, if it has any, or pass a contiguous copy"
        )


def check_alignment(address: int, spec: ArraySpec) -> None:
    """Raise DeviceError for an array that begins where its kernel does not expect it to."""
    if address % spec.align and spec.elements:
        raise DeviceError(f"array {spec.name} starts at 0x{address:x}; the kernel needs a multiple of {spec.align}")


def host_array(view: ArrayView, dtype: np.dtype[Any]) -> Array:
    """An array of the host as NumPy's, sharing its memory."""
    if isinstance(view.owner, np.ndarray):
        return view.owner
    if 0 in view.shape:
        return np.empty(view.shape, dtype)
    size = dtype.itemsize
    reach = [(length - 1) * stride * size for length, stride in zip(view.shape, view.strides, strict=True)]
    first = sum(one for one in reach if one < 0)  # where strides go down, what is lowest lies before the first element
    last = sum(one for one in reach if one > 0)
    memory = (ctypes.c_uint8 * (last - first + size)).from_address(view.address + first)
    strides = tuple(stride * size for stride in view.strides)
    shared: Array = np.ndarray(view.shape, dtype, np.ctypeslib.as_array(memory), -first, strides)
    return shared
