"""Transposing LDS reads: operand tiles from rows whose contiguous dimension is not the one that lanes hold vectors of.

The instructions of gfx950 work in groups of 16 lanes. Each lane reads n contiguous elements: 4 of 16 bits
(`ds_read_b64_tr_b16`), 8 of 8 (`ds_read_b64_tr_b8`), 16 of 4 (`ds_read_b64_tr_b4`); those of 6 bits are not used.
Element j of what lane i gets is element i % n of what lane (16 / n) j + i / n of its group read. So a distribution
whose lanes hold n indices of one dimension, with 16 lanes along the contiguous one, n of them neighbours, is read
through another in which some of these lanes' bits and the registers have changed places. The n indices may be any.

Packed elements share bytes along the contiguous dimension in LDS, and along the other one in registers; what is said of
elements here is said of tiles of bytes by `packed_reading`.

Source: LLVM, `llvm.amdgcn.ds.read.tr16.b64` and its like; CK Tile's Quad16 encodings of transposing loads
(include/ck_tile/core/tensor/load_tile_transpose.hpp).
"""

from collections.abc import Sequence
from functools import lru_cache
from math import gcd

import numpy as np

from ckmlir.dialect.distribution import LANE, REGISTER, Distribution, Factor
from ckmlir.dialect.distribution_factors import renumber
from ckmlir.dialect.packed_tiles import bytes_along, elements_along
from ckmlir.dialect.packing import Packing
from ckmlir.passes.accesses import plan_accesses
from ckmlir.targets import Target
from ckmlir.targets.features import TRANSPOSED

GROUP = 16
"""Lanes that exchange what they read."""


def transposed_elements(target: Target | None, element_bits: int) -> int:
    """How many elements of so many bits a lane reads, and gets, by a transposing read; 0: the chip, if one is known,
    has none for them."""
    return 0 if target is None else target.transposed_elements(element_bits)


def transposed_reading(wanted: Distribution, contiguous: int, count: int) -> Distribution | None:
    """The distribution in which lanes read, `count` elements each, what a transposing read then distributes as
    `wanted`; None: there is none.

    Registers keep their numbers.
    """
    found = _reading(wanted, contiguous, count)
    return None if found is None else found[1]


def transposed_dimension(wanted: Distribution, contiguous: int, count: int) -> int | None:
    """The dimension whose vectors `wanted` gets from a tensor contiguous along another; None: no transposing read."""
    found = _reading(wanted, contiguous, count)
    return None if found is None else found[0]


@lru_cache(maxsize=1024)
def packed_reading(wanted: Distribution, packing: Packing, before: int, after: int) -> Distribution | None:
    """The same of a tile of bytes that elements share along `after`, of LDS where they share them along `before`."""
    try:
        elements = elements_along(wanted, packing, after)
        found = transposed_reading(elements, before, TRANSPOSED[packing.bits])
        return None if found is None else bytes_along(found, packing, before)
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def _reading(wanted: Distribution, contiguous: int, count: int) -> tuple[int, Distribution] | None:
    """The dimension whose vectors a transposing read gives, and the distribution that it reads."""
    for dim in range(wanted.rank):
        found = None if dim == contiguous else _exchanged(wanted, contiguous, dim, count)
        if found is not None and _delivers(found, wanted, contiguous, count):
            return dim, found
    return None


def _exchanged(wanted: Distribution, contiguous: int, dim: int, count: int) -> Distribution | None:
    """The lowest `count` lanes become registers, in the place of the lowest registers of `dim`, and these become lanes
    above the others of the lowest 16, all of which lie along `contiguous`.
    """
    # Ranks are only compared within an owner; in such steps they leave room for the parts of a factor.
    rows = [[factor._replace(rank=16 * factor.rank) for factor in row] for row in (wanted.replicated, *wanted.dims)]
    along, vectors = rows[1 + contiguous], rows[1 + dim]
    registers = sorted((one for one in vectors if one.owner == REGISTER), key=lambda one: -one.rank)
    others, neighbours = _lowest(along, rows, GROUP, 8), _lowest(along, rows, count, 1)
    if not registers or neighbours is None or others is None or along[-1] != neighbours:
        return None
    along[-1] = Factor(count, REGISTER, registers[0].rank + 1)
    left, rank = count, others.rank
    for factor in registers:
        taken, rank = gcd(factor.length, left), rank - 1
        place = vectors.index(factor)
        vectors[place : place + 1] = [factor._replace(length=factor.length // taken), Factor(taken, LANE, rank)]
        left //= taken
        if left == 1:
            replicated, *dims = (tuple(row) for row in rows)
            return Distribution(*renumber(replicated, tuple(dims)))
    return None


def _lowest(along: list[Factor], rows: Sequence[Sequence[Factor]], count: int, ranks: int) -> Factor | None:
    """The factor with the uppermost of the lowest `count` lanes, cut off from what lies above, `ranks` below that.

    None: not all of these lanes lie `along` one dimension, or no factor can be cut there.
    """
    below = 1
    for factor in sorted((one for row in rows for one in row if one.owner == LANE), key=lambda one: -one.rank):
        if factor not in along:
            return None
        if factor.length * below >= count:
            break
        below *= factor.length
    else:
        return None
    if factor.length * below % count:
        return None
    place, own = along.index(factor), count // below
    lower = factor._replace(length=own, rank=factor.rank + ranks)
    along[place : place + 1] = [factor._replace(length=factor.length // own), lower]
    return lower


def _delivers(reading: Distribution, wanted: Distribution, contiguous: int, count: int) -> bool:
    """Whether the instruction makes of what `reading` says what `wanted` says, by evaluation."""
    read = plan_accesses(reading, contiguous, count)
    if len(read[0]) != count:
        return False
    lanes = np.arange(wanted.lanes)
    first, lane = lanes // GROUP * GROUP, lanes % GROUP
    source, target = (one.coordinates()[:, :, :, list(read)] for one in (reading, wanted))
    for j in range(count):
        arriving = source[:, :, first + GROUP // count * j + lane // count, :, lane % count]
        if (target[..., j] != np.moveaxis(arriving, 0, 2)).any():
            return False
    return True
