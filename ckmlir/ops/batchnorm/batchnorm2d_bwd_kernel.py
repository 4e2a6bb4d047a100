"""The kernel of `batchnorm2d_bwd` that makes gradients of channels, and what dx takes of them."""

from __future__ import annotations

from ckmlir.lang import Kernel, cast, f64
from ckmlir.ops.batchnorm.batchnorm2d_bwd import Batchnorm2dBwdSpec
from ckmlir.ops.batchnorm.channels_kernel import Channels, channels_kernel
from ckmlir.targets import Target


def build(spec: Batchnorm2dBwdSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    def body(channels: Channels) -> None:
        share = channels.given.share
        total, product = channels.totals()
        inv_std, gamma = (cast(channels.load(name), "f64") for name in ("inv_std", "gamma"))
        dgamma = product * inv_std
        channels.store(gamma * inv_std, "scale")
        channels.store(total * share, "shift")
        channels.store(dgamma * inv_std * share, "slope")
        channels.store(dgamma, "dgamma")
        channels.store(total, "dbeta")

    return channels_kernel(spec, target, spec.arrays(), {"share": f64}, body)
