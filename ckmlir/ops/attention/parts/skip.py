"""Skipped products: a block of keys counts for nothing for queries whose scores there are far below the largest before.

The threshold is in powers of two. CK Tile's and SpargeAttn's rule, which both decide for the queries of a wave or of a
workgroup together (`pv_threshold`; Zhang et al., "SpargeAttn", 2025); here each query decides. As in CK Tile, weights
become zeros and are multiplied nevertheless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ckmlir.ops.attention.part import WeightPart
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import Real, RequestError
from ckmlir.ops.scalars import f32

if TYPE_CHECKING:
    from ckmlir.lang import Tile
    from ckmlir.ops.attention.loop.loop_kernel import Form, Weights
    from ckmlir.ops.attention.loop.work_kernel import Work

LEAST, MOST = 1.0, 1000.0


@dataclass(frozen=True)
class Skip(WeightPart):
    """Weights below two to minus the threshold, of the largest of their query, may be missing, in O and in LSE."""

    threshold: float

    name = "skip"
    keys = (Real("pv_threshold", None, "skip blocks with weights below 2^-pv_threshold of the largest before", LEAST),)

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> Skip | None:
        threshold = values["pv_threshold"]
        if threshold is None:
            return None
        if threshold > MOST:
            raise RequestError(f"pv_threshold={threshold}: expected at most {MOST:g} powers of two")
        return cls(threshold)

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        return (f32(self.threshold),)

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import f32

        return {"pv_threshold": f32}

    @classmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form, weights: Weights) -> Weights:
        from ckmlir.lang import reduce_max, where
        from ckmlir.ops.attention.loop.weights_kernel import Around

        class Skipping(Around):
            """An infinite shift makes zeros of the weights; neither the largest score nor earlier weights change."""

            def top(self, scores: Tile, state: Any) -> Any:
                found, before = super().top(scores, state), self.units.exponent(state[0])
                here = self.units.exponent(reduce_max(scores, 1))
                return replace(found, shift=where(here + given.pv_threshold <= before, inf, found.shift))

        return Skipping(weights)
