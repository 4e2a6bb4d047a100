"""sparge_attention: `sparse_attention` to the blocks of keys that `predict_blocks` finds from Q and K (SpargeAttn,
Zhang et al., arXiv 2502.18137; CK Tile's example 50).

Keys are those of both, but for lists and sequences of different lengths. Blocks are predicted by the scale of the
scores, and under causal masks from what queries see; other masks, bias, ALiBi and caps change scores, not which blocks
are taken. Arrays are those of `sparse_attention` without lists, and thresholds (h, 2) with by_head=1.

Rounding may decide which blocks a block of queries takes (see `predict_blocks`). Nothing is promised of its queries
then.

Steps: those of `predict_blocks`, which leave a map in a workspace, and those of `sparse_attention` with a map.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.attention.fmha_fwd import FmhaFwd
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
from ckmlir.ops.attention.parts.alibi import Alibi
from ckmlir.ops.attention.parts.bias import Bias
from ckmlir.ops.attention.parts.block_lists import COUNTED, LISTED
from ckmlir.ops.attention.parts.predicted_blocks import PredictedBlocks
from ckmlir.ops.attention.parts.sink import Sink
from ckmlir.ops.attention.parts.skip import Skip
from ckmlir.ops.attention.parts.soft_cap import SoftCap
from ckmlir.ops.attention.prediction.block_means import DTYPES
from ckmlir.ops.attention.prediction.predict_blocks import OPERATOR as PREDICT_BLOCKS
from ckmlir.ops.attention.prediction.reference import unpromised
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.reference import lse_shape
from ckmlir.ops.attention.sequences import KEYS as SEQUENCE_KEYS
from ckmlir.ops.attention.sparse_attention import SparseAttention, lists_of
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.operator import Run, Step
from ckmlir.ops.request import Choice, Key
from ckmlir.ops.steps import OWN_KERNEL, Fill, Workspace
from ckmlir.targets import Target, get_target

MAP = "block_map"


class SpargeAttention(SparseAttention):
    """The operator `sparge_attention`, which the module's docstring describes."""

    name = "sparge_attention"
    own_keys: ClassVar[tuple[Key, ...]] = tuple(
        Choice("dtype", "f16", "of Q, K and V", DTYPES) if key.name == "dtype" else key
        for key in FmhaFwd.own_keys if key not in SEQUENCE_KEYS
    )  # fmt: skip

    def __init__(self) -> None:
        FmhaFwd.__init__(self, (PredictedBlocks, Bias, Alibi, SoftCap, Sink, Skip))

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        alike = {key.name: key.default for key in SEQUENCE_KEYS}
        return super()._problem({**alike, **values})

    def kernels(self, target: Target) -> list[FmhaFwdSpec]:
        requests = [{"d": d, "dtype": dtype, "mask": mask} for d in (64, 128) for dtype in ("f16", "bf16")
                    for mask in ("none", "top_left")]  # fmt: skip
        specs = [self.spec(self.problem(sq=1024, **one), target) for one in requests]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Queries and keys of blocks that are alike, and that are not."""
        if array.name in ("q", "k"):
            return PREDICT_BLOCKS._values(predicted_of(problem).prediction, array, generator)
        return super()._values(problem, array, generator)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return super().reference(*self._made(problem, arrays, get_target("gfx950")))

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Those of `sparse_attention` with the map; nothing is promised where the map is left open."""
        part, (whole, given) = predicted_of(problem), self._made(problem, arrays, target)
        found = super().tolerances(whole, given, reference, target)
        open_ = unpromised(part.prediction, arrays, target).any(-1).repeat(part.block[0], -1)[..., : problem.sq]
        rows = open_.reshape(lse_shape(problem))
        lost = {"lse": rows, "o": problem.by_head(np.broadcast_to(rows[..., None], (*rows.shape, problem.dv)))}
        return {name: replace(one, unspecified=one.unspecified | lost[name]) for name, one in found.items()}

    def _made(
        self, problem: Problem, arrays: Mapping[str, Array], target: Target
    ) -> tuple[Problem, Mapping[str, Array]]:
        """The problem that is left behind the steps before the kernel, with a map among its arrays, which is predicted
        where it is not there yet."""
        if MAP in arrays:
            return problem, arrays
        part = predicted_of(problem)
        found = np.zeros((*part.prediction.shape[:3], part.entries), np.int8)
        found[..., : part.prediction.shape[3]] = PREDICT_BLOCKS.reference(part.prediction, arrays)[MAP]
        parts = tuple(part.of_a_map() if one is part else one for one in problem.parts)
        return replace(problem, parts=parts), {**arrays, MAP: found}

    def steps(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> tuple[Step, ...]:
        part = predicted_of(problem)
        if self.writes_nothing(problem):
            return (OWN_KERNEL,)
        if not part.prediction.shape[3]:
            return (Fill(LISTED, 0), Fill(COUNTED, 0), OWN_KERNEL)
        return (Run(PREDICT_BLOCKS, part.prediction, {}), *super().steps(problem, spec, target))

    def workspaces(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> tuple[Workspace, ...]:
        found = super().workspaces(problem, spec, target)
        lists = lists_of(problem)
        size = problem.b * problem.h * lists.rows(problem) * lists.entries
        return found and (Workspace(MAP, size), *found)


def predicted_of(problem: Problem) -> PredictedBlocks:
    """What is predicted."""
    found = lists_of(problem)
    assert isinstance(found, PredictedBlocks)
    return found


OPERATOR = SpargeAttention()
