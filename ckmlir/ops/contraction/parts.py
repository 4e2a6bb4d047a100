"""How much of K the workgroups that share the sums of a block take each."""

from __future__ import annotations

import math

from ckmlir.ops.contraction.contraction_spec import ContractionSpec, stored_type
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.dtypes import find_dtype
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
LONG_PRODUCTS, WORD = 512, 32
"""Cycles of the products of a step, for one tile of C, and bits of an element, with which blocks of few rows are chosen
by how long their steps and parts take together: a step of such types has few elements of K, or much to multiply."""
STEP_LATENCY, PART_CYCLES, MOST_TILES = 500, 75_000, 8
"""Cycles that a step takes beside its products; cycles of all compute units that a part's sums take, which are written
and added; tiles of such a block at most. By the model, cycles before and with this, f32 if nothing else is said: on
gfx942 64 x 512 x 8192 30768 (16 x 16, 4 parts), 15592 (32 x 32, 16); 64 x 1024 x 4096 21366 (32 x 32, 4), 14882 (8);
28 x 1024 x 4096 18660, 14576; on gfx950 16 x 1024 x 8192 21023, 16628; 64 x 384 x 1536 10954, 9202; on gfx90a 64 x 384
x 1536 10774, 8865; i8 64 x 384 x 4096 9490, 9005. Not f64, whose steps are short: 28 x 1024 x 4096 takes 23126 on
gfx942, 24219 in 16 x 32 by 8 parts."""


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
    by_steps = are_by_steps(problem.taken(target) or problem.dtype, cycles)
    found = default_parts(
        block[:2], blocks, steps, target, step_bytes, by_two=plain, by_steps=by_steps, cycles=cycles
    )
    return max(found, least)


def tile_cycles(dtype: str, depth: int, target: Target) -> float:
    """Cycles of the matrix instructions of a step for one tile of C, so many elements deep; 0 for other types."""
    able = target.mfmas(dtype)
    return 2 * TILE * TILE * depth * target.simds / target.mfma_rate(able[0]) if able else 0


def default_parts(
    block: tuple[int, ...], blocks: int, steps: int, target: Target, step_bytes: int = 128, *, by_two: bool = True,
    by_steps: bool = False, cycles: float = 0,
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

    `by_steps`: one part or two for every compute unit, whichever takes fewer `cycles_in_parts`.
    """
    most = min(target.compute_units // max(blocks, 1), steps // max(LEAST_STEPS * 128 // step_bytes, 1))
    parts = even_parts(steps, most)
    fill = parts > 1 or 3 * target.compute_units <= 4 * blocks <= 4 * target.compute_units  # two a compute unit
    tiles = math.prod(block) // TILE**2
    beside = 4 * sum(block) * step_bytes <= target.lds_bytes  # two workgroups with two buffers each
    if by_two and by_steps and tiles <= MOST_TILES and beside and (fill if tiles == 1 else parts > 1):
        twice = even_parts(steps, min(2 * parts, MOST_OF_TWO))
        found = min(parts, twice, key=lambda one: cycles_in_parts(steps, one, tiles, cycles, target))
        return found if (steps - ceil_div(steps, found)) * step_bytes >= STEPS_TO_SAVE * 128 else 1
    twice = 2 * parts
    length = ceil_div(steps, twice) * step_bytes
    sums, operands = 2 * SUM_BYTES * math.prod(block), sum(block) * length
    pays = by_two and length >= LEAST_BYTES and twice <= MOST_OF_TWO and 2 * sums <= operands
    one_wave = tiles == 1 and cycles > LEAST_PRODUCTS and fill
    found = twice if pays and (one_wave or target.lds_bytes >= LDS_OF_TWO) else parts
    saved = steps - ceil_div(steps, found if one_wave else parts)
    return found if saved * step_bytes >= STEPS_TO_SAVE * 128 else 1


def even_parts(steps: int, most: int) -> int:
    """Parts of so many steps, at most so many, that none is without steps."""
    return ceil_div(steps, ceil_div(steps, max(most, 1))) if steps else 1


def are_by_steps(dtype: str, cycles: float) -> bool:
    """Whether blocks of few rows of a type, whose products of a step take so long, are chosen by `cycles_in_parts`."""
    return cycles >= LONG_PRODUCTS or (cycles > 0 and find_dtype(stored_type(dtype)).bits == WORD)


def cycles_in_parts(steps: int, parts: int, tiles: int, cycles: float, target: Target) -> float:
    """About how long steps in parts take, in blocks of so many tiles whose products take so long for one."""
    products = cycles * ceil_div(tiles, target.simds)
    return ceil_div(steps, parts) * (products + STEP_LATENCY) + cycles_of_sums(parts, target)


def cycles_of_sums(parts: int, target: Target) -> float:
    """About how long parts' sums take, which are written and added."""
    return parts * PART_CYCLES / target.compute_units
