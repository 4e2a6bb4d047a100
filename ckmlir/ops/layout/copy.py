"""copy: y = x for a matrix (m, n) of rows at any distance, from memory to memory by registers or through LDS.

`through=none` moves vectors through registers, `registers` writes them to LDS and reads them back, `direct` lets the
memory system put them into LDS. Elements of 4 and 6 bits, of which arrays hold bytes, take `none`.

Arrays: x (m, n), y (m, n).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.ops.dtypes import PACKED_TYPES, TENSOR_TYPES
from ckmlir.ops.layout.permute import LISTED, MOVED
from ckmlir.ops.request import Choice, Integer, Pitch, RequestError
from ckmlir.ops.tensors.arrays import Operand, row_strides
from ckmlir.ops.tensors.mapping import ALIGN, STAGING, MapOperator, MapProblem


class Copy(MapOperator):
    """The operator `copy`, which the module's docstring describes."""

    name = "copy"
    keys = (
        Integer("m", 1024, "rows"),
        Integer("n", 1024, "elements of a row"),
        Choice("dtype", "f16", "element type", MOVED),
        Choice("through", "none", "LDS on the way: none, registers, or direct", STAGING),
        Pitch("stride", None, "elements from one row of x to the next", minimum=1),
        Pitch("ystride", None, "elements from one row of y to the next", minimum=1),
        ALIGN,
    )

    def _problem(self, values: Mapping[str, Any]) -> MapProblem:
        shape, dtype = (values["m"], values["n"]), values["dtype"]
        if values["through"] != "none" and dtype in PACKED_TYPES:
            raise RequestError(f"through={values['through']}: elements of {dtype} share bytes; expected none")
        x = Operand("x", dtype, shape, row_strides("stride", shape, values["stride"]), (0, 1))
        y = Operand("y", dtype, shape, row_strides("ystride", shape, values["ystride"]), (0, 1))
        return self.check(MapProblem(shape, (x,), y, "", values["align"], values["through"]))

    def examples(self) -> Sequence[Mapping[str, object]]:
        packed = [{"dtype": dtype} for dtype in LISTED if dtype in PACKED_TYPES]
        return [{"dtype": dtype, "through": through} for dtype in TENSOR_TYPES for through in STAGING] + packed


OPERATOR = Copy()
