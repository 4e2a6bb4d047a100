"""Where a run's arrays lie in device memory: alone, or between guard bytes, aligned no better than was promised."""

from __future__ import annotations

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array
from ckmlir.runtime.device import Device, KernelFault, LabelsMemory, Memory, MemoryPart

GUARD_BYTES = 256
"""On both sides of an array; a multiple of every alignment."""
GUARD = 0xA5
"""What guard bytes hold."""


class Place:
    """An array's memory on a device, with its contents.

    Attributes:
        memory: what launches take.
    """

    def __init__(self, device: Device, spec: ArraySpec, contents: Array | None, *, guarded: bool) -> None:
        """Allocate and copy the contents, all bytes from the first element to the last. Without any they stay undefined
        and cannot be read back.

        With `guarded` the array begins at an odd multiple of its alignment, and guard bytes lie around it.
        """
        self._device, self._spec, self._size, self._guarded = device, spec, spec.nbytes, guarded
        self._before = GUARD_BYTES + spec.align if guarded else 0
        self._whole = device.allocate(self._before + self._size + (GUARD_BYTES if guarded else 0))
        self.memory: Memory = MemoryPart(self._whole, self._before, self._size) if guarded else self._whole
        if contents is not None:
            self.write(contents)
        if isinstance(device, LabelsMemory):
            device.label(self._whole, spec.name, is_output=spec.role == "out")

    def write(self, contents: Array) -> None:
        """Copy contents, all bytes from the first element to the last."""
        self._written = contents.reshape(-1).view(np.uint8)
        if self._guarded:
            before, behind = (np.full(size, GUARD, np.uint8) for size in (self._before, GUARD_BYTES))
            self._written = np.concatenate([before, self._written, behind])
        self._device.write(self._whole, self._written)

    def contents(self) -> Array:
        """The array's bytes, read back.

        Raises KernelFault where something was written to guard bytes, or to an input that has them.
        """
        found = np.empty_like(self._written)
        self._device.read(found, self._whole)
        if not self._guarded:
            return found
        inside = slice(self._before, self._before + self._size)
        changed = found != self._written
        if self._spec.role == "out":
            changed[inside] = False
        if changed.any():
            first = int(np.flatnonzero(changed)[0]) - self._before
            where = "of it" if 0 <= first < self._size else f"from its start; it has {self._size} bytes"
            raise KernelFault(f"the kernel wrote where it must not: array {self._spec.name}, byte {first} {where}")
        return found[inside]

    def free(self) -> None:
        """Give the memory back."""
        self._device.free(self._whole)
