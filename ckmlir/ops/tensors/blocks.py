"""The tile of one workgroup in tile code: kernel arguments, its place in the index space, views and windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import Pointer, Scalar, Tile, View, Window, i32, load, ptr, stretch, view
from ckmlir.lang.kernel import Argument
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.tensors.tiling import REPEATED, UNIT, TileSpec

Place = Scalar | int


def kernel_arguments(spec: TileSpec) -> dict[str, Argument]:
    """What a kernel of a specification takes: arrays, lengths, numbers of tiles, strides."""
    pointers: dict[str, Argument] = {
        name: ptr(dtype, min(align * find_dtype(dtype).bytes, 16))
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

        An array that repeats along all of them keeps the last.
        """
        steps = self.spec.steps[self.spec.place(name)]
        dims = [dim for dim, step in enumerate(steps) if step != REPEATED] or [len(steps) - 1]
        return view(self.pointer(name), [self.lengths[dim] for dim in dims], self.strides(name, dims)), dims

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
        extents = [self.spec.tile[dim] for dim in dims]
        return whole.pad(*extents).window(extents, [origin[dim] for dim in dims]), dims

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
        """The part of an array that belongs to the tile at an origin, repeated where the array repeats."""
        window, dims = self.window(name, origin)
        if len(dims) == self.spec.rank:
            return load(window, distribution)
        return self.whole(load(window), dims, distribution)
