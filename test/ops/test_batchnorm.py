"""Batch normalisation: references against loops, kernels against references, statistics of any magnitude, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from operator_runner import CHIPS, agree, outcome, watching

from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array, compare
from ckmlir.ops.request import RequestError
from ckmlir.runtime.run import check_outputs
from ckmlir.targets import get_target

FORWARD, INFER, BACKWARD, SUMS = (
    find_operator(name) for name in ("batchnorm2d", "batchnorm2d_infer", "batchnorm2d_bwd", "batchnorm2d_sums")
)
GFX942 = get_target("gfx942")
DTYPES = ("f16", "bf16", "f32")
SIZES: list[dict[str, Any]] = [
    {"n": 1, "c": 1, "hw": 2}, {"n": 3, "c": 5, "hw": 49}, {"n": 2, "c": 64, "hw": 300}, {"n": 40, "c": 130, "hw": 7},
    {"n": 2, "c": 9, "hw": 4100}, {"n": 70, "c": 3, "hw": 1}, {"n": 5, "c": 256, "hw": 64},
]  # fmt: skip


def by_loops(keys: dict[str, Any], a: dict[str, Array]) -> dict[str, Array]:
    """The forward pass of one channel after another, of arrays (n, c, hw)."""
    n, c, hw = a["x"].shape
    eps, momentum = keys.get("eps", 1e-5), keys.get("momentum", 0.1)
    y, others = np.zeros((n, c, hw)), {name: np.zeros(c) for name in ("mean", "inv_std", "new_mean", "new_var")}
    for channel in range(c):
        x = [float(one) for one in a["x"][:, channel].ravel()]
        mean = math.fsum(x) / len(x)
        variance = math.fsum((one - mean) ** 2 for one in x) / len(x)
        inv_std = 1 / math.sqrt(variance + eps)
        found = [(one - mean) * inv_std * float(a["gamma"][channel]) + float(a["beta"][channel]) for one in x]
        y[:, channel] = np.reshape(found, (n, hw))
        others["mean"][channel], others["inv_std"][channel] = mean, inv_std
        unbiased = variance * len(x) / (len(x) - 1)
        for name, one, before in (("new_mean", mean, "running_mean"), ("new_var", unbiased, "running_var")):
            others[name][channel] = (1 - momentum) * float(a[before][channel]) + momentum * one
    y = y + a.get("residual", 0.0)
    return {"y": np.maximum(y, 0) if keys.get("activation") == "relu" else y, **others}


def channels_first(keys: dict[str, Any], array: Array) -> Array:
    """An array of images as (n, c, hw)."""
    n, c, hw = keys["n"], keys["c"], keys["hw"]
    wide = np.asarray(array).astype(np.float64)
    return wide.reshape(n, hw, c).transpose(0, 2, 1) if keys.get("layout") != "nchw" else wide


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("more", [{}, {"activation": "relu", "residual": 1, "eps": 0.25, "momentum": 0.75}])
def test_the_reference(more: dict[str, Any], layout: str) -> None:
    keys = {"n": 3, "c": 4, "hw": 5, "layout": layout, "dtype": "f32", "running": 1, **more}
    problem = FORWARD.problem(**keys)
    arrays = FORWARD.inputs(problem, GFX942, seed=1)
    moved = {name: channels_first(keys, one) if one.ndim > 1 else one for name, one in arrays.items()}
    wanted = by_loops(keys, moved)
    found = FORWARD.reference(problem, arrays)
    np.testing.assert_allclose(channels_first(keys, found["y"]), wanted["y"], rtol=1e-9, atol=1e-12)
    for name, own in (("mean", "mean"), ("inv_std", "inv_std"), ("new_running_mean", "new_mean"),
                      ("new_running_var", "new_var")):  # fmt: skip
        np.testing.assert_allclose(found[name], wanted[own], rtol=1e-9)


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("statistics", ["batch", "given"])
@pytest.mark.parametrize("activation", ["none", "relu"])
def test_gradients_are_differences_of_the_reference(activation: str, statistics: str, layout: str) -> None:
    """Of the sum of y times fixed weights, by each element of x, gamma and beta."""
    keys = {"n": 2, "c": 3, "hw": 4, "layout": layout, "dtype": "f32", "activation": activation}
    operator = FORWARD if statistics == "batch" else INFER
    problem, step = operator.problem(**keys), 1e-6
    arrays = {name: one.astype(np.float64) for name, one in operator.inputs(problem, GFX942, seed=2).items()}
    forward = operator.reference(problem, arrays)
    if statistics == "given":
        forward |= {"mean": arrays["running_mean"], "inv_std": 1 / np.sqrt(arrays["running_var"] + 1e-5)}
    dy = np.random.default_rng(3).standard_normal(forward["y"].shape)

    def loss(changed: dict[str, Array]) -> float:
        found: float = (operator.reference(problem, changed)["y"] * dy).sum()
        return found

    given = {**arrays, **forward, "dy": dy}
    own = BACKWARD.problem(**keys, statistics=statistics)
    found = BACKWARD.reference(own, {one.name: given[one.name] for one in BACKWARD.arrays(own) if one.role == "in"})
    for name in ("x", "gamma", "beta"):
        for place in np.ndindex(arrays[name].shape):
            ends = []
            for sign in (1, -1):
                moved = arrays[name].copy()
                moved[place] += sign * step
                ends.append(loss({**arrays, name: moved}))
            # inv_std is f32's in the forward pass alone: here both are float64
            assert found[f"d{name}"][place] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-6)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("keys", SIZES)
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_sizes(layout: str, keys: dict[str, Any], chip: str) -> None:
    dtype = DTYPES[(SIZES.index(keys) + CHIPS.index(chip) + (layout == "nchw")) % 3]
    agree("batchnorm2d", chip, dtype=dtype, layout=layout, running=1, **keys)
    agree("batchnorm2d_infer", chip, dtype=dtype, layout=layout, **keys)
    agree("batchnorm2d_bwd", chip, dtype=dtype, layout=layout, **keys)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("empty", ["n", "hw", "c"])
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_sizes_of_zero(layout: str, empty: str) -> None:
    """Sums of nothing are zeros."""
    size = {"n": 2, "c": 5, "hw": 3, "layout": layout, empty: 0}
    for name in ("batchnorm2d", "batchnorm2d_infer", "batchnorm2d_bwd", "batchnorm2d_sums"):
        agree(name, "gfx942", **size)


@pytest.mark.one_in(36)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_choices(layout: str, dtype: str, chip: str) -> None:
    size = {"n": 2, "c": 40, "hw": 21, "layout": layout, "dtype": dtype}
    relu = {"activation": "relu", "params": "f32"}
    row = 40 if layout == "nhwc" else 40 * 21
    strides = {"stride": row + 8, "ystride": row + 3}
    more = {"residual": 1, "residual_stride": row + 1, "save_stats": 0, "out": "f32", **relu, **strides}
    outcome(FORWARD, chip, {**size, **more}, specified=True)
    outcome(INFER, chip, {**size, "residual": 1, **relu, **strides}, specified=True)
    outcome(BACKWARD, chip, {**size, **relu, **strides, "dy_dtype": "f32", "dx_stride": row + 5}, specified=True)
    outcome(BACKWARD, chip, {**size, **relu, **strides, "statistics": "given"}, specified=True)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [{}, {"layout": "nchw"}])
def test_parts_have_one_order(keys: dict[str, Any]) -> None:
    """Any number of workgroups gives sums of the same elements; the same number the same bits."""
    device, size = watching("gfx942"), {"n": 5, "c": 4, "hw": 9, "dtype": "bf16", **keys}
    size = {**size, "n": 150} if not keys else {**size, "n": 40, "hw": 40}
    whole = outcome(SUMS, "gfx942", {**size, "split": 1}, device=device).outputs
    parts, again = (outcome(SUMS, "gfx942", {**size, "split": 1000}, device=device).outputs for _ in range(2))
    assert len(parts["sums"]) > 1
    for name, sums in parts.items():
        np.testing.assert_allclose(sums.sum(axis=0), whole[name][0], rtol=1e-12, atol=1e-12)
        assert np.array_equal(sums, again[name])


@pytest.mark.parametrize("of", ["moments", "gradients", "masked_gradients"])
def test_sums_beyond_f32(of: str) -> None:
    def scaled(problem: Any, arrays: dict[str, Array]) -> dict[str, Array]:
        return {name: one * np.float32(1e30) for name, one in arrays.items()}

    keys = {"of": of, "n": 2, "c": 5, "hw": 9, "dtype": "f32"}
    found = outcome(SUMS, "gfx942", keys, prepared=scaled, specified=True)
    assert np.isfinite(found.outputs["products"]).all()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", DTYPES)
def test_channels_of_any_magnitude(dtype: str) -> None:
    """Channels far from zero, near f32's ends, of equal elements, and of zeros; inv_std is that of each."""
    large, far = (1e3, 2000.0) if dtype == "f16" else (1e20, 1e5)

    def scaled(problem: Any, arrays: dict[str, Array]) -> dict[str, Array]:
        x = arrays["x"].astype(np.float64)
        x[:, 0] *= large
        x[:, 1] = x[:, 1] * far / 100 + far
        x[:, 2], x[:, 3] = far, 0.0
        x[:, 4] *= 1e-7 if dtype == "f16" else 1e-36
        if dtype != "f16":
            x[:, 5] = np.where(np.arange(len(x)) % 2, 3e38, -3e38)
        return {**arrays, "x": x.astype(arrays["x"].dtype)}

    keys = {"n": 4, "c": 6, "hw": 25, "dtype": dtype, "params": "f32"}
    found = outcome(FORWARD, "gfx942", keys, prepared=scaled, specified=True)
    y = found.outputs["y"][:, 2:4]
    assert (y == found.arrays["beta"][2:4].astype(y.dtype)).all()
    np.testing.assert_allclose(found.outputs["inv_std"][2:4], 1 / math.sqrt(1e-5), rtol=1e-6)
    outcome(FORWARD, "gfx942", {**keys, "eps": 0.0}, prepared=scaled)


