"""What every coordinate transform answers, and the arithmetic that they share; the transforms are in `transforms`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec import Struct

from ckmlir.dialect.symbols import Size, resolve
from ckmlir.errors import CkmlirError
from ckmlir.records import Abstract

Index = tuple[Any, ...]
"""A multi-index: ints, NumPy arrays, IR values or progressions."""


class NotInvertible(CkmlirError, ValueError):
    """The transform has no inverse, so a storage index does not say which user index it belongs to."""


def times(value: Any, size: Any) -> Any:
    """`value * size` without the multiplication by a constant 1."""
    return value if isinstance(size, int) and size == 1 else value * size


def plus(value: Any, size: Any) -> Any:
    """`value + size` without the addition of a constant 0."""
    return value if isinstance(size, int) and size == 0 else value + size


def reverse(value: Any, length: Any) -> Any:
    """`length - 1 - value`; of what has a way of its own to say that, as address expressions have, in that way."""
    mirrored = getattr(value, "mirrored", None)
    return length - 1 - value if mirrored is None else mirrored(length)


class Transform(Struct, frozen=True, metaclass=Abstract):
    """A coordinate transform; the concrete ones follow.

    `name` is the word in printed descriptors, `lower_count` and `upper_count` the numbers of dimensions on each side.
    """

    name: ClassVar[str]

    @property
    def lower_count(self) -> int:
        """Number of storage-side dimensions."""
        return 1

    @property
    def upper_count(self) -> int:
        """Number of user-side dimensions."""
        return len(self.upper_lengths)

    @property
    @abstractmethod
    def upper_lengths(self) -> tuple[Size, ...]:
        """Lengths of the user-side dimensions."""

    @property
    def lower_lengths(self) -> tuple[Size | None, ...]:
        """Lengths that the storage-side dimensions must have; None where any length will do."""
        return (None,) * self.lower_count

    @property
    def lower_extent(self) -> Size:
        """One more than the largest storage index that valid user indices reach (for one storage dimension)."""
        (length,) = self.lower_lengths
        if length is None:
            raise ValueError(f"{self.name} does not say how far it reaches into storage")
        return length

    @abstractmethod
    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        """The storage index of user index `upper`, with the run-time values `symbols`."""

    def valid(self, upper: Index, symbols: Sequence[Any] = ()) -> Any:
        """Whether `upper` is an element of storage; None when every index within the upper lengths is."""
        return None

    @property
    def always_valid(self) -> bool:
        """Whether every index within the upper lengths is an element of storage."""
        return True

    def upper(self, lower: Index, symbols: Sequence[Any] = ()) -> Index:
        """The user index of storage index `lower`.

        Raises:
            NotInvertible: the transform has no inverse.
        """
        raise NotInvertible(f"{self.name} has no inverse: many user indices share a storage index")


class OneDimension(Transform, frozen=True):
    """A transform of one storage dimension of `length`, which by itself only renames the index."""

    length: Size

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return (self.length,)

    @property
    def lower_lengths(self) -> tuple[Size | None, ...]:
        return (self.length,)

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        return upper

    def upper(self, lower: Index, symbols: Sequence[Any] = ()) -> Index:
        return lower


def split(value: Any, lengths: Sequence[Size], symbols: Sequence[Any]) -> Index:
    """The digits of `value` in the mixed radix `lengths`, most significant first; the first digit is not reduced."""
    digits: list[Any] = []
    for length in reversed(lengths[1:]):
        by = resolve(length, symbols)
        digits.append(value % by)
        value = value // by
    return (value, *reversed(digits)) if lengths else ()


def join(digits: Index, lengths: Sequence[Size], symbols: Sequence[Any]) -> Any:
    """The number with `digits` in the mixed radix `lengths`, most significant first."""
    value: Any = 0
    for digit, length in zip(digits, lengths, strict=True):
        value = digit if isinstance(value, int) and value == 0 else times(value, resolve(length, symbols)) + digit
    return value
