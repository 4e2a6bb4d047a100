"""What runs in front of attention backward's main kernel and behind it, and the workspaces between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ckmlir.ops.attention.backward.block_table import shares_by
from ckmlir.ops.attention.backward.fmha_bwd_convert_dq import OPERATOR as CONVERT_DQ
from ckmlir.ops.attention.backward.fmha_bwd_convert_dq import Problem as ConvertDq
from ckmlir.ops.attention.backward.fmha_bwd_costs import OPERATOR as COSTS_OPERATOR
from ckmlir.ops.attention.backward.fmha_bwd_dot_do_o import OPERATOR as DOT_DO_O
from ckmlir.ops.attention.backward.fmha_bwd_dot_do_o import ROWS as QUERIES
from ckmlir.ops.attention.backward.fmha_bwd_dot_do_o import Problem as DotDoO
from ckmlir.ops.attention.backward.fmha_bwd_join import OPERATOR as JOIN
from ckmlir.ops.attention.backward.fmha_bwd_join import Problem as JoinedBlocks
from ckmlir.ops.attention.backward.fmha_bwd_spec import KEPT, SHARING, FmhaBwdSpec, backward_resources
from ckmlir.ops.attention.backward.fmha_bwd_turns import OPERATOR as TURNS_OPERATOR
from ckmlir.ops.attention.backward.fmha_bwd_turns import Turns, turns_of
from ckmlir.ops.attention.backward.problem import BackwardProblem
from ckmlir.ops.attention.backward.slot_table import Shares
from ckmlir.ops.attention.backward.sums import (
    packed_strides,
    slot_elements,
    slots,
    sum_of_blocks,
    sum_of_heads,
    sum_of_slopes,
    sum_of_slots,
)
from ckmlir.ops.attention.reference import lse_shape
from ckmlir.ops.attention.sequences import Rows
from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.sum_parts import OPERATOR as SUM_PARTS
from ckmlir.ops.operator import Run, Step
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.steps import Fill, PackOnHost, Workspace
from ckmlir.targets import Target

COSTS = "costs"
"""The workspace that says where the work of each sequence begins."""
TURNS = "turns"
"""That which says in which order sequences have their heads' turns."""
WRITTEN = "written"
"""That which says what rows the slots of workgroups that stay have."""
PARTS = {"dk": "dk_parts", "dv": "dv_parts"}
"""Workspaces of dK and dV before they are added."""
SHARED = {"dk": "dk_slots", "dv": "dv_slots"}
"""Those of dK and dV of pieces of the blocks of keys that workgroups share."""
BESIDE = {"gfx90a": 4, "gfx942": 4, "gfx950": 6}
"""Steps that loading a block's K and V and leaving its dK and dV in 16 bits are worth by the model of time; two
thirds as many more where those are f32."""


class Around(NamedTuple):
    """What a gradient takes besides the main kernel."""

    before: tuple[Step, ...] = ()
    behind: tuple[Step, ...] = ()


