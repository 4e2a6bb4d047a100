"""How products of experts' matrices are cut into blocks where the request leaves it open: the candidates."""

from __future__ import annotations

from collections.abc import Iterator

from ckmlir.ops.contraction.contraction_spec import PRESHUFFLE
from ckmlir.ops.contraction.defaults import PREFERRED, Plan, default_waves
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.moe.experts_problem import ExpertsProblem

BLOCKS = {128: ((128, (2, 2), 128),), 64: ((128, (2, 2), 128), (64, (2, 2), 128)), 32: ((64, (1, 4), 256),),
          16: ((64, (1, 4), 256),)}  # fmt: skip
"""Rows of a block -> its columns, waves, and bytes along K."""


def plans(problem: ExpertsProblem) -> list[Plan]:
    """Candidates for what is open, the best first: the highest block that divides a unit, by every schedule."""
    product = problem.product
    schedules: tuple[str, ...] = PREFERRED
    if product.schedule or product.shuffled:
        schedules = (product.schedule or PRESHUFFLE,)
    return [
        Plan(name, block, product.waves or waves or default_waves(name))
        for block, waves in _blocks(problem)
        for name in schedules
    ]


def _blocks(problem: ExpertsProblem) -> Iterator[tuple[tuple[int, int, int], tuple[int, int] | None]]:
    """Blocks and their waves, None where the request names the block."""
    product = problem.product
    if product.block is not None:
        yield product.block, None
        return
    size = find_dtype(product.stored).bytes
    for rows, kinds in BLOCKS.items():
        for columns, waves, depth in kinds if problem.unit % rows == 0 else ():
            yield (rows, columns, depth // size), waves
