"""How much of K the workgroups that share the sums of a block take each."""

from __future__ import annotations

import math

from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.low_blocks import SUM_BYTES, even_parts, is_few, is_low, low_blocks, weight_bits
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


def part_length(problem: Problem, spec: ContractionSpec, target: Target) -> int:
    """How much of K each part sums: whole steps of the loop, so many that there are at most the parts asked for."""
    depth = spec.block[2]
    parts = problem.split_k or parts_that_pay(problem, spec.schedule, spec.block, target)
    steps = max(ceil_div(ceil_div(problem.longest_sum, depth), parts), 1)
    return (steps if problem.longest_part is None else min(steps, problem.longest_part // depth)) * depth


def parts_of(problem: Problem, length: int) -> int:
    """Parts that have something to sum, at least one."""
    return max(ceil_div(problem.longest_sum, length), 1)


def parts_that_pay(problem: Problem, schedule: str, block: tuple[int, int, int], target: Target) -> int:
    """Parts of K where the request leaves them open: as many as its matrices' reach asks for, or as pay."""
    rows = ceil_div(problem.m, block[0]) * problem.classes
    blocks = rows * ceil_div(problem.n, block[1]) * math.prod(problem.batch)
    bits = max(one.step for one in problem.held)
    steps = ceil_div(problem.longest_sum, block[2])
    least = 1 if problem.longest_part is None else ceil_div(steps, problem.longest_part // block[2])
    lengths, count = (problem.m, problem.n, problem.longest_sum), problem.classes * math.prod(problem.batch)
    merged = bool(problem.merged or problem.windows)
    if is_low(lengths, block) or is_few(lengths, count, block, target):
        held = (problem.taken(target) or problem.dtype, bits, problem.load_bytes)
        idle = problem.idle_classes * math.prod(problem.batch)
        low = low_blocks(
            lengths, count, block, held, target, merged=merged, layout=problem.layout, factors=problem.products,
            idle=idle, weight_bits=weight_bits(problem.sources) if is_low(lengths, block) else 0,
        )  # fmt: skip
        found = low.best_parts(schedule, target)
    else:
        # What is loaded of patches comes from memory once for many places of a window, and saves less than it counts.
        by_two = problem.windows is None
        found = default_parts(block[:2], blocks, steps, target, block[2] * bits // 8, by_two=by_two)
    return max(found, least)


def default_parts(
    block: tuple[int, ...], blocks: int, steps: int, target: Target, step_bytes: int = 128, *, by_two: bool = True
) -> int:
    """Parts of K that workgroups of their own sum, for so many blocks of C (rows, columns) and steps of the loop, each
    of so many bytes along K; 1: none. Of products of few rows `LowBlocks` says how many.

    A part for every compute unit that would be idle, each with `LEAST_STEPS` of the loop at least, if that saves
    `STEPS_TO_SAVE`: partial sums go through memory, and a second kernel adds them. Two for every compute unit where LDS
    holds two workgroups, one of which loads while the other multiplies, and partial sums, which are written and read,
    are at most half of what a part reads. By the model on gfx950, f16 in cycles of one and of two: 1024 x 1024 x 8192
    49287, 40483; with more sums 768 x 1024 x 4096 29161, 40640. Of patches there are not two (`by_two`): 32 images of
    14 x 14, 256 to 256 channels by 3 x 3, take 38299 forward with two parts, 46838 with four, and their gradients 39159
    and 47733, and 37838 and 47430 (of 7 and of 14).
    """
    most = min(target.compute_units // max(blocks, 1), steps // max(LEAST_STEPS * 128 // step_bytes, 1))
    parts = even_parts(steps, most)
    twice = 2 * parts
    length = ceil_div(steps, twice) * step_bytes
    sums, operands = 2 * SUM_BYTES * math.prod(block), sum(block) * length
    pays = by_two and length >= LEAST_BYTES and twice <= MOST_OF_TWO and 2 * sums <= operands
    saved = steps - ceil_div(steps, parts)
    if saved * step_bytes < STEPS_TO_SAVE * 128:
        return 1
    return twice if pays and target.lds_bytes >= LDS_OF_TWO else parts
