"""Static quantisation of O: it is multiplied by a number that the request has, and rounded to fp8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckmlir.ops.attention.part import WeightPart
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import GREATEST_F32, LEAST_NORMAL_F32, Real, RequestError
from ckmlir.ops.scalars import f32

if TYPE_CHECKING:
    from ckmlir.ops.attention.loop.loop_kernel import Form, Weights
    from ckmlir.ops.attention.loop.work_kernel import Work


@dataclass(frozen=True)
class OutputScale(WeightPart):
    """O times `scale`, to nearest even; what the format does not hold becomes its largest number. LSE is as it was."""

    scale: float

    name = "outputscale"
    levels = True
    keys = (Real("o_scale", 1.0, "out=fp8: what O is multiplied with before it is rounded"),)

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> OutputScale | None:
        scale = values["o_scale"]
        if problem.out != "fp8" and scale != 1:
            raise RequestError(f"o_scale={scale}: only O in fp8 is scaled, not {problem.out}; leave it out")
        if scale <= 0:
            raise RequestError(f"o_scale={scale}: expected a positive number")
        if not LEAST_NORMAL_F32 <= scale * problem.v_scale <= GREATEST_F32:
            product = f"{scale * problem.v_scale:g}"
            raise RequestError(f"o_scale={scale}: times v_scale it is {product}, not a number that f32 can hold")
        return cls(scale) if problem.out == "fp8" else None

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        return (f32(self.scale),)

    @property
    def largest_factor(self) -> float:
        return self.scale

    def factors(self, problem: Problem, place: Any, arrays: Any) -> float:
        return self.scale

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import f32

        return {"o_scale": f32}

    @classmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form, weights: Weights) -> Weights:
        return weights

    @classmethod
    def factor(cls, word: str, given: Any) -> Any:
        return given.o_scale