def test_a_mean_far_from_zero_costs_the_variance_nothing() -> None:
    """A mean 10^5 standard deviations away: squares of x would leave f64 six digits, those in f32 none."""

    def far(problem: Any, arrays: dict[str, Array]) -> dict[str, Array]:
        steps = np.round(arrays["x"].astype(np.float64) * 16) / 16
        return {**arrays, "x": (1e5 + steps).astype(np.float32)}

    keys = {"n": 2, "c": 8, "hw": 200, "dtype": "f32", "eps": 0.0}
    found = outcome(FORWARD, "gfx942", keys, prepared=far, specified=True)
    wanted = 1 / found.arrays["x"].astype(np.float64).std(axis=0)
    np.testing.assert_allclose(found.outputs["inv_std"], wanted, rtol=3e-7)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("keys", [{}, {"layout": "nchw", "activation": "relu"}])
def test_what_is_not_finite(keys: dict[str, Any]) -> None:
    """NaN and infinities, the first of a channel among them, are all that comes of their channels, and of no others."""

    def spoilt(problem: Any, arrays: dict[str, Array]) -> dict[str, Array]:
        x = arrays["x"].copy()
        channel = (slice(None),) if problem.images.last else ()
        for where, place, value in ((0, (0, 0), np.nan), (2, (1, 3), np.inf), (3, (0, 0), -np.inf)):
            if channel:
                x[place[0] * 30 + place[1], where] = value
            else:
                x[place[0], where, place[1]] = value
        return {**arrays, "x": x}

    for dtype in ("f16", "f32"):
        asked = {"n": 2, "c": 5, "hw": 30, "running": 1, "dtype": dtype, **keys}
        found = outcome(FORWARD, "gfx942", asked, prepared=spoilt, specified=True).outputs
        bad = np.array([True, False, True, True, False])
        for name in ("mean", "inv_std", "new_running_mean", "new_running_var"):
            assert np.array_equal(np.isnan(found[name]), bad)
        assert np.array_equal(np.isnan(np.moveaxis(found["y"], 1, 0).reshape(5, -1)).all(axis=1), bad)
        assert np.array_equal(np.isnan(np.moveaxis(found["y"], 1, 0).reshape(5, -1)).any(axis=1), bad)


