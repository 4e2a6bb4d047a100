"""Matrices quantised by blocks: every block, type and kind of scale, ragged, with special values; what is refused."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from operator_runner import agree

from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import PACKED_FLOATS
from ckmlir.ops.packing import unpack_values
from ckmlir.ops.quantization.moved_blocks import moved_blocks
from ckmlir.ops.quantization.quantize_blocks import scales_of_elements
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

QUANTIZE = find_operator("quantize_blocks")
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gfx942", {}),
    ("gfx950", {"block": "128x128", "out": "bf8", "major": "rows", "stride": 304}),
    ("gfx950", {"block": "1x32", "scales": "e8m0"}),
    ("gfx950", {"block": "1x32", "scales": "e8m0", "out": "fp4", "n": 300}),
    ("gfx90a", {"block": "1x64", "scales": "e8m0", "out": "fp6", "n": 300, "dtype": "bf16", "stride": 301}),
    ("gfx942", {"block": "128x128", "scales": "e8m0", "out": "bf6", "n": 132, "major": "rows", "qstride": 140}),
    ("gfx942", {"block": "1x32", "scales": "e8m0", "out": "bf8", "major": "rows", "dtype": "f32"}),
    ("gfx90a", {"block": "1x64", "out": "i8", "dtype": "bf16", "qstride": 301}),
    ("gfx942", {"m": 1, "n": 1, "block": "128x128"}),
    ("gfx942", {"block": "1x32", "scales": "e8m0", "out": "fp4", "m": 17, "major": "tiles"}),
    ("gfx950", {"block": "1x32", "scales": "e8m0", "out": "fp6", "m": 17, "major": "tiles2x2"}),
    ("gfx942", {"row_ids": 1, "stride": 301, "major": "rows"}),
    ("gfx90a", {"row_ids": 1, "block": "1x32", "scales": "e8m0", "out": "fp4", "dtype": "f32"}),
    ("gfx950", {"m": 0}),
    ("gfx950", {"n": 0}),
]


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("chip", "keys"), CASES)
def test_blocks(chip: str, keys: dict[str, Any]) -> None:
    agree("quantize_blocks", chip, **{"m": 140, "n": 300, **keys})


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("scales", "out"), [("f32", "bf8"), ("e8m0", "bf8"), ("e8m0", "fp4"), ("e8m0", "bf6")])
def test_special_values(scales: str, out: str) -> None:
    """Zeros, NaN alone and among others, infinities, denormals, and the ends of the range."""
    target = get_target("gfx950")
    problem = QUANTIZE.problem(m=10, n=32, block="1x32", scales=scales, dtype="f32", out=out)
    arrays = QUANTIZE.inputs(problem, target, seed=1)
    x = arrays["x"]
    x[0], x[1], x[2, 3], x[3, 3], x[4, 3] = 0, np.nan, np.nan, np.inf, -np.inf
    x[5], x[6], x[7], x[8] = 1e-40, 2.0**-126, 3e38, -0.0
    result = run_operator(QUANTIZE, problem, arrays, target, open_device("sim", target, checks="all"))
    assert all(one.ok for one in check_outputs(QUANTIZE, problem, arrays, result.outputs, target))
    assert (result.outputs["scale"][:2].astype(np.float64) == (2.0**-127 if scales == "e8m0" else 2.0**-126)).all()


def test_the_reference_by_hand() -> None:
    """The largest element becomes the largest number; powers of two are those of the microscaling formats."""
    target = get_target("gfx950")
    x = np.zeros((1, 64), np.float32)
    x[0, :3], x[0, 32:35] = (7.0, -3.5, 0.4375), (1.75, 3.0, 5.0)
    keys = {"m": 1, "n": 64, "dtype": "f32", "block": "1x32"}
    numbers = QUANTIZE.expected(QUANTIZE.problem(**keys), {"x": x}, target)
    np.testing.assert_allclose(numbers["scale"], [[7 / 448, 5 / 448]], rtol=1e-7)
    np.testing.assert_array_equal(numbers["q"][0, :3], [448, -224, 28])
    powers = QUANTIZE.expected(QUANTIZE.problem(**keys, scales="e8m0"), {"x": x}, target)
    np.testing.assert_array_equal(powers["scale"], [[2.0 ** (2 - 8)] * 2])
    np.testing.assert_array_equal(powers["q"][0, 32:35], np.array([112, 192, 320]).astype(ml_dtypes.float8_e4m3fn))


def test_packed_elements_by_hand() -> None:
    """3.4 * 2^5 is 3 times a power of two, of which fp4 knows 1, 1.5, 2, 3, 4 and 6; too large ones saturate."""
    x = np.zeros((1, 32), np.float32)
    x[0, :5] = np.array([6.9, 3.4, 2.5, -0.25, -0.26]) * 32
    keys = {"m": 1, "n": 32, "dtype": "f32", "block": "1x32", "scales": "e8m0", "out": "fp4"}
    found = QUANTIZE.expected(QUANTIZE.problem(**keys), {"x": x}, get_target("gfx950"))
    assert found["scale"] == 32
    np.testing.assert_array_equal(unpack_values(found["q"], "fp4")[0, :5], [6, 3, 2, -0.0, -0.5])


@pytest.mark.parametrize("keys", [
    {"out": "fp4"}, {"out": "fp6"}, {"out": "fp8", "scales": "e8m0"}, {"out": "bf8", "scales": "f32"}, {"out": "i8"},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("size", [1e-6, 0.03, 2.0])
def test_how_far_elements_move(keys: dict[str, Any], size: float) -> None:
    """Against elements that are off by as much as they may be, of groups whose scales change and of zeros; where scales
    stay, elements that are near no step do.
    """
    problem = QUANTIZE.problem(m=40, n=64, dtype="f32", block="1x32", **keys)
    target, random = get_target("gfx950"), np.random.default_rng(3)
    x = random.standard_normal((40, 64))
    x[:10] /= np.abs(x[:10, :32]).max(axis=1, keepdims=True)  # the largest is a power of two, or a little less
    x[10:12] *= 1e-7
    error = size * random.uniform(0, 1, x.shape)

    def product(values: Any) -> Any:
        found = QUANTIZE.expected(problem, {"x": values}, target)
        q = unpack_values(found["q"], problem.out) if problem.out in PACKED_FLOATS else found["q"]
        return q.astype(np.float64) * np.repeat(found["scale"].astype(np.float64), 32, axis=1)

    bound = moved_blocks(problem, x, error, target) * scales_of_elements(problem, x, target)
    exact, largest = product(x), np.zeros_like(x)
    for _ in range(20):
        here = np.abs(product(x + error * random.choice([-1, -0.3, 0, 1], x.shape)) - exact)
        assert (here <= bound + 1e-12 * np.abs(exact)).all()
        largest = np.maximum(largest, here)
    assert largest.any() and np.isfinite(bound).all()
    if size == 1e-6 and problem.scales == "e8m0":
        assert np.median(bound[12:]) == 0
    x[3, 5], error[4, 6] = np.nan, np.inf
    assert (np.isinf(moved_blocks(problem, x, error, target)).all(axis=1) == np.isin(np.arange(40), (3, 4))).all()


def test_what_is_refused() -> None:
    with pytest.raises(RequestError, match="row_ids=1: rows of block=128x128 share a scale; expected block=1x"):
        QUANTIZE.problem(row_ids=1, block="128x128")
    with pytest.raises(RequestError, match="powers of two are scales of floats; expected another out than i8"):
        QUANTIZE.problem(scales="e8m0", out="i8")
    with pytest.raises(RequestError, match="scales=f32: fp4 has powers of two as scales; expected e8m0"):
        QUANTIZE.problem(out="fp4", scales="f32")
    assert QUANTIZE.problem(out="fp4").scales == "e8m0" and QUANTIZE.problem().scales == "f32"
    with pytest.raises(RequestError, match="major=tiles: powers of two of 1x32 lie in tiles; expected scales=e8m0"):
        QUANTIZE.problem(major="tiles", block="1x64", scales="e8m0")
    with pytest.raises(RequestError, match="n=6: rows of q are whole bytes, which 4 elements of fp6 share"):
        QUANTIZE.problem(out="fp6", scales="e8m0", n=6)
    with pytest.raises(RequestError, match="qstride=9: a row has 10 elements; expected at least that"):
        QUANTIZE.problem(n=10, qstride=9)
    target = get_target("gfx90a")
    reasons = QUANTIZE.validate(QUANTIZE.spec(QUANTIZE.problem(), target), target)
    assert "gfx90a has no conversion between f32 and fp8" in str(reasons[0])
