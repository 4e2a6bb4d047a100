"""Neighbouring blocks of K to instructions that follow each other, so that a lane holds neighbours of them all."""

from __future__ import annotations

from ckmlir.dialect.distribution import REGISTER, Distribution
from ckmlir.dialect.distribution_factors import Factor


def spread(operand: Distribution, block: int, times: int) -> Distribution:
    """An operand of `times` instructions of which each takes every `times`-th block of K, its last dimension.

    Args:
        operand: (rows, k) of one instruction.
        block: elements of a block, in the tile's own units.

    Raises:
        ValueError: the parts of a block are not those of some factors.
    """
    *outer, last = operand.dims
    inside: list[Factor] = []
    left = block
    blocks = list(last)
    cut: Factor | None = None  # of a factor that has a part of either, the part inside
    while left > 1:
        if not blocks:
            raise ValueError(f"'{operand}' has no blocks of {block} along K")
        factor = blocks.pop()
        if left % factor.length and factor.length % left:
            raise ValueError(f"'{operand}' does not cut K into blocks of {block}")
        if factor.length > left:
            blocks.append(factor._replace(length=factor.length // left))
            cut = factor._replace(length=left, rank=factor.rank + 1)
            inside.insert(0, cut)
            left = 1
        else:
            inside.insert(0, factor)
            left //= factor.length

    def moved(factor: Factor) -> Factor:
        behind = cut is not None and factor is not cut and factor.owner == cut.owner and factor.rank >= cut.rank
        rank = factor.rank + behind + (factor.owner == REGISTER)
        return factor._replace(rank=rank)

    rows = [tuple(map(moved, row)) for row in (*outer, blocks, inside)]
    k = (*rows[-2], Factor(times, REGISTER, 0), *rows[-1])
    return Distribution(tuple(map(moved, operand.replicated)), (*rows[:-2], k))
