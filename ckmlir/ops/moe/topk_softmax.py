"""topk_softmax: the k largest scores of every row, with weights by softmax or sigmoid over all experts.

Scores are compared as they are given, so that the choice is exact; of equal ones the lower index comes first. NaN
counts as minus infinity.

    softmax   weight = exp(x - max) / sum over all experts of the same
    sigmoid   weight = 1 / (1 + exp(-x))

With renormalize the weights of a row are divided by their sum, also where f32 holds none of them. A row of minus
infinities has weights 0.

Arrays: x (m, n), weights (m, k, f32), indices (m, k, i32). They are the kernel's arguments in this order; then m, n, k
and row strides. n is the number of experts, m that of tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.precision import LEAST_EXPONENTIAL, UNIT, fold_steps
from ckmlir.ops.request import Choice, Flag, Integer, RequestError
from ckmlir.ops.rows.arrays import FLOATS, RowArray, RowOptions, rows_in, rows_out
from ckmlir.ops.rows.layout import RowSpec
from ckmlir.ops.rows.operator import RowOperator, RowProblem, stride_keys
from ckmlir.ops.scalars import gcd
from ckmlir.ops.spec import Algorithm, Reason
from ckmlir.records import replace
from ckmlir.targets import Target

ACTIVATIONS = ("softmax", "sigmoid")


class TopkSoftmaxOptions(RowOptions):
    """Choices of the operator.

    Attributes:
        activation: softmax or sigmoid.
        renormalize: the weights of a row add up to 1.
    """

    activation: str
    renormalize: bool

    def choices(self) -> dict[str, tuple[object, ...]]:
        return {**super().choices(), "activation": ACTIVATIONS}

    def arrays(self) -> tuple[RowArray, ...]:
        return (rows_in("x", self.dtype), rows_out("weights", "f32", "k"), rows_out("indices", "i32", "k"))


class TopkSoftmaxSpec(TopkSoftmaxOptions, RowSpec):
    """What a topk_softmax kernel's code depends on.

    Attributes:
        out_align: elements of which k and the row strides of the outputs are multiples (a power of two, at most 4).
    """

    out_align: Algorithm[int] = 1

    kernel: ClassVar[str] = "topk_softmax"

    def align_of(self, size: str) -> int:
        return self.out_align if size == "k" else super().align_of(size)


Problem = RowProblem[TopkSoftmaxOptions]


class TopkSoftmax(RowOperator[TopkSoftmaxOptions, TopkSoftmaxSpec]):
    """The operator `topk_softmax`, which the module's docstring describes."""

    name = "topk_softmax"
    spec_type = TopkSoftmaxSpec
    options_type = TopkSoftmaxOptions
    whole_rows = True
    lengths = (8, 16, 32, 64, 128, 192, 256, 384, 512)
    keys = (
        Integer("m", 256, "rows: tokens"),
        Integer("n", 64, "elements of a row: experts", minimum=1),
        Integer("k", 4, "experts chosen for each token", minimum=1),
        Choice("dtype", "f16", "of x", FLOATS),
        Choice("activation", "softmax", "what makes weights of scores", ACTIVATIONS),
        Flag("renormalize", False, "divide the weights of a row by their sum"),
        *stride_keys("x", "weights", "indices"),
    )

    def requests(self) -> Iterable[Mapping[str, object]]:
        return [
            {"dtype": dtype, "activation": activation, "renormalize": renormalize}
            for dtype in FLOATS for activation in ACTIVATIONS for renormalize in (False, True)
        ]  # fmt: skip

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        if values["k"] > values["n"]:
            raise RequestError(f"k={values['k']}: there are n={values['n']} experts; expected at most that")
        return super()._problem(values)

    def spec(self, problem: Problem, target: Target) -> TopkSoftmaxSpec:
        return replace(super().spec(problem, target), out_align=_out_align(problem))

    def mismatches(self, problem: Problem, spec: TopkSoftmaxSpec, target: Target) -> list[Reason]:
        reasons, align = super().mismatches(problem, spec, target), _out_align(problem)
        if align % spec.out_align:
            why = f"rows of weights and indices are aligned to {align} elements"
            reasons.append(Reason("out_align", spec.out_align, why, f"expected at most {align}"))
        return reasons

    def validate(self, spec: TopkSoftmaxSpec, target: Target) -> list[Reason]:
        if spec.out_align not in (1, 2, 4):
            return [Reason("out_align", spec.out_align, "no vector of f32 and i32", "expected 1|2|4")]
        return super().validate(spec, target)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The weights in float64, and the exact choice."""
        x = arrays["x"].astype(np.float64)
        x = np.where(np.isnan(x), -np.inf, x)
        chosen = np.argsort(-x, axis=1, kind="stable")[:, : problem.sizes["k"]]
        picked = np.take_along_axis(x, chosen, axis=1)
        largest = np.maximum(x.max(axis=1, keepdims=True), np.finfo(np.float32).min)
        if problem.options.activation == "softmax":
            with np.errstate(invalid="ignore"):  # an infinite score gives NaN
                weights = _quotient(np.exp(picked - largest), np.exp(x - largest))
        else:
            shift = np.minimum(largest, 0.0) if problem.options.renormalize else 0.0
            with np.errstate(over="ignore"):  # all by the same factor, which their sum has too
                weights = 1 / (np.exp(shift) + np.exp(shift - picked))
        if problem.options.renormalize:
            weights = _quotient(weights, weights)
        return {"weights": weights, "indices": chosen}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Indices are exact. Weights: exponents are wrong by 3 u max|x|, sums of exponentials by s u, relatively.

        Weights below LEAST_EXPONENTIAL may be zero.
        """
        x = arrays["x"].astype(np.float64)
        sizes = np.abs(np.where(np.isfinite(x), x, 0.0)).max(axis=1, initial=0.0)
        relative = (2 * fold_steps(problem.sizes["n"]) + 12 * sizes + 16) * UNIT
        error = reference["weights"] * relative[:, None] + LEAST_EXPONENTIAL
        return {
            "weights": Tolerance(UNIT, error, "f32 exponentials and sums"),
            "indices": Tolerance(0.0, 0.0, "the choice is exact"),
        }


def _out_align(problem: Problem) -> int:
    """Elements of which the rows of the outputs are multiples, up to a vector."""
    strides = (problem.strides["weights"], problem.strides["indices"])
    return gcd(4, max(1, problem.base // 4), problem.sizes["k"], *strides)


def _quotient(values: Array, all_values: Array) -> Array:
    """Values divided by the sum of all; zeros stay."""
    total = all_values.sum(axis=1, keepdims=True)
    found: Array = values / np.where(total == 0, 1.0, total)
    return found


OPERATOR = TopkSoftmax()
