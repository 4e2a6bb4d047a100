"""How many workgroups share the keys of a block of queries, as a request asks for or as fill the device."""

from __future__ import annotations

import math

from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
from ckmlir.ops.attention.fmha_fwd_splitkv_combine import MOST_SPLITS
from ckmlir.ops.attention.orders import DEALT
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.row_packing import blocks_of_queries, busy_workgroups
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target

SHARED = ("counts", "begins")
"""What memory holds where shares are balanced: how many a block of each sequence has, and where those of each begin."""
EACH = 2
"""Workgroups that a compute unit should have where shares are balanced: then none of them takes more than three
quarters of what a compute unit has to do."""
FULL, AS_GOOD = 0.8, 0.85
"""Share of the compute units from which on keys are not split; of the best filling from which on fewer splits do (CK
Tile's numbers)."""


class SplitProblem(Problem, frozen=True):
    """An attention to compute, with its keys shared by workgroups.

    Attributes:
        splits: how many share them; 0: as many as fill the device.
        balanced: memory says how many share the keys of each sequence, at most `splits`, as `fmha_fwd_shares` finds it.
        partial: O and LSE are those of the parts, packed and in f32: what the first of two kernels computes.
    """

    splits: int = 0
    balanced: bool = False
    partial: bool = False


def splits_of(problem: Problem, spec: FmhaFwdSpec, target: Target) -> int:
    """How many workgroups share the keys of a block: as asked for, or the fewest that fill the compute units nearly as
    well as any number of them, as CK Tile chooses."""
    assert isinstance(problem, SplitProblem)
    if problem.splits:
        return problem.splits
    if problem.balanced:
        return _most_shares(problem, spec, target)
    workgroups = busy_workgroups(problem, spec)
    units, blocks = target.compute_units, blocks_of_keys(problem, spec)
    if not workgroups or workgroups >= FULL * units:
        return 1
    useful = [1]
    for splits in range(2, min(MOST_SPLITS, units, blocks) + 1):
        if ceil_div(blocks, splits) != ceil_div(blocks, splits - 1):
            useful.append(splits)
    filling = {splits: workgroups * splits / units for splits in useful}
    filled = {splits: rounds / math.ceil(rounds) for splits, rounds in filling.items()}
    return min(splits for splits in useful if filled[splits] >= AS_GOOD * max(filled.values()))


def workgroups_of_a_head(problem: Problem, spec: FmhaFwdSpec, target: Target) -> int:
    """How many there should be where shares are balanced, of a head or of heads that share keys."""
    return ceil_div(EACH * target.compute_units, blocks_of_queries(problem, spec)[1])


def shares_of_a_head(problem: Problem, spec: FmhaFwdSpec, target: Target) -> int:
    """The most that there are of all blocks of a head, or of heads that share keys, or of those of a sequence."""
    blocks, _ = blocks_of_queries(problem, spec)
    most = blocks * (splits_of(problem, spec, target) if spec.split else 1)
    return min(most, blocks + workgroups_of_a_head(problem, spec, target)) if spec.order == DEALT else most


def _most_shares(problem: Problem, spec: FmhaFwdSpec, target: Target) -> int:
    """Of a block of one sequence, if that had all the keys; 1 where rows alone fill the device."""
    blocks, heads = blocks_of_queries(problem, spec)
    if (blocks - problem.b) * heads >= FULL * target.compute_units:
        return 1
    return max(min(MOST_SPLITS, blocks_of_keys(problem, spec), workgroups_of_a_head(problem, spec, target)), 1)


def blocks_of_keys(problem: Problem, spec: FmhaFwdSpec) -> int:
    """The most that a block of queries attends to: of a window, which may begin within one, those that it touches."""
    queries, keys = spec.block
    seen = problem.mask.reach(problem.sq, problem.sk) + problem.mask.sink + min(problem.sq, queries) - 1
    return min(ceil_div(problem.sk, keys), ceil_div(seen, keys) + 1)
