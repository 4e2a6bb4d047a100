"""How a folded index space is cut into tiles: extents, padding, and what is known about lengths and strides.

A tile takes powers of two of the last dimensions, as many elements as fill the work-items with a few vectors each; its
other extents are 1, so that a workgroup's place along them is a scalar and may be anywhere in 2^31 elements. Where
arrays have different fastest dimensions a tile takes a square of those, which goes through LDS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Annotated, TypedDict, TypeVar

import numpy as np

from ckmlir.errors import as_json
from ckmlir.ops.dtypes import DTYPES, PACKED_TYPES, find_dtype
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Algorithm, Counts, Reason, Spec, no_such_float, not_all_choices, not_powers_of_two
from ckmlir.ops.tensors.arrays import address_unit, aligned_elements
from ckmlir.ops.tensors.folding import Folded
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

WAVES = 4
THREADS = WAVES * WAVE_SIZE
UNIT, REPEATED, STRIDED = "1", "0", "s"
"""How an array goes along a dimension: neighbours follow each other, are the same element, or lie apart."""
MAXIMUM_REACH = 2**31 - 1
"""Bytes between the elements of a tile: a lane's offset is 32 bits wide, its sign bit marks what is not accessed."""
BYTES_OF_THREAD = 32
"""Bytes of the narrowest array that a work-item moves."""
SQUARES = {1: 128, 2: 128, 4: 64, 8: 32}
"""Bytes of an element -> the side of a tile that is transposed: a work-item then turns a square of 16-byte vectors in
its registers (of 8-bit elements that are only moved; a wave suffices for a tile of those)."""
BYTES_HELD = 512
"""Most bytes of a tile that a work-item's registers hold."""
MAXIMUM_WORKGROUPS = 2**24 - 1
"""Of one launch: a grid counts work-items in 32 bits."""
ANY_STRIDE = 16
"""Of a dimension of length 1, of which no address depends; a multiple of every vector."""
WASTE = 1.25
"""By how much tiles may exceed a dimension that is longer than one tile."""


def _rank(steps: tuple[str, ...]) -> int:
    """What of `TileSpec.steps` is the same for all kernels of a mapping; one that takes strides takes unit strides."""
    return max(map(len, steps), default=0)


T = TypeVar("T", bound="TileSpec")


class TileSpec(Spec):
    """What a kernel over a folded index space depends on.

    Attributes:
        arrays: names of the arrays, outputs last.
        dtypes: their element types.
        steps: how each goes along the dimensions: a word of `1` (unit stride), `0` (repeats), `s` (a run-time stride).
        aligns: elements of which its base and its run-time strides are multiples.
        tile: extents of a workgroup's tile.
        multiples: numbers of which the lengths are multiples, up to the tile's extents.
        single: dimensions that one tile covers.
        waves: of a workgroup.
    """

    arrays: tuple[str, ...]
    dtypes: tuple[str, ...]
    steps: Annotated[tuple[str, ...], Counts(_rank)]
    aligns: Algorithm[tuple[int, ...]]
    tile: Algorithm[tuple[int, ...]]
    multiples: Algorithm[tuple[int, ...]]
    single: Algorithm[tuple[bool, ...]]
    waves: Algorithm[int]

    @classmethod
    def from_dict(cls: type[T], values: object, *, older: bool = False) -> T:
        """As `Spec.from_dict`. Raises RequestError, too, where arrays have not an entry each."""
        spec = super().from_dict(values, older=older)
        for field in ("dtypes", "steps", "aligns"):
            value, count = getattr(spec, field), len(spec.arrays)
            if not count or len(value) != count:
                what = f"expected one for each of {count} arrays" if count else "expected arrays"
                raise RequestError(f"{cls.__name__}: {field}={as_json(list(value))}: {what}")
        return spec

    @property
    def rank(self) -> int:
        return len(self.tile)

    @property
    def spread(self) -> int:
        """So many of the first dimensions have workgroups of their own for each tile."""
        return self.rank

    @property
    def element_bytes(self) -> int:
        """Bytes of an element in registers: one each, since it is computed with."""
        return 4

    def place(self, name: str) -> int:
        """The number of an array."""
        return self.arrays.index(name)

    def unit(self, name: str) -> int | None:
        """The dimension along which an array's elements follow each other, if there is one."""
        found = self.steps[self.place(name)].find(UNIT)
        return None if found < 0 else found

    def vector(self, name: str) -> int:
        """Elements of an array that one access may take."""
        place, unit = self.place(name), self.unit(name)
        if unit is None:
            return 1
        widest = find_dtype(self.dtypes[place]).widest
        return min(widest, self.aligns[place], self.multiples[unit], self.tile[unit])

    @property
    def arguments(self) -> tuple[tuple[str, int], ...]:
        """The run-time strides that the kernel takes, in order: array and dimension."""
        return tuple(
            (name, dim)
            for name, steps in zip(self.arrays, self.steps, strict=True)
            for dim, step in enumerate(steps)
            if step == STRIDED
        )


