"""Arrays of a number for each row and group along K of an operand: scales, and zero points, as tile code sees them."""

from __future__ import annotations

from collections.abc import Mapping

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
    """What elements of 4 bits of some rows are to others: zero points, by which they are more, scales, or both.

    Attributes:
        numbers: by what `dequantize` calls them; those of both lie alike.
    """

    numbers: Mapping[str, Numbers]
    row: Scalar
    rows: int
    depth: int

    def load(self, k: Scalar) -> dict[str, Tile]:
        """Of each row; or of each row and group of a step, where that has several."""
        return {role: self._of_step(numbers, k) for role, numbers in self.numbers.items()}

    def _of_step(self, numbers: Numbers, k: Scalar) -> Tile:
        group = numbers.spec.group
        if not group:
            return load(numbers.each_row().pad(self.rows).window((self.rows,), (self.row,)))
        # Rows that share them have one address: seen as rows of all, each would be divided, and have bounds of its own.
        share = numbers.spec.rows % self.rows == 0
        seen, first = (numbers.shared(self.row), 0) if share else (numbers.matrix(), self.row)
        if self._groups == 1:
            return load(seen.freeze(1, k // group).pad(self.rows).window((self.rows,), (first,)))
        return load(seen.pad(self.rows, self._groups).window((self.rows, self._groups), (first, k // group)))

    def applied(self, octets: Tile, name: str, element: str, loaded: Mapping[str, Tile], axis: int) -> Tile:
        """The elements in bytes, which they share along an axis, less zero points and times scales, as another type."""
        beside = {role: self._stretched(one) for role, one in loaded.items()}
        return dequantize(octets, name, element, axis=axis, **beside)

    def _stretched(self, loaded: Tile) -> Tile:
        """For each element of a step."""
        if self._groups == 1:
            return stretch(loaded, 1, self.depth)
        return join_axes(stretch(loaded, 2, self._group), 1)

    @property
    def _group(self) -> int:
        return next(iter(self.numbers.values())).spec.group

    @property
    def _groups(self) -> int:
        return max(self.depth // self._group, 1) if self._group else 1
