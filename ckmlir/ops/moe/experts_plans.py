"""How products of experts' matrices are cut into blocks where the request leaves it open: the candidates.

High blocks are bound by the matrix cores and take the schedules of `ckmlir.ops.contraction.defaults`. Low ones wait for
the matrices from memory: many small workgroups with one LDS buffer each hide that better than few with more loads on
their way. By the model on gfx942, bf16, 64 experts of 16 tokens with 4 each, in shares of HBM's bandwidth: 16x64x128
with compv4 65 %, 16x64x64 with compv4 69 %, with compv3 84 %. Wide ones are better where sums are short: down from 256
to 7168, 2 tokens of 8, 16x32x64 44 %, 16x64x64 76 %. Where those are fewer than two for each compute unit, smaller ones
load further ahead: gate and up from 7168 to 256, 16 tokens of 8, 16x32x64 73 %, 16x16x128 with mem4 96 %.
benchmarks/results/experts.md has more of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from ckmlir.ops.contraction.block_sizes import MEDIUM, SMALL, TALL_WAVES
from ckmlir.ops.contraction.contraction_spec import PRESHUFFLE, SCALARS
from ckmlir.ops.contraction.defaults import (
    PREFERRED,
    PREFERRED_PARTIAL,
    crowded,
    default_waves,
    narrow_for_scales,
)
from ckmlir.ops.contraction.few_rows import NARROWEST_FOR_TWO_LINES
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.shuffle import COLUMNS
from ckmlir.ops.contraction.side import NAMES
from ckmlir.ops.contraction.wishes import NARROWEST_FOR_TWO_STEPS, Plan, wish_of
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.moe.experts_problem import ACCUMULATORS, ExpertsProblem
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.tensors.expression import parse
from ckmlir.ops.tensors.linearity import is_linear
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


STRAIGHT = (Block(128, (128, 64), (2, 2), ()), Block(64, (128, 64), (2, 2), ()), *BLOCKS[3:])
"""Where the matrices are preshuffled, and go straight to registers: those of two leave fewer for accumulators."""
SQUARE = (*STRAIGHT[:2], Block(32, (64, 64), (1, 2), ()))
"""The same in tiles of 32 columns, whose matrix instructions have 32 rows: low blocks have waves side by side."""
TURNED = (*(one._replace(columns=(one.columns[0], SMALL)) for one in BLOCKS[:2]), *BLOCKS[2:])
"""Where packed elements that share bytes across K are turned in registers, which two matrices beside their accumulators
leave no room for: fp6 gated on gfx950 spilled up to 96 of them with as many columns as one takes. Rows of 16 bytes
spilled none there: 2048 tokens, 8 experts of 2, n = k = 1024, units of 128, 39.0 us by the model, so 41.4."""
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
SINGLE = Block(16, (32, 16), (1, 1), ("mem4", *LOW))
"""Where blocks of one product, as wide as this, all run at a time: each is a wave with four steps' loads on their way,
which waits for no other. In us with low blocks and with these, by the model, bf16, down of 8 entries a token: from 256
to 7168 on gfx950 one token 7.6 and 6.4, two 11.2 and 10.9, three, which take two turns, 15.2 and 24.4; on gfx942 9.5
and 9.2, two tokens, which take two turns, 16.1 and 27.1, two to 4096 11.6 and 10.1; one token on gfx950 from 128 5.0
and 4.3, 512 12.7 and 11.2, 2048 43.4 and 38.1, in fp8 from 256 5.0 and 4.3.
"""
SINGLE_WAVES = 4
"""Of a SIMD at most, with the registers that its loads take."""
NARROW = Block(64, (64, 64), TALL_WAVES, PREFERRED_PARTIAL)
"""Where rows allow loads of less than 4 bytes only, with half a cache line along k, for matrices with scales or across
K: each load is compared with the end of K, and scalar registers hold the outcomes. With blocks of 128 x 128 bf16 across
K kept two in lanes on gfx90a (n = 130, k = 333). Products that `_is_plain` says have room for such: by the model on
gfx942, 4096 tokens, 8 experts of 2, n = 1024, k = 1025, in us of these and of 128 x 128, bf16 74.5 and 37.9, gated
118.9 and 71.0; fp8 48.0 and 25.9, gated 83.2 and 53.8."""
NARROW_STRAIGHT = STRAIGHT[1]
"""The same where the matrices are preshuffled: with 128 rows 121 vector registers were spilled for bf16 and k = 33 on
gfx90a, up to 58 scalar ones for fp8."""
LONG = 32
"""Steps of the loop."""
LEAST = 2
"""Low blocks for each compute unit, below which they are too few."""
FEW_DEPTH = 2 * DEPTH
NARROWEST_WITH_SCALES = 8
"""Bytes of a load below which low blocks of scaled matrices are those of four waves: alone, a wave has 16 loads of a
step and more, whose distances and bounds take 38 to 82 scalar registers too many beside those of scales (fp8, k = 260
and 258, gfx942; two waves up to 23)."""
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
COPIED_BYTES = 16
"""Of a lane; with copies of 4 bytes a block takes four times as many instructions."""
HIDING = 8
"""Waves of a compute unit at least, of which some compute while others wait for copies."""


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
    crowded_low = bool(product.scaling) and product.load_bytes < NARROWEST_WITH_SCALES and problem.unit == ALONE.rows
    if crowded_low or _alone(problem, target):
        yield from _plans(problem, ALONE, 8 * DEPTH // bits, named)
    elif _few(problem, target):
        depth = 8 * (FEW_DEPTH if product.load_bytes >= NARROWEST_FOR_TWO_LINES else DEPTH) // bits
        fewest = product.k >= LONG * depth and 2 * _live(problem, FEW) <= target.compute_units
        yield from _plans(problem, FEWEST if fewest else FEW, depth, named)
    elif _at_once(problem, target):
        yield from _plans(problem, SINGLE, 8 * DEPTH // bits, named)
    shallow = _shallow(problem) if product.load_bytes < NARROWEST_FOR_TWO_STEPS else ()
    for block, line in itertools.product(shallow, (DEPTH // 2, DEPTH)):
        # the instruction for fp6 that fits is as deep as a whole line
        deepest = max((one.group for one in product.scaling), default=0)
        yield from _plans(problem, block, max(8 * line // bits, deepest), named)
    if named is None:
        yield from _by_copies(problem, 8 * DEPTH // bits, target)
    wish = wish_of(product, target)
    is_crowded = _is_crowded(product)
    ends_behind = product.k % (8 * DEPTH // bits) > 0
    for block in _blocks_of(product.shuffled, wish.turned or (is_crowded and ends_behind)):
        if problem.unit % block.rows == 0:
            depth = 8 * _line(problem.product, block) // bits
            short = block == BLOCKS[0] and product.k <= SHORTEST * depth and product.products == 1
            narrow = short and bits <= 16 and not product.scaling
            if block.rows == MEDIUM and named:
                # Several groups of scales in a step, as in single products. In us, 4096 tokens, 8 experts of 2, n = k =
                # 1024, fp8 with 1x64, before and so: 33.8 and 32.2 on gfx950, preshuffled 29.8 (2 registers spilled)
                # and 30.9; gated 77.3 and 62.5 on gfx942, on gfx950 81.1 (2 spilled) and 89.0.
                eight = crowded(wish, MEDIUM, named, target)
                yield from (plan for plan in eight if problem.unit % plan.block[0] == 0)
            one_buffer = (is_crowded and block.rows == MEDIUM) or _one_buffer(problem, block, depth, target)
            block = block._replace(schedules=LOW) if one_buffer else block
            columns = narrow_for_scales(wish, target) if block.rows == MEDIUM else 0
            yield from _plans(problem, block, depth, named, NARROW_COLUMNS if narrow else columns)


def _by_copies(problem: ExpertsProblem, depth: int, target: Target) -> Iterator[Plan]:
    """Blocks whose operands are copied to LDS as they lie, where that is better than the way through registers."""
    place = problem.product.products - 1
    if _copied(problem, depth, target):
        yield from _plans(problem, COPIED[place], depth, None, NARROW_COLUMNS)
    if _filled(problem, depth, target):
        yield from _plans(problem, FILLED[place], depth, None)


def epilogue_of(problem: ExpertsProblem) -> str | None:
    """direct where an expression takes numbers of rows that a list tells, and stores single elements; None: any.

    Through LDS all lanes of a wave then have one row at a time, and scalar registers hold which it is, and whether it
    exists: up to 94 were kept in lanes of vector registers (scales of tokens, n = 31 and 257, 64 and 128 rows). From
    the accumulators none are. By the model, 4096 tokens, 8 experts of 2, gate and up in fp8, n = 1025, k = 1024, f32
    stored, 33.0 us instead of 36.2 on gfx950, 41.6 instead of 39.1 on gfx942.
    """
    return "direct" if _tells_numbers(problem) and problem.product.aligned()[2] == 1 else None


def _tells_numbers(problem: ExpertsProblem) -> bool:
    """Whether a list tells numbers of rows that an expression takes."""
    return any(word.partition(":")[0] in NAMES for word in problem.listed)


def _shallow(problem: ExpertsProblem) -> tuple[Block, ...]:
    """Blocks that have half a cache line along k where loads are narrow. Other low ones have a whole one."""
    shuffled = problem.product.shuffled
    if _is_plain(problem.product):
        return ()
    if problem.unit % NARROW.rows == 0:
        return (NARROW_STRAIGHT if shuffled else NARROW,)
    return SQUARE[2:] if shuffled == max(COLUMNS) else ()


def _is_plain(product: Problem) -> bool:
    """Whether the matrices are read along K as they lie, without scales."""
    return not product.shuffled and not product.scaling and product.layout[:2] == "RC"


def _line(product: Problem, block: Block) -> int:
    """Bytes of a block along k: a cache line; half of one where high blocks load one element of 8 bits or two, of which
    a lane would have up to 128. fp8 with k = 1025 takes 25.9 us so, with whole lines 32.6 (see `NARROW`), and gated
    with k = 258 those spilled four registers on gfx950.
    """
    bytes_alone = product.load_bytes < NARROWEST_FOR_TWO_STEPS and find_dtype(product.stored).step == 8
    return DEPTH // 2 if bytes_alone and _is_plain(product) and block.rows >= NARROW.rows else DEPTH


def _blocks_of(shuffled: int, turned: bool) -> tuple[Block, ...]:
    """Those for matrices in tiles of so many columns, 0: plain ones, whose packed elements registers turn or do not."""
    if shuffled:
        return SQUARE if shuffled == max(COLUMNS) else STRAIGHT
    return TURNED if turned else BLOCKS


def _is_crowded(product: Problem) -> bool:
    """Whether two matrices of 8 bits lie across K, each with powers of two beside it. On gfx950 blocks of 128 x 128
    spilled five registers with two LDS buffers, with one none, but 13 where steps end behind K; there blocks of 64 x
    128 spilled 10 on gfx942. With half as many columns none spills: 4096 tokens, 8 experts of 2, n = k = 1024, fp8,
    units of 128 on gfx950, 41.2 us by the model, with one buffer 37.0.
    """
    powers = any(one.is_power for one in product.scaling)
    return powers and product.products > 1 and product.layout[1] == "R" and find_dtype(product.stored).step == 8


def _one_buffer(problem: ExpertsProblem, block: Block, depth: int, target: Target) -> bool:
    """Whether one LDS buffer is better than two, since more workgroups run on a compute unit at a time; see `SHORT`."""
    each, one, two = _turns(problem, block, target)
    if not 0 < two < one:
        return False
    short = problem.product.k <= SHORT * depth
    if two == 1:
        return short and each > 1
    with_one, with_two = (_blocks(each, count) for count in (one, two))
    # With as many turns one is better for short sums, unless each compute unit has one workgroup only.
    return with_one < with_two + short * _least(each - 1, 1)


def _turns(problem: ExpertsProblem, block: Block, target: Target) -> tuple[int, int, int]:
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


def _blocks(each: int, count: int) -> int:
    """The time of so many blocks of which so many run at a time, in that of one: a turn that is not full takes as long,
    unless it is the only one."""
    return ceil_div(each, count) * _least(each, count)


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
    each, at_a_time, _ = _turns(problem, block, target)
    if _least(each, at_a_time) * math.prod(block.waves) < HIDING:
        return False
    if problem.unit % high.rows:
        return True
    most, one, two = _turns(problem, high, target)
    count = one if _one_buffer(problem, high, depth, target) else two
    short = product.k <= SHORTEST * depth and each > at_a_time
    return _blocks(each, at_a_time) < 2 * _blocks(most, count) + short


def _filled(problem: ExpertsProblem, depth: int, target: Target) -> bool:
    """Whether `FILLED` is better than lower blocks: a unit has no others as high, and n fills more than half of one.
    Memory that adds rows with numbers that a list tells leaves too few scalar registers (31 to 49 in lanes of vector
    registers where blocks end behind n, bf16, fp8 and i8).
    """
    if problem.reduction == "atomic" and _tells_numbers(problem):
        return False
    block = FILLED[problem.product.products - 1]
    wide = 2 * problem.product.n > block.columns[problem.product.products - 1]
    return problem.unit % NARROW.rows > 0 and wide and _copies(problem, block, depth, target)


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


def _at_once(problem: ExpertsProblem, target: Target) -> bool:
    """Whether all blocks of `SINGLE` with rows run at a time. Narrow loads take twice the registers, and matrices that
    are read across K some more; those with scales were not looked at.
    """
    product = problem.product
    wide = product.load_bytes >= NARROWEST_FOR_TWO_STEPS and product.layout[:2] == "RC"
    if problem.unit != SINGLE.rows or product.products > 1 or product.scaling or not wide:
        return False
    buffer = (SINGLE.rows + SINGLE.columns[0]) * DEPTH
    at_a_time = min(target.lds_bytes // buffer, SINGLE_WAVES * SIMDS)
    return 0 < _live(problem, SINGLE) <= at_a_time * target.compute_units


def _live(problem: ExpertsProblem, block: Block) -> int:
    """Blocks with rows, one for each expert that may be chosen."""
    across = ceil_div(problem.product.n, block.columns[problem.product.products - 1])
    return min(problem.entries, problem.e) * across
