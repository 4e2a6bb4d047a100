"""Distributions for moving tiles to and from memory, and for operators that work row by row.

All of them fill the tile from its fastest dimension outwards: a vector of consecutive elements for each lane, then the
lanes, then the waves, and registers iterate over what is left. Neighbouring lanes so access neighbouring memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import gcd, prod
from typing import Any

import numpy as np

from ckmlir.dialect.distribution import LANE, REGISTER, WAVE, Distribution, Factor
from ckmlir.dialect.distribution_factors import renumber
from ckmlir.targets.cdna import WAVE_SIZE


def coalesced(
    lengths: Sequence[int],
    waves: int,
    contiguous_dim: int,
    vector: int,
    transposed_block: int = 1,
    lanes_first: tuple[int, int] | None = None,
) -> Distribution:
    """A tile for loads and stores along `contiguous_dim` with vectors of up to `vector` elements.

    The lanes fill the contiguous dimension first, then the others from the last to the first, then the waves do the
    same. Register order: iterations by dimension, then the rows of a transposed block, then the vector. Vectors are
    shorter where the contiguous dimension is not a multiple of them, or where there would be fewer of them than
    threads; with fewer elements than threads the rest of the threads hold copies.

    `transposed_block` k gives every thread k consecutive indices of the last other dimension, each with its vector: the
    k x vector block that is transposed in registers.

    `lanes_first` (dimension, count) gives so many neighbouring lanes another dimension than the contiguous one, before
    the others are dealt out: what transposing LDS reads deliver.

    Raises:
        ValueError: no such dimension, a number that is not positive, or a block that does not divide its dimension.
    """
    rank = len(lengths)
    if not 0 <= contiguous_dim < rank:
        raise ValueError(f"there is no dimension {contiguous_dim} in a tile of {rank}")
    if min((*lengths, waves, vector, transposed_block)) < 1:
        raise ValueError(f"lengths {list(lengths)}, waves {waves} and vector {vector} must be positive")
    order = [contiguous_dim, *(dim for dim in reversed(range(rank)) if dim != contiguous_dim)]
    vector = gcd(vector, lengths[contiguous_dim])
    packed = [1] * rank
    packed[contiguous_dim] = vector
    if transposed_block > 1:
        if rank < 2 or lengths[order[1]] % transposed_block:
            raise ValueError(f"blocks of {transposed_block} do not divide the rows of a tile {list(lengths)}")
        packed[order[1]] = transposed_block
    while packed[contiguous_dim] % 2 == 0 and not _all_busy(lengths, packed, order, (WAVE_SIZE, waves)):
        packed[contiguous_dim] //= 2
    if lanes_first is not None:
        return _lanes_first(lengths, packed, order, waves, lanes_first)
    return _filled(lengths, packed, order, WAVE_SIZE, waves, [waves] * rank)


def _lanes_first(
    lengths: Sequence[int], packed: Sequence[int], order: Sequence[int], waves: int, first: tuple[int, int]
) -> Distribution:
    """Like `_filled`, over tiles in which neighbouring lanes lie along one dimension."""
    dim, count = first
    if lengths[dim] % count or WAVE_SIZE % count:
        raise ValueError(f"{count} of {WAVE_SIZE} lanes do not divide dimension {dim} of a tile {list(lengths)}")
    inner = Distribution((), tuple((Factor(count, LANE, 0),) if d == dim else () for d in range(len(lengths))))
    rest = [length // count if d == dim else length for d, length in enumerate(lengths)]
    outer = _filled(rest, packed, order, WAVE_SIZE // count, waves, [waves] * len(lengths))
    return outer.embed(inner)


def lanes_last(distribution: Distribution, dim: int) -> Distribution:
    """The same with neighbouring lanes along other dimensions than this one, before others lie along it."""
    dims = tuple(
        tuple(one._replace(rank=one.rank - WAVE_SIZE) if one.owner == LANE and at == dim else one for one in row)
        for at, row in enumerate(distribution.dims)
    )
    return Distribution(*renumber(distribution.replicated, dims))


MOST_TURNED = 16
"""Indices along the second dimension that a lane has in `in_groups`, at most: a power of two."""
DWORD = 4


def in_groups(
    lengths: Sequence[int], waves: int, along: int, group: int, turned: int, across: int | None = None
) -> Distribution:
    """A tile for loads along a dimension of which lanes have whole groups of neighbours, four where there are as many.

    Where `across` is the last of the other dimensions, a lane has so many neighbours along it as are `turned` together
    with a group, or, where there are enough for all lanes to have four groups of each, a power of two times as many.

    Raises:
        ValueError: groups do not divide their dimension, or what is turned does not divide the other.
    """
    groups = [length // group if dim == along else length for dim, length in enumerate(lengths)]
    if lengths[along] % group:
        raise ValueError(f"groups of {group} do not divide dimension {along} of a tile {list(lengths)}")
    block = 1
    if across is not None:
        block, enough = turned, min(prod(groups) // (waves * WAVE_SIZE * DWORD), MOST_TURNED)
        while 2 * block <= enough and lengths[across] % (2 * block) == 0:
            block *= 2
    found = coalesced(groups, waves, along, DWORD, transposed_block=block)
    return found.expand(along + 1, group).join(along)


QUAD = 4
"""Indices along the second dimension that a lane has in `in_quads`, and neighbouring lanes that have the same."""
PHASE = 8
"""Neighbouring lanes of `in_quads` along the first dimension, before others come along the second."""


def in_quads(lengths: tuple[int, int], waves: int, vector: int) -> Distribution:
    """A matrix for loads along its first dimension, of which all lanes of a quad have the same four indices along the
    second: they share what has to be found out about each.

    Vectors are those of `coalesced` with transposed blocks of four. Of its lanes every eight have neighbours in the
    next indices along the second dimension, so that writes of four to LDS meet in no bank. Where there are too few
    elements for that it is `coalesced`.

    Raises:
        ValueError: a number that is not positive.
    """
    if lengths[1] % QUAD or lengths[0] * lengths[1] < QUAD * WAVE_SIZE * waves:
        return coalesced(lengths, waves, 0, vector)
    found = coalesced(lengths, waves, 0, vector, transposed_block=QUAD)
    (across,), (along,) = (
        [factor for factor in row if factor.owner == LANE] or [Factor(1, LANE, 0)] for row in found.dims
    )
    if across.length % (2 * PHASE) or along.length % 2:
        return found
    parts = {
        0: (Factor(across.length // PHASE, LANE, 1), Factor(PHASE, LANE, 3)),
        1: (Factor(along.length // 2, LANE, 0), Factor(2, LANE, 2)),
    }
    dims = []
    for dim, row in enumerate(found.dims):
        split = [(parts[dim] if factor.owner == LANE else (factor,)) for factor in row]
        dims.append(tuple(factor for factors in split for factor in factors))
    return Distribution(found.replicated, tuple(dims))


def is_in_quads(distribution: Distribution, dimension: int) -> bool:
    """Whether all lanes of a quad have the same indices along a dimension, in fours that follow each other."""
    return quad_distance(distribution, dimension) == 1


@lru_cache(maxsize=4096)
def quad_distance(distribution: Distribution, dimension: int) -> int | None:
    """How far from each other the fours lie in which all lanes of a quad have the same indices along a dimension; None
    where they do not.
    """
    lanes = [digit.source_weight for digit in distribution.digits(dimension) if digit.source == LANE]
    places = sorted(set(distribution.coordinates()[dimension, 0, 0].tolist()))
    if len(places) < QUAD or any(weight % QUAD for weight in lanes):
        return None
    apart = min(later - place for place, later in pairwise(places))
    fours = {place - place // apart % QUAD * apart + seat * apart for place in places for seat in range(QUAD)}
    return apart if fours == set(places) else None


def lane_cells(lengths: Sequence[int], order: Sequence[int], waves: int, cell: int) -> Distribution:
    """A tile in cells of `cell` elements, one behind the other from lane to lane when dimensions follow each other in
    `order`, the last the fastest; waves come after lanes and hold copies where there are too few cells.

    Raises:
        ValueError: rows that are not whole cells, or cells of a wave's lanes that fill neither whole rows nor an even
            part of one.
    """
    row = lengths[order[-1]]
    if row % cell:
        raise ValueError(f"a row of {row} is not a multiple of cells of {cell}")
    packed = [1] * len(lengths)
    packed[order[-1]] = cell
    found = _filled(lengths, packed, list(reversed(order)), WAVE_SIZE, waves, [waves] * len(lengths))
    cells: Any = 0
    for dim in order:
        cells = cells * lengths[dim] + found.coordinates()[dim, :, :, 0]
    if ((cells - cells[:, :1]) != cell * np.arange(WAVE_SIZE)).any():
        raise ValueError(
            f"{WAVE_SIZE} lanes with {cell} elements each do not fill whole rows of {list(lengths)}, nor a part of one "
            "row"
        )
    return found


@lru_cache(maxsize=1024)
def rows(count: int, length: int, waves: int, vector: int, waves_per_row: int = 1) -> Distribution:
    """`count` rows of `length` elements, each held by the lanes of `waves_per_row` waves in vectors of `vector`.

    A row shorter than a wave's vectors takes part of the lanes, and the others take further rows. The waves that are
    left take further rows too. `row_tile_length` gives the length to pad rows to, `rows_at_once` the rows of one
    step.

    Raises:
        ValueError: waves_per_row does not divide the waves, the row is not a multiple of what its lanes and waves take
            at once, or the count is not a multiple of the rows that all waves take at once.
    """
    if min(count, length, waves, vector, waves_per_row) < 1 or waves % waves_per_row:
        raise ValueError(f"{waves_per_row} waves a row cannot be made of {waves} waves")
    fitting = row_tile_length(length, vector, waves_per_row)
    if length != fitting:
        raise ValueError(
            f"a row of {length} is not filled by {waves_per_row} wave(s) of {WAVE_SIZE} lanes with vectors of "
            f"{vector}; pad it to {fitting}"
        )
    step = rows_at_once(length, waves, vector, waves_per_row)
    if count % step:
        raise ValueError(f"{count} rows are not a multiple of the {step} that {waves} waves take at once")
    return _filled((count, length), [1, vector], [1, 0], WAVE_SIZE, waves, [waves // waves_per_row, waves_per_row])


def row_tile_length(length: int, vector: int, waves_per_row: int = 1) -> int:
    """The shortest row of at least `length` elements that `rows` takes: as many vectors as a divisor of the lanes, or
    whole steps of all lanes of the waves of a row."""
    vectors = -(-max(length, 1) // vector)
    if waves_per_row == 1 and vectors <= WAVE_SIZE:
        return vector * next(one for one in range(vectors, WAVE_SIZE + 1) if WAVE_SIZE % one == 0)
    step = WAVE_SIZE * waves_per_row
    return vector * step * -(-vectors // step)


def rows_at_once(length: int, waves: int, vector: int, waves_per_row: int = 1) -> int:
    """Rows of `length` that all waves take in one step."""
    return waves // waves_per_row * (WAVE_SIZE // gcd(WAVE_SIZE, length // vector))


def _all_busy(lengths: Sequence[int], packed: Sequence[int], order: Sequence[int], parts: Sequence[int]) -> bool:
    """Whether every lane and wave gets an element of its own."""
    rest = [length // part for length, part in zip(lengths, packed, strict=True)]
    for part in parts:
        for dim in order:
            taken = gcd(part, rest[dim])
            part, rest[dim] = part // taken, rest[dim] // taken
        if part > 1:
            return False
    return True


def _filled(
    lengths: Sequence[int],
    packed: Sequence[int],
    order: Sequence[int],
    lanes: int,
    waves: int,
    wave_limits: Sequence[int],
) -> Distribution:
    """Each dimension, in `order`: `packed` registers, then lanes, then waves up to its limit, then registers."""
    rest = [length // part for length, part in zip(lengths, packed, strict=True)]
    lane_parts, wave_parts = [1] * len(lengths), [1] * len(lengths)
    for dim in order:
        lane_parts[dim] = gcd(lanes // prod(lane_parts), rest[dim])
        rest[dim] //= lane_parts[dim]
    for dim in order:
        wave_parts[dim] = gcd(gcd(waves // prod(wave_parts), wave_limits[dim]), rest[dim])
        rest[dim] //= wave_parts[dim]
    # A part that comes earlier in `order` is less significant in its index; copies are the most significant.
    rank = {dim: len(order) - position for position, dim in enumerate(order)}
    copies = (Factor(waves // prod(wave_parts), WAVE, 0), Factor(lanes // prod(lane_parts), LANE, 0))
    inner = {dim: len(lengths) + len(order) - 1 - position for position, dim in enumerate(order)}
    dims = tuple(
        (
            Factor(rest[dim], REGISTER, dim),
            Factor(wave_parts[dim], WAVE, rank[dim]),
            Factor(lane_parts[dim], LANE, rank[dim]),
            Factor(packed[dim], REGISTER, inner[dim]),
        )
        for dim in range(len(lengths))
    )
    return Distribution(copies, dims)
