"""The operand that several arrays combine to between memory and LDS."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

from msgspec import Struct

from ckmlir.lang import (
    Pointer,
    Scalar,
    Tile,
    View,
    cast,
    coordinates,
    dequantize,
    join_axes,
    load,
    stretch,
    view,
    where,
)
from ckmlir.ops.contraction.contraction_spec import ContractionSpec, computing_type
from ckmlir.ops.contraction.shuffle_kernel import shuffled_view
from ckmlir.ops.contraction.sources import GROUPS, TILES, SourceSpec
from ckmlir.ops.dtypes import HALF_BYTES
from ckmlir.ops.tensors.expression import parse
from ckmlir.ops.tensors.tiles import evaluate_tiles


class Combined(Struct, frozen=True):
    """An operand (rows, k) whose tile starts at a row; see `loop_kernel.Operand`.

    Attributes:
        name: what schedules call it in LDS.
        op: the expression of its arrays.
        views: of every array, padded to whole tiles.
        size: the product's k.
        ragged: whether the last step of the loop goes beyond k, where the expression of nothing need not be zero.
        form: of matrices that lie as most of the operand's do.
    """

    name: str
    op: str
    sources: tuple[SourceSpec, ...]
    views: Mapping[str, View]
    lengths: tuple[int, int]
    row: Scalar
    dtype: str
    computing: str
    size: Scalar
    ragged: bool
    form: str

    def load(self, k: Scalar) -> dict[str, Tile]:
        """The tiles of its arrays by name, as memory holds them: matrices first, since they say how the others lie, of
        these such as most are, which lanes load as vectors."""
        (rows, depth), found = self.lengths, {}
        places = {"each_k": ((depth,), (k,)), "each_row": ((rows,), (self.row,)), "scalar": ((rows,), (self.row,))}
        for source in sorted(self.sources, key=lambda one: (not one.is_matrix, one.form != self.form)):
            seen = self.views[source.name]
            lengths, origin = places.get(source.form, (self.lengths, (self.row, k)))
            if source.shares_across:
                lengths, origin = (rows // 2, depth), ((self.row // 2).multiple_of(rows // 2), k)
            elif source.dtype in HALF_BYTES:
                lengths, origin = (rows, depth // 2), (self.row, k // 2)
            elif self._groups(source) > 1:
                lengths, origin = (rows, self._groups(source)), (self.row, k // GROUPS[source.form])
            elif source.form in GROUPS:
                last = (self.size + (GROUPS[source.form] - 1)) // GROUPS[source.form] - 1
                seen = seen.freeze(1, (k // GROUPS[source.form]).minimum(last)).pad(rows)
                lengths, origin = (rows,), (self.row,)
            found[source.name] = load(seen.window(lengths, origin))
        return found

    def prepared(self, loaded: Mapping[str, Tile], k: Scalar) -> Tile:
        """The expression of the tiles, rounded; zero beyond k."""
        if [(one.name, one.dtype) for one in self.sources] == [(self.op, self.dtype)]:
            return loaded[self.op]  # as it is, with the zeros that a view has beyond its end
        if self.sources[0].dtype in HALF_BYTES:
            found = self._dequantized(loaded)
        else:
            variables = {one.name: self._stretched(cast(loaded[one.name], self.computing), one) for one in self.sources}
            like = next(iter(variables.values()))
            found = evaluate_tiles(parse(self.op, tuple(variables)), variables, self.computing, like)
        if self.ragged:
            found = where(coordinates(found, 1) < self.size - k, found, 0.0)
        return cast(found, self.dtype)

    def _dequantized(self, loaded: Mapping[str, Tile]) -> Tile:
        """Elements of 4 bits with scales and, it may be, zero points of groups, in the type that is multiplied."""
        elements, scales, *zeros = self.sources
        beside = [self._stretched(loaded[one.name], one) for one in (scales, *zeros)]
        names = {"scales": beside[0], **({"zeros": beside[1]} if zeros else {})}
        axis = 0 if elements.shares_across else 1
        return dequantize(loaded[elements.name], elements.dtype, self.dtype, axis=axis, **names)

    def _groups(self, source: SourceSpec) -> int:
        """Whole ones in a step, of a source that has some; else 0."""
        return self.lengths[1] // GROUPS[source.form] if source.form in GROUPS else 0

    def _stretched(self, tile: Tile, source: SourceSpec) -> Tile:
        """As the operand's elements meet it."""
        if source.is_matrix:
            return tile
        rows, depth = self.lengths
        if self._groups(source) > 1:
            return join_axes(stretch(tile, 2, GROUPS[source.form]), 1)
        return stretch(tile, 0, rows) if source.form == "each_k" else stretch(tile, 1, depth)


def combined(
    spec: ContractionSpec, known_as: str, operand: str, row: Scalar, at: Mapping[str, Pointer], given: SimpleNamespace,
    rows: Scalar, k: Scalar,
) -> Combined:  # fmt: skip
    """A, or B, of a specification with sources; `rows` are those of A, or columns of B."""
    length = spec.block[0] if operand == "a" else spec.block[1]
    lengths = (length, spec.block[2])
    sources = tuple(one for one in map(SourceSpec.parse, spec.sources) if one.name[0] == operand)
    views = {one.name: _view(one, at[one.name], getattr(given, f"ld_{one.name}"), lengths, rows, k) for one in sources}
    place = "ab".index(operand)
    op, computing, dtype = spec.combine[place], computing_type(spec.dtype), spec.held[place].name
    form = "along_k" if spec.layout[place] == "RC"[place] else "across_k"
    return Combined(known_as, op, sources, views, lengths, row, dtype, computing, k, "k" in spec.pad, form)


def _view(
    source: SourceSpec, pointer: Pointer, pitch: Scalar, lengths: tuple[int, int], rows: Scalar, k: Scalar
) -> View:
    if source.form in TILES:
        tiles = shuffled_view(pointer, rows, k // 2, pitch.multiple_of(source.align), TILES[source.form], 1)
        return tiles.pad(lengths[0], lengths[1] // 2)
    if source.shares_across:
        return view(pointer, (rows // 2, k), (1, pitch.multiple_of(source.align))).pad(lengths[0] // 2, lengths[1])
    if source.dtype in HALF_BYTES:
        return view(pointer, (rows, k // 2), (pitch.multiple_of(source.align), 1)).pad(lengths[0], lengths[1] // 2)
    if source.form in GROUPS:
        seen = view(pointer, (rows, (k + (GROUPS[source.form] - 1)) // GROUPS[source.form]), (pitch, 1))
        return seen.pad(lengths[0], lengths[1] // GROUPS[source.form]) if lengths[1] > GROUPS[source.form] else seen
    if source.form == "along_k":
        return view(pointer, (rows, k), (pitch.multiple_of(source.align), 1)).pad(*lengths)
    if source.form == "across_k":
        return view(pointer, (rows, k), (1, pitch.multiple_of(source.align))).pad(*lengths)
    if source.form == "each_k":
        return view(pointer, (k,), (1 if source.align > 1 else pitch,)).pad(lengths[1])
    return view(pointer, (rows,), (pitch if source.form == "each_row" else 0,)).pad(lengths[0])
