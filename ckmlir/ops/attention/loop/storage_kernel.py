"""How elements of Q, K and V lie in memory, where matrix instructions take them in another type."""

from __future__ import annotations

from msgspec import Struct

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.packing import PACKED
from ckmlir.lang import Tile, Window, load, permute_axes, redistribute, unpack


class Storage:
    """They are multiplied as they are."""

    def size(self, channels: int) -> int:
        """The length of a row of so many channels, in what memory counts."""
        return channels

    def queries(self, window: Window, lies: Distribution) -> Tile:
        """Q (queries, channels) as an operand."""
        return load(window, lies)

    def k(self, loaded: Tile) -> Tile:
        """K (keys, channels) as LDS holds it."""
        return loaded

    def v(self, loaded: Tile) -> Tile:
        """V (channels, keys) as LDS holds it."""
        return loaded


class Packed(Storage, Struct, frozen=True):
    """Memory holds bytes of packed elements, which are numbers of another type exactly.

    Attributes:
        name: of the packed type; dtype: the other one.
        columns: keys of V share bytes, in place of channels.
    """

    name: str
    dtype: str
    columns: bool

    def size(self, channels: int) -> int:
        """See `Storage`: bytes."""
        return PACKED[self.name].size(channels)

    def queries(self, window: Window, lies: Distribution) -> Tile:
        """See `Storage`."""
        return redistribute(self.k(load(window)), lies)

    def k(self, loaded: Tile) -> Tile:
        """See `Storage`."""
        return unpack(loaded, self.name, self.dtype)

    def v(self, loaded: Tile) -> Tile:
        """See `Storage`: where channels share bytes, rows of keys were loaded."""
        found = self.k(loaded)
        return found if self.columns else permute_axes(found, 1, 0)
