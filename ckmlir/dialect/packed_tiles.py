"""How a tile of bytes lies as a tile of packed elements, which share them (`packing.py`), and the other way round.

Elements follow each other along the last dimension of a tile; `repacked` has tiles whose elements share bytes along
another.
"""

from __future__ import annotations

from collections.abc import Callable

from ckmlir.dialect.distribution import REGISTER, Distribution
from ckmlir.dialect.packing import Packing


def elements_over(bytes_: Distribution, packing: Packing) -> Distribution:
    """How the elements lie of a tile of bytes.

    Raises:
        ValueError: a lane does not hold, in consecutive registers, all bytes that elements share.
    """
    return _resized(bytes_, packing.bytes, packing.elements, "bytes")


def bytes_over(elements: Distribution, packing: Packing) -> Distribution:
    """How the bytes lie of a tile of elements.

    Raises:
        ValueError: a lane does not hold, in consecutive registers, all elements that share bytes.
    """
    return _resized(elements, packing.elements, packing.bytes, "elements")


def repacked(tile: Distribution, packing: Packing, before: int, after: int) -> Distribution:
    """How the bytes lie of a tile whose elements share bytes along one dimension, when they share them along another:
    every element stays in its thread.

    Raises:
        ValueError: a lane does not hold, in consecutive registers, all bytes that elements share, or along the other
            dimension all elements that will.
    """
    elements = elements_along(tile, packing, before)
    last = elements.dims[after][-1] if elements.dims[after] else None
    if last is None or last.owner != REGISTER or last.length % packing.elements:
        raise ValueError(f"'{tile}' does not give lanes groups of {packing.elements} along d{after}")
    others = [place for place in range(len(elements.register_lengths)) if place != last.rank]
    return bytes_along(elements.with_register_order([*others, last.rank]), packing, after)


def elements_along(tile: Distribution, packing: Packing, dim: int) -> Distribution:
    """How the elements lie of a tile of bytes that they share along a dimension.

    Raises:
        ValueError: as `elements_over`.
    """
    return _last(dim, lambda one: elements_over(one, packing), tile)


def bytes_along(elements: Distribution, packing: Packing, dim: int) -> Distribution:
    """How the bytes lie of a tile of elements that share them along a dimension.

    Raises:
        ValueError: as `bytes_over`.
    """
    return _last(dim, lambda one: bytes_over(one, packing), elements)


def with_last(dim: int, rank: int) -> tuple[int, ...]:
    """The order of dimensions that has one as the last, the others as they were."""
    return (*(one for one in range(rank) if one != dim), dim)


def _last(dim: int, change: Callable[[Distribution], Distribution], tile: Distribution) -> Distribution:
    """A change of the last dimension, made to another."""
    order = with_last(dim, tile.rank)
    changed = change(tile.permute(order))
    return changed.permute([order.index(one) for one in range(tile.rank)])


def _resized(tile: Distribution, have: int, want: int, what: str) -> Distribution:
    """With groups of `have` registers along the last dimension as groups of `want`."""
    *outer, last = tile.dims
    if have == 1:
        return tile.expand(tile.rank, want).join(tile.rank - 1)
    fastest = len(tile.register_lengths) - 1
    factor = last[-1] if last else None
    if factor is None or (factor.owner, factor.rank) != (REGISTER, fastest) or factor.length % have:
        raise ValueError(f"'{tile}' does not give lanes groups of {have} {what} along the last dimension")
    changed = (*last[:-1], factor._replace(length=factor.length // have * want))
    return Distribution(tile.replicated, (*outer, changed))
