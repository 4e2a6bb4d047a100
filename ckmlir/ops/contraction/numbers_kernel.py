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
        count = (self.size + (self.spec.rows - 1)) // self.spec.rows
        pitch = self.pitch.multiple_of(self.spec.align)
        if self.spec.major in TILINGS:
            return tiled_view(self.pointer, count, self.groups, pitch, TILINGS[self.spec.major])
        by_row, by_group = (pitch, 1) if self.spec.major == "k" else (1, pitch)
        if self.spec.rows == 1:
            return view(self.pointer, (count, self.groups), (by_row, by_group))
        lengths = (count, self.spec.rows, self.groups)
        return view(self.pointer, lengths, (by_row, 0, by_group)).merge(0, 1)

    def each_row(self) -> View:
        """The numbers of every row, where they are of all of K."""
        return view(self.pointer, (self.size,), (1 if self.spec.rows else 0,))


class ZeroPoints(Struct, frozen=True):
    """Those of the integers of some rows: what integers stand for is less by them."""

    numbers: Numbers
    row: Scalar
    rows: int
    depth: int

    def load(self, k: Scalar) -> Tile:
        """Of each row; or of each row and group of a step, where that has several."""
        group = self.numbers.spec.group
        if not group:
            return load(self.numbers.each_row().pad(self.rows).window((self.rows,), (self.row,)))
        if self._groups == 1:
            seen = self.numbers.matrix().freeze(1, k // group).pad(self.rows)
            return load(seen.window((self.rows,), (self.row,)))
        seen = self.numbers.matrix().pad(self.rows, self._groups)
        return load(seen.window((self.rows, self._groups), (self.row, k // group)))

    def less(self, octets: Tile, name: str, element: str, loaded: Tile, axis: int) -> Tile:
        """The integers in bytes, which they share along an axis, less their zero points, as another type."""
        if self._groups == 1:
            zeros = stretch(loaded, 1, self.depth)
        else:
            zeros = join_axes(stretch(loaded, 2, self.numbers.spec.group), 1)
        return dequantize(octets, name, element, zeros=zeros, axis=axis)

    @property
    def _groups(self) -> int:
        return max(self.depth // self.numbers.spec.group, 1) if self.numbers.spec.group else 1
