"""Keys for the distances of batches, heads and rows of an array of attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from ckmlir.ops.request import MAXIMUM_SIZE, Lengths

ROW_MULTIPLE = 16
"""Elements of which all distances are multiples for every type."""


@dataclass(frozen=True)
class HeadStrides(Lengths):
    """Elements from one batch, head and row of `array` to the next; channels follow each other."""

    array: str = "q"

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        """Heads before rows or behind them, rows with gaps or without."""

        def size(name: str, other: str) -> int:
            found = request[name] or request[other]
            assert isinstance(found, int)
            return max(found, 1)

        heads = size("h", "h") if self.array in "qo" else size("hk", "h")
        rows = size("sq", "sq") if self.array in "qo" else size("sk", "sq")
        channels = size("d", "d") if self.array in "qk" else size("dv", "d")
        gap = ROW_MULTIPLE * random.choice((0, 0, 1, 5))
        unit = -(-channels // ROW_MULTIPLE) * ROW_MULTIPLE + gap
        if random.random() < 0.5:
            head, row = unit * rows, unit
        else:
            head, row = unit, unit * heads
        return tuple(min(stride, MAXIMUM_SIZE) for stride in (unit * rows * heads + gap, head, row))
