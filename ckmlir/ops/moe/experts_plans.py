"""How products of experts' matrices are cut into blocks where the request leaves it open: the candidates.

High blocks are bound by the matrix cores and take the schedules of `ckmlir.ops.contraction.defaults`. Low ones wait for
the matrices from memory: many small workgroups with one LDS buffer each hide that better than few with more loads on
their way. By the model on gfx942, bf16, 64 experts of 16 tokens with 4 each, in shares of HBM's bandwidth: 16x64x128
with compv4 65 %, 16x64x64 with compv4 69 %, with compv3 84 %. Wide ones are better where sums are short: down from 256
to 7168, 2 tokens of 8, 16x32x64 44 %, 16x64x64 76 %. Where those are fewer than two for each compute unit, smaller ones
load further ahead: gate and up from 7168 to 256, 16 tokens of 8, 16x32x64 73 %, 16x16x128 with mem4 96 %.
benchmarks/README.md has more of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ckmlir.ops.contraction.contraction_spec import PRESHUFFLE
from ckmlir.ops.contraction.defaults import PREFERRED, PREFERRED_PARTIAL, default_waves
from ckmlir.ops.contraction.wishes import Plan
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.moe.experts_problem import ExpertsProblem
from ckmlir.ops.operator import ceil_div
from ckmlir.targets import Target

DEPTH = 128
"""Bytes of a block along k: a full cache line."""


class Block(NamedTuple):
    """Rows of a block, columns of one product and of two, waves, and schedules, the best first."""

    rows: int
    columns: tuple[int, int]
    waves: tuple[int, int]
    schedules: tuple[str, ...]


LOW = tuple(reversed(PREFERRED))
BLOCKS = (
    Block(128, (128, 128), (2, 2), PREFERRED),
    Block(64, (128, 128), (2, 2), PREFERRED),
    Block(64, (64, 64), (2, 2), PREFERRED),
    Block(32, (64, 32), (2, 2), LOW),
    Block(16, (64, 32), (1, 2), LOW),
)


STRAIGHT = (Block(128, (128, 64), (2, 2), ()), Block(64, (128, 64), (2, 2), ()), *BLOCKS[3:])
"""Where the matrices are preshuffled, and go straight to registers: those of two leave fewer for accumulators."""
FEW = Block(16, (16, 16), (1, 1), ("mem4", *LOW))
"""Where low blocks are too few."""
FEWEST = FEW._replace(schedules=("v4", *FEW.schedules))
"""Where those leave half the compute units idle as well, and sums are long: a wave is alone on its SIMD then, and what
it waits for is LDS, unless all of a step's reads are on their way before its products. Gate and up of one token from
7168 to 256 with 8 experts, 128 blocks: 57 % of HBM's bandwidth with mem4, 63 % with compv6, 78 % with v4, by the model
on gfx942.
"""
LONG = 32
"""Steps of the loop."""
LEAST = 2
"""Low blocks for each compute unit, below which they are too few."""
FEW_DEPTH = 2 * DEPTH


def plans(problem: ExpertsProblem, target: Target) -> Iterator[Plan]:
    """Candidates for what is open, the best first: the highest block that divides a unit, by every schedule."""
    product = problem.product
    named = product.schedule or (PRESHUFFLE if product.shuffled else None)
    if product.block is not None:
        for schedule in (named,) if named else PREFERRED:
            yield Plan(schedule, product.block, product.waves or default_waves(schedule))
        return
    bits = find_dtype(product.taken(target) or product.stored).step
    if product.scales_partial(target):
        named = named or PREFERRED_PARTIAL[0]
    if _few(problem, target):
        depth = 8 * FEW_DEPTH // bits
        fewest = product.k >= LONG * depth and 2 * _live(problem, FEW) <= target.compute_units
        yield from _plans(problem, FEWEST if fewest else FEW, depth, named)
    for block in STRAIGHT if product.shuffled else BLOCKS:
        if problem.unit % block.rows == 0:
            yield from _plans(problem, block, 8 * DEPTH // bits, named)


def _plans(problem: ExpertsProblem, block: Block, depth: int, named: str | None) -> Iterator[Plan]:
    product = problem.product
    for schedule in (named,) if named else block.schedules:
        lengths = (block.rows, block.columns[product.products - 1], depth)
        yield Plan(schedule, lengths, product.waves or block.waves)


def _few(problem: ExpertsProblem, target: Target) -> bool:
    """Whether the lowest blocks, one for each expert that may be chosen, leave compute units idle."""
    lowest = BLOCKS[-1]
    return problem.unit == lowest.rows and 0 < _live(problem, lowest) < LEAST * target.compute_units


def _live(problem: ExpertsProblem, block: Block) -> int:
    """Blocks with rows, one for each expert that may be chosen."""
    across = ceil_div(problem.product.n, block.columns[problem.product.products - 1])
    return min(problem.entries, problem.e) * across
