"""The operand that several arrays combine to between memory and LDS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace

from ckmlir.lang import Pointer, Scalar, Tile, View, cast, coordinates, load, stretch, unpack, view, where
from ckmlir.ops.contraction.contraction_spec import ContractionSpec, computing_type
from ckmlir.ops.contraction.sources import GROUPS, INTEGERS, SourceSpec, are_bounded
from ckmlir.ops.tensors.expression import parse
from ckmlir.ops.tensors.tiles import evaluate_tiles


@dataclass(frozen=True)
class Combined:
    """An operand (rows, k) whose tile starts at a row; see `loop_kernel.Operand`.

    Attributes:
        name: what schedules call it in LDS.
        op: the expression of its arrays.
        views: of every array, padded to whole tiles.
        size: the product's k.
        ragged: whether the last step of the loop goes beyond k, where the expression of nothing need not be zero.
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

    def load(self, k: Scalar) -> dict[str, Tile]:
        """The tiles of its arrays by name, as memory holds them: matrices first, since they say how the others lie."""
        (rows, depth), found = self.lengths, {}
        places = {"each_k": ((depth,), (k,)), "each_row": ((rows,), (self.row,)), "scalar": ((rows,), (self.row,))}
        for source in sorted(self.sources, key=lambda one: not one.is_matrix):
            seen = self.views[source.name]
            lengths, origin = places.get(source.form, (self.lengths, (self.row, k)))
            if source.dtype == INTEGERS:
                lengths, origin = (rows, depth // 2), (self.row, k // 2)
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
        rows, depth = self.lengths
        variables = {}
        for source in self.sources:
            narrow = loaded[source.name]
            if source.dtype == INTEGERS:
                wide = unpack(narrow, INTEGERS, self.computing)
            else:
                wide = cast(narrow, self.computing)
            if not source.is_matrix:
                wide = stretch(wide, 0, rows) if source.form == "each_k" else stretch(wide, 1, depth)
            variables[source.name] = wide
        found = evaluate_tiles(parse(self.op, tuple(variables)), variables, self.computing)
        if self.ragged:
            found = where(coordinates(found, 1) < self.size - k, found, 0.0)
        return cast(found, self.dtype, bounded=are_bounded(self.sources, self.dtype))


def combined(
    spec: ContractionSpec, known_as: str, operand: str, row: Scalar, at: Mapping[str, Pointer], given: SimpleNamespace,
    rows: Scalar, k: Scalar,
) -> Combined:  # fmt: skip
    """A, or B, of a specification with sources; `rows` are those of A, or columns of B."""
    length = spec.block[0] if operand == "a" else spec.block[1]
    lengths = (length, spec.block[2])
    sources = tuple(one for one in map(SourceSpec.parse, spec.sources) if one.name[0] == operand)
    views = {one.name: _view(one, at[one.name], getattr(given, f"ld_{one.name}"), lengths, rows, k) for one in sources}
    op = spec.combine["ab".index(operand)]
    # The product of an integer of 4 bits and an f16 is rounded once in either type.
    products = op == "b0 * b1" and [one.dtype for one in sources] == [INTEGERS, "f16"] and spec.dtype == "f16"
    computing = "f16" if products else computing_type(spec.dtype)
    return Combined(known_as, op, sources, views, lengths, row, spec.stored, computing, k, "k" in spec.pad)


def _view(
    source: SourceSpec, pointer: Pointer, pitch: Scalar, lengths: tuple[int, int], rows: Scalar, k: Scalar
) -> View:
    if source.dtype == INTEGERS:
        return view(pointer, (rows, k // 2), (pitch.multiple_of(source.align), 1)).pad(lengths[0], lengths[1] // 2)
    if source.form in GROUPS:
        return view(pointer, (rows, (k + (GROUPS[source.form] - 1)) // GROUPS[source.form]), (pitch, 1))
    if source.form == "along_k":
        return view(pointer, (rows, k), (pitch.multiple_of(source.align), 1)).pad(*lengths)
    if source.form == "across_k":
        return view(pointer, (rows, k), (1, pitch.multiple_of(source.align))).pad(*lengths)
    if source.form == "each_k":
        return view(pointer, (k,), (1 if source.align > 1 else pitch,)).pad(lengths[1])
    return view(pointer, (rows,), (pitch if source.form == "each_row" else 0,)).pad(lengths[0])
