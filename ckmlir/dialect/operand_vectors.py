"""How tiles of operands and accumulators fall into vectors of registers that a matrix instruction takes or makes."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ckmlir.dialect.distribution import Coordinates, Distribution
from ckmlir.dialect.packed_tiles import elements_over
from ckmlir.dialect.packing import PACKED
from ckmlir.targets.cdna import WAVE_SIZE


class OperandVectors(Struct, frozen=True):
    """Operand vectors of a distribution: [vector, wave] base row, [vector, wave, k position] coordinate along K."""

    size: int
    rows: Coordinates
    ks: Coordinates

    def registers(self, vector: int, dtype: str) -> tuple[int, ...]:
        """Those of a tile, which holds bytes of packed elements."""
        size = PACKED[dtype].size(self.size) if dtype in PACKED else self.size
        return tuple(range(vector * size, (vector + 1) * size))

    def by_row(self) -> dict[bytes, list[int]]:
        """The vectors by their base row in every wave, in order of their registers."""
        groups: dict[bytes, list[int]] = {}
        for vector, rows in enumerate(self.rows):
            groups.setdefault(rows.tobytes(), []).append(vector)
        return groups


def of_elements(tile: Distribution, dtype: str) -> Distribution:
    """How the elements of an operand lie; a tile holds the bytes of packed ones.

    Raises:
        ValueError: a lane does not hold all bytes that elements share.
    """
    return elements_over(tile, PACKED[dtype]) if dtype in PACKED else tile


def operand_vectors(what: str, tile: Distribution, native: Distribution, size: int) -> OperandVectors | str:
    """The operand vectors of a tile; a sentence when its lanes hold other rows than the instruction expects."""
    if tile.registers % size:
        return f"{what} has {tile.registers} registers a lane, the instruction takes {size} at a time"
    count = tile.registers // size
    rows, ks = tile.coordinates().reshape(2, tile.waves, WAVE_SIZE, count, size)
    lane_rows, lane_ks = native.coordinates()[:, 0]  # [lane, register]
    bases = rows - lane_rows[None, :, None, :]
    if (bases != bases[:, :1, :, :1]).any():
        return f"{what} ({tile}) gives lanes other rows than the instruction takes ({native})"
    positions = np.full((count, tile.waves, native.lengths[1]), -1, dtype=np.int64)
    by_vector = ks.transpose(2, 0, 1, 3)
    positions[:, :, lane_ks] = by_vector
    if (positions[:, :, lane_ks] != by_vector).any():
        return (
            f"{what} ({tile}): lanes that hold the same part of K for the instruction disagree about which part it is"
        )
    return OperandVectors(size, bases[:, 0, :, 0].T, positions)


def accumulator_bases(tile: Distribution, native: Distribution) -> Coordinates | str:
    """[2, vector, wave] origins of the accumulator blocks; a sentence when they lie otherwise than written."""
    if tile.registers % native.registers:
        return f"C has {tile.registers} registers a lane, the instruction makes {native.registers} at a time"
    count = tile.registers // native.registers
    coordinates = tile.coordinates().reshape(2, tile.waves, WAVE_SIZE, count, native.registers)
    bases = coordinates - native.coordinates()[:, 0][:, None, :, None, :]
    if (bases != bases[:, :, :1, :, :1]).any():
        return f"C ({tile}) does not lie as the instruction writes it ({native})"
    origins: Coordinates = bases[:, :, 0, :, 0].transpose(0, 2, 1)
    return origins


def of_all_four(vectors: OperandVectors, tile: str) -> OperandVectors | str:
    """The vectors of a sparse A with the coordinates along K of all elements that they stand for: four for every two,
    whichever of them these are. A sentence where two that belong together do not follow each other.
    """
    first = vectors.ks[:, :, ::2]
    if (first % 2).any() or (vectors.ks[:, :, 1::2] != first + 1).any():
        return f"A ({tile}) does not hold the two elements that are kept of four beside each other"
    fours = (2 * first[..., None] + np.arange(4)).reshape(*vectors.ks.shape[:2], -1)
    return replace(vectors, ks=fours)