def test_bounds_are_tight() -> None:
    """Statistics in f16's or f32's squares, a biased running variance and truncation do not pass."""
    keys = {"n": 2, "c": 32, "hw": 200, "dtype": "bf16", "running": 1}
    found = outcome(FORWARD, "gfx942", keys, prepared=lambda _, a: {**a, "x": (a["x"] + 9).astype(a["x"].dtype)})
    problem, arrays = found.problem, found.arrays
    reference = FORWARD.reference(problem, arrays)
    bounds = FORWARD.tolerances(problem, arrays, reference, GFX942)
    x = arrays["x"].astype(np.float32)
    mean = x.mean(axis=0, dtype=np.float32)
    squares = (x * x).mean(axis=0, dtype=np.float32) - mean * mean
    wrong: dict[str, Callable[[], Array]] = {
        "inv_std": lambda: 1 / np.sqrt(squares + np.float32(1e-5)),
        "new_running_var": lambda: 0.9 * arrays["running_var"] + 0.1 * x.astype(np.float64).var(axis=0),
        "mean": lambda: mean.astype(ml_dtypes.bfloat16),
        "y": lambda: (reference["y"].astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32),
    }
    for name, made in wrong.items():
        assert compare(name, found.outputs[name], reference[name], bounds[name]).ok
        assert not compare(name, np.asarray(made()), reference[name], bounds[name]).ok, name


