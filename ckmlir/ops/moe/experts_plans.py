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
from collections.abc import Iterator

from ckmlir.ops.contraction.block_sizes import MEDIUM, SMALL, TALL_WAVES
from ckmlir.ops.contraction.contraction_spec import PRESHUFFLE
from ckmlir.ops.contraction.crowded import crowded
from ckmlir.ops.contraction.defaults import PREFERRED, PREFERRED_PARTIAL, default_waves, narrow_for_scales
from ckmlir.ops.contraction.past_lds import PLAIN
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.shuffle import COLUMNS
from ckmlir.ops.contraction.wishes import NARROWEST_FOR_TWO_STEPS, Plan, wish_of
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.moe.experts_blocks import (
    BLOCKS,
    DEPTH,
    LOW,
    NARROW_COLUMNS,
    SHORTEST,
    Block,
    one_buffer,
    plans_of,
    tells_numbers,
)
from ckmlir.ops.moe.experts_copies import by_copies, past_lds
from ckmlir.ops.moe.experts_few_tokens import for_few_tokens
from ckmlir.ops.moe.experts_problem import ExpertsProblem
from ckmlir.ops.moe.experts_weights_plans import past_lds_converted, past_lds_emulated
from ckmlir.targets import Target

STRAIGHT = (Block(128, (128, 64), (2, 2), ()), Block(64, (128, 64), (2, 2), ()), *BLOCKS[3:])
"""Where the matrices are preshuffled, and go straight to registers: those of two leave fewer for accumulators."""
SQUARE = (*STRAIGHT[:2], Block(32, (64, 64), (1, 2), ()))
"""The same in tiles of 32 columns, whose matrix instructions have 32 rows: low blocks have waves side by side."""
TURNED = (*(one._replace(columns=(one.columns[0], SMALL)) for one in BLOCKS[:2]), *BLOCKS[2:])
"""Where packed elements that share bytes across K are turned in registers, which two matrices beside their accumulators
leave no room for: fp6 gated on gfx950 spilled up to 96 of them with as many columns as one takes. Rows of 16 bytes
spilled none there: 2048 tokens, 8 experts of 2, n = k = 1024, units of 128, 39.0 us by the model, so 41.4."""
NARROW = Block(64, (64, 64), TALL_WAVES, PREFERRED_PARTIAL)
"""Where rows allow loads of less than 4 bytes only, with half a cache line along k, for matrices with scales or across
K: each load is compared with the end of K, and scalar registers hold the outcomes. With blocks of 128 x 128 bf16 across
K kept two in lanes on gfx90a (n = 130, k = 333). Products that `_is_plain` says have room for such: by the model on
gfx942, 4096 tokens, 8 experts of 2, n = 1024, k = 1025, in us of these and of 128 x 128, bf16 74.5 and 37.9, gated
118.9 and 71.0; fp8 48.0 and 25.9, gated 83.2 and 53.8."""
NARROW_STRAIGHT = STRAIGHT[1]
"""The same where the matrices are preshuffled: with 128 rows 121 vector registers were spilled for bf16 and k = 33 on
gfx90a, up to 58 scalar ones for fp8."""


def plans(problem: ExpertsProblem, target: Target) -> Iterator[Plan]:
    """Candidates for what is open, the best first: the highest block that divides a unit, by every schedule."""
    product = problem.product
    named = product.schedule or (PRESHUFFLE if product.shuffled else None)
    if product.block is not None:
        for schedule in (named,) if named else PREFERRED:
            yield Plan(schedule, product.block, product.waves or default_waves(schedule), 0, problem.along_k or 1)
        return
    bits = find_dtype(product.taken(target) or product.stored).step
    if named is None:
        yield from past_lds_emulated(problem, bits, target)
    if product.scaled_group(target):
        named = named or PREFERRED_PARTIAL[0]
    if named is None:
        yield from past_lds_converted(problem, bits, target)
    yield from for_few_tokens(problem, named, bits, target)
    shallow = _shallow(problem) if product.load_bytes < NARROWEST_FOR_TWO_STEPS else ()
    for block, line in itertools.product(shallow, (DEPTH // 2, DEPTH)):
        # the instruction for fp6 that fits is as deep as a whole line
        deepest = max((one.group for one in product.scaling), default=0)
        yield from plans_of(problem, block, max(8 * line // bits, deepest), named)
    if named is None:
        yield from past_lds(problem, 8 * DEPTH // bits, target)
        yield from by_copies(problem, 8 * DEPTH // bits, target)
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
            single = (is_crowded and block.rows == MEDIUM) or one_buffer(problem, block, depth, target)
            block = block._replace(schedules=LOW) if single else block
            columns = narrow_for_scales(wish, target) if block.rows == MEDIUM else 0
            yield from plans_of(problem, block, depth, named, NARROW_COLUMNS if narrow else columns)


def epilogue_of(problem: ExpertsProblem, plan: Plan) -> str | None:
    """direct where B goes past LDS to waves side by side, and where an expression takes numbers of rows that a list
    tells, and stores single elements; None: any.

    Through LDS all lanes of a wave then have one row at a time, and scalar registers hold which it is, and whether it
    exists: up to 94 were kept in lanes of vector registers (scales of tokens, n = 31 and 257, 64 and 128 rows). From
    the accumulators none are. By the model, 4096 tokens, 8 experts of 2, gate and up in fp8, n = 1025, k = 1024, f32
    stored, 33.0 us instead of 36.2 on gfx950, 41.6 instead of 39.1 on gfx942.

    Beside a matrix past LDS a block goes through the LDS of A in parts, between which all waves wait (`PAST`).
    """
    past = plan.schedule == PLAIN and plan.waves[0] == 1
    return "direct" if past or (tells_numbers(problem) and problem.product.aligned()[2] == 1) else None


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
