"""permute: y = x with its dimensions in another order; dimension i of y is dimension perm[i] of x.

Any permutation of up to 8 dimensions, elements of 4 to 32 bits, moved unchanged.

Arrays: x (shape), y (permuted shape), both at any strides, packed ones by default. Of elements of 4 and 6 bits arrays
hold bytes (`ckmlir.ops.packing`): they follow each other along the last dimensions of x and of y, whichever those are,
and fill bytes there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.ops.dtypes import PACKED_TYPES, TENSOR_TYPES
from ckmlir.ops.list_keys import Numbers
from ckmlir.ops.request import Choice, RequestError, show
from ckmlir.ops.tensors.arrays import Operand, checked_strides
from ckmlir.ops.tensors.keys import Order, Strides
from ckmlir.ops.tensors.mapping import ALIGN, MapOperator, MapProblem

MOVED = (*TENSOR_TYPES, *PACKED_TYPES)
LISTED = (*TENSOR_TYPES, "fp4", "fp6")
"""Types whose kernels are listed: of packed ones those of each size."""
MOST_DIMENSIONS = 8


class Permute(MapOperator):
    """The operator `permute`, which the module's docstring describes."""

    name = "permute"
    keys = (
        Numbers("shape", (64, 96, 128), "of x", most=MOST_DIMENSIONS),
        Order("perm", None, "the order of the dimensions of x in y; default: reversed", most=MOST_DIMENSIONS),
        Choice("dtype", "f16", "element type", MOVED),
        Strides("strides", None, "of x, in elements", most=MOST_DIMENSIONS, shared=True),
        Strides("ystrides", None, "of y, in elements", most=MOST_DIMENSIONS, order="perm"),
        ALIGN,
    )

    def _problem(self, values: Mapping[str, Any]) -> MapProblem:
        shape = values["shape"]
        order = tuple(reversed(range(len(shape)))) if values["perm"] is None else values["perm"]
        if sorted(order) != list(range(len(shape))):
            raise RequestError(f"perm={show(order)}: expected every number from 0 to {len(shape) - 1} once")
        lengths = tuple(shape[axis] for axis in order)
        strides = checked_strides("strides", shape, values["strides"], shared=True)
        x = Operand("x", values["dtype"], shape, strides, order)
        written = checked_strides("ystrides", lengths, values["ystrides"])
        y = Operand("y", values["dtype"], lengths, written, tuple(range(len(shape))))
        return self.check(MapProblem(lengths, (x,), y, "", values["align"]))

    def examples(self) -> Sequence[Mapping[str, object]]:
        shapes = {(64, 96, 128): ((2, 1, 0), (0, 2, 1), (1, 0, 2)), (8, 16, 24, 32): ((0, 2, 1, 3), (0, 3, 1, 2))}
        return [
            {"shape": shape, "perm": order, "dtype": dtype}
            for shape, orders in shapes.items()
            for order in orders
            for dtype in LISTED
        ]


OPERATOR = Permute()
