"""Reading a DLPack capsule: where a tensor of another library lies.

Layouts and numbers: dlpack.h of DLPack 1.1 (`DLManagedTensor`, `DLTensor`, `DLDataTypeCode`, `DLDeviceType`). The
capsule is looked at, not consumed: it keeps the tensor alive, and frees it when it is itself freed.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from ckmlir.runtime.device import DeviceError

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


@dataclass(frozen=True)
class DlpackArray:
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
