"""Float instructions against NumPy's own operations, an opinion that shares nothing with the semantic functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from single_wave import SingleWave, make, s, v

EDGES = np.array(
    [0.0, -0.0, 1, -1, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, 0.49999997, 2.5, 3.5, 8388609.0],
    np.float32,
)


def pairs() -> tuple[Any, Any]:
    rng = np.random.default_rng(18)
    x = np.concatenate([np.repeat(EDGES, 16), rng.standard_normal(256).astype(np.float32)])
    y = np.concatenate([np.tile(EDGES, 16), rng.standard_normal(256).astype(np.float32)])
    return x, y


def run_floats(mnemonic: str, *columns: Any) -> Any:
    wave, results = SingleWave(), []
    for start in range(0, len(columns[0]), 64):
        for k, column in enumerate(columns):
            wave.vgpr[10 + k] = column[start : start + 64].view(np.uint32)
        wave.run([make(mnemonic, [v(0)], [v(10 + k) for k in range(len(columns))])])
        results.append(wave.vgpr[0].view(np.float32).copy())
    return np.concatenate(results)


def assert_same_floats(got: Any, expected: Any) -> None:
    np.testing.assert_array_equal(got, expected)
    ordinary = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[ordinary]), np.signbit(expected[ordinary]))


@pytest.mark.parametrize(
    "mnemonic,formula",
    [
        ("v_add_f32", np.add),
        ("v_sub_f32", np.subtract),
        ("v_subrev_f32", lambda x, y: y - x),
        ("v_mul_f32", np.multiply),
    ],
)
def test_float_arithmetic(mnemonic: str, formula: Callable[[Any, Any], Any]) -> None:
    x, y = pairs()
    with np.errstate(all="ignore"):
        assert_same_floats(run_floats(mnemonic, x, y), formula(x, y))


@pytest.mark.parametrize("largest", [False, True])
def test_minimum_and_maximum_prefer_numbers_and_order_zeros(largest: bool) -> None:
    x, y = pairs()
    expected = (np.fmax if largest else np.fmin)(x, y)
    zeros = (x == 0) & (y == 0)
    negative = np.signbit(x) & np.signbit(y) if largest else np.signbit(x) | np.signbit(y)
    expected = np.where(zeros, np.where(negative, np.float32(-0.0), np.float32(0.0)), expected)
    assert_same_floats(run_floats("v_max_f32" if largest else "v_min_f32", x, y), expected)


def test_a_signalling_nan_is_quieted_by_maximum() -> None:
    wave = SingleWave()
    wave.vgpr[10], wave.vgpr[11] = 0x7F800123, np.float32(1.0).view(np.uint32)
    wave.run([make("v_max_f32", [v(0)], [v(10), v(11)]), make("v_max_f32", [v(1)], [v(11), v(10)])])
    assert (wave.vgpr[:2] == 0x7FC00123).all()


@pytest.mark.parametrize(
    "mnemonic,formula",
    [("v_floor_f32", np.floor), ("v_ceil_f32", np.ceil), ("v_trunc_f32", np.trunc), ("v_rndne_f32", np.rint)],
)
def test_rounding_to_integers(mnemonic: str, formula: Callable[[Any], Any]) -> None:
    x, _ = pairs()
    assert_same_floats(run_floats(mnemonic, x), formula(x))


def test_median_of_three() -> None:
    rng = np.random.default_rng(19)
    columns = rng.standard_normal((3, 256)).astype(np.float32)
    np.testing.assert_array_equal(run_floats("v_med3_f32", *columns), np.sort(columns, axis=0)[1])


def test_fraction_is_below_one() -> None:
    x, _ = pairs()
    got = run_floats("v_fract_f32", x)
    finite = np.isfinite(x)
    with np.errstate(invalid="ignore"):
        exact = x.astype(np.float64) - np.floor(x.astype(np.float64))
    assert ((got[finite] >= 0) & (got[finite] < 1)).all()
    np.testing.assert_allclose(got[finite], exact[finite], atol=1e-7)


@pytest.mark.parametrize(
    "name", ["lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt"]
)
def test_float_comparisons(name: str) -> None:
    x, y = pairs()
    order = {"lt": x < y, "eq": x == y, "le": x <= y, "gt": x > y, "lg": (x < y) | (x > y), "ge": x >= y}
    order["o"] = ~np.isnan(x) & ~np.isnan(y)
    order |= {"u": ~order["o"], "nge": ~order["ge"], "nlg": ~order["lg"], "ngt": ~order["gt"]}
    order |= {"nle": ~order["le"], "neq": ~order["eq"], "nlt": ~order["lt"]}
    wave = SingleWave()
    for start in range(0, len(x), 64):
        wave.vgpr[10], wave.vgpr[11] = x[start : start + 64].view(np.uint32), y[start : start + 64].view(np.uint32)
        wave.run([make(f"v_cmp_{name}_f32", [s(20, 2)], [v(10), v(11)], "VOPC")])
        got = [wave.mask(20) >> lane & 1 for lane in range(64)]
        assert got == order[name][start : start + 64].astype(int).tolist()
