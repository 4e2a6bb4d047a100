"""moe_smoothquant: every token's row scaled by columns for each of its experts, then quantised.

    y[slot, token] = x[token] * smooth[expert chosen by (token, slot)], in f32
    q              = y quantised by rows (`rows/quantization.py`)

An expert that does not exist (negative, or `experts` and beyond) gives rows of zeros. With `row_ids` so does a token
whose number in an array of that name is negative; its row of x is not read.

Arrays: x (m, n), smooth (experts, n, f32), topk_ids (m, k, i32), row_ids (m, i32) if there is one; q (k, m, n), yscale
(k, m, f32). They are the kernel's arguments in this order; then m, n, experts, k and the row stride of x. A workgroup
goes through all slots of its tokens with x in registers, so that x is read once; where that would leave compute units
idle, each slot has its own workgroups (grid dimension y).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.operator import Launch
from ckmlir.ops.precision import UNIT, in_f32
from ckmlir.ops.request import Choice, Flag, Integer
from ckmlir.ops.rows.arrays import FLOATS, RowArray, row_values_in, rows_in
from ckmlir.ops.rows.layout import RowSpec
from ckmlir.ops.rows.operator import RowProblem, stride_keys
from ckmlir.ops.rows.quantization import (
    QUANTIZATION_KEYS,
    QuantizedOptions,
    quantize,
    quantized_tolerances,
)  # fmt: skip
from ckmlir.ops.rows.quantizing import QuantizingOperator
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.spec import Algorithm
from ckmlir.records import replace
from ckmlir.targets import Target

OUT = ("i8", "fp8", "bf8")


class MoeSmoothquantOptions(QuantizedOptions):
    """Choices of the operator.

    Attributes:
        row_ids: whether an array says which rows of x there are.
    """

    row_ids: bool

    def arrays(self) -> tuple[RowArray, ...]:
        return (
            rows_in("x", self.dtype),
            RowArray("smooth", "f32", "in", ("experts", "n")),
            RowArray("topk_ids", "i32", "in", ("m", "k")),
            *([row_values_in("row_ids", "i32")] if self.row_ids else ()),
            RowArray("q", self.out, "out", ("k", "m", "n")),
            RowArray("yscale", "f32", "out", ("k", "m")),
        )

    def choices(self) -> dict[str, tuple[object, ...]]:
        return {**super().choices(), "out": OUT}


class MoeSmoothquantSpec(MoeSmoothquantOptions, RowSpec):
    """What a moe_smoothquant kernel's code depends on.

    Attributes:
        slot_groups: every slot has its own workgroups.
    """

    slot_groups: Algorithm[bool] = False

    kernel: ClassVar[str] = "moe_smoothquant"


Problem = RowProblem[MoeSmoothquantOptions]


class MoeSmoothquant(QuantizingOperator[MoeSmoothquantOptions, MoeSmoothquantSpec]):
    """The operator `moe_smoothquant`, which the module's docstring describes."""

    name = "moe_smoothquant"
    spec_type = MoeSmoothquantSpec
    options_type = MoeSmoothquantOptions
    keys = (
        Integer("m", 256, "rows: tokens"),
        Integer("n", 1024, "elements of a row"),
        Integer("experts", 32, "experts, each with a scale for every column"),
        Integer("k", 4, "experts of each token"),
        Choice("dtype", "f16", "of x", FLOATS),
        Flag("row_ids", False, "an array says which rows of x there are; those of a negative number are not read"),
        Choice("out", None, "of q (default i8)", OUT),
        *(key for key in QUANTIZATION_KEYS if key.name != "out"),
        *stride_keys("x"),
    )

    def spec(self, problem: Problem, target: Target) -> MoeSmoothquantSpec:
        spec = super().spec(problem, target)
        return replace(spec, slot_groups=ceil_div(problem.sizes["m"], spec.rows) < target.compute_units)

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == "topk_ids":
            return generator.integers(0, max(1, problem.sizes["experts"]), array.shape)
        if array.name == "row_ids":
            return generator.integers(-1, 2, array.shape)
        return super()._values(problem, array, generator)

    def expected(self, problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        return quantize(problem.options, target, self.smoothed(problem, arrays))

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """One f32 product, and what quantisation makes of its error."""
        y = self.smoothed(problem, arrays)
        return quantized_tolerances(problem.options, target, y, UNIT * np.abs(y), reference["yscale"])

    def launch(self, problem: Problem, spec: MoeSmoothquantSpec, target: Target) -> Launch:
        launch, k = super().launch(problem, spec, target), problem.sizes["k"]
        return replace(launch, grid=(launch.grid[0], k if spec.slot_groups else min(k, 1), 1))

    @staticmethod
    def smoothed(problem: Problem, arrays: Mapping[str, Array]) -> Array:
        """x of every token that is there times the scales of the expert in each slot: shape (k, m, n)."""
        experts, ids = problem.sizes["experts"], arrays["topk_ids"].T
        table = np.vstack([arrays["smooth"].astype(np.float64), np.zeros((1, problem.sizes["n"]))])
        chosen = table[np.where((ids >= 0) & (ids < experts), ids, experts)]
        with np.errstate(invalid="ignore"):
            x = arrays["x"].astype(np.float64)
            if problem.options.row_ids:
                x = np.where(arrays["row_ids"][:, None] < 0, 0.0, x)
            product: Array = chosen * x
        return in_f32(product)


OPERATOR = MoeSmoothquant()
