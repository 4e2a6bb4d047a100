"""A wave with memory: what the tests of memory instructions share."""

from __future__ import annotations

from typing import Any

import numpy as np
from single_wave import SingleWave

from ckmlir.sim import state
from ckmlir.sim.decode import Operand
from ckmlir.sim.memory import aligned_bytes

Array = np.ndarray[Any, Any]
LANES = np.arange(64)
OFF = Operand("off", 0, 0, "off")
ALL = (1 << 64) - 1
MASKS = (ALL, 0x8000_0F00_0000_0015, 0)


def active_lanes(mask: int) -> Array:
    return np.array([mask >> lane & 1 for lane in range(64)], bool)


class Memory:
    """A wave with an allocation of random bytes."""

    def __init__(self, size: int = 4096, lds_bytes: int = 4096) -> None:
        rng = np.random.default_rng(3)
        self.wave = SingleWave(lds_bytes)
        self.wave.vgpr[:] = rng.integers(0, 1 << 32, (512, 64), np.uint32)
        self.wave.lds[:] = rng.integers(0, 256, lds_bytes, np.uint8)
        self.bytes = aligned_bytes(size)
        self.bytes[:] = rng.integers(0, 256, size, np.uint8)
        self.address = self.wave.allocate(self.bytes)

    def point(self, register: int, offsets: Array) -> None:
        """64-bit addresses in a register pair."""
        addresses = np.asarray(offsets).astype(np.uint64) + np.uint64(self.address)
        self.wave.vgpr[register] = (addresses & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        self.wave.vgpr[register + 1] = (addresses >> np.uint64(32)).astype(np.uint32)


def bytes_at(data: Array, offsets: Array, count: int) -> Array:
    """count bytes from each offset: rows of lanes."""
    return data[np.asarray(offsets)[:, None] + np.arange(count)]


def dwords_at(data: Array, offsets: Array, count: int) -> Array:
    """Rows of dwords, as registers hold them."""
    return np.ascontiguousarray(bytes_at(data, offsets, 4 * count)).view(np.uint32).T


def scattered(count: int, step: int, limit: int) -> Array:
    """Distinct offsets in a random order."""
    return np.random.default_rng(11).permutation(limit // step)[:count] * step


def with_scratch(m: Memory, lane_bytes: int = 64) -> Array:
    """Private memory as (dword, lane), in the table of allocations."""
    scratch = aligned_bytes(lane_bytes * 64)
    scratch[:] = np.random.default_rng(8).integers(0, 256, scratch.size, np.uint8)
    m.wave.blocks.words(state.SCRATCH, 1, np.uint64)[:] = m.wave.allocate(scratch)
    m.wave.blocks.words(state.SCRATCH_BYTES, 1, np.uint64)[:] = lane_bytes
    return scratch.view(np.uint32).reshape(-1, 64)


RESOURCE = 8
"""First register of the buffer resource that `set_resource` makes."""


def set_resource(m: Memory, records: int, stride: int = 0, swizzle: bool = False, word3: int = 0x27000) -> None:
    words = m.address & 0xFFFFFFFF, m.address >> 32 & 0xFFFF | stride << 16 | swizzle << 31, records, word3
    m.wave.sgpr[RESOURCE : RESOURCE + 4] = words
