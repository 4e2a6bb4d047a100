"""How much of K the workgroups that share the sums of a block take each."""

from __future__ import annotations

import math

from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.defaults import default_parts
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.operator import ceil_div
from ckmlir.targets import Target


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
