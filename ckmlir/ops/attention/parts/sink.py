"""Sink logit: an exponent of each head joins the sum of every query, without a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.part import WeightPart, score_parts
from ckmlir.ops.attention.problem import Place, Problem
from ckmlir.ops.comparison import Array
from ckmlir.ops.precision import LOG2_E, OVERFLOW, UNIT
from ckmlir.ops.request import Flag

if TYPE_CHECKING:
    from ckmlir.lang import Tile
    from ckmlir.ops.attention.loop.loop_kernel import Form, Weights
    from ckmlir.ops.attention.loop.work_kernel import Work



@dataclass(frozen=True)
class Sink(WeightPart):
    """Logits are f32, (h); minus infinity changes nothing. LSE counts them."""

    name = "sink"
    packs = True
    levels = True
    keys = (Flag("sink", False, "a logit of each head joins the sum of exponentials"),)

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> Sink | None:
        return cls() if values["sink"] else None

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (array_spec("sink", (problem.h,), "f32", "in"),)

    def logit(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> float:
        return float(arrays["sink"][place.head])

    def logit_error(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> float:
        """A product, a difference and a quotient, undone by a product and a sum; f32 has to hold the quotient."""
        logit = self.logit(problem, place, arrays)
        if logit == -np.inf:
            return 0.0
        fits = max(abs(logit) * LOG2_E, abs(logit) / problem.score_scale) < OVERFLOW / 2
        shifted = abs(logit) + sum(part.added_to_all(problem) for part in score_parts(problem))
        return 6 * UNIT * shifted if fits else np.inf

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import ptr

        return {"sink": ptr("f32")}

    @classmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form, weights: Weights) -> Weights:
        from ckmlir.ops.attention.loop.weights_kernel import Around

        logit = work.share.once(work.rows.numbers(given.sink, work.first, form) * LOG2_E, -inf)

        class Sunk(Around):
            """The softmax begins with the logit."""

            def start(self, form: Form) -> list[Tile]:
                return self.joined(form, logit)

        return Sunk(weights)
