"""cast: y = x in another element type: rounded to nearest even; i8, i32 and 8-bit floats saturate, NaN becomes 0 in
integers.

Arrays: x (shape) and y (shape), at any strides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import TENSOR_TYPES
from ckmlir.ops.operator import ArraySpec
from ckmlir.ops.request import Choice, Numbers
from ckmlir.ops.tensors.arrays import Operand, checked_strides
from ckmlir.ops.tensors.keys import Strides
from ckmlir.ops.tensors.mapping import ALIGN, MapOperator, MapProblem

TYPES = TENSOR_TYPES
SPREAD = 300.0
"""Standard deviation of inputs: some saturate in 8 bits."""


class Cast(MapOperator):
    """See the module's text."""

    name = "cast"
    summary = "a tensor in another element type, saturating where that is narrow"
    keys = (
        Numbers("shape", (1024, 1024), "of x and y", most=5),
        Choice("dtype", "f32", "of x", TYPES),
        Choice("out", "f16", "of y", TYPES),
        Strides("strides", None, "of x, in elements", most=5),
        Strides("ystrides", None, "of y, in elements", most=5),
        ALIGN,
    )

    def _problem(self, values: Mapping[str, Any]) -> MapProblem:
        shape = values["shape"]
        axes = tuple(range(len(shape)))
        x = Operand("x", values["dtype"], shape, checked_strides("strides", shape, values["strides"]), axes)
        y = Operand("y", values["out"], shape, checked_strides("ystrides", shape, values["ystrides"]), axes)
        return self.check(MapProblem(shape, (x,), y, "x", values["align"]))

    def _values(self, problem: MapProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        values = super()._values(problem, array, generator)
        if array.dtype in ("fp8", "bf8", "i8", "i32"):
            return values
        spread: Array = values * np.float32(SPREAD) ** generator.integers(-1, 2, array.shape)
        return spread

    def examples(self) -> Sequence[Mapping[str, object]]:
        return [{"dtype": dtype, "out": out} for dtype in TYPES for out in TYPES if dtype != out]


OPERATOR = Cast()
