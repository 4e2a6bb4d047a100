"""For how much of K a block keeps the scales of A's rows, and of B's columns, in LDS.

Where the groups of a row follow each other in memory, a step takes 4 bytes of a cache line of every row, and the lines
of the rows of two workgroups are all of L1: by the model, as much comes from L2 for scales as for an operand. So LDS
takes those of many steps at a time, in whole lines.

By the model on gfx950, fp8 with scales of 1x128 and 128x128, in cycles without this and with it: 4096 x 4096 x 4096
144629, 128899; K of 7168 239913, 215879; 8192 x 8192 x 4096 571213, 505743. With K of 2048 it would be 72884, 74411,
and with one workgroup a compute unit (1024 x 1024 x 4096) 41608, 43698; with scales of columns of B too, 198287, 144553
where registers leave room for two workgroups; it lost where they did for one. Where vector arithmetic converts
sums, or elements of B, it would lose: 4096 x 4096 x 4096 in i8 153753, 166777, with B of i4 159349, 164933; and where A
is transposed (CRR 205933, 219005; RRR 187133, 136229), or groups are shorter than a step (1x64 of A 207613, 241309).

Those of columns of B are kept where B goes straight to registers (`past_lds.STRAIGHT`), since LDS is busy otherwise.
"""

from __future__ import annotations

import math

from ckmlir.ops.contraction.block_resources import block_lds
from ckmlir.ops.contraction.contraction_spec import ContractionSpec, accumulator_type
from ckmlir.ops.contraction.past_lds import LEAST_STEPS_OF_STRAIGHT
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.scaling import ScaleSpec
from ckmlir.ops.resources import MOST_RESIDENT
from ckmlir.ops.scalars import ceil_div
from ckmlir.records import replace
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

LENGTHS = (4096, 8192)
"""Elements along K: each stretch is a way into the loop and out of it."""
LEAST_ROWS, LEAST_STEPS = 128, 32
"""Of a block and of its loop, for which it pays to load scales before the first step."""
MOST_LOADS = 16
"""Of a lane for a stretch and an operand. Each has an offset, which stays in a register through the steps."""
MOST_NUMBERS = 32
"""Of a lane for a stretch, which are in registers at once: with 64, of rows and of columns for 8192 elements along K,
they left no room for another wave."""


def with_kept_scales(spec: ContractionSpec, problem: Problem, target: Target) -> ContractionSpec:
    """The kernel with a stretch that is all of K, or the longest, for which LDS has room beside another workgroup of
    the compute unit; the kernel as it is where that does not pay.
    """
    if not _pays(spec, problem, target):
        return spec
    kept = [one.operand for one in spec.keepable]
    pairs = zip(problem.scaling, spec.scaling, strict=True)
    aligned = tuple(whole.described if whole.operand in kept else text for whole, text in pairs)
    whole = [length for length in LENGTHS if length >= problem.k]
    for length in (*whole, *reversed(LENGTHS)):
        found = replace(spec, kept=length, scaling=aligned)
        numbers = [_numbers(one, found) for one in found.keepable]
        loads = max(count // one.align for count, one in zip(numbers, found.keepable, strict=True))
        fit = loads <= MOST_LOADS and sum(numbers) <= MOST_NUMBERS
        if fit and MOST_RESIDENT * block_lds(found) <= target.lds_bytes:
            return found
    return spec


def _numbers(scale: ScaleSpec, spec: ContractionSpec) -> int:
    """Of a stretch, that a lane loads."""
    return spec.block[scale.operand != "a"] * spec.kept // scale.group // (spec.wave_count * WAVE_SIZE)


def _pays(spec: ContractionSpec, problem: Problem, target: Target) -> bool:
    """Whether there are such scales, one a step, steps enough, two workgroups a compute unit, and no other vector
    arithmetic.
    """
    (rows, columns, depth), scaling, kept = spec.block, problem.scaling, spec.keepable
    if not kept or spec.scaled_by_instruction or spec.sink != "store":
        return False
    arithmetic = bool(spec.taken) or accumulator_type(spec.dtype) != "f32" or spec.layout[0] != "R"
    alone = any(one.is_of_columns(columns) for one in scaling) and not spec.makes_room
    if arithmetic or kept[0].group < depth or alone:
        return False
    blocks = ceil_div(problem.m, rows) * ceil_div(problem.n, columns) * math.prod(problem.batch)
    steps = LEAST_STEPS_OF_STRAIGHT if spec.is_straight else LEAST_STEPS
    return rows >= LEAST_ROWS and problem.k >= steps * depth and blocks > target.compute_units
