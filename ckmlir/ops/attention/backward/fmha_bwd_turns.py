"""fmha_bwd_turns: in which order sequences have their turn where attention backward takes whole heads.

Those whose heads cost most come first, of equal ones that in front. A sequence's costs are the difference of two
neighbours of what `fmha_bwd_costs` makes; a place is the number of sequences before, each counted by itself, so that
every lane finds its own. `fmha_bwd` with pack=host has a function on the host do it.

Arrays: costs (b + 2) i32, of which the first b + 1 do not fall; turns (b) i32, the sequences in their order. Kernel
arguments: the arrays; b (i32). Grid: (blocks of `LANES` sequences).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.operator import NOTHING, Launch, Operator
from ckmlir.ops.request import Integer, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Reason, Spec
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

LANES = WAVE_SIZE
"""Sequences of a workgroup."""


class Turns(Struct, frozen=True):
    """Sequences to put in order."""

    sequences: int


class TurnsSpec(Spec):
    """The only kernel."""

    @property
    def name(self) -> str:
        return "fmha_bwd_turns"


def turns_of(costs: Array) -> Array:
    """The sequences in their order, by where the work of each begins, the end behind them, and one number more."""
    order: Array = np.argsort(-np.diff(costs[:-1].astype(np.int64)), kind="stable")
    return order


class TurnsOperator(Operator[Turns, TurnsSpec]):
    """The operator `fmha_bwd_turns`, which the module's docstring describes."""

    name = "fmha_bwd_turns"
    spec_type = TurnsSpec
    keys = (Integer("b", 300, "sequences"),)

    def _problem(self, values: Mapping[str, Any]) -> Turns:
        return Turns(values["b"])

    def spec(self, problem: Turns, target: Target) -> TurnsSpec:
        return TurnsSpec()

    def mismatches(self, problem: Turns, spec: TurnsSpec, target: Target) -> list[Reason]:
        return []

    def validate(self, spec: TurnsSpec, target: Target) -> list[Reason]:
        return []

    def kernels(self, target: Target) -> list[TurnsSpec]:
        return [TurnsSpec()]

    def arrays(self, problem: Turns) -> tuple[ArraySpec, ...]:
        return (
            array_spec("costs", (problem.sequences + 2,), "i32", "in"),
            array_spec("turns", (problem.sequences,), "i32", "out"),
        )

    def check_inputs(self, problem: Turns, arrays: Mapping[str, Array]) -> None:
        steps = np.diff(arrays["costs"][:-1].astype(np.int64))
        if (steps < 0).any() or arrays["costs"][0] < 0:
            raise RequestError("array costs: numbers fall or are negative; expected what fmha_bwd_costs makes")

    def _values(self, problem: Turns, array: ArraySpec, generator: np.random.Generator) -> Array:
        return np.cumsum(generator.integers(0, 12, array.shape))

    def reference(self, problem: Turns, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"turns": turns_of(arrays["costs"])}

    def tolerances(
        self, problem: Turns, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        return {"turns": Tolerance(0.0, 0.0, "integers are exact")}

    def launch(self, problem: Turns, spec: TurnsSpec, target: Target) -> Launch:
        if not problem.sequences:
            return NOTHING
        grid = (ceil_div(problem.sequences, LANES), 1, 1)
        return Launch(grid, (WAVE_SIZE, 1, 1), ("costs", "turns", i32(problem.sequences)))


OPERATOR = TurnsOperator()
