"""How findings of compiled checks learn where something happened."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class Place(Struct, frozen=True):
    """What the runner of a launch knows about places.

    Attributes:
        locate: From the address of a record to (kernel, offset, text, source) of its instruction.
        record_address: From a record number to the address of the record.
        coordinates: From a workgroup's number to (x, y, z).
        wave_of_turn: The wave that runs as the n-th of a round, by the round's number.
        span: Turns that each workgroup has for itself, where they take turns; 0 where one ends before the next begins.
    """

    locate: Callable[[int], tuple[str, int, str, tuple[str, int] | None]]
    record_address: Callable[[int], int]
    coordinates: Callable[[int], tuple[int, int, int]]
    wave_of_turn: Callable[[int, int], int]
    span: int

    def is_of_round(self, turn: int, start: int) -> bool:
        """Whether a turn is one of the round that began with another."""
        return turn >= start and (not self.span or turn // self.span == start // self.span)

    def text_of(self, number: int) -> str:
        """The instruction of a record, with its offset and source."""
        _, address, text, source = self.locate(self.record_address(number))
        return f"{text} at 0x{address:x}" + (f" from {source[0]}:{source[1]}" if source else "")
