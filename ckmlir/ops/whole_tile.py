"""Folds of a whole tile: one number, which all lanes have."""

from __future__ import annotations

from collections.abc import Callable

from ckmlir.lang import Scalar, Tile, stretch, uniform


def whole(fold: Callable[[Tile, int], Tile], tile: Tile) -> Scalar:
    """The fold of all elements of a tile of one dimension, which lies in every wave."""
    assert tile.type.distribution is not None
    found: Scalar = uniform(fold(stretch(tile, 0, 1, tile.type.distribution.expand(0, 1)), 1))
    return found
