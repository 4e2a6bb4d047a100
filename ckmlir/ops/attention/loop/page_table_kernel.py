"""Which pages a sequence has: a table in memory, asked for a key, or for each of a block of them."""

from __future__ import annotations

from msgspec import Struct

from ckmlir.lang import Pointer, Scalar, Tile, coordinates, load, view, where

KEY_BITS = 32


class Pages(Struct, frozen=True):
    """The pages of a sequence.

    Attributes:
        numbers: what memory holds of each, one behind the other; count: how many there are.
        size: keys of a page; pool: pages that exist.
        length: keys of the sequence.
    """

    numbers: Pointer
    count: Scalar
    size: int
    pool: Scalar
    length: Scalar

    @property
    def _digits(self) -> int:
        """The binary logarithm of the size: keys are never negative, which a division would not know."""
        return self.size.bit_length() - 1

    @property
    def end(self) -> Scalar:
        """The key behind the last one that the sequence has a page for."""
        end: Scalar = self.length.minimum(self.count * self.size)
        return end

    def number(self, key: Scalar) -> Scalar:
        """What the table has for the page of a key; of keys behind its end, for the last."""
        # From the page's first key on, so that LLVM sees where two steps of a turn look for the same entry. The mask
        # says that it is not negative: so its entry lies 32 bits behind the table's start, for LLVM too.
        place = ((key - (key & (self.size - 1))) >> self._digits) & ((1 << (KEY_BITS - self._digits)) - 1)
        number: Scalar = self.numbers.scalar(place.minimum((self.count - 1).maximum(0)))
        return number

    def rows(self, number: Scalar, key: Scalar, most: int) -> Scalar:
        """How many keys from one on, at most so many, are the sequence's; 0 if no page has this number."""
        # The larger less the key, not the difference's maximum with 0: LLVM puts a number between two constants, as it
        # would be then, into a vector register.
        left = (self.end.maximum(key) - key).minimum(most)
        rows: Scalar = number.below(self.pool).select(left, 0)
        return rows

    def of_keys(self, key: Scalar, keys: int) -> Tile:
        """What memory holds of the page of each key from one on, 0 behind the last page."""
        table = view(self.numbers, (self.count,), (1,)).insert(1, self.size).merge(0, 1).pad(keys)
        return load(table.window((keys,), (key,)))

    def existing(self, numbers: Tile, key: Scalar) -> Tile:
        """What memory holds of the page of each key from one on, of keys behind the end that of no page."""
        return where(coordinates(numbers, 0) < self.end - key, numbers, self.pool)

    def places(self, numbers: Tile, distance: Scalar, within: Scalar | int = 0) -> Tile:
        """Rows of keys; the row behind the pool's last one where a number is not a page of the pool.

        Args:
            numbers: of their pages, as `of_keys` has them.
            distance: rows from one page to the next.
            within: the first key's place in its page.
        """
        # The smaller of two unsigned numbers: what is too large would come back into the pool as a product of 32 bits.
        known = where(numbers.below(self.pool), numbers, self.pool)
        rows: Tile = known * distance + ((coordinates(numbers, 0) + within) & (self.size - 1))
        return rows
