"""layernorm2d: the reference against a row computed by hand, its tolerances, specifications and what is refused."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.ops import find_operator
from ckmlir.ops.comparison import compare
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.normalization.layernorm2d import VARIANCE, Layernorm2dSpec
from ckmlir.ops.normalization.norm import ADD
from ckmlir.ops.request import RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.records import replace
from ckmlir.targets import all_targets, get_target

LAYERNORM = find_operator("layernorm2d")
GFX942 = get_target("gfx942")


def _by_hand(row: list[Fraction], gamma: Any, beta: Any, eps: float) -> tuple[Fraction, float, list[float]]:
    mean = sum(row, Fraction(0)) / len(row)
    variance = sum(((value - mean) ** 2 for value in row), Fraction(0)) / len(row)
    inv_std = 1 / math.sqrt(variance + Fraction(eps))
    scaled = [float(value - mean) * inv_std for value in row]
    return mean, inv_std, [s * float(g) + float(b) for s, g, b in zip(scaled, gamma, beta, strict=True)]


@pytest.mark.parametrize("add", ADD)
@pytest.mark.parametrize("dtype", FLOATS)
def test_reference_by_rational_arithmetic(dtype: str, add: str) -> None:
    problem = LAYERNORM.problem(m=3, n=11, dtype=dtype, add=add, save_stats=True, eps=1e-3)
    arrays = LAYERNORM.inputs(problem, GFX942, seed=5)
    outputs = LAYERNORM.reference(problem, arrays)
    assert list(outputs) == ["y", *(["sum"] if add == "store" else []), "mean", "inv_std"]
    for i in range(3):
        row = [Fraction(float(value)) for value in arrays["x"][i]]
        if add != "none":
            row = [value + Fraction(float(other)) for value, other in zip(row, arrays["residual"][i], strict=True)]
        mean, inv_std, y = _by_hand(row, arrays["gamma"], arrays["beta"], 1e-3)
        np.testing.assert_allclose(outputs["y"][i], y, rtol=1e-12, atol=1e-13)
        assert outputs["mean"][i] == pytest.approx(float(mean), rel=1e-12)
        assert outputs["inv_std"][i] == pytest.approx(inv_std, rel=1e-12)
        if add == "store":
            np.testing.assert_allclose(outputs["sum"][i], [float(value) for value in row], rtol=1e-15)


def _welford_in_f32(x: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One accumulator a row, the longest chain of roundings that an implementation could have."""
    mean = np.zeros(x.shape[0], np.float32)
    squares = np.zeros(x.shape[0], np.float32)
    for count, column in enumerate(x.T.astype(np.float32), start=1):
        delta = column - mean
        mean = mean + delta / np.float32(count)
        squares = squares + delta * (column - mean)
    inv_std = np.float32(1) / np.sqrt(squares / np.float32(x.shape[1]) + np.float32(eps))
    return mean, inv_std, (x.astype(np.float32) - mean[:, None]) * inv_std[:, None]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 2, 63, 64, 1000])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_tolerances_admit_welford_in_f32_and_not_another_variance(dtype: str, n: int, offset: float) -> None:
    problem = LAYERNORM.problem(m=50, n=n, dtype=dtype, save_stats=True, variance="welford")
    arrays = LAYERNORM.inputs(problem, GFX942, seed=n)
    arrays["x"] = (arrays["x"].astype(np.float32) + np.float32(offset)).astype(arrays["x"].dtype)
    reference = LAYERNORM.reference(problem, arrays)
    tolerances = LAYERNORM.tolerances(problem, arrays, reference, GFX942)
    mean, inv_std, normalised = _welford_in_f32(arrays["x"], problem.numbers["eps"])
    gamma, beta = (arrays[name].astype(np.float32) for name in ("gamma", "beta"))
    found = {
        "y": (normalised * gamma + beta).astype(numpy_dtype(dtype, GFX942)), "mean": mean, "inv_std": inv_std
    }  # fmt: skip
    for name, value in found.items():
        result = compare(name, value, reference[name], tolerances[name])
        assert result.ok, str(result)
    if n > 1:  # the variance over n - 1 is another one
        unbiased = inv_std * np.float32(math.sqrt((n - 1) / n))
        assert not compare("inv_std", unbiased, reference["inv_std"], tolerances["inv_std"]).ok
        assert not compare("mean", mean * np.float32(1.001), reference["mean"], tolerances["mean"]).ok


@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_of_equal_values_without_eps_nothing_is_compared(eps: float) -> None:
    """Whether their variance is zero, and the quotient NaN, is for the rounding of their mean to say."""
    problem = LAYERNORM.problem(m=1, n=4, eps=eps, dtype="f32")
    arrays = {"x": np.ones((1, 4), np.float32), "gamma": np.ones(4, np.float32), "beta": np.zeros(4, np.float32)}
    reference = LAYERNORM.reference(problem, arrays)
    tolerance = LAYERNORM.tolerances(problem, arrays, reference, GFX942)["y"]
    assert compare("y", np.zeros((1, 4), np.float32), reference["y"], tolerance).ok
    assert compare("y", np.ones((1, 4), np.float32), reference["y"], tolerance).ok == (eps == 0)


@pytest.mark.parametrize("target", all_targets(), ids=str)
def test_default_kernels(target) -> None:
    specs = LAYERNORM.kernels(target)
    assert len({spec.name for spec in specs}) == len(specs)
    assert all(re.fullmatch(r"[a-z0-9_]+", spec.name) for spec in specs)
    assert {spec.streamed for spec in specs} == {False, True}
    assert {spec.out for spec in specs} == {"none", "i8", "fp8"} - ({"fp8"} if target.fp8 is None else set())
    for spec in specs:
        assert LAYERNORM.validate(spec, target) == []
        assert Layernorm2dSpec.from_json(spec.to_json()) == spec


