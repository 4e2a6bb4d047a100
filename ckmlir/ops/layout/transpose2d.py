"""transpose2d: y = x^T for a matrix x (m, n), through LDS without bank conflicts.

Arrays: x (m, n), y (n, m); rows may lie further apart than they are long. Elements of 4 and 6 bits as in `permute`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.ops.layout.permute import LISTED, MOVED
from ckmlir.ops.request import Choice, Integer, Pitch
from ckmlir.ops.tensors.arrays import Operand, row_strides
from ckmlir.ops.tensors.mapping import ALIGN, MapOperator, MapProblem


class Transpose2d(MapOperator):
    """The operator `transpose2d`, which the module's docstring describes."""

    name = "transpose2d"
    keys = (
        Integer("m", 1024, "rows of x"),
        Integer("n", 1024, "columns of x"),
        Choice("dtype", "f16", "element type", MOVED),
        Pitch("stride", None, "elements from one row of x to the next", minimum=1),
        Pitch("ystride", None, "elements from one row of y to the next", minimum=1, of=("m",)),
        ALIGN,
    )

    def _problem(self, values: Mapping[str, Any]) -> MapProblem:
        m, n, dtype = values["m"], values["n"], values["dtype"]
        x = Operand("x", dtype, (m, n), row_strides("stride", (m, n), values["stride"]), (1, 0))
        y = Operand("y", dtype, (n, m), row_strides("ystride", (n, m), values["ystride"]), (0, 1))
        return self.check(MapProblem((n, m), (x,), y, "", values["align"]))

    def examples(self) -> Sequence[Mapping[str, object]]:
        return [{"m": m, "n": n, "dtype": dtype} for dtype in LISTED for m, n in ((1024, 1024), (1000, 1000))]


OPERATOR = Transpose2d()
