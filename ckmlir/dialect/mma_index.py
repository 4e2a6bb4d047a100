"""The index of a sparse A: how a tile of it lies, and which registers hold the part of an operand vector.

Of every four elements along K a sparse A has two, and the index says for each of these which of the four it is, in two
bits. A byte of it is of four elements of A, the first in the lowest bits; so the index of A (m, k / 2) is (m, k / 8).
A lane hands over a register with the bytes of the elements that it holds, or with those of several vectors, and says
whose are meant (CDNA3 ISA, 7.4: "ABID" chooses one of the sets that 32 bits have room for).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.operand_vectors import operand_vectors
from ckmlir.targets.mfma import INDEXED

PLACES = 8
"""Elements along K that a byte of the index is of."""


def index_over(mma: Mma, waves: tuple[int, int], m: int, k: int) -> Distribution:
    """The index (m, k / 8) of a tile A over `waves`, as `Mma.a_over` has it.

    Raises:
        ValueError: the instruction has no sparse A, or the tile is not a multiple of what the waves take at once.
    """
    if not mma.instruction.sparse:
        raise ValueError(f"{mma.instruction.name} has no sparse A")
    return mma.over_rows(mma.along_a(mma.k_pack * mma.instruction.a_per_lane // INDEXED), waves, m, k)


@lru_cache(maxsize=256)
def index_registers(mma: Mma, a: Distribution, index: Distribution) -> tuple[tuple[int, ...], ...] | str:
    """For each operand vector of A the registers of the index's tile that hold its own, in order; a sentence where a
    lane does not hold them.
    """
    if not mma.instruction.sparse:
        return f"{mma.instruction.name} has no sparse A"
    lengths = (a.lengths[0], a.lengths[1] // INDEXED)
    if index.lengths != lengths:
        return f"the index of A {list(a.lengths)} is {list(lengths)}, not {list(index.lengths)}"
    if (index.waves, index.lanes) != (a.waves, a.lanes):
        return "A and its index lie over different waves and lanes"
    held = mma.instruction.a_per_lane
    vectors = operand_vectors("A", a, Distribution.parse(mma.instruction.a_layout), held)
    if isinstance(vectors, str):
        return vectors
    rows, ks = a.coordinates().reshape(2, a.waves, a.lanes, -1, held)
    fours = ks.reshape(*ks.shape[:3], -1, INDEXED)
    if (fours != fours[..., :1] + np.arange(INDEXED)).any() or (fours[..., 0] % INDEXED).any():
        return f"A ({a}) does not hold the elements of a byte of its index one behind the other"
    lies = index.coordinates()
    registers = {lies[..., register].tobytes(): register for register in range(index.registers)}
    found = []
    for vector in range(ks.shape[2]):
        own = []
        for byte in range(held // INDEXED):
            wanted = np.stack([rows[:, :, vector, 0], fours[:, :, vector, byte, 0] // INDEXED]).astype(lies.dtype)
            own.append(registers.get(wanted.tobytes()))
        if None in own:
            return f"lanes do not hold the index of A ({a}) beside its elements ({index})"
        found.append(tuple(one for one in own if one is not None))
    return tuple(found)
