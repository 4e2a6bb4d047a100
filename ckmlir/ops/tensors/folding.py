"""An index space with as few dimensions as its arrays allow.

Dimensions of length 1 vanish, neighbours that every array walks through as through one are joined, and the others
are ordered by how far apart their neighbours lie in the first array: so its fastest dimension comes last.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ckmlir.ops.request import MAXIMUM_SIZE


class Folded(Struct, frozen=True):
    """A folded index space.

    Attributes:
        lengths: of its dimensions, at least one.
        strides: for every array, the distance of neighbours along each dimension in elements; 0 where it repeats.
        groups: for every dimension, the number of its group: only dimensions of one group were joined.
    """

    lengths: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    groups: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        return 0 in self.lengths


def fold(lengths: Sequence[int], strides: Sequence[Sequence[int]], groups: Sequence[int] | None = None) -> Folded:
    """Fold an index space; `strides` has a row for every array, the first of which decides the order.

    `groups` numbers the dimensions (default: all 0). Groups keep their order, and only dimensions of one are joined.
    """
    group = list(groups or [0] * len(lengths))
    kept = [dim for dim, length in enumerate(lengths) if length != 1]
    kept.sort(key=lambda dim: (group[dim], *(-row[dim] for row in strides[:1]), dim))
    joined: list[list[int]] = []  # length, group, then a stride for every array
    for dim in kept:
        new = [lengths[dim], group[dim], *(row[dim] for row in strides)]
        if joined and _follows(joined[-1], new):
            joined[-1] = [joined[-1][0] * new[0], *new[1:]]
        else:
            joined.append(new)
    rows = joined or [[1, group[0] if group else 0, *([1] * len(strides))]]
    per_array = tuple(tuple(row[2 + array] for row in rows) for array in range(len(strides)))
    return Folded(tuple(row[0] for row in rows), per_array, tuple(row[1] for row in rows))


def _follows(outer: Sequence[int], inner: Sequence[int]) -> bool:
    """Whether every array walks through two dimensions as through one."""
    length = inner[0]
    fits = outer[0] * length <= MAXIMUM_SIZE and outer[1] == inner[1] and length > 0
    return fits and all(far == near * length for far, near in zip(outer[2:], inner[2:], strict=True))
