"""How much of K the workgroups that share the sums of a block take each."""

from __future__ import annotations

import math

from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.operator import ceil_div
from ckmlir.targets import Target

LEAST_STEPS, STEPS_TO_SAVE = 3, 16
"""Steps of 128 bytes of the loop that a part of K has at least, and that parts have to save; deeper steps count for
several. By the model on gfx942, in cycles of
both kernels without the time between them (no parts; the rule's choice; others): m=28 n=384 k=1536, 25365; 8 parts
10228; 6 parts 11464, 4 parts 12547. m=16 n=1024 k=8192, 118576; 19 parts 18301; 16 parts 18619, 32 parts 18699. The
second launch, which the model leaves out, is assumed to cost less than the steps that have to be saved."""


def part_length(problem: Problem, spec: ContractionSpec, target: Target) -> int:
    """How much of K each part sums: whole steps of the loop, so many that there are at most the parts asked for."""
    depth = spec.block[2]
    parts = problem.split_k or parts_that_pay(problem, spec.block, target)
    steps = max(ceil_div(ceil_div(problem.longest_sum, depth), parts), 1)
    return (steps if problem.longest_part is None else min(steps, problem.longest_part // depth)) * depth


def parts_of(problem: Problem, length: int) -> int:
    """Parts that have something to sum, at least one."""
    return max(ceil_div(problem.longest_sum, length), 1)


def parts_that_pay(problem: Problem, block: tuple[int, int, int], target: Target) -> int:
    """Parts of K where the request leaves them open: as many as its matrices' reach asks for, or as pay."""
    rows = ceil_div(problem.m, block[0]) * problem.classes
    blocks = rows * ceil_div(problem.n, block[1]) * math.prod(problem.batch)
    step_bytes = block[2] * max(one.step for one in problem.held) // 8
    steps = ceil_div(problem.longest_sum, block[2])
    least = 1 if problem.longest_part is None else ceil_div(steps, problem.longest_part // block[2])
    return max(default_parts(blocks, steps, target, step_bytes), least)


def default_parts(blocks: int, steps: int, target: Target, step_bytes: int = 128) -> int:
    """Parts of K that workgroups of their own sum, for so many blocks of C and steps of the loop, each of so many bytes
    along K; 1: none.

    A part for every compute unit that would be idle, each with `LEAST_STEPS` of the loop at least, if that saves
    `STEPS_TO_SAVE`: partial sums go through memory, and a second kernel adds them.
    """
    parts = min(target.compute_units // max(blocks, 1), steps // max(LEAST_STEPS * 128 // step_bytes, 1))
    saved = (steps - ceil_div(steps, parts)) * step_bytes // 128 if parts > 1 else 0
    return parts if saved >= STEPS_TO_SAVE else 1
