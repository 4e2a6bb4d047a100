"""Memory from the caller's own allocators, for workspaces and for what is copied from and to the device.

A function of a size in bytes gives an array of bytes, of any library that `runtime.arguments` reads, or memory of the
device. It is kept alive as long as a stream may use it, by nothing but references: they are dropped where a program
calls, never by the driver.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ckmlir.ops.arrays import ALIGNMENT
from ckmlir.runtime.arguments import packed_strides, view_of
from ckmlir.runtime.device import DeviceError, HostMemory, Memory

if TYPE_CHECKING:
    from ckmlir.ops.comparison import Array

Allocator = Callable[[int], Any]
"""Gives memory of at least so many bytes."""


class GivenMemory:
    """Memory of the device.

    Attributes:
        address: of the first byte; size: bytes.
        owner: what keeps it alive.
    """

    __slots__ = ("address", "owner", "size")

    def __init__(self, address: int, size: int, owner: object) -> None:
        self.address = address
        self.size = size
        self.owner = owner


class GivenHostMemory(GivenMemory):
    """Memory of the host."""

    __slots__ = ()

    @property
    def bytes(self) -> Array:
        """Its contents, shared; it keeps nothing alive."""
        contents: Array = np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(self.address))
        return contents


def device_memory(allocate: Allocator, size: int) -> Memory:
    """Memory of the device, from an allocator. Raises DeviceError where it gave something else."""
    given = allocate(size)
    if isinstance(getattr(given, "address", None), int):
        _check("allocate", given.address, given.size, size)
        own: Memory = given
        return own
    return GivenMemory(_address("allocate", given, size, on_gpu=True), size, given)


def host_memory(allocate: Allocator, size: int) -> HostMemory:
    """Memory of the host, from an allocator. Raises DeviceError where it gave something else."""
    given = allocate(size)
    return GivenHostMemory(_address("allocate_host", given, size, on_gpu=False), size, given)


def drop(block: object) -> None:
    """What is done with memory of an allocator's that nobody uses any more: its last reference goes, no more."""


def _address(name: str, array: Any, size: int, *, on_gpu: bool) -> int:
    """Where an array of bytes begins."""
    view = view_of(array)
    if view.on_gpu != on_gpu:
        places = {True: "a GPU", False: "the host"}
        raise DeviceError(f"{name} gave memory of {places[view.on_gpu]}; expected memory of {places[on_gpu]}")
    if view.dtype != "uint8" or view.strides != packed_strides(view.shape):
        raise DeviceError(f"{name} gave an array of {view.dtype}; expected bytes (uint8), one behind the other")
    _check(name, view.address, prod(view.shape), size)
    return view.address


def _check(name: str, address: int, found: int, size: int) -> None:
    if found < size:
        raise DeviceError(f"{name} gave {found} bytes; expected at least {size}")
    if address % ALIGNMENT:
        raise DeviceError(f"{name} gave memory at {address:#x}; expected an address that {ALIGNMENT} divides")
