"""layernorm2d_bwd: the gradients of `layernorm2d` from dy, x and what the forward pass saved; see `norm_bwd.py`.

    xhat = (x - mean) inv_std
    g    = dy gamma
    dx   = inv_std (g - mean of g - xhat mean of g xhat), plus dsum with add=1

Arrays: x; dy; dsum with add=1; gamma (n); mean and inv_std (m, f32); dx; dgamma and dbeta (n).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ckmlir.ops.normalization.norm_bwd import NormBwd, NormBwdOptions, NormBwdSpec


class Layernorm2dBwdOptions(NormBwdOptions):
    """Choices of the gradients of a layer normalisation."""

    statistics: ClassVar[tuple[str, ...]] = ("mean", "inv_std")
    summands: ClassVar[Mapping[str, str]] = {"dgamma": "dy * xhat", "dbeta": "dy"}


class Layernorm2dBwdSpec(Layernorm2dBwdOptions, NormBwdSpec):
    """What a layernorm2d_bwd kernel's code depends on."""

    kernel: ClassVar[str] = "layernorm2d_bwd"


class Layernorm2dBwd(NormBwd[Layernorm2dBwdOptions, Layernorm2dBwdSpec]):
    """The operator `layernorm2d_bwd`, which the module's docstring describes."""

    name = "layernorm2d_bwd"
    spec_type = Layernorm2dBwdSpec
    options_type = Layernorm2dBwdOptions
    normalized = "(x - mean) * inv_std"


OPERATOR = Layernorm2dBwd()
