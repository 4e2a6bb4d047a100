"""Products of narrow types in the shapes in which libraries of inference call them, scaled down, and with every kind of
power of two as a scale.

Shapes: aiter, op_tests/test_gemm_a8w8_blockscale.py (1 to 10240 rows, (n, k) = (24576, 1536)) and test_gemm_a4w4.py
((m, n, k) = (256, 2048, 8192)).
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from operator_runner import agree

from ckmlir.ops import find_operator
from ckmlir.ops.contraction.scale_tiles import TILINGS, tile_scales
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

SCALED_DOWN = 16
"""Columns of the first shape, and columns and K of the second, by this."""
ROWS = (1, 2, 3, 16, 17, 64, 65, 128, 200, 255, 256, 257, 640)


@pytest.mark.full
@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
@pytest.mark.parametrize("m", ROWS)
def test_block_scales(chip: str, m: int) -> None:
    agree("gemm_quant", chip, m=m, n=24576 // SCALED_DOWN, k=1536 // 4, a_scale="1x128", b_scale="128x128")


@pytest.mark.full
@pytest.mark.parametrize(
    "keys", [{}, {"a_major": "tiles", "b_major": "tiles"}, {"m": 32}, {"m": 1, "n": 256}, {"shuffled": 16}]
)
@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx950"])
def test_fp4_by_fp4(chip: str, keys: dict[str, Any]) -> None:
    sizes = {"m": 256, "n": 2048 // SCALED_DOWN, "k": 8192 // SCALED_DOWN}
    agree("mx_gemm", chip, dtype="fp4", **{**sizes, **keys})


SPECIAL = {"zero": 0, "denormal": 1, "one": 127, "largest": 254, "nan": 255}
"""Codes of e8m0, which has no zero: code 0 is 2^-127, which f32 holds as a denormal; code 1 is its least normal one."""
BY_DEFAULT = ("gfx950", "fp4", "tiles")
CASES = [
    pytest.param(chip, dtype, major, marks=[] if (chip, dtype, major) == BY_DEFAULT else pytest.mark.full)
    for chip, types in (("gfx90a", ("fp4", "fp6")), ("gfx942", ("fp8", "fp4")), ("gfx950", ("fp8", "fp6", "fp4")))
    for dtype in types
    for major in ("k", "rows", *TILINGS)
]


@pytest.mark.parametrize(("chip", "dtype", "major"), CASES)
def test_scales_at_the_ends(chip: str, dtype: str, major: str) -> None:
    """Rows of A and columns of B with each code, in one of three groups of K: what belongs to others stays as it is."""
    target, codes = get_target(chip), np.array(list(SPECIAL.values()), np.uint8)
    operator = find_operator("mx_gemm")
    problem = operator.problem(m=20, n=20, k=96, dtype=dtype, out="f32", a_major=major, b_major=major)
    arrays = operator.inputs(problem, target, seed=4)
    for name in ("scale_a", "scale_b"):
        scales = np.full((20, 3), 127, np.uint8)
        for group in range(3):
            scales[5 * group : 5 * group + 5, group] = codes
        plain = {"k": scales, "rows": scales.T}
        lies = plain[major] if major in plain else tile_scales(scales, major)
        arrays[name] = np.ascontiguousarray(lies).view(ml_dtypes.float8_e8m0fnu)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, checks="all"))
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))
    found = np.isnan(result.outputs["c"].astype(np.float64))
    spoilt, large = np.isin(np.arange(20), (4, 9, 14)), np.isin(np.arange(20), (3, 8, 13))
    kept = ~(spoilt | large)  # times 2^127 products are infinities of both signs
    assert found[spoilt].all() and found[:, spoilt].all() and not found[kept][:, kept].any()
