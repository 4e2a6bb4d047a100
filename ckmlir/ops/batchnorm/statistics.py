"""Batch normalisation in NumPy: what it gives in float64, and how far kernels may be from it.

u is f32's unit roundoff, w f64's, n the elements of a channel, S the mean of |x - first|² (`first` is the channel's
first element) and r = 1 / sqrt(variance + eps):

    mean      2 n w mean|x - first|, then a rounding to f32
    variance  4 n w S: sums of squares of a shifted sample (Chan, Golub, LeVeque, "Algorithms for computing the sample
              variance", 1983), in f64
    inv_std   r (variance error r² / 2 + 3 u), with v_rsq_f32 right to one ulp
    y         these errors, and the roundings of the mapping, carried through its expression (`tensors/rounding.py`)

Without eps a channel may be divided by what rounding leaves of its variance: nothing is promised of inv_std and y then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.batchnorm.batchnorm2d_sums import sums_error
from ckmlir.ops.batchnorm.images import Images, activated
from ckmlir.ops.batchnorm.problem import Batchnorm2dBwdProblem, Batchnorm2dProblem
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.precision import DENORMAL, UNIT, in_f32, may_overflow
from ckmlir.ops.tensors.expression import evaluate_exactly, parse
from ckmlir.ops.tensors.rounding import Bounded, bounded_error, output_tolerance
from ckmlir.targets import Target


class Found(NamedTuple):
    """An output in float64, and how far what is computed may be from it before it is rounded to its type; infinite
    where nothing is promised."""

    value: Array
    error: Array


def values(array: ArraySpec, generator: np.random.Generator) -> Array:
    """Inputs of either pass: numbers around a half; variances are positive, gamma is near 1."""
    found: Array = generator.standard_normal(array.shape, dtype=np.float32)
    made = {"gamma": 1 + found / 4, "beta": found / 4, "running_var": found**2 + 0.1, "inv_std": found**2 + 0.1}
    return made.get(array.name, found + 0.5)


def tolerance(found: Found, dtype: str, target: Target) -> Tolerance:
    """The tolerance of an output of a type."""
    return output_tolerance(np.broadcast_to(found.error, found.value.shape), dtype, "f64 sums, f32 arithmetic", target)


class Moments(NamedTuple):
    """Statistics of channels (c) with their errors in f64."""

    mean: Array
    mean_error: Array
    variance: Array
    variance_error: Array


def moments(images: Images, x: Array) -> Moments:
    """Of images; NaN for channels that are not numbers throughout."""
    if not images.count:
        return Moments(*(np.zeros(images.c) for _ in Moments._fields))
    channels = images.by_channel(x)
    channels = np.where(np.isfinite(channels).all(axis=1, keepdims=True), channels, np.nan)
    shifted = channels - channels[:, :1]
    mean = channels.mean(axis=1)
    variance = np.square(channels - mean[:, None]).mean(axis=1)
    mean_error = sums_error(images, np.abs(shifted).mean(axis=1))
    return Moments(mean, mean_error, variance, 2 * sums_error(images, np.square(shifted).mean(axis=1)))


def normalized(problem: Batchnorm2dProblem, arrays: Mapping[str, Array]) -> dict[str, Found]:
    """Every output of `batchnorm2d`."""
    with np.errstate(all="ignore"):
        found = moments(problem.images, arrays["x"])
        inv_std, relative = _inverse_root(found, problem.eps)
        outputs = {"y": _mapped(problem, arrays, found, inv_std, relative)}
        if problem.save_stats:
            outputs["mean"] = Found(found.mean, _known(found.mean_error, found.mean))
            outputs["inv_std"] = Found(inv_std, _known(relative * inv_std + DENORMAL, inv_std))
        if problem.running:
            unbiased = problem.images.count / (problem.images.count - 1)
            fresh = {
                "running_mean": (found.mean, found.mean_error),
                "running_var": (found.variance * unbiased, found.variance_error * unbiased),
            }
            for name, (statistic, off) in fresh.items():
                outputs[f"new_{name}"] = _moved(arrays[name], statistic, off, problem.momentum)
    return outputs


def _inverse_root(found: Moments, eps: float) -> tuple[Array, Array]:
    """1 / sqrt(variance + eps) of channels, and its relative error: infinite where rounding decides what it is."""
    total = found.variance + eps
    least = total - found.variance_error
    relative = np.where(found.variance_error == 0, 0.0, found.variance_error / (2 * np.where(least > 0, least, 0)))
    return 1 / np.sqrt(total), relative + 3 * UNIT


def _known(error: Array, value: Array) -> Array:
    """Errors; none where the value is NaN or infinite for sure."""
    return np.where(np.isfinite(value) | np.isinf(error), error, 0.0)


def _moved(before: Array, statistic: Array, off: Array, momentum: float) -> Found:
    """A running statistic, computed in f64 and rounded once."""
    wide = before.astype(np.float64) * (1 - momentum) + statistic * momentum
    free = may_overflow(wide, momentum * off)
    return Found(in_f32(wide), np.where(free, np.inf, _known(momentum * off, in_f32(wide))))


def _mapped(
    problem: Batchnorm2dProblem, arrays: Mapping[str, Array], found: Moments, inv_std: Array, relative: Array
) -> Found:
    """y: exact numbers of channels through the expression of the mapping, then the bounds of what kernels have."""
    images = problem.images
    size = np.sqrt(found.variance + found.mean**2 + problem.eps)
    usual = np.isfinite(size) & (size > 0) & problem.scaled
    exponent = np.clip(np.floor(np.log2(np.where(usual, size, 1.0))), -125, 127)
    factor = np.where(usual, 2.0 ** (1 - exponent), 1.0)
    middle = found.mean * factor
    gamma = arrays["gamma"].astype(np.float64)
    scale = inv_std / factor * gamma
    errors = {
        "factor": np.zeros_like(factor),
        "middle": _rounded(middle, found.mean_error * factor),
        "scale": _known((relative + UNIT) * np.abs(scale) + DENORMAL, scale),
    }
    exact = {"factor": factor, "middle": middle, "scale": scale, "beta": arrays["beta"].astype(np.float64)}
    given = {
        name: Bounded(images.repeated(one), images.repeated(errors.get(name, np.zeros_like(one))))
        for name, one in exact.items()
    }
    for name in ("x", "residual"):
        if name in arrays:
            given[name] = Bounded(arrays[name].astype(np.float64), np.zeros(images.shape))
    linear = parse(problem.linear, tuple(given))
    text = parse(activated("t", problem.activation), ("t",))
    value = np.asarray(evaluate_exactly(linear, {name: one.value for name, one in given.items()}))
    return Found(np.asarray(evaluate_exactly(text, {"t": value})), bounded_error(linear, given))  # no step is steeper


def gradients(problem: Batchnorm2dBwdProblem, arrays: Mapping[str, Array]) -> dict[str, Found]:
    """Every output of `batchnorm2d_bwd`.

    Sums are off by n additions in f64; what its own kernel makes of them is rounded to f32 once.
    """
    images = problem.images
    with np.errstate(all="ignore"):
        wide = {name: array.astype(np.float64) for name, array in arrays.items()}
        channels = {name: images.by_channel(wide[name]) for name in problem.sums.kind.images}
        dz = np.where(channels["y"] > 0, channels["dy"], 0.0) if problem.masked else channels["dy"]
        products = channels["dy"] * (channels["x"] - wide["mean"][:, None])
        products = np.where(channels["y"] > 0, products, 0.0) if problem.masked else products
        inv_std, share = wide["inv_std"], 1 / max(images.count, 1)
        dbeta, dgamma = dz.sum(axis=1), products.sum(axis=1) * inv_std
        off = {"dbeta": _sum_error(images, dz), "dgamma": _sum_error(images, products) * np.abs(inv_std)}
        made = {
            "scale": (wide["gamma"] * inv_std, np.zeros_like(dbeta)),
            "shift": (dbeta * share, off["dbeta"] * share),
            "slope": (dgamma * inv_std * share, off["dgamma"] * np.abs(inv_std) * share),
        }
        given = {
            name: Bounded(
                images.repeated(in_f32(value)),
                images.repeated(np.where(may_overflow(value, error), np.inf, _rounded(value, error))),
            )
            for name, (value, error) in made.items()
        }
        exact = {name: wide[name] for name in problem.sums.kind.images} | {"mean": images.repeated(wide["mean"])}
        given |= {name: Bounded(one, np.zeros(images.shape)) for name, one in exact.items()}
        text = parse(problem.text, tuple(given))
        twice = 0.0 if problem.params == "f32" else UNIT  # f64 becomes f32 before it becomes less
        dx = np.asarray(evaluate_exactly(text, {name: one.value for name, one in given.items()}))
        return {
            "dx": Found(dx, bounded_error(text, given)),
            "dgamma": Found(dgamma, _known(off["dgamma"] + twice * np.abs(dgamma), dgamma)),
            "dbeta": Found(dbeta, _known(off["dbeta"] + twice * np.abs(dbeta), dbeta)),
        }


def _sum_error(images: Images, terms: Array) -> Array:
    return sums_error(images, np.where(np.isfinite(terms), np.abs(terms), 0.0).sum(axis=1))


def _rounded(value: Array, error: Array) -> Array:
    """An error with that of rounding the value to f32."""
    return _known(error + UNIT * np.abs(value) + DENORMAL, value)
