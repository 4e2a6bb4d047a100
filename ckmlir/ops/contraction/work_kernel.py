"""What a workgroup of the contraction family has to do, and what the walks that say it share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from ckmlir.dialect.compute import splat
from ckmlir.lang import Pointer, Scalar, Tile, i32, ptr, when
from ckmlir.lang.carried import Carried
from ckmlir.lang.kernel import Argument
from ckmlir.lang.values import as_scalar
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.merged_kernel import known_divisors
from ckmlir.ops.contraction.rows_kernel import Told
from ckmlir.ops.contraction.scaling import ScaleSpec
from ckmlir.ops.contraction.side import NAMES, SideSpec
from ckmlir.ops.contraction.sources import ROWS, TILES, SourceSpec


class Share(Struct, frozen=True):
    """A workgroup's part of the steps along K of a block, where workgroups share those of all blocks.

    Attributes:
        workgroup: its number.
        is_whole: whether it has all steps of the block.
        has_first: whether it has the block's first step.
        behind: the number of the step behind the block's last.
        first_of: the first step of a workgroup, by its number; that of the next is where it ends.
        first_workgroup: who has the block's first step.
    """

    workgroup: Scalar
    is_whole: Scalar
    has_first: Scalar
    behind: Scalar
    first_of: Callable[[Scalar], Scalar]
    first_workgroup: Callable[[], Scalar]


class Work(Struct, frozen=True):
    """A block of a product, or a part of its sums.

    Attributes:
        sizes: m, n and k of the product, with what is known to divide them.
        arrays: where the product's arrays begin, by name; outputs of parts where those of this part do.
        distances: how rows lie in them, by the names of `distance_arguments`.
        row, column: where the block begins in C.
        begin, end: the range of K.
        share: where workgroups share the steps of blocks.
        listed: of arrays whose rows do not follow each other as the block's do what tells them, by name.
    """

    sizes: Mapping[str, Scalar]
    arrays: Mapping[str, Pointer]
    distances: SimpleNamespace
    row: Scalar
    column: Scalar
    begin: Scalar | int
    end: Scalar
    share: Share | None = None
    listed: Mapping[str, Told] = field(default_factory=dict)

    @property
    def has_all_of_k(self) -> bool:
        """Whether the range is all of K."""
        return isinstance(self.begin, int) and self.begin == 0 and self.end is self.sizes["k"]

    @property
    def with_a_step(self) -> Work:
        """With a step along K where there is none; it finds no rows of A and B then, and so zeros."""
        some = self.sizes["k"].minimum(1)
        sizes = {name: (size * some).multiple_of(size.multiple) for name, size in self.sizes.items() if name != "k"}
        return replace(self, sizes={**self.sizes, **sizes}, end=self.end.maximum(1))


class Body(Protocol):
    """What is done for a block of a product.

    Attributes:
        is_early: whether the loads of a block's first step can be on their way before its turn comes.
    """

    is_early: bool

    def __call__(self, work: Work) -> None:
        """Compute it and write it."""

    def begin(self, work: Work) -> list[Carried]:
        """What the first step loads."""

    def sums(self, work: Work, begun: Sequence[Carried] = ()) -> list[Tile]:
        """The accumulators; the first step has what `begin` has found, if that is given."""

    def finish(self, work: Work, sums: Sequence[Tile]) -> None:
        """Write what the accumulators come to."""


class Walk(Protocol):
    """A way through the blocks."""

    def arguments(self, spec: ContractionSpec) -> dict[str, Argument]:
        """The kernel's arguments by name, in order."""

    def walk(self, spec: ContractionSpec, given: SimpleNamespace, body: Body) -> None:
        """Trace the kernel: the body for what this workgroup computes; `given` are the arguments."""


def begun_if(condition: Scalar, body: Body, work: Work) -> list[Carried]:
    """What the first step of a piece of work loads, if a condition holds and there is one; else zeros."""
    if not body.is_early:
        return []
    with when(condition & (work.end > work.begin)) as starts:
        given = body.begin(work)
        starts.give(*given)
    with starts.otherwise():
        starts.give(*map(_nothing_like, given))
    found: list[Carried] = starts.results
    return found


def _nothing_like(item: Carried) -> Carried:
    """Zeros in the place of what nobody loads."""
    if isinstance(item, Tile):
        return Tile(splat(as_scalar(0, item.element).value, item.lengths, item.type.distribution))
    assert isinstance(item, Scalar)
    return as_scalar(0, item.type)


