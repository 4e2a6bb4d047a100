"""Operands of a contraction and what stands beside them: how their tiles are found in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

from msgspec import Struct

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import in_groups
from ckmlir.dialect.packing import Packing
from ckmlir.lang import Pointer, Scalar, Tile, View, cast, light_exponent, repack, unpack, view
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.loop_kernel import Operand
from ckmlir.ops.contraction.merged_kernel import tensor_view
from ckmlir.ops.contraction.numbers_kernel import Numbers, OfElements
from ckmlir.ops.contraction.rows_kernel import Array, Rows
from ckmlir.ops.contraction.scaling import ScaleSpec
from ckmlir.ops.contraction.shuffle_kernel import shuffled_view
from ckmlir.ops.contraction.side import NAMES, SideSpec
from ckmlir.ops.contraction.sources_kernel import combined
from ckmlir.ops.contraction.sparsity import kept
from ckmlir.ops.contraction.work_kernel import Work
from ckmlir.ops.dtypes import Dtype

ACROSS_TO_ALONG = (0, 1)
"""Dimensions of a tile (rows, k) along which elements share bytes, before LDS and there."""
LDS_NAMES = ("b", "up")
"""What schedules call the matrices B."""


class Matrix(Struct, frozen=True):
    """Some rows of a matrix (rows, k), `depth` deep."""

    name: str
    rows: Rows
    depth: int

    def load(self, k: Scalar) -> Tile:
        """See `loop_kernel.Operand`."""
        return self.rows.load((k,), (self.depth,))

    def prepared(self, loaded: Tile, k: Scalar) -> Tile:
        """See `loop_kernel.Operand`."""
        return loaded


class Kept(Matrix, frozen=True):
    """Some rows of a sparse A (rows, kept(k)), of `depth` elements of K."""

    def load(self, k: Scalar) -> Tile:
        """See `loop_kernel.Operand`."""
        return self.rows.load((k // 2,), (self.depth // 2,))


class PackedMatrix(Matrix, frozen=True):
    """The same of packed elements, which share bytes along K: a matrix of their bytes, which `lies` deals out."""

    packing: Packing
    lies: Distribution | None = None

    def load(self, k: Scalar) -> Tile:
        """See `loop_kernel.Operand`."""
        size = self.packing.size(self.depth)
        return self.rows.load((in_bytes(k, self.packing).multiple_of(size),), (size,), self.lies)


class PackedAcross(Matrix, frozen=True):
    """The same of packed elements that share bytes across K, which `lies` deals out; they go to LDS along K."""

    kind: Dtype
    lies: Distribution | None

    def load(self, k: Scalar) -> Tile:
        """See `loop_kernel.Operand`."""
        return self.rows.load((k,), (self.depth,), self.lies)

    def prepared(self, loaded: Tile, k: Scalar) -> Tile:
        """See `loop_kernel.Operand`."""
        return repack(loaded, self.kind.name, *ACROSS_TO_ALONG)


class Changed(Struct, frozen=True):
    """A matrix whose elements, of a kind, become others that products take, on their way to LDS; of packed ones that
    share bytes along an axis.
    """

    matrix: Matrix
    kind: Dtype
    taken: str
    axis: int

    @property
    def name(self) -> str:
        """See `loop_kernel.Operand`."""
        return self.matrix.name


class Converted(Changed, frozen=True):
    """A matrix whose elements are converted."""

    def load(self, k: Scalar) -> Tile:
        """See `loop_kernel.Operand`."""
        return self.matrix.load(k)

    def prepared(self, loaded: Tile, k: Scalar) -> Tile:
        """See `loop_kernel.Operand`."""
        if self.kind.packing is None:
            return cast(cast(loaded, "f32"), self.taken)
        wide = self.taken if self.taken == "f16" or self.kind.is_integer else "f32"
        exponent = light_exponent(self.kind.name, self.taken)
        return cast(unpack(loaded, self.kind.name, wide, axis=self.axis, exponent=exponent), self.taken)


class Dequantized(Changed, frozen=True):
    """A matrix of elements of 4 bits that become others less zero points, times scales, or both."""

    beside: OfElements

    def load(self, k: Scalar) -> tuple[Tile, Mapping[str, Tile]]:
        """See `loop_kernel.Operand`."""
        return self.matrix.load(k), self.beside.load(k)

    def prepared(self, loaded: tuple[Tile, Mapping[str, Tile]], k: Scalar) -> Tile:
        """See `loop_kernel.Operand`."""
        octets, numbers = loaded
        return self.beside.applied(octets, self.kind.name, self.taken, numbers, self.axis)


def operands(spec: ContractionSpec, work: Work) -> list[Operand]:
    """A and the matrices B of a workgroup's block."""
    if spec.sources:
        return [
            combined(spec, name, name, row, work.arrays, work.distances, work.sizes[letter], work.sizes["k"])
            for name, row, letter in (("a", work.row, "m"), ("b", work.column, "n"))
        ]
    a = array(spec, work, "a")
    rows, depth = spec.block[0], spec.block[2]
    first = Kept("a", a.rows(work.row, rows), depth) if spec.sparse else _matrix(spec, "a", a, 0, work.row, rows, depth)
    b = array(spec, work, spec.tensors[1])
    columns, scaling = (work.column, spec.block[1], depth), tuple(map(ScaleSpec.parse, spec.scaling))
    matrices = [
        _dequantized(
            _matrix(spec, known_as, b.at(work.arrays[name]), 1, *columns),
            _of_elements(scaling, work, name, ("n", "k"), *columns),
        )
        for known_as, name in zip(LDS_NAMES, spec.tensors[1:], strict=False)
    ]
    return [first, *matrices]


