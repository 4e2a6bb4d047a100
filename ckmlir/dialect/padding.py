"""Transforms that add indices which storage does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ckmlir.dialect.symbols import Size, combine, resolve, round_up, total
from ckmlir.dialect.transform_base import Index, OneDimension, plus


class Padding(OneDimension, frozen=True):
    """Indices beside the `length` elements that storage does not have."""

    @property
    def always_valid(self) -> bool:
        return False


class Pad(Padding, frozen=True):
    """`left` invalid indices before and `right` after the `length` elements."""

    name: ClassVar[str] = "pad"
    left: Size
    right: Size

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return (total((self.left, self.length, self.right)),)

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        return (upper[0] - resolve(self.left, symbols),)

    def valid(self, upper: Index, symbols: Sequence[Any] = ()) -> Any:
        end = resolve(combine(self.left, "+", self.length), symbols)
        return (upper[0] >= resolve(self.left, symbols)) & (upper[0] < end)

    def upper(self, lower: Index, symbols: Sequence[Any] = ()) -> Index:
        return (plus(lower[0], resolve(self.left, symbols)),)


class LeftPad(Padding, frozen=True):
    """`pad` invalid indices before the `length` elements."""

    name: ClassVar[str] = "left_pad"
    pad: Size

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return (combine(self.length, "+", self.pad),)

    def lower(self, upper: Index, symbols: Sequence[Any] = ()) -> Index:
        return (upper[0] - resolve(self.pad, symbols),)

    def valid(self, upper: Index, symbols: Sequence[Any] = ()) -> Any:
        return upper[0] >= resolve(self.pad, symbols)

    def upper(self, lower: Index, symbols: Sequence[Any] = ()) -> Index:
        return (plus(lower[0], resolve(self.pad, symbols)),)


class RightPad(Padding, frozen=True):
    """`pad` invalid indices after the `length` elements, then as many as make the length a multiple of `multiple`."""

    name: ClassVar[str] = "right_pad"
    pad: Size = 0
    multiple: int = 1

    def __post_init__(self) -> None:
        if self.multiple < 1:
            raise ValueError(f"right_pad to a multiple of {self.multiple}: the multiple is at least 1")

    @property
    def upper_lengths(self) -> tuple[Size, ...]:
        return (round_up(combine(self.length, "+", self.pad), self.multiple),)

    def valid(self, upper: Index, symbols: Sequence[Any] = ()) -> Any:
        return upper[0] < resolve(self.length, symbols)
