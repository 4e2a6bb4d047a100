"""Device memory: allocations that kernels may access, and the table by which every access is checked."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ckmlir.sim.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Iterator

ALIGNMENT = 256
"""Bytes to which allocations are aligned, as hipMalloc aligns at least."""

QUARANTINE_BYTES = 64 << 20
"""Freed memory that is held back, so that a kernel using a stale address does not hit a newer allocation."""


def aligned_bytes(size: int) -> npt.NDArray[np.uint8]:
    """An array of bytes whose address is a multiple of ALIGNMENT."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


class MemoryTable:
    """The live allocations by address. `data` is what compiled code searches: rows of (first address, bytes)."""

    def __init__(self) -> None:
        self._sizes: dict[int, tuple[int, str]] = {}
        self._freed: deque[npt.NDArray[np.uint8]] = deque()
        self._freed_bytes = 0
        self.data = np.zeros((1, 2), np.uint64)

    def add(self, address: int, size: int, name: str) -> None:
        self._sizes[address] = (size, name)

    def remove(self, address: int) -> None:
        del self._sizes[address]

    def hold_back(self, memory: npt.NDArray[np.uint8]) -> None:
        """Keep freed memory from being used again until enough more has been freed."""
        self._freed.append(memory)
        self._freed_bytes += memory.size
        while self._freed_bytes > QUARANTINE_BYTES:
            self._freed_bytes -= self._freed.popleft().size

    def update(self) -> npt.NDArray[np.uint64]:
        """Bring `data` up to date; it always has a row."""
        rows = sorted((address, size) for address, (size, _) in self._sizes.items())
        self.data = np.array(rows or [(0, 0)], np.uint64).reshape(-1, 2)
        return self.data

    def describe(self, address: int) -> str:
        """Where an address lies relative to the closest allocation."""
        starts = sorted(self._sizes)
        index = bisect_right(starts, address) - 1
        around = [starts[k] for k in (index, index + 1) if 0 <= k < len(starts)]
        if not around:
            return "there are no allocations"
        below = around[0]
        size, name = self._sizes[below]
        if below <= address < below + size:
            return f"the access starts {address - below} bytes into {name} of {size} bytes and runs past its end"
        distances = []
        for start in around:
            size, name = self._sizes[start]
            if address >= start + size:
                distances.append(
                    (address - start - size, f"{address - start - size} bytes past the end of {name} of {size} bytes")
                )
            else:
                distances.append((start - address, f"{start - address} bytes before {name} of {size} bytes"))
        distance, text = min(distances)
        return text if distance < 1 << 24 else "no allocation is near"

    def __iter__(self) -> Iterator[int]:
        return iter(self._sizes)


class DeviceMemory:
    """One allocation. The address is what kernels see; contents move by `write` and `read`.

    Attributes:
        address: First byte, a multiple of 256.
        size: Bytes.
    """

    def __init__(self, table: MemoryTable, size: int, fill: npt.NDArray[np.uint8] | None, name: str) -> None:
        self._table: MemoryTable | None = table
        self._bytes = aligned_bytes(size)
        self.size = size
        self.address = int(self._bytes.ctypes.data)
        if fill is not None:
            self._bytes[:] = np.resize(fill, size)
        if size:
            table.add(self.address, size, name)

    def _range(self, offset: int, count: int) -> npt.NDArray[np.uint8]:
        if self._table is None:
            raise LaunchError("this device memory has been freed")
        if offset < 0 or count < 0 or offset + count > self.size:
            raise LaunchError(f"{count} bytes at offset {offset} do not fit into device memory of {self.size} bytes")
        return self._bytes[offset : offset + count]

    def write(self, array: npt.ArrayLike, offset: int = 0) -> None:
        """Copy an array (its bytes in C order) to the device.

        Raises:
            LaunchError: It does not fit, or the memory was freed.
        """
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._range(offset, data.size)[:] = data

    def read(
        self, dtype: npt.DTypeLike = np.uint8, shape: int | tuple[int, ...] | None = None, offset: int = 0
    ) -> npt.NDArray[Any]:
        """A copy of device memory as an array; without a shape, all of it from `offset` in one dimension.

        Raises:
            LaunchError: The range is not within the allocation, or the memory was freed.
        """
        item = np.dtype(dtype)
        if shape is None:
            shape = (self.size - offset) // item.itemsize
        count = int(np.prod(shape)) * item.itemsize
        found: npt.NDArray[Any] = self._range(offset, count).copy().view(item).reshape(shape)
        return found

    def free(self) -> None:
        """Give the memory back; kernels may not access it any more."""
        if self._table is not None and self.size:
            self._table.remove(self.address)
            self._table.hold_back(self._bytes)
        self._table = None
        self._bytes = aligned_bytes(0)
