"""Where scales of groups along K come from in tile code, and how they get to the sums: one for the block, one for each
row of A or column of B from memory, or those of A for many steps from LDS.
"""

from __future__ import annotations

from typing import Any, Protocol

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.lane_rows import dealt_out
from ckmlir.lang import (
    LdsTensor,
    Scalar,
    Tile,
    View,
    cast,
    full,
    join_axes,
    permute_axes,
    redistribute,
    slice_tile,
    stretch,
    to_lds,
)  # fmt: skip
from ckmlir.ops.contraction.numbers_kernel import Numbers
from ckmlir.ops.contraction.rows_kernel import Following, Listed
from ckmlir.ops.contraction.rows_kernel import Rows as RowsOf


class Place(Numbers, frozen=True):
    """Scales of an operand of a workgroup's block.

    Attributes:
        origin, length: rows of the block.
        along: the axis of the block of C that they lie along.
        lies: how the accumulators lie, and over how many waves.
        index: which rows they are where a list tells; None where they follow each other.
    """

    origin: Scalar
    length: int
    along: int
    lies: Distribution
    index: Tile | None = None

    def rows(self, seen: View) -> RowsOf:
        """The block's rows of a view of all."""
        if self.index is None:
            return Following(seen, self.origin, self.length)
        return Listed(seen, self.index)

    def group(self, k: Scalar, number: int) -> Scalar:
        """A group of the step at k; the last one for what lies beyond it, where A and B are zero."""
        found: Scalar = k // self.spec.group + number
        return found.minimum(self.groups - 1) if number else found

    def of_groups(self, k: Scalar, count: int, lies: Distribution) -> Tile:
        """The scales of the block's rows and of the step's groups, which follow each other in memory, in as few loads
        as their alignment allows; `lies`: rows. Beyond the last group there are zeros, as in A and B.
        """
        first = (k // self.spec.group).multiple_of(count)
        return self.rows(self.matrix()).load((first,), (count,), lies.expand(1, count))

    def across(self) -> Distribution:
        """How a number for each row lies, so that it meets the accumulators."""
        return self.lies.reduce(1 - self.along)

    def stretched(self, numbers: Tile, like: Tile) -> Tile:
        """A number for each row, as a block."""
        return stretch(numbers, 1 - self.along, like.lengths[1 - self.along])


class Source(Protocol):
    """Scales of groups of an operand: brought to a step, and applied to its partial sums."""

    def keep(self, k: Scalar) -> None:
        """Put those of the steps from k on into LDS that `Accumulation.stretch` says, if they are kept there."""

    def load(self, k: Scalar, depth: int) -> Any:
        """Those of the step at k, from memory."""

    def read(self, loaded: Any) -> Any:
        """The same, in registers."""

    def of_piece(self, scales: Any, piece: int) -> Any:
        """Those of the elements so far behind the step's first."""

    def fold(self, factor: Any, scales: Any) -> Any:
        """A factor of fewer numbers than the sums, and these scales where they are no more."""

    def apply(self, partial: Tile, scales: Any) -> Tile:
        """Partial sums times what `fold` has left out."""


class Absent:
    """No scales of groups."""

    def keep(self, k: Scalar) -> None:
        """See `Source`."""

    def load(self, k: Scalar, depth: int) -> Any:
        """See `Source`."""
        return 1.0

    def read(self, loaded: Any) -> Any:
        """See `Source`."""
        return loaded

    def of_piece(self, scales: Any, piece: int) -> Any:
        """See `Source`."""
        return scales

    def fold(self, factor: Any, scales: Any) -> Any:
        """See `Source`."""
        return factor

    def apply(self, partial: Tile, scales: Any) -> Tile:
        """See `Source`."""
        return partial


class Uniform(Absent):
    """One scale for all rows of the block."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def load(self, k: Scalar, depth: int) -> Any:
        """See `Source`."""
        place, found = self.place, []
        row = place.origin // place.spec.rows
        for number in range(depth // place.spec.group):
            group = place.group(k, number)
            index = row * place.pitch + group if place.spec.major == "k" else group * place.pitch + row
            found.append(place.pointer.scalar(index))
        return found

    def of_piece(self, scales: Any, piece: int) -> Any:
        """See `Source`."""
        return scales[piece // self.place.spec.group]

    def fold(self, factor: Any, scales: Any) -> Any:
        """See `Source`."""
        return factor * scales


class Rows(Absent):
    """A scale for each row of A, from memory to the lanes that have the row's sums."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def lies(self) -> Distribution:
        """How those of a group lie when they are loaded."""
        return self.place.across()

    def load(self, k: Scalar, depth: int) -> Any:
        """See `Source`."""
        return self.place.of_groups(k, depth // self.place.spec.group, self.lies())

    def of_piece(self, scales: Any, piece: int) -> Any:
        """See `Source`."""
        return _of_group(scales, piece // self.place.spec.group)

    def fold(self, factor: Any, scales: Any) -> Any:
        """See `Source`."""
        return cast(scales, "f32") * factor


class KeptRows(Rows):
    """The same of many steps, in LDS since before the first of them: where groups of a row follow each other, a step's
    own are 4 bytes of a cache line for each row, and the lines of two workgroups are all of L1.
    """

    def __init__(self, place: Place, length: int) -> None:
        """`length`: elements along K."""
        super().__init__(place)
        self.count = length // place.spec.group
        self.there: LdsTensor | None = None

    def keep(self, k: Scalar) -> None:
        """See `Source`."""
        place, first = self.place, (k // self.place.spec.group).multiple_of(self.count)
        dealt_out = coalesced((place.length, self.count), place.lies.waves, 1, place.spec.align)
        found = place.rows(place.matrix()).load((first,), (self.count,), dealt_out)
        self.there = to_lds(permute_axes(cast(found, "f32"), 1, 0), place.spec.name)

    def load(self, k: Scalar, depth: int) -> Any:
        """See `Source`: the numbers of the groups."""
        group = self.place.spec.group
        return [k // group + number for number in range(depth // group)]

    def read(self, loaded: Any) -> Any:
        """See `Source`."""
        assert self.there is not None
        lies = self.lies().expand(0, 1)
        # A power of two: LLVM sees that each place is inside, and asks no lane.
        places = (full((1,), group & (self.count - 1), "i32") for group in loaded)
        return [join_axes(self.there.gather(place, 0, lies), 0) for place in places]

    def of_piece(self, scales: Any, piece: int) -> Any:
        """See `Source`."""
        return scales[piece // self.place.spec.group]


class Columns(Rows):
    """A scale for each column of B: a lane has sums of many, of which it loads a share and takes the others from lanes
    with sums of the same.
    """

    def lies(self) -> Distribution:
        """See `Rows`."""
        return dealt_out(self.place.across())

    def of_piece(self, scales: Any, piece: int) -> Any:
        """See `Source`."""
        return redistribute(cast(super().of_piece(scales, piece), "f32"), self.place.across())

    def fold(self, factor: Any, scales: Any) -> Any:
        """See `Source`."""
        return factor

    def apply(self, partial: Tile, scales: Any) -> Tile:
        """See `Source`."""
        found: Tile = partial * self.place.stretched(scales, partial)
        return found


class KeptColumns(Columns, KeptRows):
    """Scales of columns in LDS as `KeptRows` has those of rows; a lane reads its share, and has the others as it has
    those that are loaded.
    """


def _of_group(scales: Tile, number: int) -> Tile:
    """Of the scales of rows and groups those of a group."""
    return join_axes(slice_tile(scales, 1, number, 1), 0)


def source_of(place: Place | None, kept: int) -> Source:
    """Of an operand's scales, if it has any; `kept`: elements along K of which LDS keeps those of rows or columns, 0 if
    it keeps none."""
    if place is None:
        return Absent()
    if place.spec.is_of_columns(place.length):
        return KeptColumns(place, kept) if kept else Columns(place)
    if not place.spec.rows % place.length:
        return Uniform(place)
    return KeptRows(place, kept) if kept else Rows(place)
