"""Blocks of products of experts' matrices for few tokens: these wait for the matrices from memory."""

from __future__ import annotations

from collections.abc import Iterator

from ckmlir.ops.contraction.few_rows import NARROWEST_FOR_TWO_LINES
from ckmlir.ops.contraction.wishes import NARROWEST_FOR_TWO_STEPS, Plan
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.moe.experts_blocks import BLOCKS, DEPTH, LOW, Block, least, plans_of, time_of
from ckmlir.ops.moe.experts_problem import ExpertsProblem
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target
from ckmlir.targets.cdna import SIMDS

FEW = Block(16, (16, 16), (1, 1), ("mem4", *LOW))
"""Where low blocks are too few."""
FEWEST = FEW._replace(schedules=("v4", *FEW.schedules))
"""Where those leave half the compute units idle as well, and sums are long: a wave is alone on its SIMD then, and what
it waits for is LDS, unless all of a step's reads are on their way before its products. Gate and up of one token from
7168 to 256 with 8 experts, 128 blocks: 57 % of HBM's bandwidth with mem4, 63 % with compv6, 78 % with v4, by the model
on gfx942.
"""
ALONE = Block(16, (64, 64), (1, 4), ("mem4", *LOW))
"""Where low blocks of one product, as wide as this, are one for a compute unit at most, and `FEW` are not as many for
each: these take as long as their columns, `FEW` as long as all compute units do that have the most of them. By the
model, down of one token from 1024 with 8 experts, in cycles of `FEW` and of these: to 2048 on gfx942 23760 and 21344,
on gfx950, where each has four of `FEW`, 17293 and 17830; to 1824, three on gfx942, 18959 and 19824, on gfx950 17293 and
16698; to 1664 18967 and 18302, 17293 and 15718. Of two tokens on gfx942 69 and 76 % of HBM's bandwidth. Bytes with
scales of groups wait for those of each step: there `FEW` is better where a compute unit has fewer columns of them. By
the model, down of one token, 4 experts of 2880 to 2880, fp8 with scales of blocks, 25305 and 27776 cycles on gfx942,
21038 and 26920 on gfx950, with mx 18347 and 22106; as many columns, 8 of 1024 to 2048, gfx942, 15314 and 13604."""
SINGLE = Block(16, (32, 16), (1, 1), ("mem4", *LOW))
"""A wave each with four steps' loads on their way, which waits for no other. In us with low blocks and with these, by
the model, bf16, down of 8 entries a token: from 256 to 7168 on gfx950 one token 7.6 and 6.4, two 11.2 and 10.9, three,
which take two turns, 15.2 and 24.4; on gfx942 9.5 and 9.2, two tokens, which take two turns, 16.1 and 27.1, two to 4096
11.6 and 10.1; one token on gfx950 from 128 5.0 and 4.3, 512 12.7 and 11.2, 2048 43.4 and 38.1, in fp8 from 256 5.0 and
4.3. Of 64 experts with more tokens, each in one turn more or less: gate and up from 7168 to 256 on gfx950 8 tokens 73.8
and 56.2, 16 79.1 and 72.5, on gfx90a 4 228.6 and 190.6, 8 303.9 and 266.6, 16 381.0 and 343.6; from 2048 to 1024 on
gfx950 4 43.1 and 38.0, 8 64.8 and 58.8, on gfx90a 4 263.0 and 222.3, but 16 394.8 and 448.8; from 4096 to 512 on gfx942
8 112.9 and 94.3; down from 1024 to 2048 on gfx90a 4 133.8 and 112.6, 8 200.7 and 169.8, but 16 200.9 and 226.4.
"""
AHEAD = Block(16, (64, 32), (1, 2), ("mem4", *LOW))
"""Low blocks with more loads on their way, of which fewer run at a time. By the model, in us of low blocks and of
these, down from 256 to 7168 on gfx950: 8 tokens 43.8 and 28.4, 16 43.8 and 42.6, but 4 18.3 and 28.4. Gate and up,
of `FEW` and of these, since some compute units would have one of `FEW` more than others: from 7168 to 256 one token
on gfx90a 78.7 and 47.7, four on gfx942 67.3 and 57.5, on gfx950 38.7 and 38.9; from 4096 to 512 two on gfx942 39.6
and 34.2. Beside low blocks of two products these are no faster (from 2048 to 1024 four tokens on gfx90a 263.0 and
268.0)."""
WAVES = {FEW: 4, SINGLE: 4, AHEAD: 5, BLOCKS[-1]: 8}
"""Of a SIMD at most, with the registers that its loads take."""
LONG = 32
"""Steps of the loop."""
LEAST = 2
"""Low blocks for each compute unit, below which they are too few."""
FEW_DEPTH, BYTE = 2 * DEPTH, 8
NARROWEST_WITH_SCALES = 8
"""Bytes of a load below which low blocks of scaled matrices are those of four waves: alone, a wave has 16 loads of a
step and more, whose distances and bounds take 38 to 82 scalar registers too many beside those of scales (fp8, k = 260
and 258, gfx942; two waves up to 23)."""


