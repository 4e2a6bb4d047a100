"""gemm_fp4: C = op(A·B) of floats A and 4-bit floats B (e2m1) with scales, which become floats on their way into LDS.

    B[n, k] = element[n, k] * scale[n, k // group]

in f32, rounded to `dtype`, in which products are taken, on every chip: weights of the microscaling format MXFP4 beside
activations of 16 bits (OCP Microscaling Formats, 6.3; CK Tile's examples 18_flatmm, a16w4, and 38_block_scale_gemm,
bf16xfp4). Scales are powers of two (e8m0) or floats, of groups of 32, 64 or 128 elements along k; the last may be
shorter.

Arrays: as in `gemm_int4`, without zero points. Powers of two are exact in bf16; with other scales nothing is promised
there of elements beyond 2^100, and those below 2^-126 may count as zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.dtypes import POWER
from ckmlir.ops.gemm.gemm_int4 import LENGTHS, SCALES, GemmInt4
from ckmlir.ops.request import Choice, Key

GIVEN = {"b_dtype": "fp4", "zeros": False}
"""What `gemm_int4` lets a request choose."""
OWN_KEYS: dict[str, Key] = {
    "b_scale": Choice("b_scale", "1x32", "columns of B, and elements along K, that share a scale", tuple(LENGTHS)),
    "scale": Choice("scale", POWER.name, "type of scales", (POWER.name, *SCALES)),
}
LARGEST_EXPONENT = 3
"""Of made-up powers of two."""


class GemmFp4(GemmInt4):
    """The operator `gemm_fp4`, which the module's docstring describes."""

    name = "gemm_fp4"
    listed = ({},)
    keys = tuple(OWN_KEYS.get(key.name, key) for key in GemmInt4.keys if key.name not in GIVEN)

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        return super()._problem({**values, **GIVEN})

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.dtype == POWER.name:
            return np.exp2(generator.integers(-LARGEST_EXPONENT, LARGEST_EXPONENT + 1, array.shape))
        return super()._values(problem, array, generator)


OPERATOR = GemmFp4()
