"""Q, K and V as `sage_attention` takes them, in NumPy: K without its mean, blocks with the scale of their largest
element, V in fp8 with that of its channels."""

from __future__ import annotations

import numpy as np

from ckmlir.ops.attention.part import scale_parts
from ckmlir.ops.attention.parts.sage_scales import SageScales
from ckmlir.ops.attention.problem import LEAST_SCALE, Problem
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.tensors.rounding import saturated
from ckmlir.targets import Target


def quantised(
    problem: Problem, q: Array, k: Array, v: Array, target: Target, *, smooth: bool = True
) -> dict[str, Array]:
    """The arrays of a problem in batch mode with layout bhsd, V in rows, and scales of blocks.

    Args:
        q, k, v: numbers with the axes (batch, head, row, channel).
        smooth: take the mean over the keys from K, which changes LSE and not O.
    """
    (part,) = scale_parts(problem)
    assert isinstance(part, SageScales)
    k = k - k.mean(axis=2, keepdims=True) if smooth else k
    found: dict[str, Array] = {}
    for name, values, size in (("q", q, part.queries), ("k", k, part.rows)):
        rows = values.shape[2]
        padded = np.pad(np.abs(values), ((0, 0), (0, 0), (0, ceil_div(rows, size) * size - rows), (0, 0)))
        largest = padded.reshape(*values.shape[:2], -1, size * values.shape[3]).max(axis=3)
        scales = _scales(largest, problem.dtype, target)
        each = np.repeat(scales, size, axis=2)[:, :, :rows, None]
        found |= {name: _stored(values / each, problem.dtype, target), f"{name}_scales": scales}
    if part.channels:
        found["v_scales"] = _scales(np.abs(v).max(axis=2), "fp8", target)
        v = v / found["v_scales"][:, :, None]
    return {**found, "v": _stored(v, problem.dtype_of("v"), target)}


def _scales(largest: Array, dtype: str, target: Target) -> Array:
    """Scales with which the largest elements become the largest numbers of a type."""
    most = float(saturated(np.array(np.inf), dtype, target))
    return np.maximum(largest / most, LEAST_SCALE).astype(np.float32)


def _stored(values: Array, dtype: str, target: Target) -> Array:
    """Numbers in a type, to nearest, saturated."""
    whole = saturated(values, dtype, target)
    found: Array = whole.astype(numpy_dtype(dtype, target))
    return found
