"""Transposing LDS reads: operand tiles from rows whose contiguous dimension is not the one that lanes hold vectors of.

The instructions of gfx950 work in groups of 16 lanes. Each lane reads n contiguous elements: 4 of 16 bits
(`ds_read_b64_tr_b16`), 16 of 4 (`ds_read_b64_tr_b4`); those of 8 and 6 bits are not used. Element j of what lane i gets
is element i % n of what lane (16 / n) j + i / n of its group read. So a distribution whose lanes hold n indices of one
dimension, with 16 neighbouring lanes along the contiguous one, is read through another in which some of these lanes'
bits and the registers have changed places.

Packed elements share bytes along the contiguous dimension in LDS, and along the other one in registers; what is said of
elements here is said of tiles of bytes by `packed_reading`.

Source: LLVM, `llvm.amdgcn.ds.read.tr16.b64` and its like; CK Tile's Quad16 encodings of transposing loads
(include/ck_tile/core/tensor/load_tile_transpose.hpp).
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ckmlir.dialect.distribution import LANE, REGISTER, Distribution, Factor
from ckmlir.dialect.distribution_factors import renumber
from ckmlir.dialect.fragment_lds import TRANSPOSED
from ckmlir.dialect.packed_tiles import bytes_along, elements_along
from ckmlir.dialect.packing import Packing
from ckmlir.passes.accesses import plan_accesses
from ckmlir.targets import Target

GROUP = 16
"""Lanes that exchange what they read."""
UNPACKED_BITS = 16
"""Of elements that do not share bytes, those that transposing reads are used for."""
VECTOR = TRANSPOSED[UNPACKED_BITS]
"""How many of these a lane reads, and gets."""


def has_transposed_read(target: Target | None, element_bits: int) -> bool:
    """Whether the chip, if one is known, transposes elements of so many bits while it reads them."""
    return element_bits == UNPACKED_BITS and _has(target)


@lru_cache(maxsize=1024)
def transposed_reading(
    wanted: Distribution, contiguous: int, element_bits: int = UNPACKED_BITS
) -> Distribution | None:
    """The distribution in which lanes read what a transposing read then distributes as `wanted`; None: there is none.

    Registers keep their numbers.
    """
    count = TRANSPOSED[element_bits]
    for dim in range(wanted.rank):
        found = None if dim == contiguous else _exchanged(wanted, contiguous, dim, count)
        if found is not None and _delivers(found, wanted, contiguous, dim, count):
            return found
    return None


def transposed_dimension(wanted: Distribution, contiguous: int) -> int | None:
    """The dimension whose vectors `wanted` gets from a tensor contiguous along another; None: no transposing read."""
    reading = transposed_reading(wanted, contiguous)
    if reading is None:
        return None
    return next(dim for dim in range(wanted.rank) if _delivers(reading, wanted, contiguous, dim, VECTOR))


@lru_cache(maxsize=1024)
def packed_reading(wanted: Distribution, packing: Packing, before: int, after: int) -> Distribution | None:
    """The same of a tile of bytes that elements share along `after`, of LDS where they share them along `before`."""
    try:
        elements = elements_along(wanted, packing, after)
        found = transposed_reading(elements, before, packing.bits)
        return None if found is None else bytes_along(found, packing, before)
    except ValueError:
        return None


def _has(target: Target | None) -> bool:
    return target is not None and target.has("lds_transpose_read")


def _exchanged(wanted: Distribution, contiguous: int, dim: int, count: int) -> Distribution | None:
    """The lowest `count` lanes become registers, in the place of the lowest registers of `dim`, and these become lanes
    above the others of the lowest 16, all of which lie along `contiguous`.
    """
    vectors = wanted.dims[dim]
    if not vectors or vectors[-1].owner != REGISTER or vectors[-1].length % count:
        return None
    # Ranks are only compared within an owner; in steps of four they leave room for the parts of a factor.
    rows = [[factor._replace(rank=4 * factor.rank) for factor in row] for row in (wanted.replicated, *wanted.dims)]
    along, registers = rows[1 + contiguous], rows[1 + dim][-1]
    others, neighbours = _lowest(along, rows, GROUP, 2), _lowest(along, rows, count, 1)
    if neighbours is None or others is None or along[-1] != neighbours:
        return None
    along[-1] = Factor(count, REGISTER, registers.rank + 1)
    rows[1 + dim][-1:] = [registers._replace(length=registers.length // count), Factor(count, LANE, others.rank - 1)]
    replicated, *dims = (tuple(row) for row in rows)
    return Distribution(*renumber(replicated, tuple(dims)))


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


def _delivers(reading: Distribution, wanted: Distribution, contiguous: int, dim: int, count: int) -> bool:
    """Whether the instruction makes of what `reading` says what `wanted` says, by evaluation."""
    read, got = plan_accesses(reading, contiguous, count), plan_accesses(wanted, dim, count)
    if read != got or len(read[0]) != count:
        return False
    lanes = np.arange(wanted.lanes)
    first, lane = lanes // GROUP * GROUP, lanes % GROUP
    source, target = reading.coordinates()[:, :, :, list(read)], wanted.coordinates()[:, :, :, list(got)]
    for j in range(count):
        arriving = source[:, :, first + GROUP // count * j + lane // count, :, lane % count]
        if (target[..., j] != np.moveaxis(arriving, 0, 2)).any():
            return False
    return True
