"""Scales in tile code: of groups along K, applied to each group's partial sums or by the matrix instruction, and of all
of K, applied at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.mma_scales import scales_over
from ckmlir.lang import Scalar, Tile, cast, insert_tile, mma, slice_tile, stretch, view
from ckmlir.ops.contraction.accumulation_kernel import Accumulation, Sums
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.operands_kernel import exponent_of
from ckmlir.ops.contraction.scale_sources_kernel import Columns, Place, Source, source_of
from ckmlir.ops.contraction.scaling import ScaleSpec
from ckmlir.ops.contraction.sparse_kernel import Indexed, index_view
from ckmlir.ops.contraction.squares_kernel import SumsWithSquares
from ckmlir.ops.contraction.work_kernel import Work
from ckmlir.targets.mfma import SCALED_BLOCK


class GroupSums(Sums):
    """Partial sums of a group along K, scaled before they are added in f32."""

    def __init__(
        self,
        product: Mma,
        waves: tuple[int, int],
        block: tuple[int, int, int],
        group: int,
        a: Source,
        b: Sequence[Source],
        *,
        halves: bool,
        stretch: int,
    ) -> None:
        """`group`: elements along K of a partial sum; scales of A, and of each matrix B; `halves`: whether there are
        partial sums of half the columns at a time, if there are so many; `stretch`: elements along K whose scales LDS
        keeps, 0 for none.
        """
        super().__init__(product, waves, block, len(b))
        self.stretch = stretch
        self.group, self.sources = group, [a, *b]
        self.columns = block[1] // 2 if halves and block[1] % (2 * waves[1] * product.n) == 0 else block[1]
        self.pieces = range(0, block[2], group)

    def keep(self, k: Scalar) -> None:
        """See `Accumulation`."""
        for source in self.sources:
            source.keep(k)

    def start(self) -> list[Tile]:
        """See `Accumulation`."""
        return [self.zeros("f32") for _ in range(self.count)]

    def load(self, k: Scalar) -> Sequence[Any]:
        """See `Accumulation`: by operand."""
        return [source.load(k, self.block[2]) for source in self.sources]

    def read(self, loaded: Sequence[Any]) -> Sequence[Any]:
        """See `Accumulation`."""
        return [source.read(own) for source, own in zip(self.sources, loaded, strict=True)]

    def add(self, sums: Sequence[Tile], rows: Tile, columns: Sequence[Tile], scales: Sequence[Any]) -> list[Tile]:
        """See `Accumulation`."""
        found, none = list(sums), self._some(self.zeros(self.product.acc_dtype), 1, 0)
        for piece in self.pieces:
            of_a, *of_b = (source.of_piece(own, piece) for source, own in zip(self.sources, scales, strict=True))
            left, factor = self._piece(rows, piece), self.sources[0].fold(1.0, of_a)
            for number, (matrix, source, own) in enumerate(zip(columns, self.sources[1:], of_b, strict=True)):
                right = self._piece(matrix, piece)
                for first in range(0, self.block[1], self.columns):
                    partial = mma(self.product, left, self._some(right, 0, first), none)
                    scaled = source.apply(cast(partial, "f32"), self._some(own, 0, first))
                    scaled = scaled * self._block(source.fold(factor, own), scaled)
                    total = self._some(found[number], 1, first) + scaled
                    found[number] = self._with(found[number], total, first)
        return found

    def _some(self, tile: Any, axis: int, first: int) -> Any:
        """Of a tile so many columns of the block as partial sums have at a time."""
        if self.columns == self.block[1] or not isinstance(tile, Tile):
            return tile
        return slice_tile(tile, axis, first, self.columns)

    def _with(self, sums: Tile, some: Tile, first: int) -> Tile:
        return some if self.columns == self.block[1] else insert_tile(sums, some, 1, first)

    def _piece(self, operand: Tile, start: int) -> Tile:
        return operand if len(self.pieces) == 1 else slice_tile(operand, 1, start, self.group)

    @staticmethod
    def _block(factor: Any, like: Tile) -> Any:
        return stretch(factor, 1, like.lengths[1]) if isinstance(factor, Tile) else factor


class BlockScales(Sums):
    """Sums of an instruction that scales its operands by powers of two, 32 elements of K each."""

    def __init__(
        self, product: Mma, waves: tuple[int, int], block: tuple[int, int, int], a: Place, b: Sequence[Place]
    ) -> None:
        """Scales of A, and of each matrix B."""
        super().__init__(product, waves, block, len(b))
        self.places = [a, *b]

    def load(self, k: Scalar) -> Sequence[Any]:
        """See `Accumulation`: by operand."""
        blocks, found = self.block[2] // SCALED_BLOCK, []
        for place in self.places:
            lies = scales_over(self.product, self.waves, place.length, self.block[2], of_b=place.along == 1)
            found.append(place.rows(place.matrix()).load((k // SCALED_BLOCK,), (blocks,), lies))
        return found

    def add(self, sums: Sequence[Tile], rows: Tile, columns: Sequence[Tile], scales: Sequence[Any]) -> list[Tile]:
        """See `Accumulation`."""
        of_a, *of_b = scales
        return [
            mma(self.product, rows, one, sum_, (of_a, own)) for one, sum_, own in zip(columns, sums, of_b, strict=True)
        ]


def accumulation_of(spec: ContractionSpec, product: Mma, work: Work) -> Accumulation:
    """What the loop of a specification carries."""
    count = spec.products
    if spec.sparse:
        return Indexed(product, spec.waves, spec.block, index_view(spec, work), work.row)
    if spec.beside:
        return SumsWithSquares(product, spec.waves, spec.block, work.sizes["n"] - spec.beside - work.column)
    places = _places(spec, product, work, lambda one: one.group > 0)
    if not places:
        return Sums(product, spec.waves, spec.block, count)
    if spec.scaled_by_instruction:
        first, *others = (places[operand] for operand in spec.tensors)
        return BlockScales(product, spec.waves, spec.block, first, others)
    kept = {one.operand: spec.kept for one in spec.keepable}
    a, *b = (source_of(places.get(operand), kept.get(operand, 0)) for operand in spec.tensors)
    # Scales of several groups that come as vectors, or of columns that lanes hand on, are there at once: registers have
    # room for half the partial sums. So they have where instructions take whole groups, for another wave.
    vectors = all(one.spec.align * one.spec.group >= spec.block[2] for one in places.values())
    several = spec.piece < spec.block[2] and (vectors or any(isinstance(one, Columns) for one in b))
    halves = several or spec.makes_room
    return GroupSums(product, spec.waves, spec.block, spec.piece, a, b, halves=halves, stretch=spec.kept)


def scaled_totals(spec: ContractionSpec, product: Mma, work: Work, totals: Sequence[Tile]) -> list[Tile]:
    """The sums times the scales that are of all of K, and as if integers had been multiplied as they are."""
    places = _places(spec, product, work, lambda one: one.group == 0)
    exponents = [exponent_of(spec, matrix) for matrix in spec.tensors[1:]]
    if not places and not any(exponents):
        return list(totals)
    found = []
    for matrix, exponent, total in zip(spec.tensors[1:], exponents, totals, strict=True):
        scaled = cast(total, "f32")
        if exponent:
            scaled = scaled * 2.0**-exponent
        for operand in (spec.tensors[0], matrix):
            if operand in places:
                scaled = scaled * _whole(places[operand], scaled)
        found.append(scaled)
    return found


def _whole(place: Place, like: Tile) -> Any:
    """The scale of all of K: one number, or one for each row."""
    if not place.spec.rows:
        return place.pointer.scalar(0)
    numbers = place.rows(view(place.pointer, (place.size,), (1,))).load(lies=place.across())
    return place.stretched(numbers, like)


def _places(spec: ContractionSpec, product: Mma, work: Work, chosen: Any) -> Mapping[str, Place]:
    """By operand, the scales of sums that are chosen."""
    lies, found = product.c_over(spec.waves, *spec.block[:2]), {}
    for one in map(ScaleSpec.parse, spec.scaling):
        if chosen(one) and not one.of_elements:
            along = 0 if one.operand == "a" else 1
            origin, size = ((work.row, work.sizes["m"]), (work.column, work.sizes["n"]))[along]
            pointer, pitch = work.arrays[one.name], getattr(work.distances, f"ld_{one.name}")
            told, length = work.listed.get(one.name), spec.block[along]
            index = None if told is None else told.index(origin, length)
            count = size if told is None else told.count
            found[one.operand] = Place(one, pointer, pitch, count, work.sizes["k"], origin, length, along, lies, index)
    return found
