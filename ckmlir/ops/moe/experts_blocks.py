"""Blocks of products of experts' matrices, and how many of them run at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from ckmlir.ops.contraction.defaults import PREFERRED
from ckmlir.ops.contraction.side import NAMES
from ckmlir.ops.contraction.wishes import Plan
from ckmlir.ops.moe.experts_problem import ExpertsProblem
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target
from ckmlir.targets.cdna import SIMDS

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


def plans_of(
    problem: ExpertsProblem, block: Block, depth: int, named: str | None, columns: int = 0
) -> Iterator[Plan]:
    """A block under each schedule, by matrix instructions of so many columns; 0: of any."""
    product = problem.product
    for schedule in (named,) if named else block.schedules:
        lengths = (block.rows, block.columns[product.products - 1], depth)
        yield Plan(schedule, lengths, product.waves or block.waves, columns)


def one_buffer(problem: ExpertsProblem, block: Block, depth: int, target: Target) -> bool:
    """Whether one LDS buffer is better than two, since more workgroups run on a compute unit at a time; see `SHORT`."""
    each, one, two = turns_of(problem, block, target)
    if not 0 < two < one:
        return False
    short = problem.product.k <= SHORT * depth
    if two == 1:
        return short and each > 1
    with_one, with_two = (time_of(each, count) for count in (one, two))
    # With as many turns one is better for short sums, unless each compute unit has one workgroup only.
    return with_one < with_two + short * least(each - 1, 1)


def turns_of(problem: ExpertsProblem, block: Block, target: Target) -> tuple[int, int, int]:
    """Blocks for a compute unit, and how many of them run at a time with one LDS buffer and with two."""
    products = problem.product.products
    columns = block.columns[products - 1]
    buffer = (block.rows + products * columns) * DEPTH
    registers = block.rows * columns * products // (math.prod(block.waves) * target.wave_size) + BESIDE
    most = target.registers.vector_total // registers * SIMDS // math.prod(block.waves)
    one, two = (min(target.lds_bytes // (buffers * buffer), most) for buffers in (1, 2))
    # On average half of an expert's last unit is padding, and blocks of rows divide units.
    unit = max(block.rows, min(problem.unit, BLOCKS[0].rows))
    units = ceil_div(problem.entries, unit) + min(problem.e, problem.entries) // 2
    across = ceil_div(problem.product.n, columns)
    return ceil_div(unit // block.rows * units * across, target.compute_units), one, two


def time_of(each: int, count: int) -> int:
    """The time of so many blocks of which so many run at a time, in that of one: a turn that is not full takes as long,
    unless it is the only one."""
    return ceil_div(each, count) * least(each, count)


def least(one: int, other: int) -> int:
    """The smaller number, by arithmetic: a comparison would be one more way to tell apart for each new number of tokens
    (`ckmlir.ops.recorded`)."""
    return (one + other - abs(one - other)) // 2


def tells_numbers(problem: ExpertsProblem) -> bool:
    """Whether a list tells numbers of rows that an expression takes."""
    return any(word.partition(":")[0] in NAMES for word in problem.listed)