@given(
    m=st.integers(0, 40), n=st.integers(0, 20000), more=st.integers(0, 20), dtype=st.sampled_from(FLOATS),
    add=st.sampled_from(ADD), bias=st.booleans(), save_stats=st.booleans(), base=st.sampled_from([1, 2, 4, 8, 16]),
    variance=st.sampled_from(VARIANCE),
)  # fmt: skip
@settings(max_examples=200)
def test_what_a_specification_promises(
    m: int, n: int, more: int, dtype: str, add: str, bias: bool, save_stats: bool, base: int, variance: str
) -> None:
    keys = {"dtype": dtype, "add": add, "bias": bias, "save_stats": save_stats, "base": base, "variance": variance}
    problem = LAYERNORM.problem(m=m, n=n, stride=max(n + more, 1), **keys)
    spec = LAYERNORM.spec(problem, GFX942)
    assert LAYERNORM.validate(spec, GFX942) == []
    assert Layernorm2dSpec.from_json(spec.to_json()) == spec
    assert spec.streamed == (n > 8192)
    assert spec.streamed or n <= spec.length < max(2 * n, 17)
    assert spec.pad_n == (n % spec.length != 0 or n == 0)
    assert spec.pad_m == (m % spec.rows != 0)
    size = 4 if dtype == "f32" else 2
    assert n % spec.align == 0 and (n + more) % spec.align == 0 and max(base, size) % (spec.align * size) == 0
    assert spec.elements * spec.row_lanes * spec.row_waves == spec.length
    launch = LAYERNORM.launch(problem, spec, GFX942)
    assert launch.is_empty == (m == 0 or (n == 0 and not save_stats))
    if launch.is_empty:
        return
    assert launch.grid[0] * spec.rows >= m > (launch.grid[0] - 1) * spec.rows
    names = [argument for argument in launch.arguments if isinstance(argument, str)]
    expected = ["x", *(["residual"] if add != "none" else []), *["bias"] * bias, "gamma", "beta", "y"]
    expected += ["sum"] * (add == "store") + ["mean", "inv_std"] * save_stats
    assert names == expected
    scalars = launch.arguments[len(names) :]
    assert [int(value) for value in scalars[:3]] == [m, n, max(n + more, 1)]
    assert len(scalars) == 3 + {"none": 1, "add": 2, "store": 3}[add] + 1
    assert scalars[-1] == np.float32(1e-5)


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"dtype": "fp8"}, "dtype", "f16|bf16|f32"),
        ({"add": "fused"}, "add", "none|add|store"),
        ({"variance": "kahan"}, "variance", "centred|welford|squares"),
        ({"out": "i8"}, "out", "nothing is quantised"),
        ({"length": 1000}, "length", "power of two"),
        ({"row_waves": 4, "length": 256}, "length", "multiple of 2048"),
        ({"length": 16384}, "length", "256 elements"),
        ({"vector": 16, "align": 16}, "align", "at most 8"),
        ({"vector": 8, "align": 4}, "vector", "aligned to 4"),
        ({"rows": 2}, "rows", "multiple of 4"),
        ({"base": 12}, "base", "power of two"),
        ({"row_waves": 32, "length": 16384}, "row_waves", "at most 16"),
    ],
)
def test_reasons(changes: dict[str, object], field: str, words: str) -> None:
    spec = replace(LAYERNORM.spec(LAYERNORM.problem(m=16, n=1024), GFX942), **changes)
    reasons = LAYERNORM.validate(spec, GFX942)
    assert field in [reason.field for reason in reasons]
    assert any(words in str(reason) for reason in reasons)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"n": -1}, "n=-1: expected a whole number from 0"),
        ({"n": 2**31 - 1}, "n=2147483647: expected at most 2147475455"),
        ({"base": 3}, "base=3: expected 1|2|4|8|16"),
        ({"out": "fp8"}, "out=fp8: nothing is quantised"),
        ({"rounding": "zero"}, "rounding=zero: nothing is quantised"),
        ({"keep_y": 1}, "keep_y=1: y is stored anyway"),
        ({"quant": "smooth", "out": "fp8", "rounding": "zero"}, "rounding=zero: 8-bit floats are rounded"),
        ({"stride": 10, "n": 11}, "stride=10: rows have n=11"),
        ({"residual_stride": 2000}, "residual_stride=2000: there is no array residual; expected add=add with it"),
        ({"sum_stride": 2000, "add": "add"}, "sum_stride=2000: there is no array sum; expected add=store with it"),
        ({"q_stride": 2000}, "q_stride=2000: there is no array q; expected quant=dynamic with it, or nothing"),
        ({"ystride": 2000, "quant": "smooth"}, "ystride=2000: there is no array y; expected quant=none with it"),
        ({"eps": -1}, "eps=-1: expected a finite number that f32 can hold, 0 or more"),
        ({"eps": "nan"}, "eps=nan"),
        ({"eps": 1e-60}, "eps=1e-60"),
        ({"save_stats": 2}, "save_stats=2: expected 0|1"),
        ({"add": "yes"}, "add=yes: expected none|add|store"),
    ],
)
def test_requests_that_are_refused(keys: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError) as error:
        LAYERNORM.problem(**keys)
    assert words in str(error.value)
