"""topk: the first k of each row's elements in the order of their values, and their places.

    y[i, r] = x[i, indices[i, r]] = the element of row i that comes r-th

By default the largest come first; NaN is larger than all numbers. Equal elements keep their order. It is `argsort` that
keeps the first k, with its kernel.

Arrays: x (m, n), y (m, k), indices (m, k) i32. Kernel arguments: these, then n, k, the stride of x, and the binary
logarithm of n rounded up (i32). Grid: the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ckmlir.ops.indexed.argsort import DTYPES, ORDERS, Problem, RowSort, SortSpec
from ckmlir.ops.indexed.argsort import OPERATOR as ARGSORT
from ckmlir.ops.request import Choice, Integer, Pitch, RequestError
from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.lang import Kernel


class Topk(RowSort):
    """The operator `topk`, which the module's docstring describes."""

    name = "topk"
    values = True
    keys = (
        Integer("m", 256, "rows"),
        Integer("n", 256, "elements of a row"),
        Integer("k", 8, "elements that are wanted"),
        Choice("order", "descending", "of values", ORDERS),
        Choice("dtype", "f32", "of x and y", DTYPES),
        Pitch("stride", None, "of the rows of x, in elements; by default n"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        if values["k"] > values["n"]:
            raise RequestError(f"k={values['k']}: a row has {values['n']} elements; expected at most that")
        return self.read(values, values["k"])

    def build(self, spec: SortSpec, target: Target) -> Kernel:
        return ARGSORT.build(spec, target)


OPERATOR = Topk()
