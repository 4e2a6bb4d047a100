"""Coordinate transforms: how an index that a user writes becomes an index of the storage below.

A transform maps an **upper** (user side) multi-index to a **lower** (storage side) multi-index. Mapping and validity
are written once, with Python's operators, and so evaluate on ints, NumPy arrays, the lowering's IR values (unsigned)
and `Progression`s (what is known along a vector). Every length and amount is a `Size`, possibly a run-time one.

| transform | lower <- upper | mapping | valid where |
|---|---|---|---|
| pass_through | 1 <- 1 | l = u | always |
| pad | 1 <- 1 | l = u - left | left <= u < left + length |
| left_pad | 1 <- 1 | l = u - pad | u >= pad |
| right_pad | 1 <- 1 | l = u | u < length |
| slice | 1 <- 1 | l = u + begin | always |
| freeze | 1 <- 0 | l = index | always |
| insert | 0 <- 1 | (a dimension that storage does not have) | always |
| replicate | 0 <- n | (dimensions that storage does not have) | always |
| embed | 1 <- n | l = sum u_i * stride_i | always |
| merge | n <- 1 | l = digits of u in the mixed radix `lengths` | always |
| unmerge | 1 <- n | l = the number with the digits u | always |
| xor | 2 <- 2 | l0 = u0, l1 = u1 ^ (u0 % length1) | always |
| reverse | 1 <- 1 | l = length - 1 - u | always |
| modulo | 1 <- 1 | l = u % modulus | always |
| offset | 1 <- 1 | l = u + offset | always |
| indexing | 1 <- 1 | l = table[u] | always |

Source: Composable Kernel, CK Tile coordinate transforms (include/ck_tile/core/algorithm/coordinate_transform.hpp).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ckmlir.dialect.padding import LeftPad, Pad, RightPad
from ckmlir.dialect.symbols import Size, Symbol, combine, product, resolve, total
from ckmlir.dialect.transform_base import (
    Index,
    NotInvertible,
    OneDimension,
    Transform,
    join,
    plus,
    reverse,
    split,
    times,
)

MOST_PLACES = 31
"""Places of a window that are few: see `Embed.few`."""
MOST_APART = 1 << 13
"""How far those are apart at most: quotients of 32 such distances are one product."""


class PassThrough(OneDimension, frozen=True):
    """l = u."""

    name: ClassVar[str] = "pass_through"


class Slice(OneDimension, frozen=True):
    """Indices `begin` up to, not including, `end` of `length`."""

    name: ClassVar[str] = "slice"
    begin: Size
    end: Size

    def __post_init__(self) -> None:
        bounds = [0, self.begin, self.end, self.length]
        known = [bound for bound in bounds if isinstance(bound, int)]
        if known != sorted(known):
            raise ValueError(f"slice [{self.begin}, {self.end}) does not lie within [0, {self.length})")

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return (combine(self.end, "-", self.begin),)

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        return (plus(upper[0], resolve(self.begin, symbols)),)

    def upper(self, lower: Index, symbols: Sequence[Any] = ()) -> Index:
        return (lower[0] - resolve(self.begin, symbols),)


class Freeze(Transform, frozen=True):
    """The storage dimension stays at `index`; the user does not see it."""

    name: ClassVar[str] = "freeze"
    index: Size

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return ()

    @property
    def lower_extent(self) -> Size:
        return combine(self.index, "+", 1)

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        return (resolve(self.index, symbols),)

    def upper(self, lower: Index, symbols: Sequence[Any] = ()) -> Index:
        return ()


class Insert(Transform, frozen=True):
    """A user dimension of `length` along which storage does not change."""

    name: ClassVar[str] = "insert"
    length: Size

    @property
    def lower_count(self) -> int:
        return 0

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return (self.length,)

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        return ()


class Replicate(Transform, frozen=True):
    """User dimensions of `lengths` along which storage does not change."""

    name: ClassVar[str] = "replicate"
    lengths: tuple[Size, ...]

    @property
    def lower_count(self) -> int:
        return 0

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return self.lengths

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        return ()


class Embed(Transform, frozen=True):
    """l = sum u_i * stride_i: dimensions with any strides, also overlapping ones (the windows of a convolution)."""

    name: ClassVar[str] = "embed"
    lengths: tuple[Size, ...]
    strides: tuple[Size, ...]
    few: int = 0
    """1: positions of a window over a dimension that is padded on both sides, and its places, which are `MOST_APART`
    apart at most, and of which there are `MOST_PLACES` at most in all dimensions of a view that say so; 2: in each."""

    def __post_init__(self) -> None:
        if self.few not in (0, 1, 2) or (self.few and len(self.lengths) != 2):
            raise ValueError(f"few={self.few}: expected 0, or 1 or 2 of positions and places in a window")
        if len(self.lengths) != len(self.strides):
            raise ValueError(
                f"embed of {len(self.lengths)} lengths with {len(self.strides)} strides; one stride a length"
            )

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return self.lengths

    @property
    def lower_extent(self) -> Size:
        reach = (
            combine(combine(length, "-", 1), "*", stride)
            for length, stride in zip(self.lengths, self.strides, strict=True)
        )
        return combine(total(reach), "+", 1)

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        offset: Any = 0
        for index, stride in zip(upper, self.strides, strict=True):
            term = times(index, resolve(stride, symbols))
            offset = term if isinstance(offset, int) and offset == 0 else offset + term
        return (offset,)

    def upper(self, lower: Index, symbols: Sequence[Any] = ()) -> Index:
        lengths = [resolve(length, symbols) for length in self.lengths]
        strides = [resolve(stride, symbols) for stride in self.strides]
        if not all(isinstance(value, int) for value in (*lengths, *strides)):
            raise NotInvertible("embed has an inverse only where its lengths and strides are known numbers")
        rest, reach, result = lower[0], 0, [0] * len(lengths)
        order = sorted((i for i in range(len(lengths)) if lengths[i] > 1), key=lambda i: strides[i])
        for i in order:
            if strides[i] <= reach:
                raise NotInvertible(f"embed of lengths {lengths} with strides {strides} overlaps itself")
            reach += (lengths[i] - 1) * strides[i]
        for i in reversed(order):
            result[i], rest = rest // strides[i], rest % strides[i]
        return tuple(result)


class Merge(Transform, frozen=True):
    """One user dimension over several storage dimensions of `lengths`, the last of them the fastest."""

    name: ClassVar[str] = "merge"
    lengths: tuple[Size, ...]

    @property
    def lower_count(self) -> int:
        return len(self.lengths)

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return (product(self.lengths),)

    @property
    def lower_lengths(self) -> tuple[Size | None, ...]:
        return self.lengths

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        return split(upper[0], self.lengths, symbols)

    def upper(self, lower: Index, symbols: Sequence[Any] = ()) -> Index:
        return (join(lower, self.lengths, symbols),)


class Unmerge(Transform, frozen=True):
    """Several user dimensions of `lengths`, the last of them the fastest, over one storage dimension."""

    name: ClassVar[str] = "unmerge"
    lengths: tuple[Size, ...]

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return self.lengths

    @property
    def lower_lengths(self) -> tuple[Size | None, ...]:
        return (product(self.lengths),)

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        return (join(upper, self.lengths, symbols),)

    def upper(self, lower: Index, symbols: Sequence[Any] = ()) -> Index:
        return split(lower[0], self.lengths, symbols)


class Xor(Transform, frozen=True):
    """l0 = u0, l1 = u1 ^ (u0 % length1): spreads the rows of a tile in LDS over the banks.

    `lengths` are those of both dimensions; the second must be a power of two, so that the result stays within it.
    """

    name: ClassVar[str] = "xor"
    lengths: tuple[Size, Size]

    def __post_init__(self) -> None:
        if len(self.lengths) != 2:
            raise ValueError(f"xor takes two lengths, not {len(self.lengths)}")
        second = self.lengths[1]
        if not isinstance(second, int) or second < 1 or second & (second - 1):
            raise ValueError(f"xor needs a second length that is a known power of two, not {second}")

    @property
    def lower_count(self) -> int:
        return 2

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return self.lengths

    @property
    def lower_lengths(self) -> tuple[Size | None, ...]:
        return self.lengths

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        return (upper[0], upper[1] ^ (upper[0] % resolve(self.lengths[1], symbols)))

    def upper(self, lower: Index, symbols: Sequence[Any] = ()) -> Index:
        return self.lower(lower, symbols)


class Reverse(OneDimension, frozen=True):
    """l = length - 1 - u: a dimension from its end to its beginning."""

    name: ClassVar[str] = "reverse"

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        return (reverse(upper[0], resolve(self.length, symbols)),)

    def upper(self, lower: Index, symbols: Sequence[Any] = ()) -> Index:
        return self.lower(lower, symbols)


class Modulo(Transform, frozen=True):
    """l = u % modulus, for a user dimension of `length`: a ring of `modulus` elements."""

    name: ClassVar[str] = "modulo"
    modulus: Size
    length: Size

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return (self.length,)

    @property
    def lower_extent(self) -> Size:
        return self.modulus

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        return (upper[0] % resolve(self.modulus, symbols),)


class Offset(Transform, frozen=True):
    """l = u + offset, for a user dimension of `length`."""

    name: ClassVar[str] = "offset"
    length: Size
    offset: Size

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return (self.length,)

    @property
    def lower_extent(self) -> Size:
        return combine(self.length, "+", self.offset)

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        return (plus(upper[0], resolve(self.offset, symbols)),)

    def upper(self, lower: Index, symbols: Sequence[Any] = ()) -> Index:
        return (lower[0] - resolve(self.offset, symbols),)


class Indexing(Transform, frozen=True):
    """l = table[u], for a user dimension of `length`: rows gathered through a table.

    `table` is a run-time value that is bound to anything with `table[u]`: a list, a NumPy array, a loader of IR values.
    """

    name: ClassVar[str] = "indexing"
    length: Size
    table: Symbol

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return (self.length,)

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        return (resolve(self.table, symbols)[upper[0]],)


TRANSFORMS: dict[str, type[Transform]] = {
    kind.name: kind
    for kind in (
        PassThrough, Pad, LeftPad, RightPad, Slice, Freeze, Insert, Replicate,
        Embed, Merge, Unmerge, Xor, Reverse, Modulo, Offset, Indexing,
    )
}  # fmt: skip
"""Every transform by the word that stands for it in printed descriptors."""