def test_wrong_gradients_do_not_pass() -> None:
    """Without the terms that the statistics add, and with a mask by x."""
    keys = {"n": 2, "c": 16, "hw": 100, "dtype": "f32", "activation": "relu"}
    found = outcome(BACKWARD, "gfx942", keys, specified=True)
    arrays = found.arrays
    plain = {"dx": arrays["gamma"] * arrays["inv_std"] * np.where(arrays["y"] > 0, arrays["dy"], 0)}
    mask = arrays["x"] > 0
    other = {"dbeta": np.where(mask, arrays["dy"], 0).sum(axis=0)}
    for wrong in (plain, other):
        changed = {**found.outputs, **{name: one.astype(np.float32) for name, one in wrong.items()}}
        comparisons = check_outputs(BACKWARD, found.problem, arrays, changed, GFX942)
        assert [one.name for one in comparisons if not one.ok] == list(wrong)


@pytest.mark.parametrize(
    ("operator", "keys", "words"),
    [
        (FORWARD, {"running": 1, "n": 1, "hw": 1}, "running=1: a channel of n hw=1 elements has no unbiased variance"),
        (FORWARD, {"momentum": 1.5}, "momentum=1.5: expected a number from 0 to 1"),
        (FORWARD, {"residual_stride": 64}, "residual_stride=64: there is no residual; expected residual=1 with it"),
        (INFER, {"residual_stride": 64}, "residual_stride=64: there is no residual"),
        (FORWARD, {"stride": 63}, "stride=63: rows have c=64 elements; expected at least that"),
        (INFER, {"ystride": 100, "layout": "nchw", "hw": 2}, "ystride=100: images have c hw=128 elements"),
        (FORWARD, {"activation": "gelu"}, "activation=gelu: expected none|relu"),
        (FORWARD, {"eps": -1}, "eps=-1"),
        (FORWARD, {"n": 2**20, "hw": 2**20}, "a channel has 1099511627776 elements; kernels count to"),
        (BACKWARD, {"ystride": 64}, "ystride=64: y is not read; expected activation=relu with it"),
        (SUMS, {"dy_stride": 64}, "dy_stride=64: of=moments has no array dy"),
        (SUMS, {"y_dtype": "f16", "of": "gradients"}, "y_dtype=f16: of=gradients has no array y"),
        (SUMS, {"stride": 2**22, "n": 64, "split": 1}, "split=1: a part spans more than 2 GiB; expected at least"),
        (SUMS, {"of": "gradients", "dy_stride": 2**28, "n": 64}, "32 rows of dy would span 2 GiB; expected at most"),
        (SUMS, {"c": 1030, "hw": 2**20, "n": 1, "layout": "nchw"}, "stride=1080033280: 1 image of x would span 2 GiB"),
        (BACKWARD, {"n": 0, "c": 2**30 - 1}, "c=1073741823: 16777216 workgroups; one launch takes 16777215"),
        (FORWARD, {"dtype": "f32", "align": 2}, "align=2: elements of x have 4 bytes; expected a multiple"),
    ],
)  # fmt: skip
def test_refusals(operator: Any, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=f"^{operator.name}: ") as refused:
        operator.problem(**keys)
    assert words in str(refused.value)
