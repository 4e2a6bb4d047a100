"""Which kernels of products are proposed for a problem: the plans of `defaults.py`, and what they come to.

Imported when something is chosen: a kernel that is there needs none of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckmlir.ops.contraction.axes import padded
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.defaults import default_mfma, other_blocks, plans
from ckmlir.ops.contraction.kept_scales import with_kept_scales
from ckmlir.ops.contraction.parts import parts_that_pay
from ckmlir.ops.contraction.problem import REDUCTIONS, Problem
from ckmlir.ops.contraction.slices import default_epilogue, slices_of
from ckmlir.ops.contraction.wishes import Plan, plan_of, wish_of
from ckmlir.records import replace
from ckmlir.targets import Target


def ways(problem: Problem, target: Target) -> Iterator[tuple[Plan, str]]:
    """Plans for a problem and what becomes of the sums (`SINKS`), the best first."""
    for plan in plans(wish_of(problem, target), target):
        for sink in _sinks(problem, plan, target):
            yield plan, sink


def in_other_blocks(problem: Problem, last: ContractionSpec, target: Target) -> Iterator[Problem]:
    """A problem with blocks of any size named, where the chip runs none of the proposals, `last` the last of them."""
    for plan in other_blocks(plan_of(last), problem, target):
        yield replace(problem, schedule=plan.schedule, block=plan.block, waves=plan.waves)


def planned(operator: str, asked: Problem, plan: Plan, sink: str, target: Target) -> ContractionSpec:
    """The kernel of a plan, whether the chip can run it or not."""
    problem = asked.parted() if sink == "partial" else asked
    schedule, block, waves, columns, along_k = plan
    piece, sparse = problem.piece(block[2], target), problem.ld_index is not None
    taken = problem.taken(target)
    types = (taken or problem.dtype, taken or problem.b_dtype or problem.dtype)
    columns = problem.shuffled or columns
    mfma = problem.mfma or default_mfma((*block[:2], piece // along_k), waves, types, target, columns, sparse)
    epilogue = problem.epilogue or default_epilogue(plan, computed=problem.op not in ("", "acc"))
    found = ContractionSpec(
        operator=operator,
        dtype=problem.dtype,
        b_dtype=problem.b_dtype, taken=taken,
        out=problem.out,
        layout=problem.layout,
        products=problem.products,
        op=problem.op,
        side=problem.described_side(),
        batch=len(problem.batch),
        merged=problem.words(),
        windows=problem.windows_word,
        sources=problem.described_sources(),
        combine=problem.combine,
        scaling=tuple(one.loaded_by(block[2]).described for one in problem.scaling),
        walk="grid",
        rows=(),
        sink=sink,
        block=block,
        waves=waves,
        mfma=mfma,
        epilogue=epilogue,
        slices=(1, 1),
        schedule=schedule,
        shuffled=problem.shuffled,
        pad=padded((problem.lengths,), block),
        align=problem.aligned(),
        sparse=problem.index_align,
        index_order=problem.index_order,
        along_k=along_k,
    )
    return with_kept_scales(replace(found, slices=slices_of(found)), problem, target)


def _sinks(problem: Problem, plan: Plan, target: Target) -> Iterator[str]:
    """What may become of the sums, the best first: parts where they are asked for, or pay."""
    if 0 in (problem.m, problem.n):
        yield "store"
        return
    split = problem.split_k or parts_that_pay(problem, plan.schedule, plan.block, target)
    if split > 1:
        yield REDUCTIONS[problem.reduction or "workspace"]
    if split == 1 or (problem.split_k is None and problem.longest_part is None):
        yield "store"