def behind(spec: ContractionSpec, work: Work, row: Scalar) -> Operand:
    """The matrix that C is multiplied by: rows of it from one on, as deep as a block of C is wide."""
    rows, scaling = (row, spec.chain[0], spec.block[1]), tuple(map(ScaleSpec.parse, spec.chain_scaling))
    found = _matrix(spec, "down", array(spec, work, "down"), 1, *rows)
    return _dequantized(found, _of_elements(scaling, work, "down", ("k", "n"), *rows))


def exponent_of(spec: ContractionSpec, matrix: str) -> int:
    """Of the power of two that the products of A with a matrix B are multiplied by: those times which integers of 4
    bits become `taken` by the fewest instructions, where they have no zero points or scales of their own.
    """
    if spec.sources or spec.taken == "":
        return 0
    own = {one.operand for one in map(ScaleSpec.parse, spec.scaling) if one.zeros or one.of_elements}
    kinds = [kind for name, kind in zip((spec.tensors[0], matrix), spec.held, strict=False) if name not in own]
    return sum(light_exponent(kind.name, spec.taken) for kind in kinds if kind.packing is not None)


def _dequantized(found: Operand, beside: OfElements | None) -> Operand:
    """The operand less its zero points, or times its scales."""
    if beside is None or not isinstance(found, Converted):
        return found
    return Dequantized(found.matrix, found.kind, found.taken, found.axis, beside)


def _of_elements(
    scaling: Sequence[ScaleSpec], work: Work, operand: str, sides: tuple[str, str], row: Scalar, rows: int, depth: int
) -> OfElements | None:
    """Zero points and scales of elements, of so many rows of a matrix, from one on, and so deep; `sides`: the sizes
    that its rows and their length are."""
    found = {}
    for one in scaling:
        roles = {"scales": (one.name,) * one.of_elements, "zeros": one.zero_names}
        for role, names in roles.items() if one.operand == operand else ():
            for name in names:
                pitch = getattr(work.distances, f"ld_{one.name}")
                found[role] = Numbers(one, work.arrays[name], pitch, *(work.sizes[side] for side in sides))
    return OfElements(found, row, rows, depth) if found else None


def _matrix(
    spec: ContractionSpec, name: str, whole: Array, place: int, first: Scalar, rows: int, depth: int
) -> Operand:
    """A (`place` 0), or a matrix that is held as B is (1): so many of its rows from one on, and so deep."""
    kind = spec.held[place]
    packing, converted = kind.packing, spec.taken not in ("", kind.name)
    axis = 0 if spec.packed_across(place) else 1
    if packing is None:
        found = Matrix(name, whole.rows(first, rows), depth)
    elif axis == 0:
        size = packing.size(rows)
        bytes_ = whole.rows(in_bytes(first, packing).multiple_of(size), size)
        found = PackedAcross(name, bytes_, depth, kind, _whole(spec, packing, rows, depth, across=True))
    else:
        lies = _whole(spec, packing, rows, depth, across=False) if converted else None
        found = PackedMatrix(name, whole.rows(first, rows), depth, packing, lies)
    return Converted(found, kind, spec.taken, axis) if converted else found


