"""What the normalisations of rows have in common: sums before, quantisation after, and what both do to errors.

    acc = x (+ bias, one for every column) (+ residual), in f32; add=store also stores it, rounded to the dtype
    y   = the operator's normalisation of acc
    q   = y, with quant=smooth times smooth (one for every column), quantised by rows (`rows/quantization.py`)

Without quantisation y is stored; with it q and yscale, and y too with keep_y.

Finite rows of any magnitude are normalised: those of bf16 and f32, whose squares f32 may not hold, are scaled by a
power of two first (`scaled_rows_kernel.py`). A row of acc with NaN or an infinity, also one that the addition makes,
gives NaN for all of y and for its statistics.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.precision import UNIT, in_f32, may_overflow
from ckmlir.ops.request import Choice, Flag, Integer, Key, Real
from ckmlir.ops.rows.arrays import FLOATS, RowArray, channels_in, row_values_out, rows_in, rows_out
from ckmlir.ops.rows.layout import RowSpec
from ckmlir.ops.rows.operator import RowProblem, stride_keys
from ckmlir.ops.rows.quantization import (
    QUANTIZATION_KEYS,
    QuantizedOptions,
    quantization_of,
    quantize,
    quantized_tolerances,
    smooth_array,
)  # fmt: skip
from ckmlir.ops.rows.quantizing import QuantizingOperator
from ckmlir.ops.spec import Reason
from ckmlir.targets import Target

ADD = ("none", "add", "store")
QUANT = ("none", "dynamic", "smooth")


class NormOptions(QuantizedOptions):
    """Choices of every normalisation.

    Attributes:
        add: none, add (a residual is added) or store (the sum is also stored).
        bias: one number for every column is added first.
        quant: none, dynamic (by rows) or smooth (columns scaled, then by rows).
        keep_y: y is stored although it is quantised.
        save_stats: the statistics of the rows are outputs.
    """

    add: str
    bias: bool
    quant: str
    keep_y: bool
    save_stats: bool

    def choices(self) -> dict[str, tuple[object, ...]]:
        return {**super().choices(), "add": ADD, "quant": QUANT}

    def conflicts(self) -> list[Reason]:
        found, right = super().conflicts(), "expected quant=dynamic|smooth with it"
        if self.quant == "none":
            for key in ("out", "rounding"):
                if getattr(self, key) != "none":
                    found.append(Reason(key, getattr(self, key), "nothing is quantised", right))
            if self.keep_y:
                found.append(Reason("keep_y", True, "y is stored anyway", right))
        return found

    def summands(self) -> list[RowArray]:
        """x and what is added to it."""
        residual = [rows_in("residual", self.dtype)] if self.add != "none" else []
        return [rows_in("x", self.dtype), *residual, *([channels_in("bias", self.dtype)] if self.bias else [])]

    def finished(self, *statistics: str) -> list[RowArray]:
        """Everything from the smoothing scales on."""
        smooth = [smooth_array()] if self.quant == "smooth" else []
        y = [rows_out("y", self.dtype)] if self.quant == "none" or self.keep_y else []
        total = [rows_out("sum", self.dtype)] if self.add == "store" else []
        saved = [row_values_out(name) for name in statistics] if self.save_stats else []
        return [*smooth, *y, *total, *self.quantized_arrays(), *saved]


class NormSpec(NormOptions, RowSpec):
    """What the kernels of a normalisation rely on; operators add their own choices."""


class Normalized(NamedTuple):
    """A normalisation in float64, with error bounds of the same shapes.

    Attributes:
        undecided: rows of which rounding decides what they are divided by: nothing is promised but of their means.
    """

    y: Array
    y_error: Array
    statistics: dict[str, Array]
    statistics_errors: dict[str, Array]
    undecided: Array | None = None


def norm_keys(default_eps: float, eps_help: str, *more: Key) -> tuple[Key, ...]:
    """The keys of a normalisation."""
    return (
        Integer("m", 256, "rows"),
        Integer("n", 1024, "elements of a row"),
        Choice("dtype", "f16", "of x and of all arrays of columns and rows but scales and statistics", FLOATS),
        Real("eps", default_eps, eps_help, minimum=0.0),
        Choice("add", "none", "add a residual first (add), and store the sum too (store)", ADD),
        Flag("bias", False, "add one number for every column to x first"),
        Choice("quant", "none", "quantise by rows (dynamic), after scaling columns (smooth)", QUANT),
        *QUANTIZATION_KEYS,
        Flag("keep_y", False, "store y besides its quantised form"),
        Flag("save_stats", False, "also write the statistics of the rows, f32"),
        *more,
        *stride_keys("x", "residual", "y", "sum", "q"),
    )


PLAIN = {"gamma": 1, "beta": 0}
"""Numbers of the channels that leave what is normalised as it is."""

C = TypeVar("C", bound=NormOptions)
R = TypeVar("R", bound=RowSpec)


class Norm(QuantizingOperator[C, R]):
    """A normalisation; operators say how rows are normalised."""

    numbers = ("eps",)

    @abstractmethod
    def normalized(self, problem: RowProblem[C], arrays: Mapping[str, Array], x: Array, x_error: Array) -> Normalized:
        """The normalisation of x, which the kernel may have wrong by `x_error`, in float64."""

    def requests(self) -> Iterable[Mapping[str, object]]:
        variants: list[dict[str, object]] = [
            {}, {"add": "add"}, {"add": "store"}, {"save_stats": True}, {"add": "store", "save_stats": True},
            {"quant": "dynamic"}, {"quant": "smooth"}, {"quant": "dynamic", "out": "fp8"},
            {"quant": "smooth", "out": "fp8", "add": "store"},
        ]  # fmt: skip
        return [{**variant, "dtype": dtype} for dtype in FLOATS for variant in variants]

    def _choices(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {**values, **quantization_of(values, values["quant"] != "none")}

    def expected(self, problem: RowProblem[C], arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        x, x_error = _sum(arrays)
        found = self.normalized(problem, arrays, x, x_error)
        outputs = {"y": found.y, "sum": x, **found.statistics}
        if problem.options.out != "none":
            outputs.update(quantize(problem.options, target, in_f32(_smoothed(in_f32(found.y), arrays))))
        return {name: outputs[name] for name in self.output_names(problem)}

    def tolerances(
        self, problem: RowProblem[C], arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """y: the bound of `normalized`, then half an ulp of the dtype; q: the steps that this bound may cross."""
        x, x_error = _sum(arrays)
        found, dtype = self.normalized(problem, arrays, x, x_error), find_dtype(problem.dtype)
        free = zero_times_infinity(arrays, lambda plain: self.normalized(problem, plain, x, x_error))
        undecided = np.zeros(len(x), np.bool_) if found.undecided is None else found.undecided
        free = free | undecided[:, None]
        stored = f"then half an ulp of {dtype.name}"
        tolerances = {
            "y": Tolerance(dtype.unit_roundoff, found.y_error + dtype.underflow, f"f32 arithmetic, {stored}", free),
            "sum": Tolerance(dtype.unit_roundoff, x_error + dtype.underflow, f"f32 additions, {stored}"),
        }
        for name, error in found.statistics_errors.items():
            own = undecided & (name != "mean")
            tolerances[name] = Tolerance(UNIT, error, "f32 sums of a row, see the operator", own)
        if problem.options.out != "none":
            y, y_error = (_smoothed(values, arrays) for values in (in_f32(found.y), found.y_error))
            y_error = np.abs(y_error) + UNIT * np.abs(y)
            free = free | may_overflow(found.y, found.y_error) | may_overflow(y, y_error)
            scale = reference["yscale"]
            tolerances.update(quantized_tolerances(problem.options, target, in_f32(y), y_error, scale, free))
        return {name: tolerances[name] for name in reference}


def zero_times_infinity(arrays: Mapping[str, Array], normalized: Callable[[Mapping[str, Array]], Normalized]) -> Array:
    """Where an infinite gamma meets what may be zero in f32: of these elements nothing is promised. `normalized` makes
    the normalisation of other arrays.
    """
    infinite: Array = np.isinf(arrays["gamma"].astype(np.float64))
    if not infinite.any():
        return np.zeros_like(infinite)
    channels = {name: np.full_like(arrays[name], number) for name, number in PLAIN.items() if name in arrays}
    plain = normalized({**arrays, **channels})
    with np.errstate(invalid="ignore"):
        found: Array = infinite & (np.abs(plain.y) <= plain.y_error)
    return found


def _sum(arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """x with all that is added to it, in float64, and the bound of f32's error: a rounding for each addition."""
    parts = [arrays[name].astype(np.float64) for name in ("x", "bias", "residual") if name in arrays]
    x, size = parts[0], np.abs(parts[0])
    with np.errstate(invalid="ignore"):
        for part in parts[1:]:
            x, size = in_f32(x + part), size + np.abs(part)
        return x, (len(parts) - 1) * UNIT * size


def _smoothed(y: Array, arrays: Mapping[str, Array]) -> Array:
    if "smooth" not in arrays:
        return y
    with np.errstate(invalid="ignore"):
        return y * arrays["smooth"].astype(np.float64)
