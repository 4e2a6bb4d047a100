"""fmha_fwd_splitkv: `fmha_fwd` where several workgroups share the keys of a block of queries.

For few queries and many keys: each workgroup takes a run of whole blocks of keys and leaves O and LSE of it, in f32, in
a workspace; `fmha_fwd_splitkv_combine` puts them together. The mask's keys are shared, so that with any mask all runs
are as long; a run without keys, and a query that sees none of a run's, count for nothing. A sink logit is the first
run's. There is no dropout.

K and V may lie in pages (page_size, see `fmha_fwd_pagedkv`), or be batches of a cache with `cache_batches` slots, where
cache_batch_idx (sequences) in i32 says which slot is whose.

`splits` says how many share them. 0 finds it: as few as fill the device's compute units nearly as well as any number
would. One split is `fmha_fwd` itself, and no second kernel runs.

Arrays are those of `fmha_fwd`. Kernel arguments too, with o_parts and lse_parts in the places of o and lse; behind
them the splits (i32), elements from one part of O and of LSE to the next (i64). Grid: (blocks of queries times splits,
heads, sequences).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import array_spec
from ckmlir.ops.attention.fmha_fwd import FmhaFwd
from ckmlir.ops.attention.fmha_fwd_spec import HEAD_TILES, FmhaFwdSpec
from ckmlir.ops.attention.fmha_fwd_splitkv_combine import MOST_SPLITS, CombineProblem
from ckmlir.ops.attention.fmha_fwd_splitkv_combine import OPERATOR as COMBINE
from ckmlir.ops.attention.orders import DEALT, FORWARD_ORDERS
from ckmlir.ops.attention.part import Part
from ckmlir.ops.attention.parts import PARTS
from ckmlir.ops.attention.parts.cache import Cache
from ckmlir.ops.attention.parts.dense import Dense
from ckmlir.ops.attention.parts.dropout import Dropout
from ckmlir.ops.attention.parts.page_scales import PageScales
from ckmlir.ops.attention.parts.pages import Pages
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.reference import attention, lse_shape
from ckmlir.ops.attention.row_packing import blocks_of_queries
from ckmlir.ops.attention.source import Source
from ckmlir.ops.attention.splits import SHARED, SplitProblem, shares_of_a_head, splits_of
from ckmlir.ops.attention.tolerance import fmha_tolerances, stored
from ckmlir.ops.choice import first_valid
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.operator import Argument, Launch, Run, Step
from ckmlir.ops.precision import UNIT
from ckmlir.ops.request import Integer, Key
from ckmlir.ops.scalars import i32, i64
from ckmlir.ops.spec import Reason
from ckmlir.ops.steps import OWN_KERNEL, Workspace
from ckmlir.targets import Target

SPLIT_PARTS: tuple[type[Part], ...] = (*(part for part in PARTS if part is not Dropout), PageScales)
WORKSPACES = {"o": "o_parts", "lse": "lse_parts"}


class FmhaFwdSplitkv(FmhaFwd):
    """The operator `fmha_fwd_splitkv`, which the module's docstring describes."""

    name = "fmha_fwd_splitkv"
    problem_type = SplitProblem
    own_keys: ClassVar[tuple[Key, ...]] = (
        Integer("splits", 0, "workgroups that share the keys; 0: as many as fill the device", maximum=MOST_SPLITS),
        *FmhaFwd.own_keys,
    )

    def __init__(
        self, parts: Sequence[type[Part]] = SPLIT_PARTS, sources: Sequence[type[Source]] = (Dense, Cache, Pages)
    ) -> None:
        super().__init__(parts, sources)

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        problem = super()._problem(values)
        array_spec("o_parts", (problem.rows("q"), problem.dv), "f32", "out")  # refuses what is too large
        return problem

    def proposals(self, problem: Problem, target: Target) -> list[FmhaFwdSpec]:
        whole = self.arranged(problem, target)
        spec = first_valid(whole, lambda one: self.validate(one, target))
        return whole if splits_of(problem, spec, target) == 1 else self.arranged(_of_parts(problem), target)

    def arranged(self, problem: Problem, target: Target) -> list[FmhaFwdSpec]:
        """Kernels for a problem, or for what the first of two kernels computes of it, the best first."""
        return super().proposals(problem, target)

    def fields(self, problem: Problem) -> dict[str, Any]:
        return {**super().fields(problem), "split": getattr(problem, "partial", False)}

    def mismatches(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> list[Reason]:
        assert isinstance(problem, SplitProblem)
        whole = not spec.split and problem.splits < 2
        return super().mismatches(problem if whole else _of_parts(problem), spec, target)

    def kernels(self, target: Target) -> list[FmhaFwdSpec]:
        group = {"mode": "group", "seqlens_q": (100, 50), "seqlens_k": (1024, 500)}
        varieties: tuple[dict[str, Any], ...] = (
            {}, {"mask": "bottom_right"}, {"mask": "window_bottom_right:128,0,4"}, {"sink": 1}, {"alibi": "head"},
            group,
        )  # fmt: skip
        requests: list[dict[str, Any]] = [{"d": d, **one} for d in (64, 128) for one in varieties]
        requests += [{"d": d, "h": 8, "hk": 1, "page_size": size} for d in (64, 128) for size in (16, 128)]
        requests += [{"d": d, "dtype": dtype} for dtype in ("bf16", "fp8", "f32") for d in HEAD_TILES]
        few = {"sq": 1, "sk": 1024}
        specs = [self.spec(self.problem(**({} if "mode" in one else few), **one, splits=4), target) for one in requests]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Those of `fmha_fwd`, and, where keys are shared, what is lost on the way through the parts: with n of them
        and r as there, sums over parts of the keys have the error r, their LSE, where weights are not negligible
        against them, 4 u (|LSE| + 1) twice, combining them (4 n + 4) u (see `fmha_fwd_splitkv_combine`), which counts
        in O and in its divisor.
        """
        spec = self.spec(problem, target)
        if not spec.split:
            return super().tolerances(problem, arrays, reference, target)
        whole = replace(problem, lse=True)
        values = problem.value_sizes(arrays)
        weighted = self.reference(whole, values)["o"]
        found = fmha_tolerances(whole, arrays, weighted, target)
        lse = np.abs(np.nan_to_num(attention(whole, arrays)["lse"], neginf=0.0, posinf=0.0))
        splits = splits_of(problem, spec, target)
        lost = (2 * (problem.sk / 32 + 8) + 8 * (lse + 1) + 4 * splits + 4) * UNIT
        rows = lost[None] if problem.grouped else lost
        magnitude = np.nan_to_num(problem.by_head(weighted))
        more = {"o": problem.by_head(2 * rows[..., None] * magnitude), "lse": lost}
        wider = {name: replace(found[name], atol=found[name].atol + more[name]) for name in ("o", "lse")}
        wider["o"] = stored(wider["o"], problem.out, self.reference(problem, arrays)["o"], target)
        return {name: wider[name] for name in reference}

    def launch(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> Launch:
        if not spec.split:
            return super().launch(problem, spec, target)
        launch = super().launch(_of_parts(problem), spec, target)
        if launch.is_empty:
            return launch
        splits, rows = splits_of(problem, spec, target), math.prod(lse_shape(problem))
        arguments = [WORKSPACES.get(one, one) if isinstance(one, str) else one for one in launch.arguments]
        counts: tuple[Argument, ...] = SHARED if spec.order == DEALT else (i32(splits),)
        arguments += (*counts, i64(rows * problem.dv), i64(rows))
        return replace(launch, arguments=tuple(arguments))

    def grid(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> tuple[int, int, int]:
        _, heads = blocks_of_queries(problem, spec)
        return FORWARD_ORDERS[spec.order].grid(shares_of_a_head(problem, spec, target), heads, problem.b)

    def steps(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> tuple[Step, ...]:
        if not spec.split or self.writes_nothing(problem):
            return (OWN_KERNEL,)
        combined = CombineProblem(
            splits_of(problem, spec, target), problem.b, problem.h, problem.queries, problem.dv, problem.out,
            problem.layout, problem.lse, problem.o_strides, spec.order == DEALT,
        )  # fmt: skip
        return (OWN_KERNEL, Run(COMBINE, combined, {}))

    def workspaces(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> tuple[Workspace, ...]:
        if not spec.split or self.writes_nothing(problem):
            return ()
        rows = 4 * splits_of(problem, spec, target) * math.prod(lse_shape(problem))
        return (Workspace("o_parts", rows * problem.dv), Workspace("lse_parts", rows))


def _of_parts(problem: Problem) -> Problem:
    """What the first of two kernels computes."""
    assert isinstance(problem, SplitProblem)
    rows, dv = problem.rows("q"), problem.dv
    return replace(problem, out="f32", lse=True, o_strides=(problem.h * rows * dv, rows * dv, dv), partial=True)


OPERATOR = FmhaFwdSplitkv()
