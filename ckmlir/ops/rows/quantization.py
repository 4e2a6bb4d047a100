"""Quantisation of rows: q = round(y / scale) with scale = max(|y| of the row) / (largest value of q's type), in f32.

The scale is at least 2^-126, the smallest normal f32: a row of zeros gives zeros and that scale, never NaN; a scale
that is given is taken as it is. i8 is truncated towards zero (as CK Tile does) or, with rounding=nearest, to the
nearest even; 8-bit floats are rounded to the nearest even. NaN is left out of the maximum; as i8 it becomes 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype, numpy_dtype
from ckmlir.ops.precision import UNIT, through_jumps
from ckmlir.ops.request import LEAST_NORMAL_F32, Choice
from ckmlir.ops.rows.arrays import RowArray, RowOptions, channels_in, row_values_out, rows_out
from ckmlir.ops.spec import Reason
from ckmlir.targets import Target
from ckmlir.targets.matrix_names import EIGHT_BIT_FLOATS

OUT = ("i8", "fp8")
ROUNDING = ("zero", "nearest")
LEAST_SCALE = LEAST_NORMAL_F32
FAR, SHIFT = 100, 25
"""Scales beyond 2^FAR or below 2^-FAR are brought nearer by 2^SHIFT: then even the inverse of a denormal is finite."""
LARGEST = {"ocp": 448.0, "fnuz": 240.0}
"""Largest finite e4m3 by flavour."""
LARGEST_BF8 = 57344.0
"""Largest finite e5m2, of both flavours."""

QUANTIZATION_KEYS = (
    Choice("out", None, "type of q when rows are quantised (default i8)", OUT),
    Choice("rounding", None, "of q: towards zero (default for i8) or to nearest even (always for fp8)", ROUNDING),
)


class QuantizedOptions(RowOptions):
    """Choices of an operator that quantises its rows.

    Attributes:
        out: type of q; "none" where nothing is quantised.
        rounding: zero or nearest; "none" where nothing is quantised.
    """

    out: str
    rounding: str

    def quantized_arrays(self) -> Iterator[RowArray]:
        """q and its scales, where there are any."""
        if self.out != "none":
            yield from (rows_out("q", self.out), row_values_out("yscale"))

    def choices(self) -> dict[str, tuple[object, ...]]:
        return {**super().choices(), "out": ("none", *OUT), "rounding": ("none", *ROUNDING)}

    def conflicts(self) -> list[Reason]:
        if self.out in EIGHT_BIT_FLOATS and self.rounding == "zero":
            return [Reason("rounding", "zero", "8-bit floats are rounded to the nearest", "expected nearest")]
        return super().conflicts()

    def largest(self, target: Target) -> float:
        """The largest value of q on a chip."""
        return largest(self.out, target)


def largest(out: str, target: Target) -> float:
    """The largest number of an 8-bit type on a chip."""
    if out == "i8":
        return 127.0
    return LARGEST_BF8 if out == "bf8" else LARGEST[target.fp8 or "ocp"]


def smooth_array() -> RowArray:
    """The scales of the columns, applied before quantisation."""
    return channels_in("smooth", "f32")


def quantization_of(values: Mapping[str, Any], quantized: bool) -> dict[str, str]:
    """`out` and `rounding` with their defaults; what was asked of nothing quantised stays, for `conflicts` to see."""
    out = values["out"] or ("i8" if quantized else "none")
    rounding = values["rounding"] or {"i8": "zero", "none": "none"}.get(out, "nearest")
    return {"out": out, "rounding": rounding}


def quantize(options: QuantizedOptions, target: Target, y: Array) -> dict[str, Array]:
    """q and yscale of rows (the last dimension) in float64, q as exact values of its type."""
    amax = np.fmax.reduce(np.abs(y), axis=-1, initial=0.0)
    scale = np.maximum(amax / options.largest(target), LEAST_SCALE)
    with np.errstate(invalid="ignore"):
        return {"q": rounded(options.out, target, y / scale[..., None], options.rounding), "yscale": scale}


def quotients(x: Array, scale: Array) -> Array:
    """x / scale in float64, by IEEE's rules also where the scale is 0, infinite or NaN."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        found: Array = x.astype(np.float64) / scale.astype(np.float64)
    return found


def rounded(out: str, target: Target, values: Array, rounding: str = "nearest") -> Array:
    """As an 8-bit type holds numbers, in float64: what is too large saturates, NaN becomes the integer 0."""
    most = largest(out, target)
    if find_dtype(out).is_integer:
        whole = np.trunc(values) if rounding == "zero" else np.rint(values)
        return np.asarray(np.nan_to_num(np.clip(whole, -most - 1, most), nan=0.0))
    found: Array = np.clip(values, -most, most).astype(numpy_dtype(out, target)).astype(np.float64)
    return found


def rounded_tolerance(
    out: str, target: Target, values: Array, error: Array, rounding: str = "nearest", free: bool | Array = False
) -> Tolerance:
    """Of q = `values` rounded, where they may be off by `error`: q may differ from the reference only where that
    crosses a step of the rounding.
    """
    steps = through_jumps(values, error, partial(rounded, out, target, rounding=rounding))
    return Tolerance(0.0, steps, "steps of the rounding that the error of y / scale may cross", free)


def quantized_tolerances(
    options: QuantizedOptions, target: Target, y: Array, y_error: Array, scale: Array, free: Array | None = None
) -> dict[str, Tolerance]:
    """Tolerances of q and yscale for rows y that may be wrong by `y_error`; nothing is promised of rows with elements
    that are `free`.

    The scale is as wrong as the largest element that is a number, and by three roundings; y / scale as y, the scale,
    and four roundings.
    """
    scale_error = np.where(np.isnan(y), 0.0, y_error).max(axis=-1, initial=0.0) / options.largest(target)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        least = np.maximum(scale - scale_error, 0.0)[..., None]  # of a scale that may be nothing, q may be anything
        values = y / scale[..., None]
        moved = (y_error + np.abs(values) * scale_error[..., None]) / least
        error = np.where(least > 0, moved, 2 * options.largest(target)) + np.abs(values) * 7 * UNIT
    rows: Array = np.asarray(False if free is None else free.any(axis=-1))
    return {
        "q": rounded_tolerance(options.out, target, values, error, options.rounding, rows[..., None]),
        "yscale": Tolerance(3 * UNIT, scale_error, "the largest error of the row, and three f32 roundings", rows),
    }


def given_tolerance(out: str, target: Target, values: Array, rounding: str = "nearest") -> Tolerance:
    """Of q = `values` = x / scale rounded, with a scale that is exact: up to four f32 roundings."""
    error = np.nan_to_num(np.abs(values), nan=0.0, posinf=0.0) * 4 * UNIT
    return rounded_tolerance(out, target, values, error, rounding)
