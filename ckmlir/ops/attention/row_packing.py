"""Heads that share keys as rows of one block, on the host: whether they can be, and how many blocks there are."""

from __future__ import annotations

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
from ckmlir.ops.attention.orders import IN_ONE_ROW
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.scalars import ceil_div


def packable(problem: Problem) -> bool:
    """Whether offsets of 32 bits reach all heads that share keys, from the first of a sequence."""
    further = problem.h // problem.hk - 1
    for name in "qo":
        _, head, row = problem.strides(name)
        size = find_dtype(problem.out if name == "o" else problem.dtype).bytes
        if (further * head + problem.sq * row) * size > MAXIMUM_ARRAY_BYTES:
            return False
    return True


def blocks_of_queries(problem: Problem, spec: FmhaFwdSpec) -> tuple[int, int]:
    """The most blocks of rows that a sequence has, and how many heads, or groups of heads that share keys, they are
    of. In one row of all sequences each has one more than its rows fill, so that a block's place follows from the rows
    before its sequence alone."""
    together = problem.h // problem.hk if spec.packed else 1
    if spec.order in IN_ONE_ROW:
        return problem.rows("q") * together // spec.block[0] + problem.b, problem.h // together
    return ceil_div(problem.sq * together, spec.block[0]), problem.h // together


def busy_workgroups(problem: Problem, spec: FmhaFwdSpec) -> int:
    """How many workgroups have queries, by what the request knows: all of the grid; in one row of all sequences as few
    as so many rows of so many sequences can take, where each has some."""
    blocks, heads = blocks_of_queries(problem, spec)
    if spec.order not in IN_ONE_ROW:
        return problem.b * blocks * heads
    rows = problem.rows("q")
    return max(ceil_div(rows * (problem.h // heads), spec.block[0]), min(problem.b, rows)) * heads
