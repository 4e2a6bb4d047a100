"""Functions that change the shape of a tile; no data leaves its thread."""

from __future__ import annotations

from ckmlir.dialect import compute
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.types import TileType
from ckmlir.lang.trace import TracingError, located
from ckmlir.lang.values import Tile


@located
def stretch(tile: Tile, axis: int, length: int, distribution: Distribution | None = None) -> Tile:
    """A new dimension of `length` at position `axis` along which the elements repeat.

    Without a distribution, how the result lies is inferred from what it meets; how the tile lies, from the result.
    """
    shape = tile.type
    lengths = (*shape.lengths[:axis], length, *shape.lengths[axis:])
    return Tile(compute.broadcast(tile.value, axis, TileType(lengths, shape.element, distribution)))


@located
def permute_axes(tile: Tile, *order: int) -> Tile:
    """The dimensions in another order: new dimension i is the old dimension `order[i]`.

    How either side lies is inferred from the other.

    Raises:
        TracingError: the numbers do not order the tile's dimensions.
    """
    shape = tile.type
    if sorted(order) != list(range(len(shape.lengths))):
        raise TracingError(f"{list(order)} is not an order of the tile's {len(shape.lengths)} dimensions")
    lengths = tuple(shape.lengths[dim] for dim in order)
    moved = None if shape.distribution is None else shape.distribution.permute(order)
    return Tile(compute.permute_axes(tile.value, order, TileType(lengths, shape.element, moved)))


@located
def join_axes(tile: Tile, axis: int) -> Tile:
    """Dimensions `axis` and `axis + 1` as one, the second the faster."""
    shape = tile.type
    if not 0 <= axis < len(shape.lengths) - 1:
        raise TracingError(f"axes {axis} and {axis + 1} are not both among the tile's {len(shape.lengths)} dimensions")
    lengths = (*shape.lengths[:axis], shape.lengths[axis] * shape.lengths[axis + 1], *shape.lengths[axis + 2 :])
    joined = None if shape.distribution is None else shape.distribution.join(axis)
    return Tile(compute.join_axes(tile.value, axis, TileType(lengths, shape.element, joined)))