def _whole(spec: ContractionSpec, packing: Packing, rows: int, depth: int, *, across: bool) -> Distribution | None:
    """Bytes of a block such that a lane has all that elements share, across K all that are turned together."""
    waves = spec.wave_count
    if across:
        return in_groups((packing.size(rows), depth), waves, 0, packing.bytes, packing.elements, across=1)
    if packing.bytes == 1:
        return None
    return in_groups((rows, packing.size(depth)), waves, 1, packing.bytes, packing.elements)


def in_bytes(elements: Scalar, packing: Packing) -> Scalar:
    """Bytes of so many packed elements, which fill them."""
    found: Scalar = elements // packing.elements * packing.bytes
    return found


def array(spec: ContractionSpec, work: Work, name: str) -> Array:
    """An array of a workgroup's product, whose rows are those of the block or told by a list."""
    told = work.listed.get(name)
    sizes = work.sizes if told is None else {**work.sizes, "m": told.count}
    return Array(array_view(spec, name, work.arrays[name], work.distances, sizes), told)


def array_view(
    spec: ContractionSpec, name: str, pointer: Pointer, given: SimpleNamespace, sizes: Mapping[str, Scalar]
) -> View:
    """An array of a workgroup's product. A and B have K as their second dimension; B may be in tiles (n, k, lane along
    k, column, element) that are seen as one matrix, with the zeros that fill the last tiles up. D tensors that are no
    matrices have one dimension.
    """
    m, n, k = (sizes[letter] for letter in "mnk")
    if spec.merged:
        return tensor_view(spec, name, pointer, given, sizes)
    if name == "a":
        pitch = given.lda.multiple_of(spec.align[0])
        if spec.sparse:
            return view(pointer, (m, kept(k).multiple_of(spec.align[0])), (pitch, 1))
        return _with_k_second(pointer, *_lengths(spec, 0, m, k), pitch, k_contiguous=spec.layout[0] == "R")
    if name in spec.tensors:
        pitch = given.ldb.multiple_of(spec.align[1])
        if spec.shuffled:
            kind = spec.held[1]
            depth = k if kind.packing is None else in_bytes(k, kind.packing)
            return shuffled_view(pointer, n, depth, pitch, spec.shuffled, kind.bytes)
        columns = (n - spec.beside).maximum(0) if spec.beside else n
        if spec.beside and spec.layout[1] == "R":
            columns = columns.multiple_of(spec.align[1])
        return _with_k_second(pointer, *_lengths(spec, 1, columns, k), pitch, k_contiguous=spec.layout[1] == "C")
    if name in spec.outputs:
        return view(pointer, (m, k if spec.behind else n), (given.ldc.multiple_of(spec.align[2]), 1))
    if name == "weights":
        return view(pointer, (m,), (1,))
    if name == "down":
        packing, align = spec.held[1].packing, spec.chain[1]
        length = n if packing is None else in_bytes(n, packing).multiple_of(align)
        return view(pointer, (k, length), (given.ld_down.multiple_of(align), 1))
    side, pitch = SideSpec.parse(spec.side[NAMES.index(name)]), getattr(given, f"ld_{name}")
    if side.kind == "full":
        return view(pointer, (m, n), (pitch.multiple_of(side.align), 1))
    if side.kind == "column":
        return view(pointer, (m,), (pitch,))
    return view(pointer, (n,), (1 if side.kind == "row" else 0,))


def _lengths(spec: ContractionSpec, place: int, rows: Scalar, k: Scalar) -> tuple[Scalar, Scalar]:
    """Of A or B (rows, k): of packed elements in bytes along what they share them along."""
    packing = spec.held[place].packing
    if packing is None:
        return rows, k
    if spec.packed_across(place):
        return in_bytes(rows, packing).multiple_of(spec.align[place]), k
    return rows, in_bytes(k, packing).multiple_of(spec.align[place])


def _with_k_second(pointer: Pointer, rows: Scalar, k: Scalar, pitch: Scalar, *, k_contiguous: bool) -> View:
    """A matrix with K as its second dimension, whichever of the two is contiguous."""
    return view(pointer, (rows, k), (pitch, 1) if k_contiguous else (1, pitch))
