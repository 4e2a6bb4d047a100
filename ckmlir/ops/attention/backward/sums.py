"""The last steps of attention backward: sums of what several workgroups have found, in a fixed order."""

from __future__ import annotations

import math

from ckmlir.ops.attention.backward.fmha_bwd_dot_do_o import Problem as DotDoO
from ckmlir.ops.attention.backward.fmha_bwd_spec import KEPT, FmhaBwdSpec, backward_resources
from ckmlir.ops.attention.backward.problem import BackwardProblem
from ckmlir.ops.attention.parts.bias_gradient import BiasGradient
from ckmlir.ops.attention.reference import lse_shape
from ckmlir.ops.contraction.added_parts import SumProblem
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.tensors.arrays import Operand
from ckmlir.targets import Target

BESIDE_KEYS = 3
"""Steps that loading the queries and storing dQ is worth to a workgroup that keeps them."""


def slot_elements(problem: BackwardProblem) -> int:
    """Of dQ."""
    return math.prod(lse_shape(problem.attention)) * problem.attention.d


def slots(problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> int:
    """How many parts of dQ there are: one to which all is added, one for each block of the most keys, or one for each
    workgroup that shares the keys of a head."""
    if spec.sink == KEPT:
        return max(ceil_div(problem.attention.sk, keys_of_a_workgroup(problem, spec, target)), 1)
    return max(ceil_div(problem.attention.sk, spec.block[1]), 1) if spec.sink == "slots" else 1


def keys_of_a_workgroup(problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> int:
    """Keys that a workgroup which keeps queries takes, whole blocks: those with which the rounds that the device takes
    for all workgroups are done first."""
    blocks = max(ceil_div(problem.attention.sk, spec.block[1]), 1)
    held = backward_resources(spec, target).workgroups_a_unit(target) * target.compute_units
    heads = problem.attention.h * problem.attention.b

    def steps(taken: int) -> int:
        return ceil_div(heads * ceil_div(blocks, taken), held) * (taken + BESIDE_KEYS)

    return max(range(1, blocks + 1), key=lambda taken: (-steps(taken), taken)) * spec.block[1]


def packed_strides(problem: BackwardProblem, name: str) -> tuple[int, int, int]:
    """Strides along batches, heads of Q and rows of an array with as many heads as Q, packed."""
    _, rows, channels = problem.sizes(name)
    return problem.attention.h * rows * channels, rows * channels, channels


def sum_of_slots(problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> SumProblem:
    """dQ: the sum of its parts, multiplied by the scale."""
    parts = slots(problem, spec, target)
    strides = (slot_elements(problem) if parts > 1 else 0, *packed_strides(problem, "dq"), 1)
    return _sum(problem, "dq", parts, strides, "acc * alpha")


def sum_of_heads(problem: BackwardProblem, name: str) -> SumProblem:
    """dK or dV: the sum over heads of Q that share one of K."""
    batch, head, row = packed_strides(problem, name)
    return _sum(problem, name, problem.ratio, (head, batch, problem.ratio * head, row, 1), "")


def sum_of_slopes(wanted: BiasGradient) -> SumProblem:
    """The gradient of a bias: the sum over batches and heads that share it."""
    lengths, axes = wanted.bias.lengths, (0, 1, 2, 3)
    rows = tuple(math.prod(lengths[axis + 1 :]) for axis in axes)
    batch = wanted.heads // lengths[0] * wanted.slopes if lengths[0] > 1 else rows[0]
    sums = Operand("acc_parts", "f32", (wanted.count, *lengths), (wanted.distance, batch, *rows[1:]), (1, 2, 3, 4))
    return SumProblem(
        wanted.count, lengths, (sums,), (), Operand("c", wanted.bias.dtype, lengths, rows, axes), "", 1.0, 1.0
    )


def sum_of_blocks(problem: BackwardProblem, rows: DotDoO) -> SumProblem:
    """The gradient of the sink logits: the sum over blocks of queries, where delta has the factor of dropout."""
    count, lengths = rows.b * rows.blocks, (rows.h,)
    sums = Operand("acc_parts", "f32", (count, *lengths), (rows.h, 1), (1,))
    c = Operand("c", "f32", lengths, (1,), (0,))
    return SumProblem(count, lengths, (sums,), (), c, "acc * alpha", problem.factor, 1.0)


def _sum(problem: BackwardProblem, name: str, parts: int, strides: tuple[int, ...], op: str) -> SumProblem:
    """An output from its parts in f32; strides are those of parts, batches, heads, rows and channels."""
    whole = problem.attention
    lengths = (whole.array_batches, *problem.sizes(name))
    sums = Operand("acc_parts", "f32", (parts, *lengths), strides, (1, 2, 3, 4))
    array = problem.array(name, "out")
    axes = (0, 1, 2, 3) if whole.layout == "bhsd" else (0, 2, 1, 3)
    c = Operand("c", whole.dtype, array.shape, array.strides, axes)
    return SumProblem(parts, lengths, (sums,), (), c, op, whole.scale * problem.factor, 1.0)
