"""Who holds which element of a tile, drawn from its distribution."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ckmlir.dialect.distribution import Distribution
from ckmlir.errors import CkmlirError
from ckmlir.tools.grid_drawing import Cell, Grid

Holder = tuple[int, int, int]
"""Wave, lane, register."""


def holders_of(distribution: Distribution) -> dict[tuple[int, ...], list[Holder]]:
    """Who holds each element, by its coordinates; several where it is replicated."""
    coordinates = distribution.coordinates()
    found: dict[tuple[int, ...], list[Holder]] = defaultdict(list)
    for wave, lane, register in np.ndindex(coordinates.shape[1:]):
        found[tuple(int(one) for one in coordinates[:, wave, lane, register])].append((wave, lane, register))
    return found


def draw_distribution(distribution: Distribution, rows: range | None, columns: range | None, title: str) -> Grid:
    """The tile, rows downwards; `rows` and `columns` choose a part. Neighbours of one lane are one cell.

    Raises:
        CkmlirError: the tile has more than two dimensions, or the part lies outside of it.
    """
    lengths = (1,) * (2 - distribution.rank) + distribution.lengths
    if len(lengths) > 2:
        raise CkmlirError(f"{distribution}: a tile of {len(lengths)} dimensions; one or two can be drawn")
    shown = [_part(part, length, name) for part, length, name in zip((rows, columns), lengths, ("rows", "columns"))]
    holders = {((0,) * (2 - len(at)) + at): one for at, one in holders_of(distribution).items()}
    group = _group(holders, shown[0], shown[1])
    starts = range(shown[1].start, shown[1].stop, group)
    cells = {}
    for row, y in enumerate(shown[0]):
        for column, x in enumerate(starts):
            here = [holders[y, x + place] for place in range(group)]
            wave, lane, _ = here[0][0]
            about = f"row {y}, column {x}: " + ", ".join(f"wave {w} lane {a} register {r}" for w, a, r in here[0])
            cells[row, column] = Cell(_label(here, distribution), wave * 64 + lane, about)
    labels = tuple(str(x) if group == 1 else f"{x}-{x + group - 1}" for x in starts)
    copies = distribution.replication
    notes = (
        f"{'x'.join(map(str, distribution.lengths))} elements over {distribution.waves} waves of {distribution.lanes} "
        f"lanes, {distribution.registers} each" + (f"; every element is held {copies} times" if copies > 1 else ""),
        "w: wave, l: lane, r: its elements by number",
    )
    return Grid(title, "row", tuple(map(str, shown[0])), labels, cells, notes)


def _part(part: range | None, length: int, name: str) -> range:
    if part is not None and not (0 <= part.start < part.stop <= length):
        raise CkmlirError(f"--{name} {part.start}-{part.stop - 1}: the tile has {name} 0 to {length - 1}")
    return part or range(length)


def _group(holders: dict[tuple[int, ...], list[Holder]], rows: range, columns: range) -> int:
    """The widest power of two of neighbouring columns that are one lane's successive elements in every row."""

    def fits(width: int) -> bool:
        return all(
            [(w, a, r + place) for w, a, r in holders[y, x]] == holders[y, x + place]
            for y in rows for x in range(columns.start, columns.stop, width) for place in range(width)
        )  # fmt: skip

    width = 1
    while len(columns) % (2 * width) == 0 and fits(2 * width):
        width *= 2
    return width


def _label(here: Sequence[list[Holder]], distribution: Distribution) -> str:
    wave, lane, register = here[0][0]
    last = here[-1][0][2]
    span = f"r{register}" if last == register else f"r{register}-{last}"
    return (f"w{wave} " if distribution.waves > 1 else "") + f"l{lane} {span}" + "+" * (len(here[0]) > 1)
