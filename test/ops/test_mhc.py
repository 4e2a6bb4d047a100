"""Hyper-connections: coefficients and mixed streams against loops, kernels against references, tight bounds."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from operator_runner import CHIPS, agree, outcome

from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array, compare
from ckmlir.ops.mhc.kinds import MOST_STREAMS
from ckmlir.ops.request import RequestError
from ckmlir.runtime.run import check_outputs
from ckmlir.targets import get_target

MHC, COEFFICIENTS = find_operator("mhc"), find_operator("mhc_coefficients")
MIXES = {name: find_operator(name) for name in ("mhc_input", "mhc_post")}
GFX942 = get_target("gfx942")
FORMS: list[dict[str, Any]] = [
    {}, {"iterations": 0}, {"iterations": 3, "sinkhorn_eps": 0.0, "eps": 0.0}, {"form": "ck"},
    {"form": "ck", "alpha_pre": 0.5, "alpha_post": -2.0, "alpha_res": 3.0, "bias": 0.25, "eps": 0.1},
]  # fmt: skip
SIZES: list[dict[str, Any]] = [
    {"m": 1, "c": 1}, {"m": 33, "c": 63}, {"m": 64, "c": 256}, {"m": 5, "c": 1300, "streams": 2},
    {"m": 130, "c": 40, "streams": 8}, {"m": 17, "c": 77, "streams": 1}, {"m": 70, "c": 24, "streams": 7},
    {"m": 40, "c": 48, "streams": 6}, {"m": 300, "c": 130, "streams": 3},
]  # fmt: skip


def by_loops(keys: dict[str, Any], x: Array, phi: Array, alpha: Array, bias: Array) -> Array:
    """Coefficients of one row after another, phi being (n c, 2 n + n²)."""
    n = keys.get("streams", 4)
    y = np.zeros((len(x), 2 * n + n * n))
    for row in range(len(x)):
        square = sum(float(one) ** 2 for one in x[row])
        norm = math.sqrt(square / max(len(x[row]), 1) + keys.get("eps", 1e-6))
        norm = 1.0 if norm <= 1e-12 else norm
        for column in range(y.shape[1]):
            s = sum(float(a) * float(b) for a, b in zip(x[row], phi[:, column], strict=True))
            kind = 0 if column < n else 1 if column < 2 * n else 2
            factor = alpha[kind] / norm
            if keys.get("form") == "ck":
                y[row, column] = factor * (s if kind == 2 else (1 + kind) / (1 + math.exp(-s))) + bias[column]
            else:
                t = factor * s + bias[column]
                y[row, column] = t if kind == 2 else (1 + kind) / (1 + math.exp(-t))
        if keys.get("form") != "ck":
            t = y[row, 2 * n :].reshape(n, n).copy()
            res = [[math.exp(t[i, j] - max(t[i])) for j in range(n)] for i in range(n)]
            for _ in range(keys.get("iterations", 20)):
                for i in range(n):
                    total = sum(res[i]) + keys.get("sinkhorn_eps", 1e-6)
                    res[i] = [one / total for one in res[i]]
                for j in range(n):
                    total = sum(res[i][j] for i in range(n)) + keys.get("sinkhorn_eps", 1e-6)
                    for i in range(n):
                        res[i][j] /= total
            y[row, 2 * n :] = np.ravel(res)
    return y


@pytest.mark.parametrize("layout", ["RCR", "RRR"])
@pytest.mark.parametrize("keys", FORMS)
def test_the_reference(keys: dict[str, Any], layout: str) -> None:
    for streams, c, m in ((1, 3, 2), (3, 5, 4), (4, 8, 3), (2, 0, 2)):
        asked = {**keys, "m": m, "c": c, "streams": streams, "layout": layout}
        problem = MHC.problem(**asked, dtype="f32")
        arrays = MHC.inputs(problem, GFX942, seed=streams)
        phi = arrays["phi"] if layout == "RRR" else arrays["phi"].T
        alpha = arrays.get("alpha", [keys.get(f"alpha_{kind}", 1.0) for kind in ("pre", "post", "res")])
        bias = arrays.get("bias", np.full(2 * streams + streams**2, keys.get("bias", 0.0)))
        wanted = by_loops(asked, arrays["x"], phi, np.asarray(alpha), bias)
        np.testing.assert_allclose(MHC.reference(problem, arrays)["y"], wanted, rtol=1e-6, atol=1e-9)


def test_rows_and_columns_of_res_add_up_to_one() -> None:
    problem = MHC.problem(m=50, c=32, dtype="f32", iterations=60, sinkhorn_eps=0.0)
    res = MHC.reference(problem, MHC.inputs(problem, GFX942))["y"][:, 8:].reshape(-1, 4, 4)
    np.testing.assert_allclose(res.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(res.sum(axis=2), 1, atol=1e-6)


@pytest.mark.one_in(32)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("keys", FORMS)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_forms(dtype: str, keys: dict[str, Any], chip: str) -> None:
    for layout in ("RCR", "RRR"):
        outcome(MHC, chip, {"m": 50, "c": 72, "dtype": dtype, "layout": layout, **keys}, specified=True)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("keys", SIZES)
def test_sizes(keys: dict[str, Any], chip: str) -> None:
    for dtype in ("bf16", "f32"):
        agree("mhc", chip, dtype=dtype, **keys)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("streams", range(1, MOST_STREAMS + 1))
def test_streams(streams: int) -> None:
    for form in ("paper", "ck"):
        for keys in ({"parts": 1}, {"parts": 7, "ystride": 101}):
            outcome(COEFFICIENTS, "gfx942", {"m": 41, "streams": streams, "form": form, **keys}, specified=True)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "keys",
    [
        {"lda": 333, "ldb": 301, "ystride": 31}, {"split_k": 1}, {"split_k": 5, "layout": "RRR", "ldb": 40},
        {"block": "64x16x32", "ystride": 28}, {"block": "16x64x32", "layout": "RRR"},
    ],
)  # fmt: skip
def test_strides_parts_and_blocks(keys: dict[str, Any]) -> None:
    outcome(MHC, "gfx942", {"m": 70, "c": 75, **keys}, specified=True)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_rows_of_any_size(dtype: str) -> None:
    """Norms are each row's own: rows a thousand times as large, and zeros, whose norm counts as 1 without eps."""

    def scaled(problem: Any, arrays: dict[str, Array]) -> dict[str, Array]:
        factors = np.array([1e-3, 1, 1e3, 0], np.float32)[np.arange(problem.m) % 4, None]
        return {**arrays, "x": (arrays["x"] * factors).astype(arrays["x"].dtype)}

    for keys in ({}, {"form": "ck", "eps": 0.0}):
        outcome(MHC, "gfx942", {"m": 34, "c": 100, "dtype": dtype, **keys}, prepared=scaled, specified=True)


