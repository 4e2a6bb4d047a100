"""Images seen through windows as a matrix: the operand of an implicit GEMM."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from operator import mul
from types import SimpleNamespace

from msgspec.structs import replace

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced, in_quads
from ckmlir.lang import Pointer, Scalar, Tile, View, Window, view
from ckmlir.lang.views import Amount
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.depthwise import DepthwiseSpec
from ckmlir.ops.contraction.loop_kernel import Operand
from ckmlir.ops.contraction.operands_kernel import Matrix, array
from ckmlir.ops.contraction.rows_kernel import Following, Rows
from ckmlir.ops.contraction.windows import WindowsSpec
from ckmlir.ops.contraction.work_kernel import Work
from ckmlir.ops.tensors.sliding import slide
from ckmlir.targets.cdna import WAVE_SIZE

AT_ONCE = 4
"""Rows, or columns, of patches that a wave loads of at a time at least."""


class DealtOut(Following, frozen=True, kw_only=True):
    """Rows of patches whose elements follow each other `along` a dimension, where all lanes of a wave would have the
    same coordinate along the other. That and its comparisons would be in scalar registers then, of which there are too
    few for all of them; so lanes are dealt out to several.
    """

    waves: int
    vector: int
    along: int

    def load(
        self, origin: Sequence[Amount] = (), lengths: Sequence[int] = (), lies: Distribution | None = None
    ) -> Tile:
        """See `Rows`."""
        others = (1 - self.along, AT_ONCE)
        dealt = coalesced((self.count, *lengths), self.waves, self.along, self.vector, lanes_first=others)
        return super().load(origin, lengths, lies or dealt)


class InQuads(Following, frozen=True, kw_only=True):
    """Columns of patches, with four positions for all lanes of a quad: a lane finds out the place in the images of one
    of them for all four.

    Attributes:
        ragged: whether steps may end behind the last position.
    """

    waves: int
    vector: int
    ragged: bool

    def load(
        self, origin: Sequence[Amount] = (), lengths: Sequence[int] = (), lies: Distribution | None = None
    ) -> Tile:
        """See `Rows`."""
        (depth,) = lengths
        return super().load(origin, lengths, lies or in_quads((self.count, depth), self.waves, self.vector))

    def _window(self, origin: Sequence[Amount], lengths: Sequence[int]) -> Window:
        padded = self.view.pad(self.count, *(lengths if self.ragged else (1,)))
        return padded.window((self.count, *lengths), (self.row, *origin))


class LaterMatrix(Matrix, frozen=True):
    """A matrix whose view begins at the `first` k."""

    first: Scalar

    def load(self, k: Scalar) -> Tile:
        """See `loop_kernel.Operand`."""
        return super().load(k - self.first)


def forward(spec: ContractionSpec, work: Work) -> list[Operand]:
    """The patches are A."""
    _, bn, bk = spec.block
    seen, row = _patches(spec, work.arrays["a"], work.distances, work.row)
    b = array(spec, work, "b").rows(work.column, bn)
    return [Matrix("a", patch_rows(spec, "a", seen, row), bk), Matrix("b", b, bk)]


def weight(spec: ContractionSpec, work: Work) -> list[Operand]:
    """The patches are B, and K counts them."""
    bm, _, bk = spec.block
    seen, at = _patches(spec, work.arrays["b"], work.distances, work.begin)
    b = InQuads(
        seen.permute(1, 0), work.column, spec.block[1], waves=spec.wave_count, vector=spec.align[1],
        ragged="k" in spec.pad,
    )  # fmt: skip
    if isinstance(work.begin, int):
        a: Operand = Matrix("a", array(spec, work, "a").rows(work.row, bm), bk)
    else:
        a = LaterMatrix("a", array(spec, _from(work.begin, spec, work), "a").rows(work.row, bm), bk, work.begin)
    return [a, LaterMatrix("b", b, bk, work.begin - at)]


def places(spec: ContractionSpec, work: Work) -> list[Operand]:
    """The patches are B, and K counts all images at one position, or as many more as make whole units, then those at
    the next: what steps have in common is the position. Or it counts units of neighbouring positions so, and what waves
    load of a step has the place of its unit in common.
    """
    bm, bn, bk = spec.block
    windows, given = WindowsSpec.parse(spec.windows), work.distances
    is_whole = windows.part == "places"
    images = given.images.multiple_of(windows.images if is_whole else 1)
    x = _slid(work.arrays["b"], images, given, windows, _channels(spec, windows, given), spec.align[1])
    x = x.merge(*range(windows.rank + 1, x.descriptor.rank))
    positions = _positions(given, windows)
    steps = accumulate(reversed(positions), mul, initial=given.lda.multiple_of(spec.align[0]))
    dy = view(work.arrays["a"], (images, *positions, work.sizes["m"]), (*reversed([*steps]), 1))
    if not is_whole:
        x, dy = (seen.pad(windows.images, *[1] * (seen.descriptor.rank - 1)) for seen in (x, dy))
    ragged = "k" in spec.pad
    units = _units((images, *positions), windows)
    dy, x = (_by_place(seen, units) for seen in (dy, x))
    if windows.unit % bk:  # waves have positions of their own, dy's and x's the same where lanes are dealt out alike
        a: Rows = InQuads(dy, work.row, bm, waves=spec.wave_count, vector=spec.align[0], ragged=ragged)
    else:
        a = Following(dy, work.row, bm, (bm, bk if ragged else 1))
    b = InQuads(x, work.column, bn, waves=spec.wave_count, vector=spec.align[1], ragged=ragged)
    return [Matrix("a", a, bk), Matrix("b", b, bk)]


def _units(lengths: Sequence[Scalar], windows: WindowsSpec) -> list[tuple[Scalar, int]]:
    """How many units there are along images and each dimension of positions, and what each has of it; none where units
    are of one position. Computed once, so that dy and x have the same digits.
    """
    if not windows.positions:
        return []
    parts = (windows.images, *windows.positions)
    return [(length.multiple_of(part) // part, part) for length, part in zip(lengths, parts, strict=True)]


def _by_place(seen: View, units: Sequence[tuple[Scalar, int]]) -> View:
    """(images, positions…, columns) as (columns, positions and images), or as (columns, units and what is in them)."""
    columns = seen.descriptor.rank - 1
    order = [*range(1, columns), 0]
    if not units:
        return seen.permute(*order, columns).merge(*range(columns)).permute(1, 0)
    for dim in reversed(range(columns)):
        seen = seen.unmerge(dim, units[dim])
    seen = seen.permute(*(2 * dim for dim in order), *(2 * dim + 1 for dim in order), 2 * columns)
    return seen.merge(*range(columns, 2 * columns)).merge(*range(columns + 1)).permute(1, 0)


def _from(first: Scalar, spec: ContractionSpec, work: Work) -> Work:
    """A part whose A begins at its first k, so that only what the part takes has to be within the reach of 32 bits."""
    pitch = work.distances.lda.multiple_of(spec.align[0])
    begin = work.arrays["a"].offset((first.to("i64") * pitch.to("i64")).multiple_of(spec.align[0]))
    rest = (work.sizes["k"] - first).multiple_of(work.sizes["k"].multiple)
    return replace(work, arrays={**work.arrays, "a": begin}, sizes={**work.sizes, "k": rest})


def patch_rows(spec: ContractionSpec, name: str, seen: View, row: Scalar) -> Rows:
    """Rows of what is seen through windows and is A or B, from one on."""
    place = "ab".index(name)
    count, vector = spec.block[place], spec.align[place]
    along = 1 if spec.layout[place] == ("R", "C")[place] else 0
    if (count, spec.block[2])[along] < WAVE_SIZE * vector:
        return Following(seen, row, count)
    return DealtOut(seen, row, count, waves=spec.wave_count, vector=vector, along=along)


def _patches(
    spec: ContractionSpec, pointer: Pointer, given: SimpleNamespace, position: Scalar | int
) -> tuple[View, Scalar]:
    """Images as a matrix of (images and positions, places in the window and channels), from the image on that has a
    `position` counted through all of them; and which row that position is.
    """
    windows = WindowsSpec.parse(spec.windows)
    align = spec.align["ab".index(windows.image)]
    seen, row = images_from(pointer, given, windows, position, _channels(spec, windows, given), align)
    rows = range(windows.rank + 1)
    return seen.merge(*rows).merge(*range(1, windows.rank + 2)), row


def _channels(spec: ContractionSpec, windows: WindowsSpec, given: SimpleNamespace) -> Scalar:
    """Of a group, with what is known to divide them."""
    found: Scalar = given.channels.multiple_of(max(spec.align["ab".index(windows.image)], windows.channels))
    return found


def images_from(
    pointer: Pointer,
    given: SimpleNamespace,
    windows: WindowsSpec | DepthwiseSpec,
    position: Scalar | int,
    channels: Scalar,
    align: int,
) -> tuple[View, Scalar]:
    """Images as (images, positions, places in the window, channels), from the image on that has a `position` counted
    through all of them; and which that position is, counted from there.

    Addresses count from that image, so that only what a block spans has to be within the reach of 32 bits.
    """
    each = reduce(mul, _positions(given, windows))
    first = position // each
    step = given.image_step.multiple_of(align)
    begin = pointer.offset((first.to("i64") * step.to("i64")).multiple_of(align))
    return _slid(begin, given.images - first, given, windows, channels, align), position - first * each


def _slid(
    pointer: Pointer,
    images: Scalar,
    given: SimpleNamespace,
    windows: WindowsSpec | DepthwiseSpec,
    channels: Scalar,
    align: int,
) -> View:
    """So many images as (images, positions, places in the window, channels); dimensions along which nothing slides are
    in front of the channels.
    """
    spatial = range(windows.rank)
    lengths = (images, *(getattr(given, f"image{dim}") for dim in spatial), channels)
    strides = [given.image_step, *(getattr(given, f"space_step{dim}") for dim in spatial)]
    whole = view(pointer, lengths, (*(stride.multiple_of(align) for stride in strides), 1))
    positions = _positions(given, windows)[: windows.slides]
    return slide(whole, given, positions, padded=windows.padded, few=windows.few)


def _positions(given: SimpleNamespace, windows: WindowsSpec | DepthwiseSpec) -> list[Scalar]:
    """Of windows, along each dimension."""
    return [getattr(given, f"positions{dim}") for dim in range(windows.rank)]
