"""SiLU weights: x / (1 + exp(-x)) of each score x, times a number, without a sum that they would be divided by (HSTU).

A score of minus infinity has no weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckmlir.ops.attention.part import WeightPart
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.operator import Argument
from ckmlir.ops.precision import LN_2
from ckmlir.ops.request import Choice, Real, RequestError
from ckmlir.ops.scalars import f32

if TYPE_CHECKING:
    from ckmlir.ops.attention.loop.loop_kernel import Form, Weights
    from ckmlir.ops.attention.loop.work_kernel import Work


@dataclass(frozen=True)
class Silu(WeightPart):
    """`scale` is what the weights are multiplied with."""

    scale: float

    name = "silu"
    keys = (
        Choice("weights", "silu", "of scores x: x / (1 + exp(-x)) times attn_scale, or softmax", ("silu", "softmax")),
        Real("attn_scale", None, "of SiLU weights, by default 1 / sq: one over the length of the longest sequence"),
    )

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> Silu | None:
        scale = values["attn_scale"]
        if values["weights"] == "softmax":
            if scale is not None:
                raise RequestError(f"attn_scale={scale}: weights of a softmax have no scale; leave it out")
            return None
        if problem.lse:
            raise RequestError("lse=1: SiLU weights have no sum of exponentials; expected weights=softmax")
        return cls(1 / max(problem.sq, 1) if scale is None else scale)

    @property
    def multiplier(self) -> float:
        """See `WeightPart`; the kernel's scores are exponents to the base 2."""
        return self.scale * LN_2

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        return (f32(self.multiplier),)

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import f32

        return {"silu_scale": f32}

    @classmethod
    def factor(cls, word: str, given: Any) -> Any:
        return given.silu_scale

    @classmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form, weights: Weights) -> Weights:
        from ckmlir.ops.attention.loop.silu_kernel import Gated

        return Gated(weights)
