"""sparse_attention: `fmha_fwd` where each block of queries attends to some blocks of keys alone.

Which ones is said for every head of Q by a map with an element for each block of keys, or by a list of their numbers
or of the distances between these (`parts/block_lists.py`): CK Tile's jenga and vsa. Maps and distances become lists of
numbers first, by kernels of their own. A mask leaves queries those of the listed keys that it has. A block of queries
without any gives O = 0 and LSE = -inf.

With pv_threshold, blocks whose weights are small may count for nothing (`parts/skip.py`).

Arrays are those of `fmha_fwd`, with the lists behind the sequences' places. Kernel arguments too: behind the mask's
come lists of numbers, counts, entries of a list and blocks of queries (i32).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckmlir.ops.attention.fmha_fwd import FmhaFwd
from ckmlir.ops.attention.fmha_fwd_spec import HEAD_TILES, FmhaFwdSpec
from ckmlir.ops.attention.moved_scores import moved_error
from ckmlir.ops.attention.part import key_parts, scale_parts
from ckmlir.ops.attention.parts.alibi import Alibi
from ckmlir.ops.attention.parts.bias import Bias
from ckmlir.ops.attention.parts.block_lists import COUNTED, LISTED, BlockLists
from ckmlir.ops.attention.parts.output_scale import OutputScale
from ckmlir.ops.attention.parts.sink import Sink
from ckmlir.ops.attention.parts.skip import Skip
from ckmlir.ops.attention.parts.soft_cap import SoftCap
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.skipped import skipped_error
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.indexed.cumsum import OPERATOR as CUMSUM
from ckmlir.ops.indexed.nonzero import OPERATOR as NONZERO
from ckmlir.ops.operator import Run, Step
from ckmlir.ops.steps import OWN_KERNEL, Workspace
from ckmlir.targets import Target


class SparseAttention(FmhaFwd):
    """The operator `sparse_attention`, which the module's docstring describes."""

    name = "sparse_attention"

    def __init__(self) -> None:
        super().__init__((BlockLists, Bias, Alibi, SoftCap, Sink, OutputScale, Skip))

    def kernels(self, target: Target) -> list[FmhaFwdSpec]:
        requests: list[dict[str, Any]] = [{"d": d, "mask": mask} for d in (64, 128) for mask in ("none", "top_left")]
        requests += [{"d": d, "dtype": dtype} for d in HEAD_TILES for dtype in ("bf16", "fp8", "f32")]
        requests += [{"d": 128, **one} for one in ({"lse": 1}, {"pv_threshold": 20}, {"block_q": 64, "block_k": 64})]
        requests.append({"mode": "group", "seqlens_q": (1024, 500), "seqlens_k": (1024, 500)})
        specs = [self.spec(self.problem(**{"sq": 1024, **one}), target) for one in requests]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]

    def flops(self, problem: Problem) -> int:
        """Those of the two products for as many keys as made-up lists have, whatever the mask leaves of them."""
        lists, found = lists_of(problem), 0
        values = {**problem.queries.values(), **problem.keys.values()}
        for number in range(problem.b):
            queries, keys = (side.of(values, number)[1] for side in (problem.queries, problem.keys))
            found += queries * min(lists.listed * lists.block[1], keys)
        return 2 * problem.h * found * (problem.d + problem.dv)

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Those of `fmha_fwd`, and what skipped blocks and rounded queries and keys take away."""
        both = {**reference, "lse": reference["o"]}  # by name
        found = super().tolerances(problem, arrays, both, target)
        for part in problem.parts:
            if isinstance(part, Skip):
                found = skipped_error(problem, arrays, found, part.threshold)
        found = moved_error(problem, arrays, found) if scale_parts(problem) else found
        return {name: found[name] for name in reference}

    def steps(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> tuple[Step, ...]:
        lists, rows = lists_of(problem), _rows(problem)
        if lists.form == "list" or self.writes_nothing(problem):
            return (OWN_KERNEL,)
        if lists.form == "map":
            found = NONZERO.problem(m=rows, n=lists.entries)
            return (Run(NONZERO, found, {"x": "block_map", "y": LISTED, "counts": COUNTED}), OWN_KERNEL)
        sums = CUMSUM.problem(m=rows, n=lists.entries, dtype="i32")
        return (Run(CUMSUM, sums, {"x": "block_deltas", "y": LISTED}), OWN_KERNEL)

    def workspaces(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> tuple[Workspace, ...]:
        lists, rows = lists_of(problem), _rows(problem)
        if lists.form == "list" or self.writes_nothing(problem):
            return ()
        counted = (Workspace(COUNTED, 4 * rows),) if lists.form == "map" else ()
        return (Workspace(LISTED, 4 * rows * lists.entries), *counted)


def lists_of(problem: Problem) -> BlockLists:
    """Which blocks are listed."""
    (found,) = key_parts(problem)
    assert isinstance(found, BlockLists)
    return found


def _rows(problem: Problem) -> int:
    """Lists: one for every block of queries."""
    return problem.b * problem.h * lists_of(problem).rows(problem)


OPERATOR = SparseAttention()
