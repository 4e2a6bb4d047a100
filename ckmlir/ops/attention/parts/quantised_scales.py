"""Scales of Q and K that are quantised before the kernel runs, by blocks as `SageScales` has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.attention.parts.sage_scales import SageScales
from ckmlir.ops.attention.problem import MOST_SCALE, Place, Problem
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.precision import UNIT

STEPS = {"q": "q_steps", "k": "k_steps"}
"""Beside an array: how far rounding may have taken its elements, in what they are stored as."""


@dataclass(frozen=True)
class QuantisedScales(SageScales):
    """q_scales and k_scales are workspaces; v_scales is an array with V in fp8."""

    keys = tuple(
        replace(key, help=key.help.partition(";")[0], choices=key.choices[:-1]) for key in SageScales.keys
    )  # fmt: skip

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return tuple(array for array in super().arrays(problem) if array.name == "v_scales")

    def arguments(self, problem: Problem) -> tuple[Argument, ...]:
        return (*(array.name for array in super().arrays(problem)), *self.numbers(problem))

    def moved(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> Array:
        """See `ScalePart`: what steps of the rounding add to products, and four roundings of each scale. Infinite where
        a scale is none that attention takes."""
        shared = place.head // (problem.h // problem.hk)
        rows, keys = problem.queries_of(place, arrays), problem.keys_of(place, arrays)[0]
        q, k = (self.stored(problem, name, place, arrays) for name in "qk")
        with np.errstate(invalid="ignore", over="ignore"):
            off_rows = q * problem.by_head(arrays[STEPS["q"]])[place.number, place.head, place.memory_rows]
            off_keys = k * problem.by_head(arrays[STEPS["k"]])[place.number, shared]
            rows, keys = np.abs(rows), np.abs(keys)
            found = off_rows @ keys.T + (rows + off_rows) @ off_keys.T + 8 * UNIT * rows @ keys.T
            taken = (q <= MOST_SCALE) & (k <= MOST_SCALE).all()
        return np.where(taken, problem.score_scale * found, np.inf)