def steps_around(main: Step, problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> tuple[Step, ...]:
    """What every query needs, zeros where parts are added or left out, the main kernel, and the sums."""
    found = (
        _for_sums(problem),
        _for_queries(problem, spec, target),
        _for_keys(problem, spec, target),
        _for_sink(problem),
        _for_bias(problem, spec),
    )
    before, behind = (tuple(step for steps in side for step in steps) for side in zip(*found, strict=True))
    return (*before, main, *behind)


def _for_sums(problem: BackwardProblem) -> Around:
    """What a softmax takes of every query."""
    if not problem.attention.lse:
        return Around()
    rows = _row_sums(problem)
    return Around((Run(DOT_DO_O, rows, {array.name: array.name for array in DOT_DO_O.arrays(rows)}),))


def _row_sums(problem: BackwardProblem) -> DotDoO:
    """rowsum(dO·O) of every row, wherever sequences are; a sink logit's gradient needs them sequence by sequence."""
    whole, sunk = problem.attention, problem.sink is not None
    return DotDoO(
        whole.b if sunk else whole.array_batches, whole.h, whole.queries if sunk else Rows("q", whole.rows("q")),
        whole.dv, whole.dtype, whole.layout, problem.strides("o"), problem.strides("do"), 1 / problem.factor, sunk,
    )  # fmt: skip


def _for_queries(problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> Around:
    """dQ: the sum of its parts, in front of which those become zeros that not every block of keys writes."""
    whole = problem.attention
    if spec.sink in SHARING:
        none = (Fill(WRITTEN, 0),) if spec.sink == "blocks" and whole.sk else ()
        packed = _packed_costs(problem, spec, target)
        return Around((*none, packed), (_sum_of_shares(problem, spec, target),))
    order = _packed_turns(problem, spec, target) if spec.sink == "heads" else ()
    clear = () if _every_row(problem, spec) or not whole.rows("q") else (Fill("dq_parts", 0),)
    total = Run(SUM_PARTS, sum_of_slots(problem, spec, target), {"acc_parts": "dq_parts", "c": "dq"})
    return Around((*order, *clear), (total,))


def _every_row(problem: BackwardProblem, spec: FmhaBwdSpec) -> bool:
    """Whether the main kernel stores every row of the parts of dQ before others are added to it."""
    stored = spec.sink == KEPT or (spec.sink == "slots" and problem.all_attend)
    return spec.sink == "heads" or (stored and problem.attention.sk > 0 and not spec.varied)


def _for_keys(problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> Around:
    """dK and dV: pieces of blocks joined, and the heads of Q added that share them."""
    joined = [_join_of_blocks(problem, spec, target, name) for name in SHARED if spec.sink == "shares"]
    parts = PARTS if problem.parted else {}
    clear = [Fill(parts[name], 0) for name in parts if spec.sequences[1]]
    heads = [Run(SUM_PARTS, sum_of_heads(problem, name), {"acc_parts": parts[name], "c": name}) for name in parts]
    return Around(tuple(clear), (*joined, *heads))


def _for_sink(problem: BackwardProblem) -> Around:
    """The gradient of the sink logits, of which `fmha_bwd_dot_do_o` leaves a part for each block of queries."""
    if problem.sink is None:
        return Around()
    rows = _row_sums(problem)
    if not rows.b * rows.blocks:
        return Around((Fill("dsink", 0),))
    return Around((), (Run(SUM_PARTS, sum_of_blocks(problem, rows), {"acc_parts": "sink_parts", "c": "dsink"}),))


def _for_bias(problem: BackwardProblem, spec: FmhaBwdSpec) -> Around:
    """The gradient of the bias: zeros where no block of keys writes it, and its sum over batches and heads."""
    wanted = problem.bias_gradient
    if not wanted or not problem.attention.sk:
        return Around()
    partial = not problem.all_attend or spec.varied or not wanted.count
    clear = (Fill(problem.written("dbias"), 0),) if partial else ()
    if wanted.count <= 1:
        return Around(clear)
    return Around(clear, (Run(SUM_PARTS, sum_of_slopes(wanted), {"acc_parts": "dbias_parts", "c": "dbias"}),))


# -- workgroups that stay ----------------------------------------------------------------------------------------------


def shares_of(problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> Shares:
    """The work of so many workgroups as were asked for, as the device holds, or as there are blocks of keys."""
    whole = problem.attention
    blocks = ceil_div(whole.sk, spec.block[1]) * whole.h * whole.b
    held = backward_resources(spec, target).workgroups_a_unit(target) * target.compute_units
    workgroups = problem.workgroups or max(min(held, blocks), 1)
    beside = BESIDE[target.name] * (5 if spec.out == "f32" else 3) // 3
    return shares_by(
        problem.ranges, whole.b, whole.h, whole.queries, whole.keys, spec.block, workgroups, whole.mask, beside
    )


def _packed_costs(problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> Step:
    """Where the work of each sequence begins."""
    shares = shares_of(problem, spec, target)
    if problem.pack == "device":
        return Run(COSTS_OPERATOR, shares, {array.name: array.name for array in COSTS_OPERATOR.arrays(shares)})
    return PackOnHost(COSTS, tuple(array.name for array in shares.arrays()), shares.pack)


def _packed_turns(problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> tuple[Step, ...]:
    """In which order sequences have their heads' turns, by what they cost."""
    shares = shares_of(problem, spec, target)
    if problem.pack == "device":
        turns = Run(TURNS_OPERATOR, Turns(shares.sequences), {name: name for name in (COSTS, TURNS)})
        return _packed_costs(problem, spec, target), turns

    def pack(arrays: Mapping[str, Array], packed: Array) -> None:
        packed.view(np.int32)[:] = turns_of(shares.costs(arrays))

    return (PackOnHost(TURNS, tuple(array.name for array in shares.arrays()), pack),)


def _sum_of_shares(problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> Run:
    """dQ: the sum of the slots in use, multiplied by the scale."""
    whole, strides = problem.attention, problem.strides("dq")
    shares, alpha = shares_of(problem, spec, target), whole.scale * problem.factor
    parts = ConvertDq(shares, whole.d, whole.dtype, whole.layout, strides, alpha)
    return Run(CONVERT_DQ, parts, {array.name: array.name for array in CONVERT_DQ.arrays(parts)})


def _join_of_blocks(problem: BackwardProblem, spec: FmhaBwdSpec, target: Target, name: str) -> Run:
    """dK or dV, or those of each head of Q, of blocks that workgroups share."""
    whole, shares = problem.attention, shares_of(problem, spec, target)
    channels, layout, strides = problem.sizes(name)[-1], whole.layout, problem.strides(name)
    if problem.parted:
        layout, strides = "bhsd", packed_strides(problem, name)
    blocks = JoinedBlocks(shares, channels, spec.out, layout, strides)
    own = {"slots": SHARED[name], "dk": PARTS[name] if problem.parted else name}
    return Run(JOIN, blocks, {array.name: own.get(array.name, array.name) for array in JOIN.arrays(blocks)})


# -- workspaces --------------------------------------------------------------------------------------------------------


def workspaces_of(problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> tuple[Workspace, ...]:
    """What `steps_around` and the main kernel leave for each other."""
    whole, wanted = problem.attention, problem.bias_gradient
    by_query = 4 * math.prod(lse_shape(whole))
    found = [Workspace("delta", by_query), Workspace("exponent", by_query)] if whole.lse else []
    if spec.sink in SHARING:
        shares = shares_of(problem, spec, target)
        found.append(Workspace("dq_parts", shares.elements(whole.d) * 4))
        found.append(Workspace(COSTS, shares.numbers * 4))
        found.append(Workspace(WRITTEN, shares.count * 8))
        for name, slots_of in SHARED.items() if spec.sink == "shares" else ():
            block = spec.block[1] * problem.sizes(name)[-1]
            found.append(Workspace(slots_of, shares.pieces * block * 4))
    else:
        if spec.sink == "heads":
            found += [Workspace(COSTS, (whole.b + 2) * 4)] * (problem.pack == "device")
            found.append(Workspace(TURNS, whole.b * 4))
        found.append(Workspace("dq_parts", slots(problem, spec, target) * slot_elements(problem) * 4))
    if problem.parted:
        batches = whole.array_batches
        found += [Workspace(parts, 4 * batches * packed_strides(problem, name)[0]) for name, parts in PARTS.items()]
    if problem.sink:
        found.append(Workspace("sink_parts", 4 * whole.b * ceil_div(whole.sq, QUERIES) * whole.h))
    if wanted and wanted.count > 1:
        found.append(Workspace("dbias_parts", 4 * wanted.heads * wanted.slopes))
    return tuple(found)
