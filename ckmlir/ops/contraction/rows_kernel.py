"""Rows of arrays that belong to those of a block: they follow each other, or a list tells each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.reach import NEAR
from ckmlir.lang import Pointer, Scalar, Tile, View, Window, atomic_add, gather, load, scatter, scatter_add, store
from ckmlir.lang.views import Amount


class Rows(Protocol):
    """Some rows of an array of one dimension or two; what lies outside is zero, and dropped."""

    def load(
        self, origin: Sequence[Amount] = (), lengths: Sequence[int] = (), lies: Distribution | None = None
    ) -> Tile:
        """Their elements, in two dimensions those of so many columns from a column on; `lies`: over lanes and waves."""

    def store(self, tile: Tile, *origin: Amount) -> None:
        """Write them, from a column on."""

    def add(self, tile: Tile, *origin: Amount) -> None:
        """Have memory add to them, from a column on."""


Put = Callable[[Rows, Tile, Amount], None]
"""How a tile gets to rows, from a column on: `stored` or `added`."""


def stored(rows: Rows, tile: Tile, column: Amount) -> None:
    """See `Rows.store`."""
    rows.store(tile, column)


def added(rows: Rows, tile: Tile, column: Amount) -> None:
    """See `Rows.add`."""
    rows.add(tile, column)


class Told(Struct, frozen=True):
    """What tells the rows of an array.

    Attributes:
        count: rows that the array has.
        index: of so many rows of a block, from one on, which rows of the array they are; -1: none.
    """

    count: Scalar
    index: Callable[[Scalar, int], Tile]


class Array(Struct, frozen=True):
    """An array, and what tells its rows where they do not follow each other.

    Attributes:
        block: what the array is padded to multiples of, where not to those of a tile's lengths: a tile that is a slice
            of a block may begin behind the array, and paddings refuse what begins before their end only.
    """

    view: View
    told: Told | None = None
    block: tuple[int, ...] = ()

    def rows(self, row: Scalar, count: int) -> Rows:
        """So many rows from that of a block on."""
        if self.told is None:
            return Following(self.view, row, count, self.block)
        return Listed(self.view, self.told.index(row, count), self.block)

    def at(self, pointer: Pointer) -> Array:
        """An array that lies in the same way behind another pointer; its sizes are these, not computed anew."""
        return replace(self, view=View(pointer, self.view.descriptor, self.view.dynamic))


class Following(Struct, frozen=True):
    """Rows one behind the other; `block` as that of `Array`. Loads' buffers move with a loop along the outer dimension,
    so that what lies behind its end is not compared.
    """

    view: View
    row: Scalar
    count: int
    block: tuple[int, ...] = ()

    def load(
        self, origin: Sequence[Amount] = (), lengths: Sequence[int] = (), lies: Distribution | None = None
    ) -> Tile:
        """See `Rows`."""
        return load(self._window(origin, lengths), lies)

    def store(self, tile: Tile, *origin: Amount) -> None:
        """See `Rows`."""
        store(tile, self._window(origin, tile.lengths[1:]))

    def add(self, tile: Tile, *origin: Amount) -> None:
        """See `Rows`."""
        atomic_add(tile, self._window(origin, tile.lengths[1:]))

    def _window(self, origin: Sequence[Amount], lengths: Sequence[int]) -> Window:
        whole = (self.count, *lengths)
        return self.view.pad(*self.block or whole).window(whole, (self.row, *origin), moves_buffer=True)


class Listed(Struct, frozen=True):
    """Rows by a tile of their numbers; a number that is none gives zeros, and takes nothing. Arrays are no larger than
    2 GiB. `block` as that of `Array`.
    """

    view: View
    index: Tile
    block: tuple[int, ...] = ()

    def load(
        self, origin: Sequence[Amount] = (), lengths: Sequence[int] = (), lies: Distribution | None = None
    ) -> Tile:
        """See `Rows`."""
        return gather(self._window(origin, lengths), self.index, 0, lies, reach=NEAR)

    def store(self, tile: Tile, *origin: Amount) -> None:
        """See `Rows`."""
        scatter(tile, self._window(origin, tile.lengths[1:]), self.index, 0, reach=NEAR)

    def add(self, tile: Tile, *origin: Amount) -> None:
        """See `Rows`."""
        scatter_add(tile, self._window(origin, tile.lengths[1:]), self.index, 0)

    def _window(self, origin: Sequence[Amount], lengths: Sequence[int]) -> Window:
        columns = self.block[1:] or lengths
        return self.view.pad(1, *columns).window((self.index.lengths[0], *lengths), (0, *origin))
