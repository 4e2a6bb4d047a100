"""Device memory: allocations that kernels may access, and the table by which every access is checked."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ckmlir.sim.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Iterator

ALIGNMENT = 256
"""Bytes to which allocations are aligned, as hipMalloc aligns at least."""

UNNAMED = "an allocation"
"""The name of memory whose owner gave it none."""

SHADOW_PADDING = 64
"""Bytes behind a shadow, for accesses that run past the end."""

GUARD_BYTES = 64 << 10
"""Bytes behind each allocation that nobody has, so that an access somewhat too far meets no other allocation, wherever
the host puts them."""

QUARANTINE_BYTES = 64 << 20
"""Freed memory that is held back, so that a kernel using a stale address does not hit a newer allocation."""


def aligned_bytes(size: int, behind: int = 0) -> npt.NDArray[np.uint8]:
    """An array of bytes whose address is a multiple of ALIGNMENT, with bytes `behind` it that it keeps free."""
    raw = np.empty(size + behind + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def aligned_zeros(size: int, behind: int = 0) -> npt.NDArray[np.uint8]:
    """Zero bytes as `aligned_bytes`; pages that nobody touches cost nothing."""
    raw = np.zeros(size + behind + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


class Allocation(Struct, frozen=True):
    """What the table knows of one allocation. `kind` is "global" (all waves may access it), "constant" (the launch's
    own: code, arguments, packet), "lds" or "scratch"."""

    address: int
    size: int
    name: str
    kind: str = "global"
    read_only: bool = False

    def contains(self, address: int) -> bool:
        return self.address <= address < self.address + self.size


class MemoryTable:
    """The live allocations by address. `data` is what compiled code searches: rows of (first address, bytes).

    With `shadowed`, `shadows` has for global allocations which bits were never written: bytes of ones.
    """

    def __init__(self, shadowed: bool = False) -> None:
        self.shadowed = shadowed
        self.shadows: dict[int, npt.NDArray[np.uint8]] = {}
        self._live: dict[int, Allocation] = {}
        self._freed: deque[tuple[Allocation, npt.NDArray[np.uint8]]] = deque()
        self._freed_bytes = 0
        self.data = np.zeros((1, 2), np.uint64)

    def add(self, address: int, size: int, name: str, kind: str = "global", read_only: bool = False) -> None:
        self._live[address] = Allocation(address, size, name, kind, read_only)
        if self.shadowed and kind != "constant":
            self.shadows[address] = np.full(size + SHADOW_PADDING, 0xFF, np.uint8)

    def remove(self, address: int) -> Allocation:
        self.shadows.pop(address, None)
        return self._live.pop(address)

    def set_defined(self, address: int, offset: int, size: int, defined: bool) -> None:
        """Say that bytes of an allocation have a content, or have none any more."""
        if address in self.shadows:
            self.shadows[address][offset : offset + size] = 0 if defined else 0xFF

    def hold_back(self, allocation: Allocation, memory: npt.NDArray[np.uint8]) -> None:
        """Keep freed memory from being used again until enough more has been freed."""
        self._freed.append((allocation, memory))
        self._freed_bytes += memory.size + GUARD_BYTES
        while self._freed_bytes > QUARANTINE_BYTES:
            self._freed_bytes -= self._freed.popleft()[1].size + GUARD_BYTES

    def allocations(self) -> list[Allocation]:
        """The live allocations in the order of `data`."""
        return [self._live[address] for address in sorted(self._live)]

    def update(self) -> npt.NDArray[np.uint64]:
        """Bring `data` up to date; it always has a row."""
        rows = [(one.address, one.size) for one in self.allocations()]
        self.data = np.array(rows or [(0, 0)], np.uint64).reshape(-1, 2)
        return self.data

    def label(self, address: int, name: str, read_only: bool) -> None:
        """What reports call an allocation, and whether kernels may write to it."""
        self._live[address] = replace(self._live[address], name=name, read_only=read_only)

    def find(self, address: int) -> Allocation | None:
        """The live allocation that has this address."""
        starts = sorted(self._live)
        index = bisect_right(starts, address) - 1
        found = self._live[starts[index]] if index >= 0 else None
        return found if found is not None and found.contains(address) else None

    def describe(self, address: int) -> str:
        """Where an address lies relative to the closest allocation."""
        for freed, _ in self._freed:
            if freed.contains(address) and self.find(address) is None:
                offset = address - freed.address
                return f"the access starts {offset} bytes into {freed.name} of {freed.size} bytes, which was freed"
        starts = sorted(self._live)
        index = bisect_right(starts, address) - 1
        around = [starts[k] for k in (index, index + 1) if 0 <= k < len(starts)]
        if not around:
            return "there are no allocations"
        below = around[0]
        size, name = self._live[below].size, self._live[below].name
        if below <= address < below + size:
            return f"the access starts {address - below} bytes into {name} of {size} bytes and runs past its end"
        distances = []
        for start in around:
            size, name = self._live[start].size, self._live[start].name
            if address >= start + size:
                distances.append(
                    (address - start - size, f"{address - start - size} bytes past the end of {name} of {size} bytes")
                )
            else:
                distances.append((start - address, f"{start - address} bytes before {name} of {size} bytes"))
        distance, text = min(distances)
        return text if distance < 1 << 24 else "no allocation is near"

    def __iter__(self) -> Iterator[int]:
        return iter(self._live)


def native_array(array: npt.ArrayLike) -> npt.NDArray[Any]:
    """An array in C order and this machine's byte order, a copy where it is not.

    Raises LaunchError where it is masked, or of Python's objects.
    """
    subclass = type(array) is not np.ndarray and isinstance(array, np.ndarray)
    if subclass and isinstance(array, np.ma.MaskedArray):  # `numpy.ma` takes 10 ms to import
        raise LaunchError("a masked array: the mask would be ignored; pass array.filled(value), or array.data")
    found = np.ascontiguousarray(array)
    if found.dtype.hasobject:
        raise LaunchError("an array of Python's objects holds addresses of the host; give it a type of elements")
    return found.astype(found.dtype.newbyteorder("="), copy=False)


def _item(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """A type of elements. Raises LaunchError where it is none, or has no bytes."""
    try:
        item = np.dtype(dtype)
    except (TypeError, ValueError, ZeroDivisionError):
        item = np.dtype("V0")
    if not item.itemsize:
        raise LaunchError(f"memory is read as elements of a NumPy type, such as 'f4'; there is none called {dtype!r}")
    return item


class DeviceMemory:
    """One allocation, which begins as repetitions of `fill`, or as zeros without one. The address is what kernels see;
    contents move by `write` and `read`.

    Attributes:
        address: First byte, a multiple of 256.
        size: Bytes.
    """

    def __init__(
        self,
        table: MemoryTable,
        size: int,
        fill: npt.NDArray[np.uint8] | None,
        name: str,
        kind: str = "global",
        read_only: bool = False,
    ) -> None:
        self._table: MemoryTable | None = table
        self._bytes = aligned_zeros(size, GUARD_BYTES) if fill is None else aligned_bytes(size, GUARD_BYTES)
        self.size = size
        self.address = int(self._bytes.ctypes.data)
        if fill is not None:
            whole = size - size % fill.size  # no second array of this size, even for a moment
            self._bytes[:whole].reshape(-1, fill.size)[:] = fill
            self._bytes[whole:] = fill[: size - whole]
        if size:
            table.add(self.address, size, name, kind, read_only)

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        """The memory itself."""
        return self._bytes

    def _range(self, offset: int, count: int) -> npt.NDArray[np.uint8]:
        if self._table is None:
            raise LaunchError("this device memory has been freed")
        if offset < 0 or count < 0 or offset + count > self.size:
            raise LaunchError(f"{count} bytes at offset {offset} do not fit into device memory of {self.size} bytes")
        return self._bytes[offset : offset + count]

    def write(self, array: npt.ArrayLike, offset: int = 0) -> None:
        """Copy an array (its bytes in C order, numbers of another byte order converted) to the device.

        Raises:
            LaunchError: It does not fit, it is masked, or the memory was freed.
        """
        data = native_array(array).reshape(-1).view(np.uint8)
        self._range(offset, data.size)[:] = data
        if self._table is not None:
            self._table.set_defined(self.address, offset, data.size, True)

    def forget(self) -> None:
        """Let the initialisation checker take the contents for undefined, as they are after allocation."""
        if self._table is not None:
            self._table.set_defined(self.address, 0, self.size, False)

    def read(
        self, dtype: npt.DTypeLike = np.uint8, shape: int | tuple[int, ...] | None = None, offset: int = 0
    ) -> npt.NDArray[Any]:
        """A copy of device memory as an array; without a shape, all of it from `offset` in one dimension.

        Raises:
            LaunchError: The range is not within the allocation, the memory was freed, or the dtype is unknown.
        """
        item = _item(dtype)
        if not item.isnative:
            raise LaunchError(f"memory cannot be read as elements of type {item}, of another byte order")
        if shape is None:
            shape = (self.size - offset) // item.itemsize
        count = int(np.prod(shape)) * item.itemsize
        found: npt.NDArray[Any] = self._range(offset, count).copy().view(item).reshape(shape)
        return found

    def label(self, name: str, read_only: bool = False) -> None:
        """What reports call this memory, and whether the memory checker reports kernels that write to it."""
        if self._table is not None and self.size:
            self._table.label(self.address, name, read_only)

    def free(self) -> None:
        """Give the memory back; kernels may not access it any more."""
        if self._table is not None and self.size:
            self._table.hold_back(self._table.remove(self.address), self._bytes)
        self._table = None
        self._bytes = aligned_bytes(0)
