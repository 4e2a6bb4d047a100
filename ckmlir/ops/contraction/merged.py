"""Tensors that a product sees as matrices: their rows are several dimensions, and so are their columns.

What folds into one stride is folded on the host; what is left is merged by views. A word says how an array lies: a
letter for each dimension of its rows and, behind a point, of its columns: `1` for the one along which elements follow
each other, `s` for a run-time stride.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, alignment
from ckmlir.ops.tensors.folding import Folded, fold
from ckmlir.ops.tensors.tiling import STRIDED, UNIT

SIDES = {"a": "mk", "b": "nk", "c": "mn"}
"""Which groups of dimensions are an array's rows and columns; D tensors lie as C."""


class Merged(Struct, frozen=True):
    """The dimensions of a contraction, folded.

    Attributes:
        lengths: of the dimensions of every group, m, n and k.
        strides: by array, those of the dimensions of its rows, then of its columns, in elements.
        arrays: the tensors as the user has them.
    """

    lengths: tuple[tuple[str, tuple[int, ...]], ...]
    strides: tuple[tuple[str, tuple[tuple[int, ...], tuple[int, ...]]], ...]
    arrays: tuple[ArraySpec, ...]

    def unit(self, name: str) -> tuple[int, int] | None:
        """The dimension (side, place) along which an array's elements follow each other: the last of its columns, or
        of its rows, if there is one."""
        for side in (1, 0):
            if dict(self.strides)[name][side][-1] == 1:
                return side, len(dict(self.strides)[name][side]) - 1
        return None

    def word(self, name: str) -> str:
        """How an array lies."""
        unit = self.unit(name)
        return ".".join(
            "".join(UNIT if unit == (side, place) else STRIDED for place in range(len(strides)))
            for side, strides in enumerate(dict(self.strides)[name])
        )

    def aligned(self, name: str, element_bytes: int, distances: Sequence[int]) -> int:
        """The widest aligned vector along the unit dimension, in elements, that never crosses its end."""
        unit, strides = self.unit(name), dict(self.strides)[name]
        if unit is None:
            return 1
        others = [stride for side in range(2) for place, stride in enumerate(strides[side]) if (side, place) != unit]
        length = dict(self.lengths)[SIDES.get(name, SIDES["c"])[unit[0]]][unit[1]]
        return alignment(element_bytes, length, *others, *distances)

    def arguments(self, names: Sequence[str]) -> tuple[int, ...]:
        """What kernels take of it: lengths of groups of several dimensions, then run-time strides, array by array."""
        lengths = [length for _, group in self.lengths if len(group) > 1 for length in group]
        strides = []
        for name in names:
            letters = self.word(name).replace(".", "")
            rows, columns = dict(self.strides)[name]
            strides += [one for letter, one in zip(letters, (*rows, *columns), strict=True) if letter == STRIDED]
        return (*lengths, *strides)


def merge(
    lengths: Mapping[str, Sequence[int]],
    strides: Mapping[str, Mapping[str, Sequence[int]]],
    arrays: Sequence[ArraySpec],
) -> tuple[Merged, Folded, tuple[str, ...]]:
    """Fold the groups of a contraction; `strides` has for every array those of each of its groups.

    Returns the matrices' dimensions, those of the batch, and the arrays in the order of the batch's rows.

    In a group the array that has neighbours there decides the order: A and B before C.
    """
    found: dict[str, Folded] = {}
    order: dict[str, list[str]] = {}
    for group in "gmnk":
        names = [name for name in strides if group in strides[name]]
        names.sort(key=lambda name: 1 not in strides[name][group])
        order[group] = names
        found[group] = fold(lengths[group], [strides[name][group] for name in names])

    def steps(name: str, side: int) -> tuple[int, ...]:
        group = SIDES.get(name, SIDES["c"])[side]
        return found[group].strides[order[group].index(name)]

    def lengths_of(name: str) -> list[tuple[int, ...]]:
        return [found[group].lengths for group in SIDES.get(name, SIDES["c"])]

    groups = tuple((group, found[group].lengths) for group in "mnk")
    lying = tuple((name, _apart(lengths_of(name), (steps(name, 0), steps(name, 1)))) for name in strides)
    return Merged(groups, lying, tuple(arrays)), found["g"], tuple(order["g"])


def _apart(
    lengths: Sequence[tuple[int, ...]], strides: tuple[tuple[int, ...], tuple[int, ...]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Strides where a side of one row (or column) has it apart from the next, which there is not: blocks reach beyond
    it, and bounds are compared by address.
    """
    def span(side: int) -> int:
        return max(length * stride for length, stride in zip(lengths[side], strides[side], strict=True))

    rows, columns = ((max(span(1 - side), 1),) if lengths[side] == (1,) else strides[side] for side in range(2))
    return rows, columns
