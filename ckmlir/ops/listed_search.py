"""Where a number lies among those of a list in memory, found by all lanes of a wave at once."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import Pointer, Scalar, Tile, coordinates, load, reduce_sum, splat_like, view, where, while_loop
from ckmlir.ops.whole_tile import whole
from ckmlir.targets.cdna import WAVE_SIZE


def as_listed(number: Tile, place: Tile) -> Tile:
    """A number of a list as memory has it."""
    return number


class Listed(Struct, frozen=True):
    """Numbers (i32) that do not fall. A wave waits for each answer of memory, so that each of its lanes asks for one:
    64 numbers take one wait, 4096 two.

    Attributes:
        numbers: the first of them in memory.
        count: how many there are.
        waves: of the workgroup, each of which finds the place itself.
        apart: elements from one to the next.
        of: what is compared, of a number in memory and its place in the list.
    """

    numbers: Pointer
    count: Scalar
    waves: int
    apart: int = 1
    of: Callable[[Tile, Tile], Tile] = as_listed

    def first_asked(self) -> Tile:
        """The numbers that `last` asks for first, which depend on nothing but how many there are."""
        return self._asked(self.count * 0, self.count)

    def last(self, most: Scalar, first: Tile | None = None) -> Scalar:
        """The place of the last number that is at most another, or 0; `first` is `first_asked`, if it was loaded
        before."""

        def narrowed(low: Scalar, size: Scalar, tile: Tile) -> tuple[Scalar, Scalar]:
            apart, asked = _spread(size)
            lane = coordinates(tile, 0)
            below = (self.of(tile, lane * apart + low) <= most) & (lane < asked)
            found = (whole(reduce_sum, where(below, splat_like(tile, 1, "i32"), 0)) - 1).maximum(0) * apart
            return low + found, (size - found).minimum(apart)

        known = narrowed(self.count * 0, self.count, self.first_asked() if first is None else first)
        with while_loop(lambda low, size: size > 1, carry=known) as search:
            low, size = search.carried
            search.carry(*narrowed(low, size, self._asked(low, size)))
        place: Scalar = search.results[0]
        return place

    def _asked(self, low: Scalar, size: Scalar) -> Tile:
        apart, asked = _spread(size)
        there = view(self.numbers.offset(low * self.apart), (asked,), (apart * self.apart,)).pad(WAVE_SIZE)
        found: Tile = load(there.window((WAVE_SIZE,), (0,)), _lies(self.waves), invariant=True)
        return found


def _spread(size: Scalar) -> tuple[Scalar, Scalar]:
    """How far apart lanes ask of so many numbers, and how many of them ask."""
    apart = ((size + (WAVE_SIZE - 1)) // WAVE_SIZE).maximum(1)
    return apart, (size + (apart - 1)) // apart


def _lies(waves: int) -> Distribution:
    """As many elements as lanes, which every wave has."""
    return Distribution.parse(f"d0: {waves}@wave, d1: {WAVE_SIZE}@lane").reduce(0)
