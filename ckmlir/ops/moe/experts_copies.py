"""Blocks of products of experts' matrices whose operands pass LDS alone, copied to it as they lie, or whose matrices
pass registers alone, and where these are better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ckmlir.ops.contraction.contraction_spec import SCALARS
from ckmlir.ops.contraction.past_lds import PLAIN, may_go_past_lds
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.side import NAMES
from ckmlir.ops.contraction.wishes import Plan, wish_of
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.moe.experts_blocks import (
    BLOCKS,
    DEPTH,
    NARROW_COLUMNS,
    SHORT,
    SHORTEST,
    Block,
    least,
    one_buffer,
    plans_of,
    tells_numbers,
    time_of,
    turns_of,
)
from ckmlir.ops.moe.experts_problem import ACCUMULATORS, ExpertsProblem
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.tensors.expression import parse
from ckmlir.ops.tensors.linearity import is_linear
from ckmlir.targets import Target

COPIED = (Block(64, (128, 128), (1, 2), ("async_single",)), Block(128, (64, 64), (2, 2), ("async_narrow",)))
"""Of one product and of two: half the highest blocks, whose operands are copied to LDS as they lie, into one buffer; of
two, which leave registers for three of them on a compute unit, LDS has room for another of A. What hides the copies are
the other workgroups. See `_copied`.
"""
FILLED = (Block(160, (256, 256), (1, 4), ("async_narrow",)), Block(160, (64, 64), (2, 2), ("async_late",)))
"""Of one product and of two, in units that have no blocks of 64 rows: two of one product run on a compute unit, which
read less of LDS than lower ones, and an expert of 480 to 640 rows is four. By the model on gfx950, bf16, 4096 tokens,
32 experts of 4, in us of units of 128 and of these: down, n = 1024, k = 512 27.6 and 18.6, gate and up, n = 512, k =
1024 40.9 and 36.3. In units of 160, of blocks of 32 rows and of these: down 53.6 and 18.7, n = 320 21.6 and 17.0, n =
128, half of a block, 8.6 and 14.1; gate and up k = 4096 340 and 111, n = 80 19.2 and 17.2; fp8 down 33.8 and 23.1."""
FILLED_UNIT = FILLED[0].rows
PAST = Block(96, (128, 64), (1, 4), (PLAIN,))
"""Of one product and of two. LDS holds A alone, for waves side by side, and registers leave room for three such blocks
on a compute unit: while one stores, or waits for what tells its rows, the others compute. Parts of a block through LDS
wait for all waves; straight from the sums, C takes less. By the model on gfx950, bf16, 4096 tokens, in us of units of
128 or 160, of this, and of this through LDS: down without its sum, 32 experts of 4, n = 1024, k = 512 19.0, 17.4 and
18.4, added by memory in bf16 25.3, 18.2 and 18.7; gate and up, n = 512, k = 1024 36.3, 29.6 and 30.4; down with its sum
36.3 and 32.2, added by memory in f32 36.3 and 21.0; 8 experts of 2, n = k = 1024 20.0 and 14.6. In units and blocks of
64, 80, 112, 128, 144, 160, 176 and 192 rows down takes 27.6, 23.7, 20.8, 24.6, 20.3, 20.5, 24.5 and 23.9. Blocks of 96
x 64 30.9, 96 x 256 26.2, half as deep 36.5, by two waves 24.4, with one LDS buffer 21.8, A copied to LDS 20.2, loads
one step ahead 29.3.
"""
PAST_UNIT = PAST.rows
COPIED_BYTES = 16
"""Of a lane; with copies of 4 bytes a block takes four times as many instructions."""
HIDING = 8
"""Waves of a compute unit at least, of which some compute while others wait for copies."""


def past_lds(problem: ExpertsProblem, depth: int, target: Target) -> Iterator[Plan]:
    """Blocks whose matrices go past LDS, where that is better than the way through it."""
    if _goes_past_lds(problem, target):
        yield from plans_of(problem, PAST, depth, None, NARROW_COLUMNS)


def by_copies(problem: ExpertsProblem, depth: int, target: Target) -> Iterator[Plan]:
    """Blocks whose operands are copied to LDS as they lie, where that is better than the way through registers."""
    place = problem.product.products - 1
    if _copied(problem, depth, target):
        yield from plans_of(problem, COPIED[place], depth, None, NARROW_COLUMNS)
    if _filled(problem, depth, target):
        yield from plans_of(problem, FILLED[place], depth, None)


def units_go_past_lds(first: ExpertsProblem, second: ExpertsProblem, target: Target) -> bool:
    """Whether both products of a layer go past LDS in units of `PAST_UNIT`, and so are better off.

    By the model on gfx950, bf16, the layer's time in relation to units of 128 or 160, with (tokens, experts, of each
    token, hidden, inter): (4096, 32, 4, 1024, 512) .85, (4096, 64, 8, 2048, 1024) .89, (4096, 256, 8, 2048, 512) .78,
    (2048, 128, 8, 4096, 256) .78, (1024, 64, 6, 2048, 1408) .58, (1500, 60, 4, 2048, 1408) .66, (4096, 8, 2, 1024,
    1024) .78, (1024, 32, 4, 2048, 768) .61, (2048, 8, 2, 1024, 3072) .71, (544, 8, 1, 4096, 2048) .75, (700, 16, 2,
    512, 512) .78, (2048, 8, 2, 4096, 1408) and (3000, 16, 3, 1536, 896) .92, (16384, 8, 2, 1024, 3584) .98, (640, 32,
    4, 2048, 768), whose experts have 80 rows, 1.01; fp8, the first, .71.
    """
    return all(_goes_past_lds(one.in_units_of(PAST_UNIT), target) for one in (first, second))


def fill_units(first: ExpertsProblem, second: ExpertsProblem, target: Target) -> bool:
    """Whether both products of a layer in 16 bits are better off in units of `FILLED_UNIT` than of 128 places: both
    have blocks as high, and the second has three of them for two compute units at least, since one alone on a compute
    unit waits for its copies.

    By the model on gfx950, bf16, the layer's time in relation to units of 128, with (tokens, experts, of each token,
    hidden, inter), from 1.9 blocks for a compute unit on: (4096, 32, 4, 1024, 512) .88, (4096, 64, 8, 2048, 1024) 1.02,
    (4096, 256, 8, 2048, 512) .81, (2048, 128, 8, 4096, 256) .82, (2048, 8, 2, 4096, 1408) .91, (8192, 64, 6, 2048,
    1408) .87, (1024, 64, 6, 2048, 1408) .88, (4096, 256, 5, 7168, 256) and (4096, 257, 9, 7168, 256) 1.03, (16384, 8,
    2, 1024, 3584) .97; with one or less: (4096, 8, 2, 1024, 1024) .99, (1024, 32, 4, 2048, 768) .88, (640, 32, 4, 2048,
    768) 1.09, (544, 8, 1, 4096, 2048) 1.24, (2048, 8, 2, 1024, 3072) 1.04. Four layers of fp8 and i8 take .97 to 1.09.
    """
    products = [one.in_units_of(FILLED_UNIT) for one in (first, second)]
    bits = [find_dtype(one.product.taken(target) or one.product.stored).step for one in products]
    if min(bits) < 16 or not all(
        _filled(one, 8 * DEPTH // step, target) for one, step in zip(products, bits, strict=True)
    ):
        return False
    across = ceil_div(second.product.n, FILLED[0].columns[0])
    units = ceil_div(second.entries, FILLED_UNIT) + min(second.e, second.entries) // 2
    return 2 * units * across >= 3 * target.compute_units


def _copied(problem: ExpertsProblem, depth: int, target: Target) -> bool:
    """Whether `COPIED` is better than what goes through registers: it takes fewer turns, or as many of short sums,
    or as many with smaller units. Copies need no registers, so that more blocks run at a time, smaller ones leave
    less of the last turn open, and two waves read less of LDS than four. Long sums of two products are better off
    with large blocks.

    By the model on gfx950, bf16, 4096 tokens, in us of the way through registers and of this: 8 experts of 2, n =
    1024, k = 512 14.3 and 13.1, 1024 22.5 and 20.6, 2048 39.6 and 35.7, 4096 73.9 and 65.5; fp8 with k = 1024 20.5
    and 13.3, i8 18.0 and 16.2; units of 64 25.3 and 21.1; gate and up, 32 experts of 4, n = 512, k = 1024 49.8 and
    43.7, with one buffer of A 46.5; n = 1024 82.9 and 64.5; k = 4096 144 and 152. With as many turns, 32 experts of
    4, k = 512: 35.3 and 34.4, with additions by memory in bf16 29.4 and 29.0, in f32 36.2 and 34.6; k = 1024, n =
    2048 44.3 and 46.2, n = 896, which is one turn, 16.2 and 19.6. With more turns, 3 experts of a token, 30.8 and
    47.0. With 6 waves, 2048 tokens, 16.4 and 18.9. f32, which the matrix cores bound, 170 and 180.
    """
    product = problem.product
    block, high = COPIED[product.products - 1], BLOCKS[0]
    if not _copies(problem, block, depth, target) or (product.products > 1 and product.k > SHORT * depth):
        return False
    each, at_a_time, _ = turns_of(problem, block, target)
    if least(each, at_a_time) * math.prod(block.waves) < HIDING:
        return False
    if problem.unit % high.rows:
        return True
    most, one, two = turns_of(problem, high, target)
    count = one if one_buffer(problem, high, depth, target) else two
    short = product.k <= SHORTEST * depth and each > at_a_time
    return time_of(each, at_a_time) < 2 * time_of(most, count) + short


def _filled(problem: ExpertsProblem, depth: int, target: Target) -> bool:
    """Whether `FILLED` is better than lower blocks: a unit has no others as high, and n fills more than half of one.
    Memory that adds rows with numbers that a list tells leaves too few scalar registers (31 to 49 in lanes of vector
    registers where blocks end behind n, bf16, fp8 and i8).
    """
    if problem.reduction == "atomic" and tells_numbers(problem):
        return False
    block = FILLED[problem.product.products - 1]
    wide = 2 * problem.product.n > block.columns[problem.product.products - 1]
    return problem.unit % BLOCKS[1].rows > 0 and wide and _copies(problem, block, depth, target)


def _copies(problem: ExpertsProblem, block: Block, depth: int, target: Target) -> bool:
    """Whether both operands of such blocks, which divide a unit, are copied to LDS as they lie, in whole vectors, and
    what is stored leaves registers for it."""
    product = problem.product
    bits = find_dtype(product.taken(target) or product.stored).step
    plain = not product.scaling and not product.taken(target) and product.layout[:2] == "RC" and not product.shuffled
    able = COPIED_BYTES in target.direct_to_lds and product.load_bytes == COPIED_BYTES and product.waves is None
    fits = bits <= 16 and product.k >= depth and problem.unit % block.rows == 0
    return able and plain and fits and _leaves_room(product)


def _leaves_room(product: Problem) -> bool:
    """Whether what one product stores takes no registers beside its sums: with a GELU, a bias and scales fewer blocks
    run at a time, and bf16 takes 47.3 us where the way through registers takes 42.4 (4096 tokens, 8 experts of 2,
    n = k = 1024, by the model on gfx950). An expression of two products has half of the sums at a time.
    """
    if not product.op or product.products > 1:
        return True
    names = (*ACCUMULATORS, *NAMES, *SCALARS)
    return is_linear(parse(product.op, names), ACCUMULATORS)


def _goes_past_lds(problem: ExpertsProblem, target: Target) -> bool:
    """Whether `PAST` divides a unit and the matrices, which lie as the chip's instructions take them and fill more than
    half of a block, go past LDS.
    """
    product = problem.product
    wide = 2 * product.n > PAST.columns[product.products - 1]
    plain = not product.scaling and not product.shuffled
    return problem.unit % PAST.rows == 0 and wide and plain and may_go_past_lds(wish_of(product, target), target)
