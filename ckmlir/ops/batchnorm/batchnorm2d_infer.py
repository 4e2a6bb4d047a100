"""batchnorm2d_infer: y = act((x - running_mean) / sqrt(running_var + eps) * gamma + beta (+ residual)), channel by
channel, by statistics that are given.

Arrays (images as `images.py` has them): x; running_mean, running_var (c, f32); gamma and beta (c); residual, of x's
type; y.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.batchnorm import statistics
from ckmlir.ops.batchnorm.images import (
    ACTIVATION,
    LAYOUTS,
    PARAMS,
    RESIDUAL,
    activated,
    image_keys,
    pitch_of,
    read_images,
    stride_key,
)  # fmt: skip
from ckmlir.ops.comparison import Array
from ckmlir.ops.request import Choice, Real, RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.tensors.mapping import MapOperator, MapProblem


class Batchnorm2dInfer(MapOperator):
    """The operator `batchnorm2d_infer`, which the module's docstring describes."""

    name = "batchnorm2d_infer"
    keys = (
        *image_keys("x", "y", "residual", dtype="of x and residual"),
        Choice("out", None, "of y; default: dtype", FLOATS),
        PARAMS,
        Real("eps", 1e-5, "added to the variance", minimum=0.0),
        ACTIVATION,
        RESIDUAL,
    )

    def _problem(self, values: Mapping[str, Any]) -> MapProblem:
        images, dtype = read_images(values), values["dtype"]
        params, key = values["params"] or dtype, stride_key("residual")
        if values[key] is not None and not values["residual"]:
            raise RequestError(f"{key}={values[key]}: there is no residual; expected residual=1 with it")
        inputs = [
            images.images("x", dtype, pitch_of(images, values, "x")),
            *(images.channels(name, "f32") for name in ("running_mean", "running_var")),
            *(images.channels(name, params) for name in ("gamma", "beta")),
        ]
        text = f"(x - running_mean) * (rsqrt(running_var + {values['eps']!r}) * gamma) + beta"
        if values["residual"]:
            inputs.append(images.images("residual", dtype, pitch_of(images, values, "residual")))
            text = f"{text} + residual"
        y = images.images("y", values["out"] or dtype, pitch_of(images, values, "y"))
        text = activated(text, values["activation"])
        return self.check(MapProblem(images.shape, tuple(inputs), y, text, images.align))

    def examples(self) -> Sequence[Mapping[str, object]]:
        variants: list[dict[str, object]] = [
            {}, {"activation": "relu"}, {"residual": True, "activation": "relu"}, {"params": "f32"},
        ]  # fmt: skip
        return [{**one, "dtype": dtype, "layout": layout} for one in variants for dtype in FLOATS for layout in LAYOUTS]

    def _values(self, problem: MapProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return statistics.values(array, generator)


OPERATOR = Batchnorm2dInfer()
