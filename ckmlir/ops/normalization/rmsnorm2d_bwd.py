"""rmsnorm2d_bwd: the gradients of `rmsnorm2d` from dy, x and what the forward pass saved; see `norm_bwd.py`.

    xhat = x inv_rms
    g    = dy gamma
    dx   = inv_rms (g - xhat mean of g xhat), plus dsum with add=1

Arrays: x; dy; dsum with add=1; gamma (n); inv_rms (m, f32); dx; dgamma (n).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ckmlir.ops.normalization.norm_bwd import NormBwd, NormBwdOptions, NormBwdSpec


class Rmsnorm2dBwdOptions(NormBwdOptions):
    """Choices of the gradients of an RMS normalisation."""

    statistics: ClassVar[tuple[str, ...]] = ("inv_rms",)
    summands: ClassVar[Mapping[str, str]] = {"dgamma": "dy * xhat"}


class Rmsnorm2dBwdSpec(Rmsnorm2dBwdOptions, NormBwdSpec):
    """What an rmsnorm2d_bwd kernel's code depends on."""

    kernel: ClassVar[str] = "rmsnorm2d_bwd"


class Rmsnorm2dBwd(NormBwd[Rmsnorm2dBwdOptions, Rmsnorm2dBwdSpec]):
    """The operator `rmsnorm2d_bwd`, which the module's docstring describes."""

    name = "rmsnorm2d_bwd"
    spec_type = Rmsnorm2dBwdSpec
    options_type = Rmsnorm2dBwdOptions
    normalized = "x * inv_rms"


OPERATOR = Rmsnorm2dBwd()
