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

import math
from collections.abc import Iterator
from typing import NamedTuple

from ckmlir.ops.contraction.contraction_spec import PRESHUFFLE
from ckmlir.ops.contraction.defaults import PREFERRED, PREFERRED_PARTIAL, TALL_WAVES, default_waves
from ckmlir.ops.contraction.few_rows import NARROWEST_FOR_TWO_LINES
from ckmlir.ops.contraction.wishes import NARROWEST_FOR_TWO_STEPS, Plan
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
ALONE = Block(16, (64, 64), (1, 4), ("mem4", *LOW))
"""Where low blocks of one product, as wide as this, are one for a compute unit at most: down of one token from 1024 to
2048 with 8 experts, 72 % of HBM's bandwidth, with `FEW` 62 %, by the model on gfx942; of two tokens 69 and 76 %."""
NARROW = Block(64, (64, 64), TALL_WAVES, PREFERRED_PARTIAL)
"""Where rows allow loads of less than 4 bytes only, with half a cache line along k: each load is compared with the end
of K, those of a list with the rows too, and scalar registers hold the outcomes. With blocks of 128 x 128 and a line 154
of them were spilled for fp8 and k = 333 on gfx942."""
LONG = 32
"""Steps of the loop."""
LEAST = 2
"""Low blocks for each compute unit, below which they are too few."""
FEW_DEPTH = 2 * DEPTH
SHORT = 32
"""Steps of the loop at most for which one LDS buffer is better than two, where two leave room for one workgroup on a
compute unit: nothing else runs beside its way into the loop and its stores. By the model on gfx942, bf16, 4096 tokens,
in us with compv4 and compv3: 8 experts of 2, n = 1024, k = 512 20.5 and 17.1, 1024 29.0 and 26.7, 2048 45.8 and 45.7,
4096 79.5 and 83.8; down, 32 experts of 4, n = 1024, k = 512 47.8 and 36.7, 2048 98.4 and 96.4, 4096 165.8 and 172.2;
999 tokens, 64 experts of 4, which is one padded block each, n = 1024, k = 512 31.1 and 23.3, 2048 90.4 and 75.7.
Where two leave room for more, as on gfx950, it is the better one if so many more workgroups at a time take fewer turns;
likewise: 8 experts of 2, n = 1024, k = 1024 32.2 and 23.5, 4096 98.8 and 73.4; of 3, which take as many turns, 32.2 and
46.0; with equal turns n = 896, k = 1024 17.1 and 16.5, 4096 50.4 and 52.8."""
BESIDE = 70
"""Registers of a lane beside accumulators with one buffer, about: blocks of 128 x 128 run three on a compute unit of
gfx950, of 64 x 128 five."""
SHORTEST, NARROW_COLUMNS = 8, 16
"""Steps of the loop at most for which the highest blocks of one product without scales, in at most 16 bits, take
matrix instructions of so many columns: what lies behind the loop is shorter then. By the model, 4096 tokens, in us with
32 columns and with 16: down, 32 experts of 4, n = 1024, k = 512 in bf16 36.7 and 35.7 on gfx942, 40.0 and 36.7 on
gfx950, added by memory in f32 37.6 and 36.4, 40.0 and 38.7; 2048 tokens, n = 4096, k = 384 65.7 and 64.5, 50.8 and
45.9. On gfx90a .985 to 1.011 of the time; on gfx950 with 16 steps 1.05. Blocks of 64 rows take 1.04 on gfx942.
"""


