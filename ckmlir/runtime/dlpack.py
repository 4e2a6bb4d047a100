"""DLPack capsules: where a tensor of another library lies, and one of ours for another library.

Layouts and numbers: dlpack.h of DLPack 1.1 (`DLManagedTensor`, `DLTensor`, `DLDataTypeCode`, `DLDeviceType`). A capsule
that is read is looked at, not consumed: it keeps the tensor alive, and frees it when it is itself freed.
"""

from __future__ import annotations

import ctypes
from typing import Any

from msgspec import Struct

from ckmlir.runtime.device import DeviceError

HOST_DEVICE, ROCM_DEVICE = 1, 10
DLPACK_DEVICES = {1: "host", 3: "host", 10: "gpu", 11: "host"}
"""kDLCPU, kDLCUDAHost, kDLROCM, kDLROCMHost."""

_TYPES = {
    (0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64",
    (1, 8): "uint8", (1, 16): "uint16", (1, 32): "uint32", (1, 64): "uint64",
    (2, 16): "float16", (2, 32): "float32", (2, 64): "float64", (4, 16): "bfloat16", (6, 8): "bool",
    (10, 8): "float8_e4m3fn", (11, 8): "float8_e4m3fnuz", (12, 8): "float8_e5m2", (13, 8): "float8_e5m2fnuz",
}  # fmt: skip
"""(type code, bits) -> name."""


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class DlpackArray(Struct, frozen=True):
    """What a capsule says; strides in elements, None for rows without gaps. `owner` keeps the memory alive."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str
    owner: object


def read_dlpack(array: Any) -> DlpackArray:
    """What `array.__dlpack__()` says. Raises DeviceError for an element type that is not known."""
    capsule = array.__dlpack__()
    tensor = _Tensor.from_address(_get_pointer(capsule, b"dltensor"))
    dtype = _TYPES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        kind = f"type code {tensor.code} of {tensor.bits} bits and {tensor.lanes} lanes"
        raise DeviceError(f"{type(array).__name__}: DLPack's {kind} is not known here")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    return DlpackArray((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, (capsule, array))


# -- capsules of our own -----------------------------------------------------------------------------------------------

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("manager", ctypes.c_void_p), ("deleter", _Deleter)]


_CODES = {name: code for code, name in _TYPES.items()}
_exported: dict[int, tuple[Any, ...]] = {}
"""By address of the managed tensor, what has to live until it is deleted."""


def _give_back(address: int) -> None:
    _exported.pop(address, None)


_delete = _Deleter(_give_back)
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_NAME = b"dltensor"


def _destroyed(capsule: int) -> None:
    """A capsule that nobody consumed, whose name is still the old one, gives the tensor back itself."""
    if _is_valid(capsule, _NAME):
        _give_back(_pointer_of(capsule, _NAME))


_destroy = _Destructor(_destroyed)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _Destructor]


def write_dlpack(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, device: tuple[int, int], owner: object
) -> object:
    """A capsule for other libraries; `owner` lives until they have given the tensor back.

    Args:
        strides: in elements.
        device: DLPack's number of the kind, and that of the device.

    Raises:
        DeviceError: DLPack has no such element type.
    """
    if dtype not in _CODES:
        raise DeviceError(f"DLPack has no elements of type {dtype}")
    code, bits = _CODES[dtype]
    numbers = ctypes.c_int64 * max(len(shape), 1)
    lengths, steps = numbers(*shape), numbers(*strides)
    tensor = _Tensor(address, *device, len(shape), code, bits, 1, lengths, steps, 0)
    managed = _Managed(tensor, None, _delete)
    place = ctypes.addressof(managed)
    _exported[place] = (managed, lengths, steps, owner)
    capsule: object = _new_capsule(place, _NAME, _destroy)
    return capsule
