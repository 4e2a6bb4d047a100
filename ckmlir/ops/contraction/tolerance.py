"""How far a matrix product may be from the exact one: CK Tile's rule, from mantissas and K.

CK Tile accepts |c - r| <= atol + rtol * |r| with, for a result of dtype `out` accumulated in f32 over K products,

    rtol = max(2^-mant(compute), 2^-mant(out), K * 2^-mant(f32)) / 2
    atol = the same with 2^(e - mant) for 2^-mant, e the exponent of the largest |r|

and to atol comes half of the accumulator's least denormal for each product, since small ones are rounded to multiples
of that before they are added.

Here `compute` is f32 for every float dtype: matrix instructions form the products of f16, bf16 and 8-bit floats
exactly, so, unlike CK Tile, the mantissa of the inputs does not loosen the bound. Of f64 it is f64, and so are the
roundings of its sums.

xf32 rounds the inputs to 10 bits of mantissa. Documents do not say in which way (CDNA3 ISA, 7.1, "XF32"), so that each
may move by a whole unit of that place: what this makes of the magnitudes of all products is added. A denormal below
such a unit may become zero, and its product with an infinity NaN: nothing is promised of that.

Split-K rounds no more often where the parts are added in f32: K products take K - 1 additions in any order. Where
memory adds f16 or bf16, each of P parts is rounded, and so is every sum of some of them: 2P roundings more, each of a
number that is taken to be no larger than the scale of the absolute term. Where such parts may add up to more than C's
type holds, nothing is promised: it depends on their order whether one of their sums is infinite, and what follows.

With few results the largest |r| can be small by cancellation although the partial sums were not. So e is taken of
max(max |r|, max_i |a_i| * max_j |b_j| / sqrt(K)), |a_i| and |b_j| being the Euclidean lengths of A's rows and B's
columns: the second term is what a sum of K products of random signs comes to.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.contraction_spec import accumulator_type
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.precision import OVERFLOW
from ckmlir.ops.request import LEAST_NORMAL_F32

XF32_UNIT = 2.0**-10
"""In relation to a number, the last place of xf32's mantissa."""
LARGEST = {"f64": float(np.finfo(np.float64).max), "xf32": OVERFLOW * (1 - XF32_UNIT)}
"""Input dtype -> magnitudes from which on sums, or inputs, may be infinite, where that is not f32's."""
VANISHING = {"xf32": LEAST_NORMAL_F32 * XF32_UNIT}
"""Input dtype -> magnitudes below which rounding may make inputs zero."""


def gemm_tolerance(
    a: Array, b: Array, reference: Array, out: str, dtype: str, flushed: float = 0.0, parts: int = 1
) -> Tolerance:
    """The tolerance of `reference` = a @ b with a of shape (m, k) and b of shape (k, n), rounded to dtype `out`;
    `dtype` is how A and B are multiplied.

    Elements of A and B below `flushed` may count as zero: the products that are then missing are added. With `parts`
    memory adds so many partial sums in C's own type.
    """
    result, sums = find_dtype(out), accumulator_type(dtype)
    if result.is_integer:
        return Tolerance(0.0, 0.0, "integer arithmetic is exact")
    k = a.shape[1]
    relative = max(result.unit_roundoff, max(k, 1) * find_dtype(sums).unit_roundoff)
    scale = _exponent_scale(max(_largest(reference), _random_sum(a, b)))
    reason = f"CK Tile's rule: half an ulp of {out}, or {k} {sums} roundings, of the element and of the largest result"
    absolute: float | Array = max(relative * scale, result.underflow) + k * find_dtype(sums).underflow
    if parts > 1 and out != sums:  # additions in the sums' type are among the K roundings
        absolute += 2 * parts * result.unit_roundoff * scale
        reason += f"; {parts} partial sums rounded and added in {out}"
    if flushed:
        absolute = absolute + _missing(a, b, flushed)
        reason += "; denormal inputs count as zero"
    if dtype == "xf32":
        absolute = absolute + _rounded_inputs(a, b)
        reason += "; inputs are rounded to 10 bits of mantissa"
    zero = max(flushed, VANISHING.get(dtype, 0.0))
    free = _unspecified(a, b, zero, LARGEST.get(dtype, OVERFLOW))
    if parts > 1 and out != sums:
        free = free | overflowing_parts(magnitudes(a, b), reference, parts, out)
    return Tolerance(relative, absolute, reason, free)


def widened(tolerance: Tolerance, moved: Array | float, spoilt: Array | bool) -> Tolerance:
    """The tolerance of sums that may be off by `moved` besides; nothing is promised where that is infinite, or of what
    is spoilt.
    """
    unknown = np.isinf(moved)
    if not np.any(moved):
        free = tolerance.unspecified | np.asarray(spoilt) if np.any(spoilt) else tolerance.unspecified
        return replace(tolerance, unspecified=free)
    reason = f"{tolerance.reason}; what A and B may be off by"
    free = tolerance.unspecified | unknown
    return Tolerance(tolerance.rtol, tolerance.atol + np.where(unknown, 0.0, moved), reason, free)