def for_few_tokens(problem: ExpertsProblem, named: str | None, bits: int, target: Target) -> Iterator[Plan]:
    """Low blocks of their own, the best first; none where others keep memory busy.

    Args:
        named: the schedule, where there is one alone.
        bits: of an element.
    """
    product = problem.product
    crowded_low = (
        bool(product.scaled_sums) and product.load_bytes < NARROWEST_WITH_SCALES and problem.unit == ALONE.rows
    )
    if crowded_low or _alone(problem, target):
        yield from plans_of(problem, ALONE, 8 * DEPTH // bits, named)
    elif _few(problem, target):
        depth = 8 * (FEW_DEPTH if product.load_bytes >= NARROWEST_FOR_TWO_LINES else DEPTH) // bits
        fewest = product.k >= LONG * depth and 2 * _live(problem, FEW) <= target.compute_units
        named = None if _loads_ahead(problem) else named
        compared = _is_wide(problem) and product.products > 1
        if compared and not _time(problem, FEW, target) < _time(problem, AHEAD, target):
            yield from plans_of(problem, AHEAD, depth, named)
        yield from plans_of(problem, FEWEST if fewest else FEW, depth, named)
    elif _is_wide(problem):
        block = _shortest(problem, target)
        if block != BLOCKS[-1]:
            yield from plans_of(problem, block, 8 * DEPTH // bits, named)


def _few(problem: ExpertsProblem, target: Target) -> bool:
    """Whether the lowest blocks, one for each expert that may be chosen, leave compute units idle."""
    lowest = BLOCKS[-1]
    return problem.unit == lowest.rows and 0 < _live(problem, lowest) < LEAST * target.compute_units


def _alone(problem: ExpertsProblem, target: Target) -> bool:
    """Whether wide low blocks with rows leave no compute unit more than one, most of them one, and are fewer columns
    than `FEW` of which all compute units have as many as one does.
    """
    if problem.unit != ALONE.rows or problem.product.products > 1:
        return False
    units, wide, narrow = target.compute_units, _live(problem, ALONE), _live(problem, FEW)
    each = ceil_div(narrow, units) * FEW.columns[0]
    if _has_scaled_bytes(problem) and each < ALONE.columns[0]:
        return False
    even = units * each
    return units // 2 < wide <= units and 31 * wide * ALONE.columns[0] < 30 * even


def _has_scaled_bytes(problem: ExpertsProblem) -> bool:
    """Whether sums of products of 8 bits have scales of groups."""
    return len(problem.product.scaled_sums) > 0 and find_dtype(problem.product.stored).step == BYTE


def _loads_ahead(problem: ExpertsProblem) -> bool:
    """Whether one product of bytes, whose sums have scales, may have `FEW`'s loads on their way, as others. Down of
    one token, 8 of 64 experts, 1024 to 2048, fp8 with scales of blocks, takes 11852 cycles on gfx950 with those of one
    step, so 11128.
    """
    product = problem.product
    return _has_scaled_bytes(problem) and product.products == 1 and product.schedule is None and not product.shuffled


def _is_wide(problem: ExpertsProblem) -> bool:
    """Whether units are low, and loads long. Narrow loads take twice the registers, and matrices that are read across K
    some more; those with scales were not looked at.
    """
    product = problem.product
    wide = product.load_bytes >= NARROWEST_FOR_TWO_STEPS and product.layout[:2] == "RC"
    low = problem.unit == SINGLE.rows and problem.entries > 0
    return low and wide and not product.scaling and not product.shuffled


def _shortest(problem: ExpertsProblem, target: Target) -> Block:
    """Of low blocks those that are through first: memory has to bring their columns for as many as run at a time, turn
    by turn (`time_of`).
    """
    low, single = BLOCKS[-1], SINGLE
    if problem.product.products == 1 and _time(problem, AHEAD, target) < _time(problem, low, target):
        low = AHEAD
    return low if _time(problem, low, target) < _time(problem, single, target) else single


def _time(problem: ExpertsProblem, block: Block, target: Target) -> int:
    """In columns of one product that memory brings to a compute unit."""
    products, waves = problem.product.products, block.waves[1]
    columns = block.columns[products - 1]
    buffer = (block.rows + products * columns) * DEPTH
    count = min(target.lds_bytes // buffer, WAVES[block] * SIMDS // waves)
    blocks = _met(problem) * ceil_div(problem.product.n, columns)
    return time_of(ceil_div(blocks, target.compute_units), count) * columns


def _met(problem: ExpertsProblem) -> int:
    """How many experts tokens go to if they choose at random: e (1 - (1 - k / e)^t), with a Padé approximant of the
    exponential in whole numbers; and a little more, since a turn too many costs more than an open one.
    """
    experts = problem.e
    hits, base = problem.entries * (2 * experts + problem.topk), 2 * experts**2  # hits / base: -t ln (1 - k / e), about
    met = 12 * experts * hits * base // (12 * base**2 + 6 * hits * base + hits**2)
    return least((15 * met + experts) // 16, problem.entries)


def _live(problem: ExpertsProblem, block: Block) -> int:
    """Blocks with rows, one for each expert that may be chosen."""
    across = ceil_div(problem.product.n, block.columns[problem.product.products - 1])
    return min(problem.entries, problem.e) * across
