"""Scales in tile code: of groups along K, applied to each group's partial sums or by the matrix instruction, and of all
of K, applied at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.mma_scales import scales_over
from ckmlir.lang import Scalar, Tile, View, cast, insert_tile, join_axes, mma, slice_tile, stretch, to_lds, view
from ckmlir.ops.contraction.accumulation_kernel import Accumulation, Sums
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.numbers_kernel import Numbers
from ckmlir.ops.contraction.rows_kernel import Following, Listed
from ckmlir.ops.contraction.rows_kernel import Rows as RowsOf
from ckmlir.ops.contraction.scaling import ScaleSpec
from ckmlir.ops.contraction.sparse_kernel import Indexed, index_view
from ckmlir.ops.contraction.work_kernel import Work
from ckmlir.targets.mfma import SCALED_BLOCK


@dataclass(frozen=True)
class Place(Numbers):
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

    def load(self, k: Scalar, depth: int) -> Any:
        """Those of the step at k, from memory."""

    def hold(self, loaded: Any) -> Any:
        """The same, put into LDS where they go through it."""

    def read(self, held: Any) -> Any:
        """The same, in registers."""

    def of_piece(self, scales: Any, piece: int) -> Any:
        """Those of the elements so far behind the step's first."""

    def fold(self, factor: Any, scales: Any) -> Any:
        """A factor of fewer numbers than the sums, and these scales where they are no more."""

    def apply(self, partial: Tile, scales: Any) -> Tile:
        """Partial sums times what `fold` has left out."""


class Absent:
    """No scales of groups."""

    def load(self, k: Scalar, depth: int) -> Any:
        """See `Source`."""
        return 1.0

    def hold(self, loaded: Any) -> Any:
        """See `Source`."""
        return loaded

    def read(self, held: Any) -> Any:
        """See `Source`."""
        return held

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

    def load(self, k: Scalar, depth: int) -> Any:
        """See `Source`."""
        return self.place.of_groups(k, depth // self.place.spec.group, self.place.across())

    def of_piece(self, scales: Any, piece: int) -> Any:
        """See `Source`."""
        return _of_group(scales, piece // self.place.spec.group)

    def fold(self, factor: Any, scales: Any) -> Any:
        """See `Source`."""
        return cast(scales, "f32") * factor


class Columns(Absent):
    """A scale for each column of B: a lane has sums of many, so that all waves share them through LDS."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def load(self, k: Scalar, depth: int) -> Any:
        """See `Source`."""
        dealt_out = coalesced((self.place.length,), self.place.lies.waves, 0, 1)
        return self.place.of_groups(k, depth // self.place.spec.group, dealt_out)

    def hold(self, loaded: Any) -> Any:
        """See `Source`."""
        groups = (_of_group(loaded, number) for number in range(loaded.lengths[1]))
        return [to_lds(cast(one, "f32"), self.place.spec.name) for one in groups]

    def read(self, held: Any) -> Any:
        """See `Source`."""
        return [one.read(self.place.across()) for one in held]

    def of_piece(self, scales: Any, piece: int) -> Any:
        """See `Source`."""
        return scales[piece // self.place.spec.group]

    def apply(self, partial: Tile, scales: Any) -> Tile:
        """See `Source`."""
        found: Tile = partial * self.place.stretched(scales, partial)
        return found


def _of_group(scales: Tile, number: int) -> Tile:
    """Of the scales of rows and groups those of a group."""
    return join_axes(slice_tile(scales, 1, number, 1), 0)


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
    ) -> None:
        """`group`: elements along K of a partial sum; scales of A, and of each matrix B; `halves`: whether there are
        partial sums of half the columns at a time, if there are so many.
        """
        super().__init__(product, waves, block, len(b))
        self.group, self.sources = group, [a, *b]
        self.columns = block[1] // 2 if halves and 2 * waves[1] * product.n <= block[1] else block[1]
        self.pieces = range(0, block[2], group)

    def start(self) -> list[Tile]:
        """See `Accumulation`."""
        return [self.zeros("f32") for _ in range(self.count)]

    def load(self, k: Scalar) -> Sequence[Any]:
        """See `Accumulation`: by operand."""
        return [source.load(k, self.block[2]) for source in self.sources]

    def hold(self, loaded: Sequence[Any]) -> Sequence[Any]:
        """See `Accumulation`."""
        return [source.hold(own) for source, own in zip(self.sources, loaded, strict=True)]

    def read(self, held: Sequence[Any]) -> Sequence[Any]:
        """See `Accumulation`."""
        return [source.read(own) for source, own in zip(self.sources, held, strict=True)]

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
    places = _places(spec, product, work, lambda one: one.group > 0)
    if not places:
        return Sums(product, spec.waves, spec.block, count)
    if spec.scaled_by_instruction:
        first, *others = (places[operand] for operand in spec.tensors)
        return BlockScales(product, spec.waves, spec.block, first, others)
    a, *b = (_source(places.get(operand)) for operand in spec.tensors)
    # Scales of several groups that come as vectors, or of columns from LDS, are there at once: registers have room for
    # half the partial sums.
    vectors = all(one.spec.align * one.spec.group >= spec.block[2] for one in places.values())
    halves = spec.piece < spec.block[2] and (vectors or any(isinstance(one, Columns) for one in b))
    return GroupSums(product, spec.waves, spec.block, spec.piece, a, b, halves=halves)


def scaled_totals(spec: ContractionSpec, product: Mma, work: Work, totals: Sequence[Tile]) -> list[Tile]:
    """The sums times the scales that are of all of K."""
    places = _places(spec, product, work, lambda one: one.group == 0)
    if not places:
        return list(totals)
    found = []
    for matrix, total in zip(spec.tensors[1:], totals, strict=True):
        scaled = cast(total, "f32")
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


def _source(place: Place | None) -> Source:
    if place is None:
        return Absent()
    if place.spec.is_of_columns(place.length):
        return Columns(place)
    return Rows(place) if place.spec.rows % place.length else Uniform(place)


def _places(spec: ContractionSpec, product: Mma, work: Work, chosen: Any) -> Mapping[str, Place]:
    """By operand, the scales that are chosen."""
    lies, found = product.c_over(spec.waves, *spec.block[:2]), {}
    for one in map(ScaleSpec.parse, spec.scaling):
        if chosen(one):
            along = 0 if one.operand == "a" else 1
            origin, size = ((work.row, work.sizes["m"]), (work.column, work.sizes["n"]))[along]
            pointer, pitch = work.arrays[one.name], getattr(work.distances, f"ld_{one.name}")
            told, length = work.listed.get(one.name), spec.block[along]
            index = None if told is None else told.index(origin, length)
            count = size if told is None else told.count
            found[one.operand] = Place(
                one, pointer, pitch, count, work.sizes["k"], origin, length, along, lies, index
            )
    return found