def _rounded_inputs(a: Array, b: Array) -> Array:
    """How far sums of products may move when both factors are rounded to xf32."""
    sizes = [np.abs(values.astype(np.float64)) for values in (a, b)]
    sizes = [np.where(np.isfinite(size), size, 0.0) for size in sizes]
    errors = [np.where(size > 0, np.maximum(size, LEAST_NORMAL_F32), 0.0) * XF32_UNIT for size in sizes]
    moved: Array = errors[0] @ (sizes[1] + errors[1]) + sizes[0] @ errors[1]
    return moved


def _unspecified(a: Array, b: Array, flushed: float, most: float) -> Array | bool:
    """Results whose products' magnitudes add up to `most` or more, so that it depends on the order whether a part
    of the sum overflows, and products of infinities with what may count as zero; but those with NaN among their
    operands.
    """
    sizes = [np.abs(values.astype(np.float64)) for values in (a, b)]
    finite = [np.where(np.isfinite(size), size, 0.0) for size in sizes]
    largest = [float(size.max(initial=0.0)) for size in finite]
    ordinary = max(a.shape[1], 1) * largest[0] * largest[1] < most > max(largest)
    if ordinary and all(np.isfinite(size).all() for size in sizes):
        return False
    with np.errstate(over="ignore"):
        free: Array = np.asarray(finite[0] @ finite[1] >= most)
    free |= np.logical_or.outer((finite[0] >= most).any(axis=1), (finite[1] >= most).any(axis=0))
    for one, other in ((0, 1), (1, 0)):
        infinite = np.isinf(sizes[one]).astype(np.float64)
        denormal = ((sizes[other] > 0) & (sizes[other] < flushed)).astype(np.float64)
        free |= (infinite @ denormal if one == 0 else denormal @ infinite) > 0
    rows, columns = np.isnan(sizes[0].sum(axis=1)), np.isnan(sizes[1].sum(axis=0))
    found: Array = free & ~np.logical_or.outer(rows, columns)
    return found


def rounded_parts(reference: Array, parts: int, out: str) -> float:
    """What rounding and adding so many parts of results in their own type adds to the error: two roundings each, of
    numbers as large as the largest result.
    """
    return 2 * parts * find_dtype(out).unit_roundoff * _exponent_scale(_largest(reference)) * 2


def magnitudes(a: Array, b: Array) -> Array:
    """What the magnitudes of all products add up to, those of infinities and NaN left out."""
    sizes = [np.abs(values.astype(np.float64)) for values in (a, b)]
    rows, columns = (np.where(np.isfinite(size), size, 0.0) for size in sizes)
    with np.errstate(over="ignore"):
        found: Array = rows @ columns
    return found


def overflowing_parts(sizes: Array, reference: Array, parts: int, out: str) -> Array:
    """Results of which sums of some parts, in their own type, may be infinite: those whose terms' magnitudes add up to
    `sizes`, as far as they are not NaN in any order.
    """
    found = find_dtype(out)
    largest = 2.0 ** (1 - found.least_exponent) * (2.0 - 2.0**-found.mantissa)
    beyond: Array = (sizes >= largest * (1 - 2 * parts * found.unit_roundoff)) & ~np.isnan(reference)
    return beyond


def _missing(a: Array, b: Array, flushed: float) -> Array | float:
    """The magnitude of all products that have a factor below `flushed`."""
    sizes = [np.abs(values.astype(np.float64)) for values in (a, b)]
    small = [np.where(size < flushed, size, 0.0) for size in sizes]
    sizes = [np.where(np.isfinite(size), size, 0.0) for size in sizes]
    if not any(part.any() for part in small):
        return 0.0
    missing: Array = small[0] @ sizes[1] + sizes[0] @ small[1]
    return missing


def _largest(values: Array) -> float:
    """The largest finite magnitude, 0 if there is none."""
    magnitudes = np.abs(values.astype(np.float64))
    return float(magnitudes.max(initial=0.0, where=np.isfinite(magnitudes)))


def _random_sum(a: Array, b: Array) -> float:
    if 0 in (*a.shape, *b.shape):
        return 0.0
    rows = np.linalg.norm(np.nan_to_num(a.astype(np.float64), posinf=0, neginf=0), axis=1)
    columns = np.linalg.norm(np.nan_to_num(b.astype(np.float64), posinf=0, neginf=0), axis=0)
    return float(rows.max()) * float(columns.max()) / math.sqrt(a.shape[1])


def _exponent_scale(largest: float) -> float:
    """The power of two at or below `largest`; 0 for 0."""
    return 2.0 ** math.floor(math.log2(largest)) if largest else 0.0
