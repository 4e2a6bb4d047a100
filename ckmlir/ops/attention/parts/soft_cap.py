"""Soft cap: scores become cap · tanh(score / cap), which keeps them within ± cap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ckmlir.ops.attention.level import taken_from
from ckmlir.ops.attention.part import ScorePart, product_scales
from ckmlir.ops.attention.problem import Place, Problem
from ckmlir.ops.attention.request_checks import check_apart
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.precision import LOG2_E, OVERFLOW, UNIT
from ckmlir.ops.request import LEAST_NORMAL_F32, Real, RequestError
from ckmlir.ops.scalars import f32

if TYPE_CHECKING:
    from ckmlir.ops.attention.loop.loop_kernel import Form
    from ckmlir.ops.attention.loop.work_kernel import Work

LEAST, MOST = 2.0**-10, 1000.0
"""Scores are rounded to steps of 1e-7 caps: with a larger one they would be too coarse."""


@dataclass(frozen=True)
class SoftCap(ScorePart):
    """Scores become cap · tanh(score / cap)."""

    cap: float
    bounds: str = ""

    name = "softcap"
    packs = True
    keys = (Real("soft_cap", None, "scores become soft_cap · tanh(score / soft_cap); not with a bias", 0),)

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> SoftCap | None:
        cap = values["soft_cap"]
        if not cap:  # 0 is CK's way to say none
            return None
        check_apart(values, "soft_cap", "bias", "alibi")
        if not LEAST <= cap <= MOST:
            raise RequestError(f"soft_cap={cap}: expected a number from {LEAST:g} to {MOST:g}, or 0 for none")
        return cls(cap, taken_from(cap, problem.dtype_of("v")))

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        return f32(2 * LOG2_E / self.cap), f32(self.cap)

    def changed(self, problem: Problem, scores: Array, place: Place, arrays: Mapping[str, Array]) -> Array:
        found: Array = self.cap * np.tanh(scores / self.cap)
        return found

    def error(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> float:
        """tanh x = 1 - 2 / (exp 2x + 1) with a relative error of 2x u in the exponential takes less than 16 u off.
        Infinite where f32 does not hold what makes exponents of products."""
        fits = all(LEAST_NORMAL_F32 < 2 / self.cap * one < OVERFLOW for one in product_scales(problem))
        return 16 * UNIT * self.cap if fits else np.inf

    def added_to_all(self, problem: Problem) -> float:
        return self.cap

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import f32

        return {"cap_factor": f32, "cap": f32}

    @classmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form) -> Any:
        from ckmlir.ops.attention.loop.soft_cap_kernel import Capped

        return Capped(given.cap_factor, given.cap, word.partition("_")[2])