def test_what_is_not_finite() -> None:
    """NaN and infinities are their rows' alone."""

    def spoilt(problem: Any, arrays: dict[str, Array]) -> dict[str, Array]:
        x = arrays["x"].copy()
        x[3, 5], x[7, 100], x[9] = np.nan, np.inf, 1e25
        return {**arrays, "x": x}

    for form in ("paper", "ck"):
        found = outcome(MHC, "gfx942", {"m": 20, "c": 64, "dtype": "f32", "form": form}, prepared=spoilt)
        assert np.isnan(found.outputs["y"][3]).all()
        assert np.isfinite(np.delete(found.outputs["y"], (3, 7, 9), axis=0)).all()


def test_nan_leaves_bounds_of_its_row_as_they_are() -> None:
    """Without divisions NaN is one element's of res; the others of its row are as far off as ever."""
    problem = COEFFICIENTS.problem(m=3, iterations=0)
    arrays = COEFFICIENTS.inputs(problem, GFX942)
    sums = arrays["acc_parts"].copy()
    sums[0, 1, 9] = np.nan
    plain, spoilt = (
        COEFFICIENTS.tolerances(problem, one, COEFFICIENTS.reference(problem, one), GFX942)["y"]
        for one in (arrays, {**arrays, "acc_parts": sums})
    )
    found = np.asarray(spoilt.atol)
    np.testing.assert_array_equal(np.delete(found, range(8, 12), axis=1), np.delete(plain.atol, range(8, 12), axis=1))
    assert (found[1, [8, 10, 11]] > 0).all()


def test_factors_that_f32_rounds_to_zero() -> None:
    """Denormal factors, and those that become 0: of an infinite sum nothing is promised then."""

    def small(problem: Any, arrays: dict[str, Array]) -> dict[str, Array]:
        sums = arrays["acc_parts"].copy()
        sums[..., -1] = 1e15
        sums[0, 3, 1], sums[0, 4] = -np.inf, 1e30
        alpha = np.array([2.0**-126, -(2.0**-126), 2.0**-130], np.float32)
        return {**arrays, "acc_parts": sums, "alpha": alpha}

    found = outcome(COEFFICIENTS, "gfx942", {"m": 9, "parts": 2, "length": 4}, prepared=small)
    (comparison,) = check_outputs(COEFFICIENTS, found.problem, found.arrays, found.outputs, GFX942)
    assert comparison.unspecified == 1


def test_sigmoids_of_far_sums_have_bounds() -> None:
    """Sums so large that a sigmoid does not rise any more, which are off by more than its argument has room for."""

    def far(problem: Any, arrays: dict[str, Array]) -> dict[str, Array]:
        sums = arrays["acc_parts"] * np.float32(1e17)
        sums[0, 0, 0] = np.inf
        return {**arrays, "acc_parts": sums}

    outcome(COEFFICIENTS, "gfx942", {"m": 64, "parts": 63, "form": "ck"}, prepared=far, specified=True)


