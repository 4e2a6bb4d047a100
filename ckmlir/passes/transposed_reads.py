"""Transposing LDS reads: operand tiles from rows whose contiguous dimension is not the one that lanes hold vectors of.

`ds_read_b64_tr_b16` (gfx950) works in groups of 16 lanes. Each lane reads 4 contiguous elements of 16 bits; element j
of what lane i gets is element i % 4 of what lane 4 j + i / 4 of its group read. So a distribution whose lanes hold 4
indices of one dimension, with 16 neighbouring lanes along the contiguous one, is read through another in which the
upper two bits of these lanes and the registers have changed places.

Source: LLVM, `llvm.amdgcn.ds.read.tr16.b64`; CK Tile's Quad16 encodings of transposing loads
(include/ck_tile/core/tensor/load_tile_transpose.hpp).
"""

from functools import lru_cache

import numpy as np

from ckmlir.dialect.distribution import LANE, REGISTER, Distribution, Factor
from ckmlir.dialect.distribution_factors import renumber
from ckmlir.passes.accesses import plan_accesses
from ckmlir.targets import Target

GROUP = 16
"""Lanes that exchange what they read."""
VECTOR = 4
"""Elements that a lane reads, and gets."""
ELEMENT_BITS = 16


def has_transposed_read(target: Target | None, element_bits: int) -> bool:
    """Whether the chip, if one is known, transposes elements of so many bits while it reads them."""
    return target is not None and element_bits == ELEMENT_BITS and target.has("lds_transpose_read")


@lru_cache(maxsize=1024)
def transposed_reading(wanted: Distribution, contiguous: int) -> Distribution | None:
    """The distribution in which lanes read what a transposing read then distributes as `wanted`; None: there is none.

    Registers keep their numbers.
    """
    for dim in range(wanted.rank):
        found = None if dim == contiguous else _exchanged(wanted, contiguous, dim)
        if found is not None and _delivers(found, wanted, contiguous, dim):
            return found
    return None


def transposed_dimension(wanted: Distribution, contiguous: int) -> int | None:
    """The dimension whose vectors `wanted` gets from a tensor contiguous along another; None: no transposing read."""
    reading = transposed_reading(wanted, contiguous)
    if reading is None:
        return None
    return next(dim for dim in range(wanted.rank) if _delivers(reading, wanted, contiguous, dim))


def _exchanged(wanted: Distribution, contiguous: int, dim: int) -> Distribution | None:
    """The lowest 16 lanes along `contiguous` as 4 x 4, the upper 4 in the place of the lowest 4 registers of `dim`."""
    columns, vectors = wanted.dims[contiguous], wanted.dims[dim]
    if not columns or not vectors:
        return None
    lanes, registers = columns[-1], vectors[-1]
    rows = (wanted.replicated, *wanted.dims)
    lowest = max((factor.rank for row in rows for factor in row if factor.owner == LANE), default=None)
    if lanes.owner != LANE or lanes.rank != lowest or lanes.length % GROUP:
        return None
    if registers.owner != REGISTER or registers.length % VECTOR:
        return None
    # Ranks are only compared within an owner; in steps of three they leave room for the parts of a factor.
    spread = [tuple(factor._replace(rank=3 * factor.rank) for factor in row) for row in wanted.dims]
    upper_lane, lower_lane = Factor(VECTOR, LANE, 3 * lanes.rank + 1), Factor(VECTOR, LANE, 3 * lanes.rank + 2)
    vector = Factor(VECTOR, REGISTER, 3 * registers.rank + 1)
    rest_lanes = Factor(lanes.length // GROUP, LANE, 3 * lanes.rank)
    rest_registers = Factor(registers.length // VECTOR, REGISTER, 3 * registers.rank)
    spread[contiguous] = (*spread[contiguous][:-1], rest_lanes, lower_lane, vector)
    spread[dim] = (*spread[dim][:-1], rest_registers, upper_lane)
    replicated = tuple(factor._replace(rank=3 * factor.rank) for factor in wanted.replicated)
    return Distribution(*renumber(replicated, tuple(spread)))


def _delivers(reading: Distribution, wanted: Distribution, contiguous: int, dim: int) -> bool:
    """Whether the instruction makes of what `reading` says what `wanted` says, by evaluation."""
    read, got = plan_accesses(reading, contiguous, VECTOR), plan_accesses(wanted, dim, VECTOR)
    if read != got or len(read[0]) != VECTOR:
        return False
    lanes = np.arange(wanted.lanes)
    first, lane = lanes // GROUP * GROUP, lanes % GROUP
    source, target = reading.coordinates()[:, :, :, list(read)], wanted.coordinates()[:, :, :, list(got)]
    for j in range(VECTOR):
        arriving = source[:, :, first + VECTOR * j + lane // VECTOR, :, lane % VECTOR]
        if (target[..., j] != np.moveaxis(arriving, 0, 2)).any():
            return False
    return True
