"""Arrays of a number for each row and group along K of an operand: scales, and zero points, as tile code sees them."""

from __future__ import annotations

from msgspec import Struct

from ckmlir.lang import Pointer, Scalar, Tile, View, dequantize, join_axes, load, stretch, view
from ckmlir.ops.contraction.scale_tiles import TILINGS
from ckmlir.ops.contraction.scale_tiles_kernel import tiled_view
from ckmlir.ops.contraction.scaling import ScaleSpec


class Numbers(Struct, frozen=True):
    """Such an array of a product.

    Attributes:
        pointer, pitch: the array, and elements from one of its rows to the next.
        size, k: rows of A (columns of B) and length of the sums.
    """

    spec: ScaleSpec
    pointer: Pointer
    pitch: Scalar
    size: Scalar
    k: Scalar

    @property
    def groups(self) -> Scalar:
        """Groups along K, the last of which may be shorter."""
        found: Scalar = (self.k + (self.spec.group - 1)) // self.spec.group
        return found.multiple_of(self.spec.align) if self.spec.major == "k" else found

    def matrix(self) -> View:
        """The scales of every row and group."""
        if self.spec.major in TILINGS:
            pitch = self.pitch.multiple_of(self.spec.align)
            return tiled_view(self.pointer, self._count, self.groups, pitch, TILINGS[self.spec.major])
        if self.spec.rows == 1:
            return view(self.pointer, (self._count, self.groups), self._strides)
        return self._blocks().merge(0, 1)

    def shared(self, row: Scalar) -> View:
        """Those of every group for the rows that have the same ones as a row, one of which is the first."""
        return self._blocks().freeze(0, row // self.spec.rows)

    def each_row(self) -> View:
        """The numbers of every row, where they are of all of K."""
        return view(self.pointer, (self.size,), (1 if self.spec.rows else 0,))

    @property
    def _count(self) -> Scalar:
        count: Scalar = (self.size + (self.spec.rows - 1)) // self.spec.rows
        return count

    @property
    def _strides(self) -> tuple[Scalar | int, Scalar | int]:
        """From one of its rows to the next, and from group to group."""
        pitch = self.pitch.multiple_of(self.spec.align)
        return (pitch, 1) if self.spec.major == "k" else (1, pitch)

    def _blocks(self) -> View:
        """Those of every block of rows that share them, row and group."""
        by_row, by_group = self._strides
        return view(self.pointer, (self._count, self.spec.rows, self.groups), (by_row, 0, by_group))


class OfElements(Struct, frozen=True):
    """What elements of 4 bits of some rows are to others: zero points, by which they are more, or scales.

    Attributes:
        role: which of both, as `dequantize` calls them.
    """

    role: str
    numbers: Numbers
    row: Scalar
    rows: int
    depth: int

    def load(self, k: Scalar) -> Tile:
        """Of each row; or of each row and group of a step, where that has several."""
        numbers, group = self.numbers, self.numbers.spec.group
        if not group:
            return load(numbers.each_row().pad(self.rows).window((self.rows,), (self.row,)))
        # Rows that share them have one address: seen as rows of all, each would be divided, and have bounds of its own.
        share = numbers.spec.rows % self.rows == 0
        seen, first = (numbers.shared(self.row), 0) if share else (numbers.matrix(), self.row)
        if self._groups == 1:
            return load(seen.freeze(1, k // group).pad(self.rows).window((self.rows,), (first,)))
        return load(seen.pad(self.rows, self._groups).window((self.rows, self._groups), (first, k // group)))

    def applied(self, octets: Tile, name: str, element: str, loaded: Tile, axis: int) -> Tile:
        """The elements in bytes, which they share along an axis, less zero points or times scales, as another type."""
        if self._groups == 1:
            numbers = stretch(loaded, 1, self.depth)
        else:
            numbers = join_axes(stretch(loaded, 2, self.numbers.spec.group), 1)
        return dequantize(octets, name, element, axis=axis, **{self.role: numbers})

    @property
    def _groups(self) -> int:
        return max(self.depth // self.numbers.spec.group, 1) if self.numbers.spec.group else 1