def element_types(spec: ContractionSpec) -> dict[str, str]:
    """Of every array, by name."""
    sides = {name: SideSpec.parse(text).dtype for name, text in zip(NAMES, spec.side, strict=False)}
    sources = {one.name: one.element for one in map(SourceSpec.parse, spec.sources)}
    a, b = ("i8" if one.packing else one.name for one in spec.held)
    operands = sources or {name: a if name == "a" else b for name in spec.tensors}
    scaling = [ScaleSpec.parse(text) for text in spec.scaling]
    scales = {one.name: one.dtype for one in scaling}
    zeros = {name: one.zeros for one in scaling for name in one.zero_names}
    beside = [ScaleSpec.parse(text).dtype for text in spec.chain_scaling]
    beside += [SideSpec.parse(text).dtype for text in spec.chain_side]
    behind = dict(zip(spec.behind, (b, *beside, "f32"), strict=False))
    outputs = dict.fromkeys(spec.outputs, spec.out)
    return {**operands, **dict.fromkeys(spec.index, "i8"), **scales, **zeros, **sides, **behind, **outputs}


def in_order(spec: ContractionSpec, integers: Iterable[str]) -> dict[str, Argument]:
    """Kernel arguments: see `ContractionSpec.in_order`."""
    pointers = [(name, ptr(dtype)) for name, dtype in element_types(spec).items()]
    return dict(spec.in_order(pointers, ((name, i32) for name in integers)))


def count_blocks(length: Scalar, step: int) -> Scalar:
    """How many blocks a length takes."""
    count: Scalar = (length + (step - 1)) // step
    return count


def block_at(spec: ContractionSpec, place: Scalar, n: Scalar) -> tuple[Scalar, Scalar]:
    """First row and column of a block of C; blocks are numbered row by row."""
    bm, bn, _ = spec.block
    across = count_blocks(n, bn)
    return place // across * bm, place % across * bn


def align_of(spec: ContractionSpec, name: str) -> int:
    """Elements that divide the distances between rows of an array."""
    if spec.sources and name in spec.tensors:
        return SourceSpec.parse(spec.sources[spec.tensors.index(name)]).align
    if name in spec.tensors:
        return spec.align[0 if name == "a" else 1]
    if name in spec.zeros:
        return 1
    if name == "down":
        return spec.chain[1]
    if name == "scale_down":
        return ScaleSpec.parse(*spec.chain_scaling).align
    if name in spec.bias_behind:
        return SideSpec.parse(*spec.chain_side).align
    if name in spec.scales:
        return ScaleSpec.parse(spec.scaling[spec.scales.index(name)]).align
    return spec.align[2] if name in spec.outputs else SideSpec.parse(spec.side[NAMES.index(name)]).align


def known_sizes(spec: ContractionSpec, given: SimpleNamespace) -> dict[str, Scalar]:
    """The sizes with what is known to divide them: the block, or the alignment of the rows that they are the
    length of.
    """
    known = known_divisors(spec) if spec.merged else dict.fromkeys("mnk", 1)
    rows = {0: "k" if spec.layout[0] == "R" else "m", 1: "n" if spec.layout[1] == "R" else "k", 2: "n"}
    if spec.behind:  # rows of the result are as long as K, those of its matrix as C has columns
        own = spec.held[1].packing
        rows[2], known["n"] = "k", max(known["n"], spec.chain[1] if own is None else own.elements)
    if spec.sparse:
        del rows[0]  # of what is kept: that every two of it are four of K says nothing of the last
    if spec.shuffled:
        del rows[1]  # rows of tiles, filled up
    if spec.beside:
        del rows[1]  # which are shorter than those of C
    if spec.merged:
        rows.clear()
    elif spec.sources or spec.is_depthwise:
        rows = {2: "n"}  # sources, and images of many groups, say of themselves what they are aligned to
    for source in map(SourceSpec.parse, spec.sources):
        letter = "k" if source.form in ("along_k", "each_k", *TILES) else ROWS[source.name[0]]
        known[letter] = max(known[letter], source.multiple)
    for operand, letter in rows.items():
        packing = spec.held[operand].packing if operand < 2 else None  # rows of packed elements are counted in bytes
        known[letter] = max(known[letter], spec.align[operand] if packing is None else packing.elements)
    for letter, length in zip("mnk", spec.block, strict=True):
        if letter not in spec.pad:
            known[letter] = length
    return {letter: getattr(given, letter).multiple_of(known[letter]) for letter in "mnk"}
