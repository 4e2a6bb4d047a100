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
from ckmlir.lang import Scalar, Tile, View, cast, load, mma, slice_tile, stretch, to_lds, view
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

    def group(self, k: Scalar, piece: int) -> Scalar:
        """The group of the elements `piece` behind k; the last one for what lies beyond it, where A and B are zero."""
        number: Scalar = k // self.spec.group + piece // self.spec.group
        return number.minimum(self.groups - 1) if piece >= self.spec.group else number

    def of_group(self, group: Scalar) -> View:
        """The scale of every row."""
        return self.matrix().freeze(1, group).pad(self.length)

    def across(self) -> Distribution:
        """How a number for each row lies, so that it meets the accumulators."""
        return self.lies.reduce(1 - self.along)

    def stretched(self, numbers: Tile, like: Tile) -> Tile:
        """A number for each row, as a block."""
        return stretch(numbers, 1 - self.along, like.lengths[1 - self.along])


class Source(Protocol):
    """Scales of groups of an operand: brought to a step, and applied to its partial sums."""

    def load(self, k: Scalar, piece: int) -> Any:
        """Those of the elements `piece` behind k, from memory."""

    def hold(self, loaded: Any) -> Any:
        """The same, put into LDS where they go through it."""

    def read(self, held: Any) -> Any:
        """The same, in registers."""

    def fold(self, factor: Any, scales: Any) -> Any:
        """A factor of fewer numbers than the sums, and these scales where they are no more."""

    def apply(self, partial: Tile, scales: Any) -> Tile:
        """Partial sums times what `fold` has left out."""


class Absent:
    """No scales of groups."""

    def load(self, k: Scalar, piece: int) -> Any:
        """See `Source`."""
        return 1.0

    def hold(self, loaded: Any) -> Any:
        """See `Source`."""
        return loaded

    def read(self, held: Any) -> Any:
        """See `Source`."""
        return held

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

    def load(self, k: Scalar, piece: int) -> Any:
        """See `Source`."""
        place, group = self.place, self.place.group(k, piece)
        row = place.origin // place.spec.rows
        index = row * place.pitch + group if place.spec.major == "k" else group * place.pitch + row
        return place.pointer.scalar(index)

    def fold(self, factor: Any, scales: Any) -> Any:
        """See `Source`."""
        return factor * scales


class Rows(Absent):
    """A scale for each row of A, from memory to the lanes that have the row's sums."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def load(self, k: Scalar, piece: int) -> Any:
        """See `Source`."""
        seen = self.place.matrix().freeze(1, self.place.group(k, piece))
        return self.place.rows(seen).load(lies=self.place.across())

    def fold(self, factor: Any, scales: Any) -> Any:
        """See `Source`."""
        return cast(scales, "f32") * factor


class Columns(Absent):
    """A scale for each column of B: a lane has sums of many, so that all waves share them through LDS."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def load(self, k: Scalar, piece: int) -> Any:
        """See `Source`."""
        seen = self.place.of_group(self.place.group(k, piece))
        window = seen.window((self.place.length,), (self.place.origin,))
        return load(window, coalesced((self.place.length,), self.place.lies.waves, 0, 1))

    def hold(self, loaded: Any) -> Any:
        """See `Source`."""
        return to_lds(cast(loaded, "f32"), self.place.spec.name)

    def read(self, held: Any) -> Any:
        """See `Source`."""
        return held.read(self.place.across())

    def apply(self, partial: Tile, scales: Any) -> Tile:
        """See `Source`."""
        found: Tile = partial * self.place.stretched(scales, partial)
        return found


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
    ) -> None:
        """`group`: elements along K of a partial sum; scales of A, and of each matrix B."""
        super().__init__(product, waves, block, len(b))
        self.group, self.sources = group, [a, *b]
        self.pieces = range(0, block[2], group)

    def start(self) -> list[Tile]:
        """See `Accumulation`."""
        return [self.zeros("f32") for _ in range(self.count)]

    def load(self, k: Scalar) -> Sequence[Any]:
        """See `Accumulation`: by piece of the step and operand."""
        return [[source.load(k, piece) for source in self.sources] for piece in self.pieces]

    def hold(self, loaded: Sequence[Any]) -> Sequence[Any]:
        """See `Accumulation`."""
        return [[source.hold(one) for source, one in zip(self.sources, own, strict=True)] for own in loaded]

    def read(self, held: Sequence[Any]) -> Sequence[Any]:
        """See `Accumulation`."""
        return [[source.read(one) for source, one in zip(self.sources, own, strict=True)] for own in held]

    def add(self, sums: Sequence[Tile], rows: Tile, columns: Sequence[Tile], scales: Sequence[Any]) -> list[Tile]:
        """See `Accumulation`."""
        found = list(sums)
        for piece, (of_a, *of_b) in zip(self.pieces, scales, strict=True):
            left = self._piece(rows, piece)
            for number, (matrix, source, own) in enumerate(zip(columns, self.sources[1:], of_b, strict=True)):
                partial = mma(self.product, left, self._piece(matrix, piece), self.zeros(self.product.acc_dtype))
                scaled = source.apply(cast(partial, "f32"), own)
                factor = source.fold(self.sources[0].fold(1.0, of_a), own)
                found[number] = found[number] + scaled * self._block(factor, scaled)
        return found

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
    return GroupSums(product, spec.waves, spec.block, spec.piece, a, b)


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
