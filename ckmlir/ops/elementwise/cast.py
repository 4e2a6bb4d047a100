"""cast: y = x in another element type: rounded to nearest even; i8, i32 and floats of 8 bits and fewer saturate, NaN
becomes 0 in integers.

Arrays: x (shape) and y (shape), at any strides. Of packed elements (fp4, fp6, bf6, i4) arrays hold bytes, as
`ckmlir.ops.packing` says; their elements follow each other along the last dimension, and so do those of the other
array then. These formats have no NaN: of what it becomes nothing is promised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import PACKED_TYPES, TENSOR_TYPES
from ckmlir.ops.list_keys import Numbers
from ckmlir.ops.packing import bytes_of
from ckmlir.ops.request import Choice, RequestError
from ckmlir.ops.tensors.arrays import Operand, checked_strides
from ckmlir.ops.tensors.keys import Strides
from ckmlir.ops.tensors.mapping import ALIGN, MapOperator, MapProblem
from ckmlir.targets import Target

TYPES = (*TENSOR_TYPES, *PACKED_TYPES)
SPREAD = 300.0
"""Standard deviation of inputs: some saturate in 8 bits."""


class Cast(MapOperator):
    """The operator `cast`, which the module's docstring describes."""

    name = "cast"
    keys = (
        Numbers("shape", (1024, 1024), "of x and y, in elements", most=5),
        Choice("dtype", "f32", "of x", TYPES),
        Choice("out", "f16", "of y", TYPES),
        Strides("strides", None, "of x, in elements", most=5, shared=True),
        Strides("ystrides", None, "of y, in elements", most=5),
        ALIGN,
    )

    def _problem(self, values: Mapping[str, Any]) -> MapProblem:
        shape = values["shape"]
        axes = tuple(range(len(shape)))
        strides = checked_strides("strides", shape, values["strides"], shared=True)
        x = Operand("x", values["dtype"], shape, strides, axes)
        y = Operand("y", values["out"], shape, checked_strides("ystrides", shape, values["ystrides"]), axes)
        packed = [one.dtype for one in (x, y) if one.dtype in PACKED_TYPES]
        for key, one in (("strides", x), ("ystrides", y)):
            if packed and shape and shape[-1] and one.strides[-1] != 1:
                raise RequestError(
                    f"{key}: elements of {packed[0]} follow each other in both arrays, not {one.strides[-1]} apart; "
                    "expected 1 as the last"
                )
        return self.check(MapProblem(shape, (x,), y, "x", values["align"]))

    def _values(self, problem: MapProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        values = super()._values(problem, array, generator)
        if array.dtype in ("fp8", "bf8", "i8", "i32", *PACKED_TYPES):
            return values
        spread: Array = values * np.float32(SPREAD) ** generator.integers(-1, 2, array.shape)
        return spread

    def tolerances(
        self, problem: MapProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Packed elements are exact: one rounding of what f32 holds as well, or what saturates anyway."""
        dtype = problem.output.dtype
        if dtype not in PACKED_TYPES:
            return super().tolerances(problem, arrays, reference, target)
        lost = np.isnan(self.reference(problem, arrays)["y"].astype(np.float64))
        return {"y": Tolerance(0.0, 0.0, f"bytes of {dtype}, each element rounded once", bytes_of(lost, dtype))}

    def examples(self) -> Sequence[Mapping[str, object]]:
        pairs = [(dtype, out) for dtype in TENSOR_TYPES for out in TENSOR_TYPES if dtype != out]
        for packed in PACKED_TYPES:
            pairs += [("bf16", packed), (packed, "bf16")]
        return [{"dtype": dtype, "out": out} for dtype, out in pairs]


OPERATOR = Cast()
