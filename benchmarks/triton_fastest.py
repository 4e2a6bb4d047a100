"""The fastest kernel of Triton's over blocks, numbers of waves and of stages, by the model of time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

WAVES = (4, 8)
STAGES = (1, 2)


class Found(NamedTuple):
    """What the model says of Triton's fastest kernel."""

    cycles: float
    tile: tuple[int, int]
    waves: int
    stages: int


def fastest_of(
    cycles_of: Callable[[tuple[int, int], int, int], float | None], tiles: Iterable[tuple[int, int]]
) -> Found:
    """Of these tiles.

    Args:
        cycles_of: the cycles of a kernel by its tile, waves and stages; None where it does not fit.
    """
    found = []
    for tile, waves, stages in itertools.product(tiles, WAVES, STAGES):
        cycles = cycles_of(tile, waves, stages)
        if cycles is not None:
            found.append(Found(cycles, tile, waves, stages))
    return min(found)