@pytest.mark.parametrize("form", ["paper", "ck"])
def test_sums_and_norms_that_pass_the_range_of_f32(form: str) -> None:
    """Of sums of which a part does nothing is promised, nor of res that is divided by them; a norm is infinite then."""

    def large(problem: Any, arrays: dict[str, Array]) -> dict[str, Array]:
        sums = arrays["acc_parts"].copy()
        sums[:2, 1, 1] = 3e38
        sums[2:, 1, 1] = -3e38
        sums[:, 4, 9] = sums[:, 1, 1]
        sums[:, 5, 24] = 3e38
        sums[0, 6, 24], sums[0, 6, 0] = 3e38, np.inf  # eps, which is as large, makes this norm infinite
        return {**arrays, "acc_parts": sums}

    keys = {"m": 9, "parts": 4, "length": 1, "form": form, "eps": 3e38}
    found = outcome(COEFFICIENTS, "gfx942", keys, prepared=large)
    (comparison,) = check_outputs(COEFFICIENTS, found.problem, found.arrays, found.outputs, GFX942)
    assert comparison.unspecified == 1 + (16 if form == "paper" else 1) + 24


def test_shares_that_f32_does_not_hold() -> None:
    """Where exponents of res lie too far apart nothing is promised of a row's res, and all of the rest."""

    def apart(problem: Any, arrays: dict[str, Array]) -> dict[str, Array]:
        return {**arrays, "bias": np.where(np.arange(24) == 12, 90, arrays["bias"]).astype(np.float32)}

    found = outcome(MHC, "gfx942", {"m": 9, "c": 64}, prepared=apart)
    (comparison,) = check_outputs(MHC, found.problem, found.arrays, found.outputs, GFX942)
    assert comparison.unspecified == 9 * 16


@pytest.mark.parametrize("form", ["paper", "ck"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_bounds_are_tight(form: str, dtype: str) -> None:
    """Results of sums, or of norms, that were rounded to 16 bits do not pass, nor those of one iteration less."""
    problem = MHC.problem(m=64, c=256, dtype=dtype, form=form, iterations=2)
    arrays = MHC.inputs(problem, GFX942)
    reference = MHC.reference(problem, arrays)
    tolerance = MHC.tolerances(problem, arrays, reference, GFX942)["y"]
    y = reference["y"]
    assert compare("y", y.astype(np.float32), y, tolerance).ok
    narrow = ml_dtypes.bfloat16 if dtype == "bf16" else np.float16
    assert not compare("y", y.astype(narrow).astype(np.float32), y, tolerance).ok
    x = arrays["x"].astype(np.float64)
    other = dict(arrays, x=(x * (1 + 2.0**-12)).astype(np.float32))
    assert not compare("y", MHC.reference(problem, other)["y"].astype(np.float32), y, tolerance).ok or form == "paper"
    if form == "paper":
        less = MHC.reference(MHC.problem(m=64, c=256, dtype=dtype, iterations=1), arrays)["y"]
        assert not compare("y", less.astype(np.float32), y, tolerance).ok


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"alpha_pre": 2.0}, "alpha_pre=2: form=paper takes arrays alpha and bias; expected form=ck"),
        ({"bias": 1.0}, "bias=1: form=paper takes arrays"),
        ({"ystride": 23}, "ystride=23: rows of y have 24 elements; expected at least that"),
        ({"lda": 5}, "lda=5: rows of array x have 256 elements"),
        ({"streams": 9}, "streams=9: expected a whole number from 1 to 8"),
        ({"eps": -1.0}, "eps=-1.0: expected a finite number that f32 can hold, 0 or more"),
        ({"ldb": 5, "layout": "RRR"}, "ldb=5: rows of array phi have 24 elements"),
        ({"m": 2**23}, "array x of shape 8388608x256 takes 4294967296 bytes"),
    ],
)
def test_what_is_refused(keys: dict[str, Any], text: str) -> None:
    with pytest.raises(RequestError, match=text):
        MHC.problem(**{"m": 9, "c": 64, **keys})


def test_squares_are_of_one_plain_product() -> None:
    from ckmlir.records import replace

    problem = find_operator("gemm").problem(m=64, n=64, k=64)
    spec = find_operator("gemm").spec(problem, GFX942)
    for fields in ({"beside": 4, "shuffled": 16}, {"beside": -1}, {"beside": 4, "dtype": "i8", "out": "i32"}):
        assert "beside" in {one.field for one in find_operator("gemm").validate(replace(spec, **fields), GFX942)}


