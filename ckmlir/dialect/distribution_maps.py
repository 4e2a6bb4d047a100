"""Which registers of one distribution hold what those of another want, within each thread."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ckmlir.dialect.distribution import Coordinates, Distribution, flatten


@lru_cache(maxsize=1024)
def register_map(source: Distribution, target: Distribution) -> tuple[int, ...] | None:
    """For each register of `target` the register of `source` in the same thread that holds the same element.

    None when some thread lacks an element, so that data must cross lanes or waves.

    Raises:
        ValueError: the tiles or the numbers of waves and lanes differ.
    """
    if source.lengths != target.lengths:
        raise ValueError(f"tiles of {list(source.lengths)} and {list(target.lengths)} cannot be compared")
    return _match(source, source.elements(), target, target.elements())


@lru_cache(maxsize=1024)
def broadcast_map(source: Distribution, target: Distribution, dim: int) -> tuple[int, ...] | None:
    """For each register of `target` the register of `source`, which lacks dimension `dim`, to repeat there.

    None when some thread lacks an element, so that data must cross lanes or waves.

    Raises:
        ValueError: `source` is not the tile of `target` without `dim`, or the numbers of waves and lanes differ.
    """
    lengths = target.lengths[:dim] + target.lengths[dim + 1 :]
    if source.lengths != lengths or not 0 <= dim < target.rank:
        raise ValueError(f"{list(source.lengths)} is not {list(target.lengths)} without dimension {dim}")
    return _match(source, source.elements(), target, flatten(np.delete(target.coordinates(), dim, axis=0), lengths))


@lru_cache(maxsize=1024)
def axis_map(source: Distribution, target: Distribution, dim: int) -> tuple[int, ...] | None:
    """For each register of `target` the register of `source`, a tile of one value an index of `dim`, that has its own.

    None when some thread lacks one, so that data must cross lanes or waves.

    Raises:
        ValueError: `source` is not a tile with one value for each index of `dim`, or the numbers of waves
            and lanes differ.
    """
    target._check_dim(dim)
    if source.lengths != (target.lengths[dim],):
        raise ValueError(f"{list(source.lengths)} is not one value for each of {target.lengths[dim]} indices")
    return _match(source, source.elements(), target, target.coordinates()[dim])


def _match(
    source: Distribution, held: Coordinates, target: Distribution, wanted: Coordinates
) -> tuple[int, ...] | None:
    if (source.waves, source.lanes) != (target.waves, target.lanes):
        raise ValueError(
            f"{source.waves} waves of {source.lanes} lanes against {target.waves} of {target.lanes}: no common threads"
        )
    place = {int(element): register for register, element in enumerate(held[0, 0])}
    if not all(int(element) in place for element in wanted[0, 0]):
        return None
    registers = [place[int(element)] for element in wanted[0, 0]]
    return tuple(registers) if bool((held[:, :, registers] == wanted).all()) else None
