"""batchnorm2d: y = act((x - mean) / sqrt(variance + eps) * gamma + beta (+ residual)), channel by channel; mean and
variance are those of all places of all images, the variance the biased one.

Finite channels of any magnitude are normalised: sums are f64, and where f32 may not hold squares (x in bf16 or f32), x
is scaled by a power of two before the mean is taken off. A channel with NaN or an infinity gives NaN for all of y and
for its statistics, through the activation too. One element has variance 0.

With `running`, new_running = (1 - momentum) running + momentum statistic, as PyTorch has it: the variance that goes in
there is the unbiased one, so a channel needs two elements. Both may be one array in memory.

Arrays (images as `images.py` has them): x; residual, of x's type; gamma and beta (c); running_mean, running_var (c,
f32); y; with save_stats mean and inv_std (c, f32); new_running_mean, new_running_var (c, f32).

Three kernels: `batchnorm2d_sums`; its own, which makes statistics of the sums; a mapping from x to y.

Kernel arguments of its own: sums of parts, x, gamma, running_mean, running_var; factor, middle, scale, mean, inv_std,
new_running_mean, new_running_var; c, parts, elements between the first two channels of x (i32), 1 / elements (f64), eps
(f32), eps (f64), 1 - momentum, momentum, elements / (elements - 1) (f64). Grid: channels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

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
from ckmlir.ops.batchnorm.images import (
    ACTIVATION,
    PARAMS,
    RESIDUAL,
    image_keys,
    pitch_of,
    read_images,
    stride_key,
)  # fmt: skip
from ckmlir.ops.batchnorm.problem import RUNNING, STATISTICS, Batchnorm2dProblem
from ckmlir.ops.comparison import Array
from ckmlir.ops.elementwise.elementwise import OPERATOR as ELEMENTWISE
from ckmlir.ops.operator import NOTHING, Argument, Launch, Run, Step
from ckmlir.ops.request import Choice, Flag, Real, RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.scalars import f32, f64, i32
from ckmlir.ops.spec import Reason, unlike
from ckmlir.ops.steps import OWN_KERNEL, Workspace
from ckmlir.ops.tensors.arrays import Operand
from ckmlir.ops.tensors.mapping import MapProblem
from ckmlir.targets import Target


class Batchnorm2dSpec(ChannelsSpec):
    """What the kernel of statistics depends on."""

    save_stats: bool
    running: bool

    @property
    def name(self) -> str:
        flags = [name for name in ("save_stats", "running") if getattr(self, name)]
        return "_".join(["batchnorm2d", self.dtype, self.params, *flags, f"align{self.align}", f"base{self.base}"])

    @property
    def scaled(self) -> bool:
        return self.dtype != "f16"

    def arrays(self) -> dict[str, str]:
        """Names and types of what the kernel takes behind the sums."""
        running = RUNNING if self.running else ()
        between = ("factor", "middle", "scale") if self.scaled else ("middle", "scale")
        f32_arrays = (*running, *between, *(STATISTICS if self.save_stats else ()), *(f"new_{one}" for one in running))
        return {"x": self.dtype, "gamma": self.params, **dict.fromkeys(f32_arrays, "f32")}


class Batchnorm2d(ChannelsOperator[Batchnorm2dProblem, Batchnorm2dSpec]):
    """The operator `batchnorm2d`, which the module's docstring describes."""

    name = "batchnorm2d"
    spec_type = Batchnorm2dSpec
    keys = (
        *image_keys("x", "y", "residual", dtype="of x and residual"),
        Choice("out", None, "of y; default: dtype", FLOATS),
        PARAMS,
        Real("eps", 1e-5, "added to the variance", minimum=0.0),
        ACTIVATION,
        RESIDUAL,
        Flag("save_stats", True, "also write mean and 1 / sqrt(variance + eps) of channels, f32"),
        Flag("running", False, "also move running statistics towards those of x"),
        Real("momentum", 0.1, "how far running statistics are moved", minimum=0.0),
    )

    def _problem(self, values: Mapping[str, Any]) -> Batchnorm2dProblem:
        images = read_images(values)
        key = stride_key("residual")
        if values[key] is not None and not values["residual"]:
            raise RequestError(f"{key}={values[key]}: there is no residual; expected residual=1 with it")
        if values["momentum"] > 1:
            raise RequestError(f"momentum={values['momentum']}: expected a number from 0 to 1")
        if values["running"] and images.count < 2:
            raise RequestError(
                f"running=1: a channel of n hw={images.count} elements has no unbiased variance; expected two or more"
            )
        problem = Batchnorm2dProblem(
            images=images,
            dtype=values["dtype"],
            out=values["out"] or values["dtype"],
            params=values["params"] or values["dtype"],
            stride=pitch_of(images, values, "x"),
            ystride=pitch_of(images, values, "y"),
            residual_stride=pitch_of(images, values, "residual"),
            **{name: values[name] for name in ("eps", "activation", "residual", "save_stats", "running", "momentum")},
        )
        check_sums(problem.sums)
        ELEMENTWISE.check(problem.mapping)
        return problem

    def spec(self, problem: Batchnorm2dProblem, target: Target) -> Batchnorm2dSpec:
        return Batchnorm2dSpec(
            **fields(problem.sums, problem.params), save_stats=problem.save_stats, running=problem.running
        )

    def mismatches(self, problem: Batchnorm2dProblem, spec: Batchnorm2dSpec, target: Target) -> list[Reason]:
        names = ("dtype", "params", "save_stats", "running")
        different = list(unlike(spec, **{name: getattr(problem, name) for name in names}))
        return different or uncovered_channels(spec, problem.sums)

    def kernels(self, target: Target) -> list[Batchnorm2dSpec]:
        problems = [
            self.problem(dtype=dtype, params=params, save_stats=saved, running=running)
            for dtype in FLOATS for params in dict.fromkeys((dtype, "f32"))
            for saved, running in ((False, False), (True, False), (True, True))
        ]  # fmt: skip
        return list(dict.fromkeys(self.spec(problem, target) for problem in problems))

    def _found(self, problem: Batchnorm2dProblem, arrays: Mapping[str, Array]) -> Mapping[str, statistics.Found]:
        return statistics.normalized(problem, arrays)

    def launch(self, problem: Batchnorm2dProblem, spec: Batchnorm2dSpec, target: Target) -> Launch:
        if problem.images.c * problem.images.count == 0:
            return NOTHING
        first = 1 if problem.images.last else problem.images.hw
        count = problem.images.count
        numbers: tuple[Argument, ...] = (i32(first), f64(1) / f64(count), f32(problem.eps), f64(problem.eps))
        if problem.running:
            numbers += (f64(1 - problem.momentum), f64(problem.momentum), f64(count) / f64(count - 1))
        return channels_launch(problem.sums.on(target), tuple(spec.arrays()), numbers)

    def workspaces(self, problem: Batchnorm2dProblem, spec: Batchnorm2dSpec, target: Target) -> tuple[Workspace, ...]:
        if problem.images.c * problem.images.count == 0:
            return ()
        between = (Workspace(name, problem.images.c * F32_BYTES) for name in problem.between)
        return (*sums_workspaces(problem.sums.on(target)), *between)

    def steps(self, problem: Batchnorm2dProblem, spec: Batchnorm2dSpec, target: Target) -> tuple[Step, ...]:
        """Without elements, what fills the statistics."""
        if problem.images.count == 0 and problem.save_stats:
            eps = float(np.float32(problem.eps))
            empty = {"mean": "0", "inv_std": repr(1 / math.sqrt(eps)) if eps else "inf"}
            return tuple(
                Run(ELEMENTWISE, MapProblem((problem.images.c,), (), _vector(problem, name), text), {})
                for name, text in empty.items()
            )
        if problem.images.c * problem.images.count == 0:
            return (OWN_KERNEL,)
        return super().steps(problem, spec, target)


def _vector(problem: Batchnorm2dProblem, name: str) -> Operand:
    return Operand(name, "f32", (problem.images.c,), (1,), (0,))


OPERATOR = Batchnorm2d()
