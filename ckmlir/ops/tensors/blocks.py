"""The tile of one workgroup in tile code: kernel arguments, its place in the index space, views and windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.packed_tiles import bytes_over
from ckmlir.dialect.packing import Packing
from ckmlir.lang import Pointer, Scalar, Tile, View, Window, i32, load, ptr, stretch, unpack, view
from ckmlir.lang.kernel import Argument
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.tensors.arrays import address_unit
from ckmlir.ops.tensors.tiling import REPEATED, UNIT, TileSpec

Place = Scalar | int


def kernel_arguments(spec: TileSpec) -> dict[str, Argument]:
    """What a kernel of a specification takes: arrays, lengths, numbers of tiles, strides."""
    pointers: dict[str, Argument] = {
        name: ptr("i8" if find_dtype(dtype).packing else dtype, address_unit(dtype, align))
        for name, dtype, align in zip(spec.arrays, spec.dtypes, spec.aligns, strict=True)
    }
    lengths: dict[str, Argument] = {f"length{dim}": i32 for dim in range(spec.rank)}
    tiles: dict[str, Argument] = {f"tiles{dim}": i32 for dim in range(spec.rank)}
    strides: dict[str, Argument] = {f"{name}_stride{dim}": i32 for name, dim in spec.arguments}
    return {**pointers, **lengths, **tiles, **strides}


class Block:
    """The tile of one workgroup."""

    def __init__(self, spec: TileSpec, given: Any) -> None:
        self.spec = spec
        self.given = given
        self.lengths = [
            getattr(given, f"length{dim}").multiple_of(multiple) for dim, multiple in enumerate(spec.multiples)
        ]

    def places(self, index: Scalar, dims: Sequence[int]) -> dict[int, Place]:
        """Where the `index`-th tile begins along these dimensions, the last of them the fastest."""
        found: dict[int, Place] = {}
        open_dims = [dim for dim in dims if not self.spec.single[dim]]
        for position, dim in reversed(list(enumerate(open_dims))):
            count = getattr(self.given, f"tiles{dim}")
            digit = index if position == 0 else index % count
            index = index if position == 0 else index // count
            found[dim] = digit * self.spec.tile[dim]
        return {dim: found.get(dim, 0) for dim in dims}

    def view_of(self, name: str) -> tuple[View, list[int]]:
        """An array as a view of the dimensions along which it does not repeat, and those dimensions.

        An array that repeats along all of them keeps the last; one of packed elements is one of bytes, which it counts
        along its own last dimension.
        """
        steps = self.spec.steps[self.spec.place(name)]
        dims = [dim for dim, step in enumerate(steps) if step != REPEATED] or [len(steps) - 1]
        lengths, strides = [self.lengths[dim] for dim in dims], self.strides(name, dims)
        packing = self.packing(name)
        if packing is not None:
            own = dims.index(self.along(name))
            strides = [step if at == own else _in_bytes(step, packing) for at, step in enumerate(strides)]
            lengths[own] = _in_bytes(lengths[own], packing)
        return view(self.pointer(name), lengths, strides), dims

    def along(self, name: str) -> int:
        """The dimension along which an array's elements follow each other; the last where none do."""
        unit = self.spec.unit(name)
        return self.spec.rank - 1 if unit is None else unit

    def packing(self, name: str) -> Packing | None:
        """How an array's elements share bytes."""
        return find_dtype(self.spec.dtypes[self.spec.place(name)]).packing

    def pointer(self, name: str) -> Pointer:
        """Where an array begins."""
        found: Pointer = getattr(self.given, name)
        return found

    def strides(self, name: str, dims: Sequence[int]) -> list[Place]:
        """An array's strides along some dimensions."""
        place = self.spec.place(name)
        found: list[Place] = []
        for dim in dims:
            step = self.spec.steps[place][dim]
            if step in (UNIT, REPEATED):
                found.append(int(step))
            else:
                found.append(getattr(self.given, f"{name}_stride{dim}").multiple_of(self.spec.aligns[place]))
        return found

    def window(self, name: str, origin: Mapping[int, Place]) -> tuple[Window, list[int]]:
        """The part of an array that belongs to the tile at an origin, and the dimensions that it has."""
        whole, dims = self.view_of(name)
        extents, origins = [self.spec.tile[dim] for dim in dims], [origin[dim] for dim in dims]
        packing = self.packing(name)
        if packing is not None:
            own = dims.index(self.along(name))
            extents[own] = packing.size(extents[own])
            origins[own] = _in_bytes(origins[own], packing)
        return whole.pad(*extents).window(extents, origins), dims

    def distribution(self, vector: int, contiguous: int) -> Distribution:
        """How the tile lies for accesses along a dimension."""
        return coalesced(self.spec.tile, self.spec.waves, contiguous, vector)

    def whole(self, tile: Tile, dims: Sequence[int], distribution: Distribution) -> Tile:
        """A tile of some of the dimensions, repeated along the others."""
        missing = [dim for dim in range(self.spec.rank) if dim not in dims]
        for dim in missing:
            tile = stretch(tile, dim, self.spec.tile[dim], distribution if dim == missing[-1] else None)
        return tile

    def load(self, name: str, origin: Mapping[int, Place], distribution: Distribution) -> Tile:
        """The part of an array that belongs to the tile at an origin, repeated where the array repeats; packed elements
        as f32.
        """
        return self.taken(name, *self.window(name, origin), distribution)

    def taken(self, name: str, window: Window, dims: Sequence[int], distribution: Distribution) -> Tile:
        """The same from what `window` gives."""
        packing = self.packing(name)
        if packing is not None:
            return unpack(load(window, bytes_over(distribution, packing)), self.spec.dtypes[self.spec.place(name)])
        if len(dims) == self.spec.rank:
            return load(window, distribution)
        return self.whole(load(window), dims, distribution)


def _in_bytes(elements: Place, packing: Packing) -> Place:
    """Bytes of so many packed elements, which fill them."""
    return elements // packing.elements * packing.bytes
