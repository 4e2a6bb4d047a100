"""moe_layer: a layer of experts from the router's logits on: `topk_softmax`, then `fused_moe`.

Each token goes to the `topk` experts of its largest logits, weighted as `topk_softmax` says (`activation`,
`renormalize`). Keys and arrays are those of `fused_moe`, with logits (t, e) instead of topk_ids and weights. NaN among
logits counts as minus infinity there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec, find_array
from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.inner import inner_problem
from ckmlir.ops.moe.fused_moe import LAYER_KEYS, FusedMoe
from ckmlir.ops.moe.layer_problem import LayerProblem, read_layer
from ckmlir.ops.moe.topk_softmax import OPERATOR as TOPK_SOFTMAX
from ckmlir.ops.operator import Run, Step
from ckmlir.ops.request import Choice, RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.steps import Workspace
from ckmlir.targets import Target

ROUTING = {"x": "logits", "weights": "weights", "indices": "topk_ids"}
"""Arrays of `topk_softmax` -> what they are called here."""
OF_ROUTING = {"m": "t", "n": "e", "k": "topk", "dtype": "logits"}
"""Its keys -> those here."""


class MoeLayer(FusedMoe):
    """The operator `moe_layer`, which the module's docstring describes."""

    name = "moe_layer"
    keys = (
        *LAYER_KEYS,
        *(key for key in TOPK_SOFTMAX.keys if key.name in ("activation", "renormalize")),
        Choice("logits", None, "dtype of the logits; by default dtype, f32 with 8 bits", FLOATS),
    )

    def _problem(self, values: Mapping[str, Any]) -> LayerProblem:
        if values["topk"] > values["e"]:
            raise RequestError(f"topk={values['topk']}: there are e={values['e']} experts; expected at most that")
        front = inner_problem(
            TOPK_SOFTMAX, OF_ROUTING | ROUTING,
            m=values["t"], n=values["e"], k=values["topk"], dtype=values["logits"] or _computed(values["dtype"]),
            activation=values["activation"], renormalize=values["renormalize"],
        )  # fmt: skip
        return read_layer(values, front)

    def arrays(self, problem: LayerProblem) -> tuple[ArraySpec, ...]:
        return (problem.x, *problem.matrices, *problem.beside, _logits(problem), *problem.mask, problem.y)

    def steps(self, problem: LayerProblem, spec: ContractionSpec, target: Target) -> tuple[Step, ...]:
        found = super().steps(problem, spec, target)
        routing = Run(TOPK_SOFTMAX, problem.front, ROUTING, OF_ROUTING)
        return found if self.writes_nothing(problem) else (routing, *found)

    def workspaces(self, problem: LayerProblem, spec: ContractionSpec, target: Target) -> tuple[Workspace, ...]:
        found = super().workspaces(problem, spec, target)
        return found and (*(Workspace(array.name, array.nbytes) for array in problem.routing), *found)

    def _values(self, problem: LayerProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == "logits":
            return TOPK_SOFTMAX._values(problem.front, array, generator)
        return super()._values(problem, array, generator)

    def _routing(self, problem: LayerProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        found = TOPK_SOFTMAX.reference(problem.front, {"x": arrays["logits"]})
        return {"topk_ids": found["indices"], "weights": found["weights"]}

    def _weights_error(
        self, problem: LayerProblem, arrays: Mapping[str, Array], routing: Mapping[str, Array], target: Target
    ) -> Array | None:
        reference, weights = {"indices": routing["topk_ids"], "weights": routing["weights"]}, routing["weights"]
        bound = TOPK_SOFTMAX.tolerances(problem.front, {"x": arrays["logits"]}, reference, target)["weights"]
        return bound.atol + bound.rtol * np.where(np.isfinite(weights), np.abs(weights), 0.0)


def _computed(dtype: str) -> str:
    """The type of logits beside rows of a type."""
    return dtype if dtype in FLOATS else "f32"


def _logits(problem: LayerProblem) -> ArraySpec:
    return replace(find_array(TOPK_SOFTMAX.arrays(problem.front), "x"), name="logits")


OPERATOR = MoeLayer()
"""A layer of experts with its router's choice."""
