"""A product to compute: what a request of any operator of the contraction family comes to."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.arrays import ALIGNMENT, ArraySpec, alignment
from ckmlir.ops.contraction.block_sizes import CACHE_LINE
from ckmlir.ops.contraction.contraction_spec import (
    accumulator_names,
    accumulator_type,
    computing_type,
    operand_names,
    output_names,
    stored_kinds,
    stored_type,
)  # fmt: skip
from ckmlir.ops.contraction.side import SideTensor
from ckmlir.ops.contraction.sparsity import BY_ROWS, PIECE, PIECES, index_bytes, index_shape, kept
from ckmlir.ops.dtypes import PACKED_INTEGERS, Dtype, find_dtype
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target

if TYPE_CHECKING:  # plain products load quickly without
    from ckmlir.ops.contraction.depthwise import Depthwise
    from ckmlir.ops.contraction.merged import Merged
    from ckmlir.ops.contraction.residues import Residues
    from ckmlir.ops.contraction.scaling import Scale
    from ckmlir.ops.contraction.sources import Source
    from ckmlir.ops.contraction.windows import Windows

REDUCTIONS = {"workspace": "partial", "atomic": "atomic"}
"""How partial sums are combined -> the sink of the kernels that make them: by a second kernel, which adds them in
order; or by memory, in no fixed order."""


class Batch(Struct, frozen=True):
    """How an array lies in the batch.

    Attributes:
        shape: its own batch dimensions, as many as the batch has; 1 where it repeats.
        strides: in elements; 0 where it repeats.
    """

    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


NO_BATCH = Batch()


class Problem(Struct, frozen=True):
    """A product, its epilogue and its batch.

    Attributes:
        lda, ldb, ldc: elements from one row of an array to the next.
        op: the expression of the epilogue; "" stores the accumulators.
        side: the D tensors that the expression names.
        batch: lengths of the batch's dimensions.
        batches: of every array by name how it lies in the batch. Without a batch, arrays of which each expert has one.
        shuffled: columns of a tile of B in fragment order; 0: B is a plain matrix.
        split_k, reduction: parts of the sums, and how they are combined (`REDUCTIONS`).
        starts: of arrays that begin within others, at which element of those.
        longest_part: of K, that what a part takes is within the reach of 32-bit offsets; None: all of K is.
        block, waves, mfma, epilogue, schedule: None where the operator chooses; so are split_k and reduction.
        sources, combine: the arrays that A and B are made of, and the expressions of both; () where they are arrays.
        scaling: the scales of A and the matrices B; () for none.
        merged: the dimensions of tensors that are seen as matrices; None for matrices.
        windows: the images that are seen as matrices; None for matrices.
        ld_index: elements from one row of the index of a sparse A to the next; None where A is dense.
        index_order: how the index lies, of `ckmlir.ops.contraction.sparsity.ORDERS`.
        b_dtype: of the matrices B where it is not that of A; "": the same.
        partial: its outputs are the partial sums of one part (`parted`).
    """

    m: int
    n: int
    k: int
    dtype: str
    out: str
    layout: str
    lda: int
    ldb: int
    ldc: int
    products: int
    op: str
    side: tuple[SideTensor, ...]
    alpha: float
    beta: float
    batch: tuple[int, ...]
    batches: tuple[tuple[str, Batch], ...]
    shuffled: int
    split_k: int | None
    reduction: str | None
    block: tuple[int, int, int] | None
    waves: tuple[int, int] | None
    mfma: tuple[int, int, int] | None
    epilogue: str | None
    schedule: str | None
    partial: bool = False
    merged: Merged | None = None
    sources: tuple[Source, ...] = ()
    combine: tuple[str, ...] = ()
    scaling: tuple[Scale, ...] = ()
    windows: Windows | Residues | Depthwise | None = None
    ld_index: int | None = None
    index_order: str = BY_ROWS
    b_dtype: str = ""
    longest_part: int | None = None
    starts: tuple[tuple[str, int], ...] = ()

    @property
    def operands(self) -> tuple[str, ...]:
        """A and the matrices B, or what they are made of, by name."""
        return tuple(one.name for one in self.sources) or operand_names(self.products)

    @property
    def scaled_sums(self) -> tuple[Scale, ...]:
        """The scales that sums are multiplied by, not elements."""
        return tuple(one for one in self.scaling if not one.of_elements)

    def scaled_group(self, target: Target) -> int:
        """Elements along K of partial sums, which are scaled before they are added; 0 where there are none."""
        deepest = max((one.group for one in self.scaled_sums), default=0)
        group = self.piece(2 * deepest, target)
        return group if group <= deepest else 0

    def taken(self, target: Target) -> str:
        """The type that elements become on their way to LDS: that of A for integers of 4 bits, and elements with scales
        of their own; f16 where the chip does not multiply what has powers of two as scales; "" where they stay.
        """
        if self.b_dtype in PACKED_INTEGERS or len(self.scaled_sums) < len(self.scaling):
            return self.dtype
        powers = bool(self.scaling) and all(one.is_power for one in self.scaling)
        known = all(one.packing is not None or target.fp8 is not None for one in self.held)
        return "f16" if powers and known and not target.mfmas(self.dtype, self.b_dtype or None) else ""

    def piece(self, depth: int, target: Target) -> int:
        """Elements along K, of a step of so many, that are multiplied before their sums are scaled."""
        sums = self.scaled_sums
        scaling = any(one.scaled and depth % one.k == 0 for one in target.mfmas(self.dtype, self.b_dtype or None))
        if sums and all(one.is_power for one in sums) and scaling and self.mfma is None:
            return depth
        return min([depth, *(one.group for one in sums if one.group)])

    @property
    def stored(self) -> str:
        """What A and the matrices B hold."""
        return stored_type(self.dtype)

    @property
    def held(self) -> tuple[Dtype, Dtype]:
        """What A, and the matrices B, hold."""
        return stored_kinds(self.dtype, self.b_dtype)

    @property
    def lengths(self) -> tuple[int, int, int]:
        """Rows and columns of C, and length of the sums."""
        return self.m, self.n, self.k

    @property
    def computing(self) -> str:
        """What the expression is computed in."""
        return computing_type(self.dtype)

    @property
    def accumulators(self) -> tuple[str, ...]:
        """What the expression calls the accumulators."""
        return accumulator_names(self.products)

    def distances(self) -> tuple[int, ...]:
        """How rows lie, as kernels take it: pitches; or lengths and strides of tensors."""
        if self.merged is not None:
            return self.merged.arguments(self.names)
        pitches = tuple(one.pitch for one in self.sources) or self._pitches
        if self.windows is not None:
            pitches = self.windows.arguments(pitches)
        of_index = () if self.ld_index is None else (self.ld_index,)
        scales, sides = (one.pitch for one in self.scaling), (one.pitch for one in self.side)
        return (*pitches, *scales, *of_index, self.ldc, *sides)

    def words(self) -> tuple[str, ...]:
        """How tensors lie, as a specification has it; () for matrices."""
        return () if self.merged is None else tuple(map(self.merged.word, self.names))

    @property
    def windows_word(self) -> str:
        """How images are seen, as a specification has it."""
        return "" if self.windows is None else self.windows.word

    @property
    def has_place_each_step(self) -> bool:
        """Whether A is patches of images whose channels are whole cache lines, so that a step has one place of them."""
        seen = self.windows
        if seen is None or seen.image != "a":
            return False
        return seen.channels * find_dtype(self.stored).bytes % CACHE_LINE == 0

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of C, or of the partial sums of every accumulator."""
        return output_names(self.products, partial=self.partial)

    @property
    def index_align(self) -> int:
        """Bytes that divide length and distance of the index's rows, as a specification has it; 0 for a dense A."""
        if self.ld_index is None:
            return 0
        return PIECE if self.index_order == PIECES else alignment(1, self.ld_index, index_bytes(self.k))

    @property
    def _pitches(self) -> tuple[int, int]:
        """As kernels take them: of packed elements in bytes, of which rows without elements have some."""
        if all(one.packing is None for one in self.held):
            return self.lda, self.ldb
        a, b = (
            pitch if one.packing is None else ceil_div(pitch, one.packing.elements) * one.packing.bytes
            for one, pitch in zip(self.held, (self.lda, self.ldb), strict=True)
        )
        return a, b

    @property
    def a_shape(self) -> tuple[int, int]:
        if self.ld_index is not None:
            return (self.m, kept(self.k))
        return (self.m, self.k) if self.layout[0] == "R" else (self.k, self.m)

    @property
    def b_shape(self) -> tuple[int, int]:
        if self.shuffled:
            from ckmlir.ops.contraction.shuffle import shuffled_shape

            kind = self.held[1]
            tiles, row = shuffled_shape(self.n, kind.packed_length(self.k), self.shuffled, kind.bytes)
            return tiles, row if kind.packing is None else kind.packing.count(row)
        return (self.k, self.n) if self.layout[1] == "R" else (self.n, self.k)

    def batch_of(self, name: str) -> Batch:
        """How an array lies in the batch."""
        if not self.batch and not self.batches:
            return NO_BATCH
        return dict(self.batches).get(name, Batch((1,) * len(self.batch), (0,) * len(self.batch)))

    def aligned(self) -> tuple[int, int, int]:
        """Of A, all B and C the widest aligned vector that never crosses the end of a row, in elements."""
        held, out = self.held, find_dtype(self.out).bytes
        a, b = held[0].bytes, held[1].bytes
        if self.merged is not None:
            sizes = {"a": a, "b": b, "c": out}
            widest = {
                name: self.merged.aligned(name, size, self.batch_of(name).strides) for name, size in sizes.items()
            }
            return widest["a"], widest["b"], widest["c"]
        if self.sources:
            widths = [(one.operand, one.aligned(self._rows(one), self.k)) for one in self.sources if one.is_matrix]
            of_a, of_b = (min(ALIGNMENT // a, *(width for one, width in widths if one == name)) for name in "ab")
            return of_a, of_b, alignment(out, self.ldc, self.n)
        matrices = [distance for name in self.operands[1:] for distance in self._distances(name)]
        lda, ldb = self._pitches
        return (
            alignment(a, lda, _in_memory(self.a_shape, held[0])[-1], *self._distances("a")),
            alignment(b, ldb, _in_memory(self.b_shape, held[1])[-1], *matrices),
            alignment(out, self.ldc, self.n, *self._distances(self.outputs[0])),
        )

    def _distances(self, name: str) -> tuple[int, ...]:
        """Elements between what is aligned and where a matrix of an array begins."""
        return *self.batch_of(name).strides, *(start for one, start in self.starts if one == name)

    @property
    def load_bytes(self) -> int:
        """Of the widest load that the rows of all matrices allow."""
        if not self.sources:
            a, b, _ = self.aligned()
            return min(a * self.held[0].bytes, b * self.held[1].bytes)
        return min(
            one.aligned(self._rows(one), self.k) * find_dtype(one.dtype).bytes for one in self.sources if one.is_matrix
        )

    def described_sources(self) -> tuple[str, ...]:
        """The arrays that A and B are made of, as a specification has them."""
        return tuple(one.described(self._rows(one), self.k) for one in self.sources)

    def _rows(self, source: Source | Scale) -> int:
        return self.m if source.operand == "a" else self.n

    def described_side(self) -> tuple[str, ...]:
        """The D tensors as a specification has them."""
        if self.merged is not None:
            widths = [
                self.merged.aligned(one.name, find_dtype(one.dtype).bytes, self.batch_of(one.name).strides)
                for one in self.side
            ]
            return tuple(f"{one.dtype}:{one.kind}:{width}" for one, width in zip(self.side, widths, strict=True))
        return tuple(one.described(self.n, *self.batch_of(one.name).strides) for one in self.side)

    @property
    def names(self) -> tuple[str, ...]:
        """Of all arrays, in the order of the kernel's arguments."""
        if self.merged is not None:
            return tuple(array.name for array in self.merged.arrays)
        scales, sides = (one.name for one in self.scaling), (one.name for one in self.side)
        zeros = (name for one in self.scaling for name in one.zero_names)
        index = () if self.ld_index is None else ("index",)
        return (*self.operands, *index, *scales, *zeros, *sides, *self.outputs)

    def arrays(self) -> tuple[ArraySpec, ...]:
        """All arrays, by `names`."""
        if self.merged is not None:
            return self.merged.arrays
        return (
            *(self._of_rows(self.sources) or self._matrices()),
            *self._index(),
            *self._of_rows(self.scaling),
            *(
                self._array(name, one.shape(self._rows(one), self.k), one.strides(), one.zeros, "in")
                for one in self.scaling
                for name in one.zero_names
            ),
            *(self._array(one.name, one.shape(self.m, self.n), one.strides(), one.dtype, "in") for one in self.side),
            *(self._array(name, (self.m, self.n), (self.ldc, 1), self.out, "out") for name in self.outputs),
        )

    def _of_rows(self, some: Sequence[Source | Scale]) -> tuple[ArraySpec, ...]:
        return tuple(
            self._array(one.name, one.shape(self._rows(one), self.k), one.strides(), one.dtype, "in") for one in some
        )

    def _matrices(self) -> tuple[ArraySpec, ...]:
        (a, b), (lda, ldb) = self.held, self._pitches
        of_a, of_b = (_in_memory(shape, one) for shape, one in ((self.a_shape, a), (self.b_shape, b)))
        return (
            self._array("a", of_a, (lda, 1), a.name, "in"),
            *(self._array(name, of_b, (ldb, 1), b.name, "in") for name in self.operands[1:]),
        )

    def _index(self) -> tuple[ArraySpec, ...]:
        if self.ld_index is None:
            return ()
        shape, strides = index_shape(self.index_order, self.m, self.k, self.ld_index)
        return (self._array("index", shape, strides, "i8", "in"),)

    @property
    def asks_for_parts(self) -> bool:
        """Whether partial sums go through a workspace by the request's own words."""
        return (self.split_k or 1) > 1 and self.reduction != "atomic"

    def parted(self) -> Problem:
        """The partial sums of one part, packed in rows of whole vectors: what a kernel computes for a workspace."""
        dtype = accumulator_type(self.dtype)
        pitch = find_dtype(dtype).whole_vectors(self.n)
        whole = pitch * max(self.c_rows, 1)
        distances = tuple(whole * prod(self.batch[place + 1 :]) for place in range(len(self.batch)))
        names = output_names(self.products, partial=True)
        inputs = tuple((name, self.batch_of(name)) for name in self.operands) if self.batch else ()
        own = tuple((name, Batch(self.batch, distances)) for name in names) if self.batch else ()
        return replace(self, op="", side=(), out=dtype, ldc=pitch, batches=inputs + own, partial=True)

    @property
    def part_outputs(self) -> int:
        """Elements from one part's partial sums to those of the next."""
        return self.ldc * self.c_rows * prod(self.batch)

    @property
    def c_rows(self) -> int:
        """Rows of C, of all classes of blocks."""
        return self.m

    @property
    def classes(self) -> int:
        """Classes of blocks, of which `m` are the rows of the one that has the most: as if all had the longest sums."""
        return 1

    @property
    def idle_classes(self) -> int:
        """Classes beyond these, as if they had nothing to sum."""
        return 0

    @property
    def longest_sum(self) -> int:
        """K of the class whose sums are longest."""
        return self.k

    def whole(self) -> Problem:
        """The product that has C's rows in their order, as the classes are parts of it."""
        return self

    def _array(self, name: str, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, role: str) -> ArraySpec:
        batch = self.batch_of(name)
        return ArraySpec(name, (*batch.shape, *shape), dtype, role, (*batch.strides, *strides))


def _in_memory(shape: tuple[int, int], kind: Dtype) -> tuple[int, int]:
    """The shape of an array: of packed elements in bytes."""
    return shape if kind.packing is None else (shape[0], kind.size(shape[1]))
