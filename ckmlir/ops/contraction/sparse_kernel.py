"""A sparse A in tile code: sums of instructions that are told which elements of A there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.mma_index import PLACES, index_over
from ckmlir.lang import Pointer, Scalar, Tile, View, load, mma, view
from ckmlir.ops.contraction.accumulation_kernel import Sums
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.sparsity import PIECE, PIECES, index_bytes
from ckmlir.ops.contraction.work_kernel import Work


class Indexed(Sums):
    """The sums of sparse matrix instructions; the index goes from memory to the lanes that have the elements."""

    def __init__(
        self, product: Mma, waves: tuple[int, int], block: tuple[int, int, int], index: View, row: Scalar
    ) -> None:
        """The index of A, and where the block begins in it."""
        super().__init__(product, waves, block, 1)
        self.index, self.row = index, row

    def load(self, k: Scalar) -> Sequence[Any]:
        """See `Accumulation`."""
        rows, depth = self.block[0], self.block[2]
        whole = (rows, depth // PLACES)
        seen = self.index.pad(*whole).window(whole, (self.row, k // PLACES))
        return [load(seen, index_over(self.product, self.waves, rows, depth))]

    def add(self, sums: Sequence[Tile], rows: Tile, columns: Sequence[Tile], scales: Sequence[Any]) -> list[Tile]:
        """See `Accumulation`."""
        (index,) = scales
        return [mma(self.product, rows, one, sum_, index=index) for one, sum_ in zip(columns, sums, strict=True)]


def index_view(spec: ContractionSpec, work: Work) -> View:
    """The index of a workgroup's product."""
    length, pitch, rows = index_bytes(work.sizes["k"]), work.distances.ld_index, work.sizes["m"]
    if spec.index_order == PIECES:
        return view_of_pieces(work.arrays["index"], rows, length)
    known = length.multiple_of(spec.sparse), pitch.multiple_of(spec.sparse)
    return view(work.arrays["index"], (rows, known[0]), (known[1], 1))


def view_of_pieces(index: Pointer, rows: Scalar, length: Scalar) -> View:
    """An index in pieces as a matrix (rows, whole pieces) of bytes."""
    pieces = (length + (PIECE - 1)) // PIECE
    seen = view(index, (pieces, rows, PIECE), (rows * PIECE, PIECE, 1))
    return seen.permute(1, 0, 2).merge(1, 2)
