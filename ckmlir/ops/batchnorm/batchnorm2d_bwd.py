"""batchnorm2d_bwd: the gradients of `batchnorm2d` from dy, x and what the forward pass saved.

    dz     = dy, with activation=relu only where y > 0
    dbeta  = sum dz
    dgamma = sum dz (x - mean) inv_std
    dx     = gamma inv_std (dz - dbeta / n - (x - mean) inv_std dgamma / n)

channel by channel, over its n places of all images. dz is also the gradient of a residual. With statistics=given, such
as running ones, mean and inv_std do not depend on x, and dx = gamma inv_std dz.

Sums are f64 and finite for all that f32 holds; dx is f32, so nothing is promised where x - mean passes its range, nor
of its denormal numbers.

Arrays (images as `images.py` has them): x; dy; y with activation=relu; mean and inv_std (c, f32); gamma (c); dx; dgamma
and dbeta (c), of gamma's type.

Three kernels: `batchnorm2d_sums`; its own, which makes numbers of channels of the sums; a mapping to dx.

Kernel arguments of its own: sums of parts, inv_std, gamma, scale, shift, slope, dgamma, dbeta; c, parts (i32),
1 / elements (f64). Grid: channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckmlir.ops.batchnorm import statistics
from ckmlir.ops.batchnorm.batchnorm2d_sums import check_sums
from ckmlir.ops.batchnorm.channels import (
    F32_BYTES,
    ChannelsSpec,
    channels_launch,
    fields,
    sums_workspaces,
    uncovered_channels,
)  # fmt: skip
from ckmlir.ops.batchnorm.channels_operator import ChannelsOperator
from ckmlir.ops.batchnorm.images import ACTIVATIONS, PARAMS, image_keys, pitch_of, read_images, stride_key
from ckmlir.ops.batchnorm.problem import BETWEEN, Batchnorm2dBwdProblem
from ckmlir.ops.comparison import Array
from ckmlir.ops.elementwise.elementwise import OPERATOR as ELEMENTWISE
from ckmlir.ops.operator import NOTHING, Launch
from ckmlir.ops.request import Choice, RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.scalars import f64
from ckmlir.ops.spec import Reason, unlike
from ckmlir.ops.steps import Workspace
from ckmlir.targets import Target


class Batchnorm2dBwdSpec(ChannelsSpec):
    """What the kernel of channels depends on."""

    @property
    def name(self) -> str:
        return "_".join(["batchnorm2d_bwd", self.dtype, self.params, f"align{self.align}", f"base{self.base}"])

    def arrays(self) -> dict[str, str]:
        """Names and types of what the kernel takes behind the sums."""
        names = {"inv_std": "f32", "gamma": self.params, **dict.fromkeys(BETWEEN, "f32")}
        return {**names, "dgamma": self.params, "dbeta": self.params}


class Batchnorm2dBwd(ChannelsOperator[Batchnorm2dBwdProblem, Batchnorm2dBwdSpec]):
    """The operator `batchnorm2d_bwd`, which the module's docstring describes."""

    name = "batchnorm2d_bwd"
    spec_type = Batchnorm2dBwdSpec
    keys = (
        *image_keys("x", "dy", "y", "dx", dtype="of x, y and dx"),
        Choice("dy_dtype", None, "of dy; default: dtype", FLOATS),
        PARAMS,
        Choice("activation", "none", "that the forward pass fused: relu masks dy by y", tuple(ACTIVATIONS)),
        Choice("statistics", "batch", "those of the images, or given ones, such as running ones", ("batch", "given")),
    )

    def _problem(self, values: Mapping[str, Any]) -> Batchnorm2dBwdProblem:
        images, key = read_images(values), stride_key("y")
        if values[key] is not None and values["activation"] == "none":
            raise RequestError(f"{key}={values[key]}: y is not read; expected activation=relu with it")
        problem = Batchnorm2dBwdProblem(
            images=images,
            dtype=values["dtype"],
            dy_dtype=values["dy_dtype"] or values["dtype"],
            params=values["params"] or values["dtype"],
            activation=values["activation"],
            stride=pitch_of(images, values, "x"),
            dy_stride=pitch_of(images, values, "dy"),
            ystride=pitch_of(images, values, "y"),
            dx_stride=pitch_of(images, values, "dx"),
            statistics=values["statistics"],
        )
        check_sums(problem.sums)
        ELEMENTWISE.check(problem.mapping)
        return problem

    def spec(self, problem: Batchnorm2dBwdProblem, target: Target) -> Batchnorm2dBwdSpec:
        return Batchnorm2dBwdSpec(**fields(problem.sums, problem.params))

    def mismatches(self, problem: Batchnorm2dBwdProblem, spec: Batchnorm2dBwdSpec, target: Target) -> list[Reason]:
        different = list(unlike(spec, dtype=problem.dtype, params=problem.params))
        return different or uncovered_channels(spec, problem.sums)

    def kernels(self, target: Target) -> list[Batchnorm2dBwdSpec]:
        choices = [(dtype, params) for dtype in FLOATS for params in dict.fromkeys((dtype, "f32"))]
        return [self.spec(self.problem(dtype=dtype, params=params), target) for dtype, params in choices]

    def _found(self, problem: Batchnorm2dBwdProblem, arrays: Mapping[str, Array]) -> Mapping[str, statistics.Found]:
        return statistics.gradients(problem, arrays)

    def launch(self, problem: Batchnorm2dBwdProblem, spec: Batchnorm2dBwdSpec, target: Target) -> Launch:
        if not problem.images.c:
            return NOTHING
        share = f64(1) / f64(max(problem.images.count, 1))
        return channels_launch(problem.sums.on(target), tuple(spec.arrays()), (share,))

    def workspaces(
        self, problem: Batchnorm2dBwdProblem, spec: Batchnorm2dBwdSpec, target: Target
    ) -> tuple[Workspace, ...]:
        between = (Workspace(name, problem.images.c * F32_BYTES) for name in BETWEEN)
        return (*sums_workspaces(problem.sums.on(target)), *between)


OPERATOR = Batchnorm2dBwd()
