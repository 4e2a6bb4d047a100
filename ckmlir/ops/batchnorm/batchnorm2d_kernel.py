"""The kernel of `batchnorm2d` that makes statistics of sums, and what x is multiplied by."""

from __future__ import annotations

from ckmlir.lang import Kernel, Tile, cast, each_element, f32, f64, i32, rsqrt, where
from ckmlir.lang.kernel import Argument
from ckmlir.lang.values import Scalar
from ckmlir.ops.batchnorm.batchnorm2d import Batchnorm2dSpec
from ckmlir.ops.batchnorm.channels_kernel import Channels, channels_kernel
from ckmlir.ops.normalization.scaled_rows_kernel import factor_of_mean_square, not_a_number_unless_finite
from ckmlir.ops.request import LEAST_NORMAL_F32
from ckmlir.targets import Target


def build(spec: Batchnorm2dSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    numbers: dict[str, Argument] = {"first_step": i32, "share": f64, "eps": f32, "wide_eps": f64}
    if spec.running:
        numbers |= {"kept": f64, "momentum": f64, "unbiased": f64}

    def body(channels: Channels) -> None:
        given = channels.given
        apart, squares = (total * given.share for total in channels.totals())
        mean = cast(channels.load("x", given.first_step), "f64") + apart
        variance = squares - apart * apart
        variance = where(variance < 0.0, 0.0, variance)  # NaN stays
        mean = mean + not_a_number_unless_finite(variance)
        inverse, inv_std = (_scaled if spec.scaled else _plain)(channels, mean, variance)
        channels.store(inverse * cast(channels.load("gamma"), "f32"), "scale")
        if spec.save_stats:
            channels.store(mean, "mean")
            channels.store(inv_std, "inv_std")
        if spec.running:
            for name, fresh in (("running_mean", mean), ("running_var", variance * given.unbiased)):
                before = cast(channels.load(name), "f64")
                channels.store(before * given.kept + fresh * given.momentum, f"new_{name}")

    return channels_kernel(spec, target, spec.arrays(), numbers, body)


def _plain(channels: Channels, mean: Tile, variance: Tile) -> tuple[Tile, Tile]:
    """1 / sqrt(variance + eps), twice; the mean is what is taken off x."""
    channels.store(mean, "middle")
    eps = channels.given.eps
    inverse = each_element(lambda one: _inverse_root(one.to("f32"), eps), variance)
    return inverse, inverse


def _scaled(channels: Channels, mean: Tile, variance: Tile) -> tuple[Tile, Tile]:
    """1 / sqrt(variance + eps) of x times a factor that brings the root of its mean square to [2, 4); and of x."""
    given = channels.given
    factor = each_element(lambda a, b: factor_of_mean_square(a * a + b + given.wide_eps), mean, variance)
    # Not zero unless eps is: a channel of equal large elements has no variance, and still is not a reason for NaN.
    least: Scalar = given.eps.minimum(LEAST_NORMAL_F32)

    def inverse_root(square: Scalar, factor: Scalar) -> Scalar:
        wide = factor.to("f64")
        return _inverse_root((square * wide * wide).to("f32"), (given.eps * factor * factor).maximum(least))

    inverse = each_element(inverse_root, variance, factor)
    channels.store(factor, "factor")
    channels.store(mean * cast(factor, "f64"), "middle")
    return inverse, where(variance.equals(0.0), rsqrt(given.eps), inverse * factor)


def _inverse_root(square: Scalar, eps: Scalar) -> Scalar:
    inverse: Scalar = rsqrt(square + eps) + not_a_number_unless_finite(square)
    return inverse
