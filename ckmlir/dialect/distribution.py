"""Distributions: how a tile lies over the waves, lanes and registers of a workgroup.

This is the encoding of CK Tile (R, H, P, Y): every dimension of the tile is a product of factors, most significant
first, and each factor is a digit of the wave index, of the lane index, or one register dimension. It is written

    d0: 4@y0 4@wave 16@lane, d1: 4@lane 8@y1

The first dimension is a multiple of 64 for y0, of 16 for the wave, plus a part of the lane, which also has a part in
the second one. `@yJ` is register dimension J; registers are numbered with the last of them the fastest. The factors
of `@wave` and `@lane` make up that index most significant first in the order of appearance; where it is another order
all of them carry their rank, as in `d0: 16@lane.1, d1: 4@lane.0`. A leading `r: 2@wave` is replication: it takes part
in an index, and in no dimension, so several threads hold the same element. A dimension of length 1 is
written `d0: 1`.

A `Distribution` is always in canonical form: factors of length 1 are dropped and neighbouring factors that are one
digit in effect are joined. So two distributions are equal exactly when they put every element in the same place, and
equal distributions have one text. Dimensions are known by their position: names in the text are for the reader.

Source: CK Tile, include/ck_tile/core/tensor/tile_distribution_encoding.hpp.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from ckmlir.dialect.distribution_encoding import Encoding, encoding_of, rows_of, verify_encoding
from ckmlir.dialect.distribution_factors import LANE, OWNERS, REGISTER, WAVE, Factor, Row, canonical, renumber
from ckmlir.dialect.distribution_text import parse, write

Coordinates = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]


class Digit(NamedTuple):
    """`(index // source_weight) % length` of the wave, lane or register index counts `weight` in a coordinate."""

    length: int
    source: str
    source_weight: int
    weight: int


class Distribution(Struct, frozen=True, dict=True):
    """A tile over waves, lanes and registers: the replicated factors and the factors of every dimension.

    Raises:
        ValueError: a rank within an owner is missing or given twice, or a register dimension is replicated.
    """

    replicated: Row
    dims: tuple[Row, ...]

    def __post_init__(self) -> None:
        replicated, dims = canonical(self.replicated, self.dims)
        force_setattr(self, "replicated", replicated)
        force_setattr(self, "dims", dims)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Kept: distributions are keys of caches that are asked for every access."""
        return hash((self.replicated, self.dims))

    @staticmethod
    def from_encoding(encoding: Encoding) -> Distribution:
        """The distribution of CK's arguments; `verify_encoding` says what can be wrong with them.

        Raises:
            ValueError: a factor has no owner or several, does not exist, or is a replicated register dimension.
        """
        replicated, *dims = rows_of(encoding)
        return Distribution(replicated, tuple(dims))

    @cached_property
    def encoding(self) -> Encoding:
        """CK's arguments for this distribution."""
        return encoding_of((self.replicated, *self.dims))

    # -- facts

    @property
    def rank(self) -> int:
        """Number of dimensions of the tile."""
        return len(self.dims)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of the tile."""
        return tuple(prod(factor.length for factor in dim) for dim in self.dims)

    @cached_property
    def _owner_lengths(self) -> dict[str, tuple[int, ...]]:
        factors = sorted((f for row in (self.replicated, *self.dims) for f in row), key=lambda factor: factor.rank)
        return {owner: tuple(f.length for f in factors if f.owner == owner) for owner in OWNERS}

    @property
    def waves(self) -> int:
        """Number of waves."""
        return prod(self._owner_lengths[WAVE])

    @property
    def lanes(self) -> int:
        """Lanes of a wave."""
        return prod(self._owner_lengths[LANE])

    @property
    def register_lengths(self) -> tuple[int, ...]:
        """Lengths of the register dimensions y0, y1, …"""
        return self._owner_lengths[REGISTER]

    @property
    def registers(self) -> int:
        """Elements of the tile that one thread holds."""
        return prod(self.register_lengths)

    @property
    def replication(self) -> int:
        """How many threads hold each element."""
        return prod(factor.length for factor in self.replicated)

    @cached_property
    def _source_weights(self) -> dict[tuple[str, int], int]:
        return {
            (owner, rank): prod(lengths[rank + 1 :])
            for owner, lengths in self._owner_lengths.items()
            for rank in range(len(lengths))
        }

    def digits(self, dim: int) -> tuple[Digit, ...]:
        """The digits that make up the coordinate along `dim`, most significant first: it is their weighted sum."""
        return self._digits_by_dim[dim]

    @cached_property
    def _digits_by_dim(self) -> tuple[tuple[Digit, ...], ...]:
        return tuple(map(self._digits, self.dims))

    def replicated_digits(self) -> tuple[Digit, ...]:
        """The digits of the wave and lane index that tell holders of one element apart; their weights number them."""
        return self._digits(self.replicated)

    def wave_copies(self) -> tuple[Digit, ...]:
        """The digits of the wave index that tell waves apart which hold the same elements; their weights number the
        copies that the waves hold.
        """
        return self._digits([factor for factor in self.replicated if factor.owner == WAVE])

    def _digits(self, factors: Sequence[Factor]) -> tuple[Digit, ...]:
        return tuple(
            Digit(f.length, f.owner, self._source_weights[f.owner, f.rank], prod(g.length for g in factors[i + 1 :]))
            for i, f in enumerate(factors)
        )

    def coordinates(self) -> Coordinates:
        """Where every element lies: an array [rank, waves, lanes, registers] of coordinates (read-only)."""
        return self._coordinates

    def begins(self, register: int) -> tuple[int, ...]:
        """Where a register of wave 0's lane 0 lies: what it adds to a coordinate in every thread."""
        return self._begins[register]

    @cached_property
    def _begins(self) -> tuple[tuple[int, ...], ...]:
        return tuple(map(tuple, self._coordinates[:, 0, 0].T.tolist()))

    @cached_property
    def _coordinates(self) -> Coordinates:
        shape = (self.waves, self.lanes, self.registers)
        indices = dict(zip(OWNERS, np.ogrid[tuple(slice(n) for n in shape)], strict=True))
        result = np.zeros((self.rank, *shape), dtype=np.int64)
        for dim in range(self.rank):
            for digit in self.digits(dim):
                result[dim] += indices[digit.source] // digit.source_weight % digit.length * digit.weight
        result.flags.writeable = False
        return result

    def elements(self) -> Coordinates:
        """The row-major element number that each [wave, lane, register] holds."""
        return flatten(self.coordinates(), self.lengths)

    def is_bijective(self) -> bool:
        """Whether every element is held by exactly `replication` threads, by evaluation; it always is."""
        counts = np.bincount(self.elements().ravel(), minlength=prod(self.lengths))
        return bool((counts == self.replication).all())

    # -- algebra

    def embed(self, inner: Distribution) -> Distribution:
        """CK's nesting: this distribution counts tiles of `inner`; its digits and registers come before the inner ones.

        Raises:
            ValueError: the two have different numbers of dimensions.
        """
        if inner.rank != self.rank:
            raise ValueError(f"a tile of {inner.rank} dimensions cannot be embedded in one of {self.rank}")
        shift = {owner: len(lengths) for owner, lengths in self._owner_lengths.items()}

        def after(factors: Iterable[Factor]) -> Row:
            return tuple(factor._replace(rank=factor.rank + shift[factor.owner]) for factor in factors)

        dims = tuple(outer + after(dim) for outer, dim in zip(self.dims, inner.dims, strict=True))
        return Distribution(self.replicated + after(inner.replicated), dims)

    def reduce(self, dim: int) -> Distribution:
        """What is left when `dim` is reduced: the lanes and waves along it hold copies, its registers vanish."""
        self._check_dim(dim)
        kept = tuple(factor for factor in self.dims[dim] if factor.owner != REGISTER)
        return _renumbered(self.replicated + kept, self.dims[:dim] + self.dims[dim + 1 :])

    def along(self, dim: int) -> Distribution:
        """What is left when every dimension but `dim` is reduced: how a tile of one value for each index of it lies."""
        self._check_dim(dim)
        reduced = self
        for other in reversed([other for other in range(self.rank) if other != dim]):
            reduced = reduced.reduce(other)
        return reduced

    def wave_partials(self, dim: int) -> Distribution:
        """What waves hold after reducing `dim` within each: a new dimension 0 counts the waves that share `dim`."""
        self._check_dim(dim)
        of_waves = tuple(factor for factor in self.dims[dim] if factor.owner == WAVE)
        of_lanes = tuple(factor for factor in self.dims[dim] if factor.owner == LANE)
        return _renumbered(self.replicated + of_lanes, (of_waves, *self.dims[:dim], *self.dims[dim + 1 :]))

    def expand(self, dim: int, length: int) -> Distribution:
        """A new dimension of `length` at position `dim`, wholly in the registers of each thread, the fastest there."""
        if not 0 <= dim <= self.rank or length < 1:
            raise ValueError(f"cannot insert a dimension of length {length} at {dim} of {self.rank}")
        new = (Factor(length, REGISTER, len(self.register_lengths)),)
        return _renumbered(self.replicated, (*self.dims[:dim], new, *self.dims[dim:]))

    def join(self, dim: int) -> Distribution:
        """Dimensions `dim` and `dim + 1` as one, the second the faster; no element moves."""
        self._check_dim(dim)
        self._check_dim(dim + 1)
        joined = self.dims[dim] + self.dims[dim + 1]
        return Distribution(self.replicated, (*self.dims[:dim], joined, *self.dims[dim + 2 :]))

    def split(self, dim: int, length: int) -> Distribution:
        """Dimension `dim` as two, the second of `length` and the faster; no element moves.

        Raises:
            ValueError: the length does not divide the dimension's, or cuts a factor at no whole number.
        """
        self._check_dim(dim)
        row, inner, left = self.dims[dim], 0, length
        while inner < len(row) and left % row[-1 - inner].length == 0:
            inner, left = inner + 1, left // row[-1 - inner].length
        cut = len(row) - inner - 1  # the factor of which a part is left
        if length < 1 or (left > 1 and (cut < 0 or row[cut].length % left)):
            raise ValueError(f"dimension {dim} has no whole part of {length} in '{self}'")
        if left == 1:
            dims = (*self.dims[:dim], row[: cut + 1], row[cut + 1 :], *self.dims[dim + 1 :])
            return Distribution(self.replicated, dims)
        whole = row[cut]

        def moved(factors: Row) -> Row:
            later = [factor.owner == whole.owner and factor.rank > whole.rank for factor in factors]
            return tuple(one._replace(rank=one.rank + add) for one, add in zip(factors, later, strict=True))

        parts = whole._replace(length=whole.length // left), whole._replace(length=left, rank=whole.rank + 1)
        rows = (*moved(row[:cut]), parts[0]), (parts[1], *moved(row[cut + 1 :]))
        others = tuple(map(moved, self.dims))
        return Distribution(moved(self.replicated), (*others[:dim], *rows, *others[dim + 1 :]))

    def permute(self, order: Sequence[int]) -> Distribution:
        """New dimension i is the old dimension `order[i]`; no element moves."""
        if sorted(order) != list(range(self.rank)):
            raise ValueError(f"{list(order)} is not an order of {self.rank} dimensions")
        return Distribution(self.replicated, tuple(self.dims[dim] for dim in order))

    def with_register_order(self, order: Sequence[int]) -> Distribution:
        """New register dimension i is the old y`order[i]`; elements stay in their threads."""
        if sorted(order) != list(range(len(self.register_lengths))):
            raise ValueError(f"{list(order)} is not an order of {len(self.register_lengths)} register dimensions")
        rank = {old: new for new, old in enumerate(order)}

        def move(factor: Factor) -> Factor:
            return factor._replace(rank=rank[factor.rank]) if factor.owner == REGISTER else factor

        return Distribution(self.replicated, tuple(tuple(map(move, dim)) for dim in self.dims))

    def slice(self, dim: int, start: int, length: int) -> tuple[Distribution, tuple[int, ...]]:
        """The part [start, start + length) of `dim`: its distribution and its registers here, in order.

        Raises:
            ValueError: the part is empty or outside, or lies in other lanes or waves for some threads.
        """
        self._check_dim(dim)
        if not (start >= 0 and length > 0 and start + length <= self.lengths[dim]):
            raise ValueError(f"[{start}, {start + length}) is outside a dimension of {self.lengths[dim]}")
        factors = list(self.dims[dim])
        rest = start
        while factors and prod(factor.length for factor in factors) > length:
            weight = prod(factor.length for factor in factors[1:])
            first, last = rest // weight, (rest + length - 1) // weight
            whole = first == last or (rest % weight == 0 and length % weight == 0)
            if factors[0].owner != REGISTER or not whole:
                part = f"[{start}, {start + length}) of dimension {dim}"
                raise ValueError(f"{part} is not a whole part of each thread's registers in '{self}'")
            if first != last or length == weight:
                factors[0] = factors[0]._replace(length=last - first + 1)
                break
            factors, rest = factors[1:], rest % weight
        dims = (*self.dims[:dim], tuple(factors), *self.dims[dim + 1 :])
        along = self.coordinates()[dim, 0, 0]  # in thread 0, whose digits of lane and wave are 0
        registers = np.flatnonzero((along >= start) & (along < start + length))
        return Distribution(*renumber(self.replicated, dims)), tuple(int(register) for register in registers)

    def _check_dim(self, dim: int) -> None:
        if not 0 <= dim < self.rank:
            raise ValueError(f"there is no dimension {dim}; the tile has {self.rank}")

    # -- text

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return self.text([f"d{dim}" for dim in range(self.rank)])

    def text(self, names: Sequence[str]) -> str:
        """The notation with these names for the dimensions."""
        if len(names) != self.rank:
            raise ValueError(f"{len(names)} names for {self.rank} dimensions")
        return write(self.replicated, self.dims, names)

    @staticmethod
    @lru_cache(maxsize=4096)
    def parse(text: str) -> Distribution:
        """The distribution that `text` writes; `×` and `*` may stand between factors.

        Raises:
            ValueError: malformed text, or factors that do not make a distribution; the message quotes the part.
        """
        return Distribution(*parse(text))


@lru_cache(maxsize=1024)
def _renumbered(replicated: Row, dims: tuple[Row, ...]) -> Distribution:
    """Remembered, with what it finds out about itself: every kernel of an operator reduces and stretches such tiles."""
    return Distribution(*renumber(replicated, dims))


def flatten(coordinates: Coordinates, lengths: Sequence[int]) -> Coordinates:
    """The row-major numbers of elements at these coordinates of a tile of these lengths."""
    numbers: Coordinates = np.zeros(coordinates.shape[1:], dtype=np.int64)
    for along, length in zip(coordinates, lengths, strict=True):
        numbers = numbers * length + along
    return numbers


__all__ = [
    "LANE",
    "REGISTER",
    "WAVE",
    "Coordinates",
    "Digit",
    "Distribution",
    "Encoding",
    "Factor",
    "flatten",
    "verify_encoding",
]
