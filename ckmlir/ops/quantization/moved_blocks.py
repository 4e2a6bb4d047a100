"""How far a matrix that was quantised by blocks may be off where what was quantised is."""

from __future__ import annotations

from functools import partial

import numpy as np

from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.scaling import POWERS
from ckmlir.ops.dtypes import PACKED_FLOATS
from ckmlir.ops.packing import pack_values, unpack_values
from ckmlir.ops.precision import UNIT, through_jumps
from ckmlir.ops.quantization.quantize_blocks import Problem, scales_of_elements
from ckmlir.ops.rows.quantization import rounded
from ckmlir.targets import Target


def moved_blocks(problem: Problem, x: Array, error: Array, target: Target) -> Array:
    """How far q times its scale may be from that of x (m, n), in scales of x: infinitely of a row where the error is
    infinite, or x NaN or infinite.

    A scale follows from the largest magnitude of a block, so it lies between that of what is smaller by the error and
    that of what is larger.
    """
    unknown = ~np.isfinite(x) | np.isinf(error)
    x, error = np.where(unknown, 0.0, x), np.where(unknown, 0.0, error)
    size = np.abs(x)
    least, own, most = (
        scales_of_elements(problem, one, target) for one in (np.maximum(size - error, 0.0), x, size + error)
    )
    ways = _by_powers if problem.scales == POWERS else _by_numbers
    found = ways(problem, x, error, (least, own, most), target)
    lost: Array = np.where(unknown.any(axis=1, keepdims=True), np.inf, found)
    return lost


def _by_powers(
    problem: Problem, x: Array, error: Array, scales: tuple[Array, Array, Array], target: Target
) -> Array:
    """With the power of two of either end. Where others lie between them, q times any is at most twice x."""
    least, own, most = scales
    round_ = partial(_rounded, problem, target)
    exact = round_(x / own) * own
    off = np.zeros_like(x)
    for scale in (least, most):
        here = round_(x / scale) * scale
        off = np.maximum(off, np.abs(here - exact) + through_jumps(x / scale, error / scale, round_) * scale)
    far = np.abs(exact) + 2 * (np.abs(x) + error)
    found: Array = np.where(most > 2 * least, far, off) / own
    return found


def _by_numbers(
    problem: Problem, x: Array, error: Array, scales: tuple[Array, Array, Array], target: Target
) -> Array:
    """A scale is off by two roundings more, x over it by four."""
    least, own, most = scales[0] * (1 - 3 * UNIT), scales[1], scales[2] * (1 + 3 * UNIT)
    value, size = np.abs(x / own), np.abs(x)
    wide = np.maximum((size + error) / least - value, value - np.maximum(size - error, 0.0) / most)
    steps = through_jumps(x / own, wide + 4 * UNIT * value, partial(_rounded, problem, target))
    largest = np.abs(_rounded(problem, target, x / own)) + steps
    found: Array = steps + largest * np.maximum(most - own, own - least) / own
    return found


def _rounded(problem: Problem, target: Target, values: Array) -> Array:
    """As q's type holds numbers, in float64."""
    if problem.out in PACKED_FLOATS:
        return unpack_values(pack_values(values, problem.out), problem.out).astype(np.float64)
    return rounded(problem.out, target, values)