@pytest.mark.parametrize("name", MIXES)
def test_the_reference_of_streams(name: str) -> None:
    n, c, m = 3, 5, 4
    problem = MIXES[name].problem(m=m, c=c, streams=n, dtype="f32")
    arrays = MIXES[name].inputs(problem, GFX942)
    x, weights = arrays["x"].reshape(m, n, c).astype(float), arrays["coefficients"].astype(float)
    pre, post, res = weights[:, :n], weights[:, n : 2 * n], weights[:, 2 * n :].reshape(m, n, n)
    wanted = np.zeros((m, n, c) if name == "mhc_post" else (m, 1, c))
    for row in range(m):
        for stream in range(wanted.shape[1]):
            for channel in range(c):
                if name == "mhc_input":
                    wanted[row, 0, channel] = sum(pre[row, i] * x[row, i, channel] for i in range(n))
                else:
                    mixed = sum(res[row, stream, j] * x[row, j, channel] for j in range(n))
                    wanted[row, stream, channel] = mixed + post[row, stream] * float(arrays["f"][row, channel])
    np.testing.assert_allclose(MIXES[name].reference(problem, arrays)["y"], wanted.reshape(m, -1), rtol=1e-12)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("name", MIXES)
def test_mixed_streams(name: str, dtype: str, chip: str) -> None:
    for keys in (
        {"m": 1, "c": 1}, {"m": 3, "c": 1280}, {"m": 5, "c": 601, "streams": 8}, {"m": 4, "c": 64, "streams": 1},
        {"m": 3, "c": 200, "streams": 3, "stride": 640, "ystride": 616, "coefficients_stride": 19},
    ):  # fmt: skip
        outcome(MIXES[name], chip, {"dtype": dtype, **keys}, specified=True)


@pytest.mark.parametrize("name", MIXES)
def test_products_that_are_denormal(name: str) -> None:
    """Each of them is rounded."""

    def small(problem: Any, arrays: dict[str, Array]) -> dict[str, Array]:
        least = np.float32(2.0**-139)
        return {name: one if name == "coefficients" else one * least for name, one in arrays.items()}

    outcome(MIXES[name], "gfx942", {"m": 9, "c": 64, "dtype": "f32"}, prepared=small, specified=True)


@pytest.mark.parametrize("name", MIXES)
def test_bounds_of_streams_are_tight(name: str) -> None:
    """Results whose coefficients, or whose sums, were rounded to 16 bits do not pass."""
    problem = MIXES[name].problem(m=8, c=512, dtype="f32")
    arrays = MIXES[name].inputs(problem, GFX942)
    reference = MIXES[name].reference(problem, arrays)
    tolerance = MIXES[name].tolerances(problem, arrays, reference, GFX942)["y"]
    assert compare("y", reference["y"].astype(np.float32), reference["y"], tolerance).ok
    other = {**arrays, "coefficients": arrays["coefficients"].astype(np.float16).astype(np.float32)}
    rounded = MIXES[name].reference(problem, other)["y"]
    assert not compare("y", rounded.astype(np.float32), reference["y"], tolerance).ok
    assert not compare("y", reference["y"].astype(np.float16).astype(np.float32), reference["y"], tolerance).ok


@pytest.mark.parametrize(
    ("name", "keys", "text"),
    [
        ("mhc_input", {"stride": 255}, "stride=255: a row has 256 elements; expected at least that"),
        ("mhc_post", {"fstride": 63}, "fstride=63: a row has 64 elements"),
        ("mhc_post", {"coefficients_stride": 23}, "coefficients_stride=23: a row has 24 elements"),
        ("mhc_post", {"ystride": 64}, "ystride=64: a row has 256 elements"),
        ("mhc_input", {"fstride": 64}, "fstride=64: unknown key"),
        ("mhc_post", {"c": 2**30}, "a row has 4294967296 elements; kernels count to"),
        ("mhc_input", {"m": 2**30, "c": 2**16}, "a launch has at most 2147483647 tiles of rows"),
    ],
)
def test_what_is_refused_of_streams(name: str, keys: dict[str, Any], text: str) -> None:
    with pytest.raises(RequestError, match=text):
        MIXES[name].problem(**{"m": 9, "c": 64, **keys})


def test_a_kernel_of_streams_covers_what_is_better_aligned() -> None:
    operator = MIXES["mhc_input"]
    narrow, wide = (operator.problem(m=9, c=c) for c in (100, 128))
    spec = operator.spec(narrow, GFX942)
    assert spec.align == 4 and not operator.mismatches(wide, spec, GFX942)
    assert [one.field for one in operator.mismatches(narrow, operator.spec(wide, GFX942), GFX942)] == ["align"]
    assert operator.spec(operator.problem(c=7168), GFX942).waves == 2  # 1024 channels divide them
