"""batched_transpose: images from channels first (NCHW) to channels last (NHWC), or back.

For every image the matrix (c, h w) becomes (h w, c), or the reverse, through LDS.

Arrays: x and y of four dimensions, as `layout` says, packed; elements of 4 and 6 bits as in `permute`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.ops.layout.permute import LISTED, MOVED
from ckmlir.ops.request import Choice, Integer
from ckmlir.ops.tensors.arrays import Operand, packed
from ckmlir.ops.tensors.mapping import ALIGN, MapOperator, MapProblem

LAYOUTS = {"NCHW": (0, 3, 1, 2), "NHWC": (0, 2, 3, 1)}
"""Layout of x -> for every dimension of x, that of y which is the same."""


class BatchedTranspose(MapOperator):
    """The operator `batched_transpose`, which the module's docstring describes."""

    name = "batched_transpose"
    keys = (
        Integer("n", 2, "images"),
        Integer("c", 64, "channels"),
        Integer("h", 32, "rows of an image"),
        Integer("w", 32, "columns of an image"),
        Choice("layout", "NCHW", "of x; y has the other", tuple(LAYOUTS)),
        Choice("dtype", "f16", "element type", MOVED),
        ALIGN,
    )

    def _problem(self, values: Mapping[str, Any]) -> MapProblem:
        n, c, h, w = (values[key] for key in "nchw")
        first, last = (n, c, h, w), (n, h, w, c)
        shape, lengths = (first, last) if values["layout"] == "NCHW" else (last, first)
        order = tuple(LAYOUTS[values["layout"]].index(dim) for dim in range(4))
        x = Operand("x", values["dtype"], shape, packed(shape), order)
        y = Operand("y", values["dtype"], lengths, packed(lengths), (0, 1, 2, 3))
        return self.check(MapProblem(lengths, (x,), y, "", values["align"]))

    def examples(self) -> Sequence[Mapping[str, object]]:
        return [{"layout": layout, "dtype": dtype} for layout in LAYOUTS for dtype in LISTED]


OPERATOR = BatchedTranspose()
