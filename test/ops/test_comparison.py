"""Where a number overflows near the end of its type, the tolerance decides; elsewhere infinities have to agree."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from ckmlir.ops.comparison import Tolerance, compare, overflow


def agrees(got: float, wanted: float, atol: float, dtype: npt.DTypeLike = np.float16) -> bool:
    with np.errstate(over="ignore"):
        actual = np.array([got], dtype)
    return compare("y", actual, np.array([wanted]), Tolerance(0.0, atol, "")).ok


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_the_least_number_that_overflows(dtype: Any) -> None:
    least = overflow(np.dtype(dtype))
    with np.errstate(over="ignore"):
        assert np.isinf(np.float64(least).astype(dtype))
        below = least * (1 - float(ml_dtypes.finfo(dtype).eps) / 8)
        assert np.float64(below).astype(dtype) == ml_dtypes.finfo(dtype).max


def test_an_overflow_within_the_tolerance_agrees() -> None:
    assert agrees(np.inf, 65504, atol=16) and not agrees(np.inf, 65504, atol=15)
    assert agrees(-np.inf, -65000, atol=520) and not agrees(np.inf, -65000, atol=520)
    assert agrees(65504, 65530, atol=26) and not agrees(65504, 65530, atol=25)
    assert agrees(np.inf, 1e6, atol=0)


def test_what_is_infinite_stays_so() -> None:
    assert agrees(np.inf, np.inf, atol=0) and agrees(np.nan, np.nan, atol=0)
    assert not agrees(65504, np.inf, atol=1e9) and not agrees(np.inf, np.nan, atol=1e9)
    assert not agrees(np.nan, 1, atol=1e9) and not agrees(np.inf, -np.inf, atol=1e9)
    assert not agrees(3, np.inf, atol=1e9, dtype=np.int8)
