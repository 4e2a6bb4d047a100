"""ALiBi: scores fall with the distance of query and key (Press et al., "Train Short, Test Long", 2022).

The bias is -slope · |distance|, with the diagonal in the mask's corner: in the bottom right one without a mask too, as
CK Tile has it. With a causal mask it is +slope · key instead, which differs by the same number for all keys of a query.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.part import AddedPart
from ckmlir.ops.attention.problem import Place, Problem
from ckmlir.ops.attention.request_checks import check_apart
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import Choice
from ckmlir.ops.scalars import i32


@dataclass(frozen=True)
class Alibi(AddedPart):
    """Slopes are f32, (h), or (b, h) with `by_batch`; `causal` and `corner` follow from the mask."""

    by_batch: bool
    causal: bool
    corner: bool

    name = "alibi"
    keys = (Choice("alibi", "none", "slopes for each head, or each batch and head", ("none", "head", "batch")),)

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> Alibi | None:
        check_apart(values, "alibi", "bias")
        choice, corner = values["alibi"], problem.mask.kind == "none" or problem.mask.bottom_right
        return None if choice == "none" else cls(choice == "batch", problem.mask.is_causal, corner)

    @property
    def word(self) -> str:
        return "alibi_causal" if self.causal else "alibi"

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (array_spec("slopes", (problem.b, problem.h) if self.by_batch else (problem.h,), "f32", "in"),)

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        return i32(problem.h * self.by_batch), i32(self.corner)

    def values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """The usual ones: powers of 2^(-8 / h) for h a power of two, else those of the next lower one and between."""
        whole = 2 ** int(math.log2(problem.h))
        between = [2.0 ** (-4 * (2 * i + 1) / whole) for i in range(problem.h - whole)]
        slopes: Array = np.array([2.0 ** (-8 * (i + 1) / whole) for i in range(whole)] + between, np.float32)
        return slopes + np.zeros(array.shape, np.float32)

    def factor(self, place: Place, arrays: Mapping[str, Array]) -> float:
        return float(arrays["slopes"][(place.number, place.head) if self.by_batch else place.head])

    def added(self, place: Place, arrays: Mapping[str, Array]) -> Array:
        slope, keys = self.factor(place, arrays), np.arange(place.keys)[None, :]
        rows = np.asarray(place.rows)[:, None] + (place.keys - place.queries) * self.corner
        return slope * keys - 0.0 * rows if self.causal else -slope * np.abs(rows - keys)

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import i32, ptr

        return {"slopes": ptr("f32"), "slopes_batch": i32, "slopes_corner": i32}

    @classmethod
    def traced(cls, word: str, given: Any, work: Any, form: Any) -> Any:
        from ckmlir.ops.attention.loop.bias_kernel import Falling, Rising

        slope = given.slopes.scalar(work.head + work.batch * given.slopes_batch)
        shift = (work.sk - work.sq) * given.slopes_corner
        return Rising(slope, form) if word == "alibi_causal" else Falling(slope, form, work.first + shift)
