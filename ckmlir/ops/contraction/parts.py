"""How much of K the workgroups that share the sums of a block take each."""

from __future__ import annotations

import math

from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target

LEAST_STEPS, STEPS_TO_SAVE = 3, 16
"""Steps of 128 bytes of the loop that a part of K has at least, and that parts have to save; deeper steps count for
several. By the model on gfx942, in cycles of
both kernels without the time between them (no parts; the rule's choice; others): m=28 n=384 k=1536, 25365; 8 parts
10228; 6 parts 11464, 4 parts 12547. m=16 n=1024 k=8192, 118576; 19 parts 18301; 16 parts 18619, 32 parts 18699. The
second launch, which the model leaves out, is assumed to cost less than the steps that have to be saved."""
LDS_OF_TWO, LEAST_BYTES, MOST_OF_TWO = 128 << 10, 512, 16
"""LDS of a compute unit that holds two workgroups of 128 x 128 with both their buffers; bytes along K that each of them
has at least, and parts at most: adding 32 takes longer than is won."""
TILE, LEAST_PRODUCTS = 16, 128
"""Rows and columns of a block that one wave has, of which LDS of every chip holds several; cycles of its products in a
step above which a compute unit has two of them, one of which multiplies while the other waits."""
SUM_BYTES = 4
"""Of a partial sum."""


def part_length(problem: Problem, spec: ContractionSpec, target: Target) -> int:
    """How much of K each part sums: whole steps of the loop, so many that there are at most the parts asked for."""
    depth = spec.block[2]
    parts = problem.split_k or parts_that_pay(problem, spec.block, target)
    steps = max(ceil_div(ceil_div(problem.longest_sum, depth), parts), 1)
    return (steps if problem.longest_part is None else min(steps, problem.longest_part // depth)) * depth


def parts_of(problem: Problem, length: int) -> int:
    """Parts that have something to sum, at least one."""
    return max(ceil_div(problem.longest_sum, length), 1)


def parts_that_pay(problem: Problem, block: tuple[int, int, int], target: Target, *, whole: bool = False) -> int:
    """Parts of K where the request leaves them open: as many as its matrices' reach asks for, or as pay unless each
    block is to have all of K.
    """
    rows = ceil_div(problem.m, block[0]) * problem.classes
    blocks = rows * ceil_div(problem.n, block[1]) * math.prod(problem.batch)
    step_bytes = block[2] * max(one.step for one in problem.held) // 8
    steps = ceil_div(problem.longest_sum, block[2])
    least = 1 if problem.longest_part is None else ceil_div(steps, problem.longest_part // block[2])
    # What is loaded of patches comes from memory once for many places of a window, and saves less than it counts.
    plain = problem.windows is None
    if whole:
        return least
    cycles = tile_cycles(problem.taken(target) or problem.dtype, block[2], target)
    return max(default_parts(block[:2], blocks, steps, target, step_bytes, by_two=plain, cycles=cycles), least)


def tile_cycles(dtype: str, depth: int, target: Target) -> float:
    """Cycles of the matrix instructions of a step for one tile of C, so many elements deep; 0 for other types."""
    able = target.mfmas(dtype)
    return 2 * TILE * TILE * depth * target.simds / target.mfma_rate(able[0]) if able else 0


def default_parts(
    block: tuple[int, ...], blocks: int, steps: int, target: Target, step_bytes: int = 128, *, by_two: bool = True,
    cycles: float = 0,
) -> int:  # fmt: skip
    """Parts of K that workgroups of their own sum, for so many blocks of C (rows, columns) and steps of the loop, each
    of so many bytes along K and, for one tile, so many `cycles` of products; 1: none.

    A part for every compute unit that would be idle, each with `LEAST_STEPS` of the loop at least, if that saves
    `STEPS_TO_SAVE`: partial sums go through memory, and a second kernel adds them. Two for every compute unit where LDS
    holds two workgroups, one of which loads while the other multiplies, and partial sums, which are written and read,
    are at most half of what a part reads. By the model on gfx950, f16 in cycles of one and of two: 64 x 4096 x 4096
    24151, 17889; 28 x 4096 x 4096 21047, 16242; 1024 x 1024 x 8192 49287, 40483; with more sums 768 x 1024 x 4096
    29161, 40640. With one workgroup a compute unit, on gfx942, 64 x 4096 x 4096 25511, 36524. Of patches there are not
    two (`by_two`): 32 images of 14 x 14, 256 to 256 channels by 3 x 3, take 38299 forward with two parts, 46838 with
    four, and their gradients 39159 and 47733, and 37838 and 47430 (of 7 and of 14).

    Two as well of blocks that are one wave whose products of a step take more than `LEAST_PRODUCTS`, unless that leaves
    a quarter of them idle. On gfx90a, cycles of the rule without that and with it: 16 x 384 x 4096 in f16
    9597 (4 parts), 8326 (8), in i8 8041, 7139; 28 x 384 x 2048 in bf16 8837 (8 of 16 x 64), 7505 (4 of 16 x 16); 16 x
    1024 x 4096 in f16 17358 (3 of 16 x 32), with two 21166. On gfx942, whose products are shorter, 16 x 1536 x 8192 in
    f16 18675 (3), 20726 (6); 16 x 512 x 8192 in fp8 8721 (8), 9737 (16).
    """
    most = min(target.compute_units // max(blocks, 1), steps // max(LEAST_STEPS * 128 // step_bytes, 1))
    parts = ceil_div(steps, ceil_div(steps, max(most, 1))) if steps else 1
    twice = 2 * parts
    length = ceil_div(steps, twice) * step_bytes
    sums, operands = 2 * SUM_BYTES * math.prod(block), sum(block) * length
    pays = by_two and length >= LEAST_BYTES and twice <= MOST_OF_TWO and 2 * sums <= operands
    fill = parts > 1 or 3 * target.compute_units <= 4 * blocks <= 4 * target.compute_units  # two a compute unit
    tiles = math.prod(block) == TILE * TILE and cycles > LEAST_PRODUCTS and fill
    found = twice if pays and (tiles or target.lds_bytes >= LDS_OF_TWO) else parts
    saved = steps - ceil_div(steps, found if tiles else parts)
    return found if saved * step_bytes >= STEPS_TO_SAVE * 128 else 1
