"""Predicted blocks: queries attend to the blocks of keys that `predict_blocks` finds for them.

A step before the kernel makes the map of Q and K, so that the part has no arrays but thresholds by head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec, find_array
from ckmlir.ops.attention.parts.block_lists import BlockLists, BlockSize
from ckmlir.ops.attention.prediction.block_means import MOST_ROWS
from ckmlir.ops.attention.prediction.predict_blocks import OPERATOR as PREDICT_BLOCKS
from ckmlir.ops.attention.prediction.problem import Problem as Prediction
from ckmlir.ops.comparison import Array
from ckmlir.ops.inner import inner_problem
from ckmlir.ops.operator import Argument

if TYPE_CHECKING:
    from ckmlir.ops.attention.problem import Problem

ASKED = ("block_q", "block_k", "topk", "cdfthreshd", "simthreshd1", "by_head", "smooth", "first")


@dataclass(frozen=True)
class PredictedBlocks(BlockLists):
    """Queries attend to the blocks of keys that a prediction of theirs takes.

    Attributes:
        prediction: the problem of `predict_blocks`.
    """

    prediction: Prediction

    keys = (
        BlockSize("block_q", 64, "queries of a block", minimum=64, maximum=MOST_ROWS),
        *(key for key in PREDICT_BLOCKS.keys if key.name in ASKED[1:]),
    )

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> PredictedBlocks:
        """See `Part`."""
        sizes = {name: getattr(problem, name) for name in ("b", "h", "hk", "sq", "sk", "d", "layout")}
        sizes |= {f"{name}_strides": problem.strides(name) for name in "qk" if 0 not in problem.strides(name)}
        mask = str(problem.mask) if problem.mask.is_causal else "none"
        wanted = {name: values[name] for name in ASKED} | {"dtype": problem.held_as("q"), "mask": mask}
        found = inner_problem(PREDICT_BLOCKS, {}, **sizes, **wanted, scale=problem.score_scale)
        block, blocks = (values["block_q"], values["block_k"]), found.shape[3]
        listed = blocks if found.topk is None else min(found.count, blocks)
        return cls("map", block, max(blocks, 1), listed, found)

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        """See `Part`."""
        own = PREDICT_BLOCKS.arrays(self.prediction)
        return (find_array(own, "thresholds"),) if self.prediction.by_head else ()

    def values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """See `Part`."""
        return PREDICT_BLOCKS._values(self.prediction, array, generator)

    def arguments(self, problem: Problem) -> tuple[Argument, ...]:
        """See `Part`: lists are those of a map, which no array is."""
        return self.of_a_map().arguments(problem)

    def together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        """See `Part`."""
        return {}

    def check(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        """See `Part`: what is predicted exists."""

    def of_a_map(self) -> BlockLists:
        """The part that reads what is predicted."""
        return BlockLists(self.form, self.block, self.entries, self.listed)