def plans(problem: ExpertsProblem, target: Target) -> Iterator[Plan]:
    """Candidates for what is open, the best first: the highest block that divides a unit, by every schedule."""
    product = problem.product
    named = product.schedule or (PRESHUFFLE if product.shuffled else None)
    if product.block is not None:
        for schedule in (named,) if named else PREFERRED:
            yield Plan(schedule, product.block, product.waves or default_waves(schedule))
        return
    bits = find_dtype(product.taken(target) or product.stored).step
    if product.scaled_group(target):
        named = named or PREFERRED_PARTIAL[0]
    if _alone(problem, target):
        yield from _plans(problem, ALONE, 8 * DEPTH // bits, named)
    elif _few(problem, target):
        depth = 8 * (FEW_DEPTH if product.load_bytes >= NARROWEST_FOR_TWO_LINES else DEPTH) // bits
        fewest = product.k >= LONG * depth and 2 * _live(problem, FEW) <= target.compute_units
        yield from _plans(problem, FEWEST if fewest else FEW, depth, named)
    if product.load_bytes < NARROWEST_FOR_TWO_STEPS and not product.shuffled and problem.unit % NARROW.rows == 0:
        deepest = max((one.group for one in product.scaling), default=0)
        yield from _plans(problem, NARROW, max(4 * DEPTH // bits, deepest), named)
    for block in STRAIGHT if product.shuffled else BLOCKS:
        if problem.unit % block.rows == 0:
            depth = 8 * DEPTH // bits
            short = block == BLOCKS[0] and product.k <= SHORTEST * depth and product.products == 1
            narrow = short and bits <= 16 and not product.scaling
            block = block._replace(schedules=LOW) if _one_buffer(problem, block, depth, target) else block
            yield from _plans(problem, block, depth, named, NARROW_COLUMNS if narrow else 0)


def _one_buffer(problem: ExpertsProblem, block: Block, depth: int, target: Target) -> bool:
    """Whether one LDS buffer is better than two, since more workgroups run on a compute unit at a time; see `SHORT`."""
    products = problem.product.products
    columns = block.columns[products - 1]
    buffer = (block.rows + products * columns) * DEPTH
    registers = block.rows * columns * products // (math.prod(block.waves) * target.wave_size) + BESIDE
    most = target.registers.vector_total // registers
    one, two = (min(target.lds_bytes // (buffers * buffer), most) for buffers in (1, 2))
    # On average half of an expert's last block is padding.
    rows = ceil_div(problem.entries, block.rows) + min(problem.e, problem.entries) // 2
    each = ceil_div(rows * ceil_div(problem.product.n, columns), target.compute_units)
    if not 0 < two < one:
        return False
    short = problem.product.k <= SHORT * depth
    if two == 1:
        return short and each > 1
    with_one, with_two = (ceil_div(each, count) * _least(each, count) for count in (one, two))
    # With as many turns one is better for short sums, unless each compute unit has one workgroup only.
    return with_one < with_two + short * _least(each - 1, 1)


def _least(one: int, other: int) -> int:
    """The smaller number, by arithmetic: a comparison would be one more way to tell apart for each new number of tokens
    (`ckmlir.ops.recorded`)."""
    return (one + other - abs(one - other)) // 2


def _plans(
    problem: ExpertsProblem, block: Block, depth: int, named: str | None, columns: int = 0
) -> Iterator[Plan]:
    """A block under each schedule, by matrix instructions of so many columns; 0: of any."""
    product = problem.product
    for schedule in (named,) if named else block.schedules:
        lengths = (block.rows, block.columns[product.products - 1], depth)
        yield Plan(schedule, lengths, product.waves or block.waves, columns)


def _few(problem: ExpertsProblem, target: Target) -> bool:
    """Whether the lowest blocks, one for each expert that may be chosen, leave compute units idle."""
    lowest = BLOCKS[-1]
    return problem.unit == lowest.rows and 0 < _live(problem, lowest) < LEAST * target.compute_units


def _alone(problem: ExpertsProblem, target: Target) -> bool:
    """Whether wide low blocks with rows leave no compute unit more than one, and most of them one."""
    single = problem.unit == ALONE.rows and problem.product.products == 1
    return single and target.compute_units // 2 < _live(problem, ALONE) <= target.compute_units


def _live(problem: ExpertsProblem, block: Block) -> int:
    """Blocks with rows, one for each expert that may be chosen."""
    across = ceil_div(problem.product.n, block.columns[problem.product.products - 1])
    return min(problem.entries, problem.e) * across