def steps_of(strides: Sequence[int], lengths: Sequence[int]) -> str:
    """How an array goes along the dimensions; at most one is its unit dimension, the last with stride 1."""
    unit = max((dim for dim, stride in enumerate(strides) if stride == 1), default=None)
    return "".join(UNIT if dim == unit else REPEATED if stride == 0 else STRIDED for dim, stride in enumerate(strides))


class ArrayFields(TypedDict):
    """Fields of a TileSpec that follow from the arrays."""

    steps: tuple[str, ...]
    aligns: tuple[int, ...]


class TileFields(TypedDict):
    """Fields of a TileSpec that follow from the tile."""

    tile: tuple[int, ...]
    multiples: tuple[int, ...]
    single: tuple[bool, ...]
    waves: int


def array_fields(folded: Folded, dtypes: Sequence[str], base: int) -> ArrayFields:
    """The fields `steps` and `aligns` of arrays whose base addresses are divisible by `base` bytes."""
    steps = tuple(steps_of(row, folded.lengths) for row in folded.strides)
    aligns = tuple(
        aligned_elements(dtype, base, *(stride for stride, step in zip(row, words, strict=True) if step == STRIDED))
        for dtype, row, words in zip(dtypes, folded.strides, steps, strict=True)
    )
    return {"steps": steps, "aligns": aligns}


