"""How a tensor lies in LDS: order of its dimensions, row pitch, swizzle and skew, in elements.

The last dimension of `order` is contiguous. All others merge into rows, `pitch` elements apart. What spreads accesses
over the banks:

- The swizzle moves a row's chunks of `chunk` elements: chunk c of row r lies where chunk `c ^ f(r)` would, with
  `f(r) = ((r >> shift) & mask) ^ …` over one or more terms (CK Tile's XOR descriptors have one). A negative shift
  multiplies: neighbouring rows then differ in the higher bits of the chunk's number.
- Padding is a pitch longer than a row.
- The skew puts `skew` elements more behind every `period` rows. Half a chunk of it lets accesses of half a chunk use
  the banks that swizzled chunks leave out.
- Dealt rows: with `hands` 2, all even rows come first, then the odd ones, as cards are dealt; the swizzle still goes by
  the row's own number. So lanes that walk along every other row still use all banks.

Notation: `lengths 128x64 order 0,1 pitch 64`, then where they are used
`swizzle chunk 8 shift 0 mask 3 shift 2 mask 7`, `skew 4 every 8` and `dealt 2`.
"""

import math
import re
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any

from msgspec import Struct

_NOTATION = re.compile(
    r"lengths (\d+(?:x\d+)*) order (\d+(?:,\d+)*) pitch (\d+)"
    r"(?: swizzle chunk (\d+)((?: shift -?\d+ mask \d+)+))?(?: skew (\d+) every (\d+))?(?: dealt (\d+))?"
)
_TERM = re.compile(r"shift (-?\d+) mask (\d+)")


class LdsLayout(Struct, frozen=True):
    """A layout; no terms means no swizzle, `skew` 0 none, `hands` 1 that rows lie in their order.

    Raises:
        ValueError: the order is not a permutation, the pitch is shorter than a row, the swizzle leaves the row, or the
            rows cannot be dealt out evenly.
    """

    lengths: tuple[int, ...]
    order: tuple[int, ...]
    pitch: int
    chunk: int = 1
    terms: tuple[tuple[int, int], ...] = ()
    skew: int = 0
    period: int = 1
    hands: int = 1

    def __post_init__(self) -> None:
        if min(self.lengths) < 1:
            raise ValueError(f"lengths must be positive, not {list(self.lengths)}")
        if sorted(self.order) != list(range(len(self.lengths))):
            raise ValueError(f"order {list(self.order)} is not a permutation of {len(self.lengths)} dimensions")
        if self.pitch < self.row_length:
            raise ValueError(f"pitch {self.pitch} is shorter than a row of {self.row_length}")
        if self.chunk < 1 or self.period < 1:
            raise ValueError(f"chunks of {self.chunk} and a skew every {self.period} rows: both must be positive")
        if self.hands < 1 or self.rows % self.hands:
            raise ValueError(f"{self.rows} rows cannot be dealt out to {self.hands} hands")
        for _, mask in self.terms:
            if mask < 1 or mask & (mask + 1) or self.row_length % ((mask + 1) * self.chunk):
                raise ValueError(
                    f"swizzle mask {mask} with chunks of {self.chunk} does not fit a row of {self.row_length}"
                )

    @property
    def contiguous(self) -> int:
        """The dimension whose elements are neighbours."""
        return self.order[-1]

    @property
    def row_length(self) -> int:
        """Elements of one row."""
        return self.lengths[self.order[-1]]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return math.prod(self.lengths) // self.row_length

    @property
    def elements(self) -> int:
        """Elements from the first to one past the last, padding included."""
        return (self.rows - 1) * self.pitch + (self.rows - 1) // self.period * self.skew + self.row_length

    @property
    def is_gapless(self) -> bool:
        """Whether row follows row without padding or skew, as copies straight to LDS write them."""
        return self.pitch == self.row_length and not self.skew and self.hands == 1

    def alignment(self, length: int) -> int:
        """The elements to which an access of `length` elements, a power of two that divides its coordinate, is
        aligned.
        """
        shifts = (self.pitch, self.chunk if self.terms else 0, self.skew)
        return math.gcd(length, *shifts)

    def offset(self, coordinates: Sequence[Any]) -> Any:
        """Element offset of a coordinate; integers, NumPy arrays and address expressions all serve."""
        row = self._row(coordinates)
        place = row if self.hands == 1 else (row % self.hands) * (self.rows // self.hands) + row // self.hands
        offset = place * self.pitch + self._swizzled(row, coordinates[self.contiguous])
        return offset + (place // self.period) * self.skew if self.skew else offset

    def place(self, coordinates: Sequence[Any]) -> Any:
        """Element offset of the place that rows without swizzle, in their order, would have for a coordinate."""
        return self._row(coordinates) * self.pitch + coordinates[self.contiguous]

    def element_at(self, coordinates: Sequence[Any]) -> list[Any]:
        """The coordinates of the element that lies at `place(coordinates)`: a swizzle is its own inverse."""
        found = list(coordinates)
        found[self.contiguous] = self._swizzled(self._row(coordinates), coordinates[self.contiguous])
        return found

    def _row(self, coordinates: Sequence[Any]) -> Any:
        row: Any = 0
        for dimension in self.order[:-1]:
            row = row * self.lengths[dimension] + coordinates[dimension]
        return row

    def _swizzled(self, row: Any, column: Any) -> Any:
        if not self.terms:
            return column
        parts = [_shifted(row, shift) % (mask + 1) for shift, mask in self.terms]
        return column ^ (reduce(lambda left, right: left ^ right, parts) * self.chunk)

    @staticmethod
    def plain(lengths: Sequence[int], order: Sequence[int]) -> "LdsLayout":
        """Rows without padding or swizzle."""
        return LdsLayout(tuple(lengths), tuple(order), lengths[order[-1]])

    @staticmethod
    @lru_cache(maxsize=4096)
    def parse(text: str) -> "LdsLayout":
        """Read the notation.

        Raises:
            ValueError: it is malformed; the message says what is expected.
        """
        match = _NOTATION.fullmatch(text)
        if match is None:
            raise ValueError(
                f"cannot read LDS layout '{text}'; write lengths 128x64 order 0,1 pitch 64 "
                "[swizzle chunk 8 shift 0 mask 7 …] [skew 4 every 8] [dealt 2]"
            )
        lengths = tuple(int(length) for length in match[1].split("x"))
        order = tuple(int(dimension) for dimension in match[2].split(","))
        terms = tuple((int(shift), int(mask)) for shift, mask in _TERM.findall(match[5] or ""))
        return LdsLayout(
            lengths, order, int(match[3]), int(match[4] or 1), terms, int(match[6] or 0), int(match[7] or 1),
            int(match[8] or 1),
        )  # fmt: skip

    def __str__(self) -> str:
        text = f"lengths {'x'.join(map(str, self.lengths))} order {','.join(map(str, self.order))} pitch {self.pitch}"
        if self.terms:
            text += f" swizzle chunk {self.chunk} " + " ".join(
                f"shift {shift} mask {mask}" for shift, mask in self.terms
            )
        text += f" skew {self.skew} every {self.period}" if self.skew else ""
        return text + (f" dealt {self.hands}" if self.hands > 1 else "")


def _shifted(row: Any, shift: int) -> Any:
    return row // (1 << shift) if shift >= 0 else row * (1 << -shift)
