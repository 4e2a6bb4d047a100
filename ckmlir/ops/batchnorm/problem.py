"""What requests of batch normalisation for training and of its gradients come to."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from ckmlir.ops.batchnorm.batchnorm2d_sums import SumsProblem
from ckmlir.ops.batchnorm.images import Images, activated
from ckmlir.ops.tensors.arrays import Operand
from ckmlir.ops.tensors.mapping import MapProblem

RUNNING = ("running_mean", "running_var")
STATISTICS = ("mean", "inv_std")
MASK = "where(y > 0, dy, 0)"
BETWEEN = ("scale", "shift", "slope")
"""What its own kernel leaves for the mapping."""


class Batchnorm2dProblem(Struct, frozen=True, dict=True):
    """Images to normalise.

    Attributes:
        dtype, out, params: of x and residual, of y, of gamma and beta.
        stride, ystride, residual_stride: see `images.py`.
    """

    images: Images
    dtype: str
    out: str
    params: str
    stride: int
    ystride: int
    residual_stride: int
    eps: float
    activation: str
    residual: bool
    save_stats: bool
    running: bool
    momentum: float

    @cached_property
    def sums(self) -> SumsProblem:
        """The first step, of one part."""
        return SumsProblem(self.images, "moments", (self.dtype,), (self.stride,), 1)

    @property
    def scaled(self) -> bool:
        """Whether f32 may not hold squares of x, or differences of its elements."""
        return self.dtype != "f16"

    @property
    def between(self) -> tuple[str, ...]:
        """What its own kernel leaves for the mapping: factors of x, what is taken off, what that is multiplied by."""
        return ("factor", "middle", "scale") if self.scaled else ("middle", "scale")

    @cached_property
    def mapping(self) -> MapProblem:
        """The last step."""
        images = self.images
        inputs = [images.images("x", self.dtype, self.stride)]
        inputs += [images.channels(name, "f32") for name in self.between]
        inputs.append(images.channels("beta", self.params))
        if self.residual:
            inputs.append(images.images("residual", self.dtype, self.residual_stride))
        y = images.images("y", self.out, self.ystride)
        return MapProblem(images.shape, tuple(inputs), y, activated(self.linear, self.activation), images.align)

    @property
    def linear(self) -> str:
        """What the mapping computes before the activation."""
        scaled = "x * factor - middle" if self.scaled else "x - middle"
        return f"({scaled}) * scale + beta" + " + residual" * self.residual

    @cached_property
    def operands(self) -> tuple[tuple[Operand, str], ...]:
        """The arrays and their roles."""
        images = self.images
        more = [images.images("residual", self.dtype, self.residual_stride)] if self.residual else []
        running = [images.channels(name, "f32") for name in RUNNING] if self.running else []
        inputs = [
            images.images("x", self.dtype, self.stride), *more,
            *(images.channels(name, self.params) for name in ("gamma", "beta")), *running,
        ]  # fmt: skip
        saved = [images.channels(name, "f32") for name in STATISTICS] if self.save_stats else []
        new = [images.channels(f"new_{name}", "f32") for name in RUNNING] if self.running else []
        outputs = [images.images("y", self.out, self.ystride), *saved, *new]
        return (*((one, "in") for one in inputs), *((one, "out") for one in outputs))


class Batchnorm2dBwdProblem(Struct, frozen=True, dict=True):
    """Gradients to compute.

    Attributes:
        dtype, dy_dtype, params: of x, y and dx, of dy, of gamma and its gradients.
        stride, dy_stride, ystride, dx_stride: see `images.py`.
        statistics: batch, those of the images, or given, which do not depend on them.
    """

    images: Images
    dtype: str
    dy_dtype: str
    params: str
    activation: str
    stride: int
    dy_stride: int
    ystride: int
    dx_stride: int
    statistics: str

    @property
    def masked(self) -> bool:
        return self.activation == "relu"

    @cached_property
    def sums(self) -> SumsProblem:
        """The first step, of one part."""
        arrays = [(self.dtype, self.stride), (self.dy_dtype, self.dy_stride), (self.dtype, self.ystride)]
        kind = "masked_gradients" if self.masked else "gradients"
        dtypes, pitches = zip(*(arrays if self.masked else arrays[:2]), strict=True)
        return SumsProblem(self.images, kind, dtypes, pitches, 1)

    @property
    def text(self) -> str:
        """dx as an expression."""
        dz = MASK if self.masked else "dy"
        return f"scale * {dz}" if self.statistics == "given" else f"scale * (({dz} - shift) - (x - mean) * slope)"

    @cached_property
    def mapping(self) -> MapProblem:
        """The last step."""
        inputs = [*self.sums.operands, *(self.images.channels(name, "f32") for name in ("mean", *BETWEEN))]
        if self.statistics == "given":
            inputs = [one for one in inputs if one.name in ("dy", "y", "scale")]
        dx = self.images.images("dx", self.dtype, self.dx_stride)
        return MapProblem(self.images.shape, tuple(inputs), dx, self.text, self.images.align)

    @cached_property
    def operands(self) -> tuple[tuple[Operand, str], ...]:
        """The arrays and their roles."""
        images = self.images
        inputs = [
            *self.sums.operands,
            *(images.channels(name, "f32") for name in ("mean", "inv_std")), images.channels("gamma", self.params),
        ]  # fmt: skip
        outputs = [
            images.images("dx", self.dtype, self.dx_stride),
            *(images.channels(name, self.params) for name in ("dgamma", "dbeta")),
        ]
        return (*((one, "in") for one in inputs), *((one, "out") for one in outputs))
