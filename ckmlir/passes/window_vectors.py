"""How long the vectors of a window may be: what its view allows, and what divides the place where it starts."""

from collections.abc import Callable

from ckmlir.dialect.divisors import Divisors
from ckmlir.dialect.types import WindowType, describe
from ckmlir.dialect.views import view_and_origins
from ckmlir.mlir import ir
from ckmlir.passes.walk import operations

Lengths = Callable[[ir.Value, int, int], int]
"""The longest vector of a window along a dimension, at most so many elements."""


def vector_lengths(function: ir.Operation) -> Lengths:
    """For the windows of a function, as it is now: passes that take loops apart ask for it before.

    A view promises that vectors at multiples of their length are aligned, contiguous, and in a padding as a whole or
    not at all. An access counts from the window's origin, which therefore has to be such a multiple too.
    """
    divisors = Divisors()
    starts: dict[ir.Value, list[int]] = {}
    for op in operations(function):
        if op.name in ("ck.make_window", "ck.move_window"):
            window = op.results[0]
            starts[window] = [divisors.of_sum(parts) for parts in view_and_origins(window)[1]]

    def longest(window: ir.Value, dimension: int, maximum: int) -> int:
        described = describe(window.type)
        assert isinstance(described, WindowType)
        length = described.descriptor.vector_length(dimension, maximum)
        while starts[window][dimension] % length:
            length //= 2
        return length

    return longest