def choose_tile(
    folded: Folded, dtypes: Sequence[str], free: Sequence[int] | None = None, elements: int | None = None, side: int = 0
) -> tuple[int, ...]:
    """Extents of a tile.

    `free` are the dimensions along which it may extend, by default all; `elements` how many it may have, by default as
    many as give every work-item BYTES_OF_THREAD of the narrowest array; `side` the extent along fastest dimensions
    where there are several, by default SQUARES.
    """
    sizes = [find_dtype(dtype).bytes for dtype in dtypes]
    left = elements or max(THREADS * BYTES_OF_THREAD // min(sizes), THREADS)
    allowed = list(range(len(folded.lengths))) if free is None else list(free)
    units = [dim for dim in reversed(allowed) if any(_is_unit(row, dim) for row in folded.strides)]
    tile = [1] * len(folded.lengths)
    crossing = len(units) > 1
    if crossing:
        side = side or SQUARES[max(sizes)]
        left = max(left, side * side)
    passes: list[tuple[Sequence[int], int]] = [(units, side)] if crossing else []
    passes.append(([*units, *(dim for dim in reversed(allowed) if dim not in units)], left))
    for dims, most in passes:
        for dim in dims:
            extent = _extent(folded.lengths[dim], min(most, left * tile[dim]))
            while extent > tile[dim] and not _within_reach(folded, sizes, {**dict(enumerate(tile)), dim: extent}):
                extent //= 2
            if extent > tile[dim]:
                left = left * tile[dim] // extent
                tile[dim] = extent
    return tuple(tile)


def _is_unit(strides: Sequence[int], dim: int) -> bool:
    return steps_of(strides, ())[dim] == UNIT


def _extent(length: int, most: int) -> int:
    """A power of two, at most `most`: the one that covers the length, or one whose multiples do without much waste."""
    most = 1 << (max(most, 1).bit_length() - 1)
    cover = 1 << (max(length, 1) - 1).bit_length()
    if cover <= most:
        return cover
    extent = most
    while extent > 64 and ceil_div(length, extent) * extent > WASTE * length:
        extent //= 2
    return extent


def _within_reach(folded: Folded, sizes: Sequence[int], tile: dict[int, int]) -> bool:
    return all(
        sum((extent - 1) * strides[dim] for dim, extent in tile.items()) * size < MAXIMUM_REACH
        for strides, size in zip(folded.strides, sizes, strict=True)
    )


def tile_fields(folded: Folded, tile: Sequence[int]) -> TileFields:
    """The fields `tile`, `multiples`, `single` and `waves`: no more waves than have elements of their own."""
    multiples = []
    for length, extent in zip(folded.lengths, tile, strict=True):
        known = extent
        while length % known:
            known //= 2
        multiples.append(known if known == extent else min(known, 16))
    waves = min(WAVES, max(prod(tile) // WAVE_SIZE, 1))
    single = tuple(0 < length <= extent for length, extent in zip(folded.lengths, tile, strict=True))
    return {"tile": tuple(tile), "multiples": tuple(multiples), "single": single, "waves": waves}


def tile_counts(lengths: Sequence[int], tile: Sequence[int]) -> tuple[int, ...]:
    """Tiles along every dimension."""
    return tuple(ceil_div(length, extent) for length, extent in zip(lengths, tile, strict=True))


def launch_scalars(
    spec: TileSpec, lengths: Sequence[int], tiles: Sequence[int], strides: Mapping[str, Sequence[int]]
) -> list[np.int32]:
    """The scalars of a launch in the order of `blocks.kernel_arguments`."""
    given = [strides[name][dim] if lengths[dim] > 1 else ANY_STRIDE for name, dim in spec.arguments]
    return [i32(number) for number in (*lengths, *tiles, *given)]


def check_tiles(folded: Folded, tile: Sequence[int], arrays: Sequence[str]) -> None:
    """Raise RequestError for more workgroups than a launch takes, and for lengths or strides beyond 32 bits.

    `arrays` are the names of those that the rows of `folded.strides` belong to. What has no elements fits.
    """
    if folded.is_empty:
        return
    workgroups = prod(tile_counts(folded.lengths, tile))
    if workgroups > MAXIMUM_WORKGROUPS:
        raise RequestError(
            f"{prod(folded.lengths)} elements take {workgroups} workgroups; one launch takes {MAXIMUM_WORKGROUPS}"
        )
    if max(folded.lengths) > MAXIMUM_SIZE:
        raise RequestError(f"{max(folded.lengths)} elements along a dimension; kernels count to {MAXIMUM_SIZE}")
    for name, strides in zip(arrays, folded.strides, strict=True):
        far = max((step for step, length in zip(strides, folded.lengths, strict=True) if length > 1), default=0)
        if far > MAXIMUM_SIZE:
            raise RequestError(
                f"array {name}: neighbours along a dimension lie {far} elements apart; kernels take at most "
                f"{MAXIMUM_SIZE}"
            )


def uncovered_tiles(spec: TileSpec, folded: Folded, base: int) -> Iterator[Reason]:
    """Why a kernel does not do an index space; `folded` has the strides of the specification's arrays, whose addresses
    are divisible by `base` bytes.
    """
    if len(folded.lengths) != spec.rank:
        why = f"the index space folds to {len(folded.lengths)} dimensions, the tile has {spec.rank}"
        yield Reason("tile", spec.tile, why, "expected as many")
        return
    sizes = [find_dtype(dtype).bytes for dtype in spec.dtypes]
    for name, steps, align, dtype, strides in zip(
        spec.arrays, spec.steps, spec.aligns, spec.dtypes, folded.strides, strict=True
    ):
        aligned = align == 1 or base % address_unit(dtype, align) == 0  # single elements may lie anywhere
        for step, stride in zip(steps, strides, strict=True):
            if step == STRIDED:
                aligned = aligned and (stride % align == 0 or folded.is_empty)
            elif stride != int(step):
                yield Reason("steps", steps, f"array {name} has other strides", f"expected {steps_of(strides, ())}")
                break
        if not aligned:
            yield Reason("aligns", spec.aligns, f"array {name} is not aligned to {align} elements", "expected less")
    for length, extent, multiple, single in zip(folded.lengths, spec.tile, spec.multiples, spec.single, strict=True):
        if length % multiple:
            why = f"a length of {length} is not a multiple of {multiple}"
            yield Reason("multiples", spec.multiples, why, "expected numbers that divide the lengths")
        if single and length > extent:
            why = f"a length of {length} is more than the tile's {extent}"
            yield Reason("single", spec.single, why, "expected a kernel of several tiles there")
    if prod(tile_counts(folded.lengths, spec.tile)[: spec.spread]) > MAXIMUM_WORKGROUPS:
        yield Reason("tile", spec.tile, "more workgroups than a launch takes", "expected larger extents")
    if not _within_reach(folded, sizes, dict(enumerate(spec.tile))):
        yield Reason("tile", spec.tile, "elements of a tile lie 2 GiB apart", "expected smaller extents")


def invalid_tiles(spec: TileSpec, target: Target) -> Iterator[Reason]:
    """What is wrong with a specification's common part."""
    unknown = list(not_all_choices(spec, dtypes=(*DTYPES, *PACKED_TYPES)))
    if unknown:  # what is said of bytes depends on them
        yield from unknown
        return
    yield from not_powers_of_two(spec, "tile", "multiples", "aligns")
    per_array = {"dtypes": spec.dtypes, "steps": spec.steps, "aligns": spec.aligns}
    for field, value in per_array.items():
        if len(value) != len(spec.arrays):
            yield Reason(field, value, f"{len(value)} entries", f"expected one for each of {len(spec.arrays)} arrays")
    per_dimension = {"multiples": spec.multiples, "single": spec.single}
    for field, entries in per_dimension.items():
        if len(entries) != spec.rank:
            yield Reason(field, entries, f"{len(entries)} entries", f"expected one for each of {spec.rank} dimensions")
    for word in spec.steps:
        if len(word) != spec.rank or not set(word) <= {UNIT, REPEATED, STRIDED}:
            right = f"expected {spec.rank} characters of {UNIT}, {REPEATED} and {STRIDED} for each array"
            yield Reason("steps", spec.steps, f"no array goes along dimensions as {word!r} says", right)
            break
    for array, dtype in zip(spec.arrays, spec.dtypes, strict=False):
        yield from no_such_float(f"elements of {array}", dtype, target)
    if not 1 <= spec.waves * WAVE_SIZE <= target.workgroup_size:
        most = target.workgroup_size // WAVE_SIZE
        yield Reason("waves", spec.waves, "no such workgroup", f"expected 1 to {most}")
    held = prod(spec.tile) * spec.element_bytes // max(spec.waves * WAVE_SIZE, 1)
    if held > BYTES_HELD:
        why = f"a work-item would hold {held} bytes of the tile"
        most = BYTES_HELD * spec.waves * WAVE_SIZE // spec.element_bytes
        yield Reason("tile", spec.tile, why, f"expected at most {most} elements")
