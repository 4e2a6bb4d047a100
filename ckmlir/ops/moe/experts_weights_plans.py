"""Blocks of products whose matrices are of 4 bits and become wider: they go past LDS to waves that multiply them.

Waves lie side by side, so that a block converts each element once. LDS holds A alone, which leaves room for more blocks
on a compute unit, and no wave waits for what others convert. Where tokens are so few that SIMDs would be without a
wave, waves share each step's K instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckmlir.ops.contraction.past_lds import PLAIN, STRAIGHT
from ckmlir.ops.contraction.wishes import Plan
from ckmlir.ops.moe.experts_blocks import DEPTH, Block, plans_of
from ckmlir.ops.moe.experts_problem import ExpertsProblem
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target
from ckmlir.targets.cdna import ACCESS_BYTES, SIMDS

BLOCKS: tuple[tuple[Block, tuple[int, int]], ...] = (
    (Block(128, (128, 64), (1, 4), (PLAIN,)), (DEPTH, DEPTH)),
    (Block(64, (64, 64), (1, 4), (PLAIN,)), (DEPTH, DEPTH)),
    (Block(32, (64, 64), (1, 4), (PLAIN,)), (DEPTH, 2 * DEPTH)),
)
"""The highest first, each with bytes of A along K, of one product and of two. Low ones take two lines of it: lanes load
more of the matrices at once.

By the model, bf16 by fp4, 32 experts of 4, n = k = 2880, in thousands of cycles of the way through LDS and of this, on
gfx942 and on gfx950. Gate and up, 8 tokens: 143 and 114, 201 and 90; 16: 290 and 135, 244 and 190; 64: 288 and 268, 301
and 199; 256: 398 and 363, 286 and 259; 512: 816 and 392, 468 and 442; 4096: 2661 and 1875, 1780 and 1657. Down, 8
tokens: 97 and 64, 89 and 58; 16: 105 and 77, 93 and 63; 64: 114 and 90, 118 and 74; 256: 219 and 146, 132 and 131; 512:
298 and 226 on gfx950; 4096: 1130 and 839, 727 and 701.
"""
LOWEST: tuple[tuple[Block, tuple[int, int]], ...] = (
    (Block(16, (64, 64), (1, 4), (PLAIN,)), (2 * DEPTH, 2 * DEPTH)),
    (Block(16, (32, 32), (1, 2), (PLAIN,)), (2 * DEPTH, 2 * DEPTH)),
)
"""Of one product and of two."""
SIDE, ALONG_K = 16, 4
"""Rows and columns of blocks whose waves share K, and those waves, of which each has two lines of A. By the model, one
token, 32 experts of 4, bf16 by fp4, n = k = 2880, in thousands of cycles of waves side by side and of these, on gfx942
and on gfx950: gate and up 40.7 and 31.4, 32.7 and 22.4, down 26.3 and 19.6, 27.8 and 15.8. Others, down on gfx942: 32
columns 23.3, and by eight waves 22.6; a line for each of two waves, 16 columns 22.1, 32 columns 23.6; all through LDS
39.9. With a wave for every SIMD A's rows, which each block brings to LDS, cost more than is won: four tokens, down, on
gfx942 50.2 and 63.6. Nor do matrices that are not converted gain as much: fp8 with scales of rows, one token on gfx942,
gate and up 46.6 and 42.9, down 21.0 and 25.4.
"""
LEAST_STEPS = 2
"""Of their loop."""


def past_lds_converted(problem: ExpertsProblem, bits: int, target: Target) -> Iterator[Plan]:
    """The highest block that divides a unit, where rows are whole vectors along K; `bits` of an element of A."""
    product = problem.product
    converted = len(product.scaled_sums) < len(product.scaling) and not product.shuffled
    if not converted or product.layout[:2] != "RC" or product.load_bytes < ACCESS_BYTES or product.waves:
        return
    depth = ALONG_K * 2 * 8 * DEPTH // bits
    if problem.unit == SIDE and product.k >= LEAST_STEPS * depth and _leaves_idle(problem, target):
        yield Plan(STRAIGHT, (SIDE, SIDE, depth), (1, 1), 0, ALONG_K)
    place = product.products - 1
    for block, lines in (*BLOCKS, LOWEST[place]):
        if problem.unit % block.rows == 0:
            yield from plans_of(problem, block, 8 * lines[place] // bits, None)
            return


def past_lds_emulated(problem: ExpertsProblem, bits: int, target: Target) -> Iterator[Plan]:
    """Low blocks of one product of fp4 that the chip does not multiply: they become f16, and the sums of each group are
    scaled; `bits` of f16.

    By the model, powers of two, down, in thousands of cycles of the way through LDS and of this: one token, 32 experts
    of 4, n = k = 2880, gfx942, 44.5 and 26.9, by single waves 29.8; 64 of 8, n = 2048, k = 1024 18.5 and 13.5, on
    gfx90a 30.6 and 21.7; 16 tokens, 32 of 4 27.5 and 21.4, 93.1 and 71.3. Gate and up, one token, n = k = 2880, gfx942,
    39.0 and 47.6, by single waves 40.4.
    """
    product, (block, lines) = problem.product, LOWEST[0]
    emulated = product.taken(target) and len(product.scaled_sums) == len(product.scaling) and not product.shuffled
    packed = all(one.packing is not None and one.packing.bits == 4 for one in product.held)
    if not emulated or not packed or product.layout[:2] != "RC" or product.load_bytes < ACCESS_BYTES or product.waves:
        return
    if problem.unit == block.rows and product.products == 1:
        yield from plans_of(problem, block, 8 * lines[0] // bits, None)


def _leaves_idle(problem: ExpertsProblem, target: Target) -> bool:
    """Whether a wave for each 16 columns of each expert that may be chosen leaves SIMDs without one."""
    waves = min(problem.entries, problem.e) * ceil_div(problem.product.n, SIDE)
    return 0 < waves <= SIMDS * target.compute_units
