"""quantize_tensor: a tensor in fp8, bf8 or i8 with one scale: q = x / scale, rounded to the nearest even.

With `scales=dynamic` the scale is the tensor's largest magnitude over the largest number of q's type, at least 2^-126
(as in `ops/rows/quantization.py`), and an output: a `reduce` over x finds it, before this operator's own kernel. With
`scales=given` it is an input, and may be any number: by 0 is divided as IEEE does, and what is then infinite saturates.
NaN is left out of the maximum, and becomes 0 as i8.

Arrays: x (shape), scale (1, f32), q (shape); x and q at any strides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.inner import inner_problem
from ckmlir.ops.list_keys import Numbers
from ckmlir.ops.operator import Run, Step
from ckmlir.ops.precision import UNIT, in_f32
from ckmlir.ops.reduction.problem import ReduceProblem
from ckmlir.ops.reduction.reduce import OPERATOR as REDUCE
from ckmlir.ops.request import Choice, RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.rows.quantization import (
    FAR,
    LEAST_SCALE,
    SHIFT,
    given_tolerance,
    largest,
    quotients,
    rounded,
    rounded_tolerance,
)  # fmt: skip
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.spec import Reason, no_such_float
from ckmlir.ops.steps import OWN_KERNEL
from ckmlir.ops.tensors.arrays import Operand, checked_strides
from ckmlir.ops.tensors.keys import Strides
from ckmlir.ops.tensors.mapping import ALIGN, MapOperator, MapProblem
from ckmlir.ops.tensors.mapping_spec import MapSpec
from ckmlir.targets import Target, get_target

OUT = ("fp8", "bf8", "i8")
SCALES = ("dynamic", "given")
MOST_DIMENSIONS = 5
SCALE_BYTES = 4
"""The scale is aligned to its size, whatever is promised of x and q."""
PART, MOST_PARTS = 1 << 15, 1024
"""Elements that a workgroup of the reduction takes, where that does not make too many workgroups."""
NEARER = (
    f"where(abs(scale) < {2.0**-FAR!r}, {2.0**SHIFT!r}, where(abs(scale) > {2.0**FAR!r}, {2.0**-SHIFT!r}, 1))"
)
EXPRESSION = f"x * {NEARER} * (1 / (scale * {NEARER}))"
"""x / scale with one division for all elements, whatever the scale is (as in `rows/quantize_kernel.py`)."""


class QuantizeProblem(MapProblem, frozen=True):
    """A mapping that divides by a scale; `dynamic`: which is found first."""

    dynamic: bool = True


class QuantizeTensor(MapOperator):
    """The operator `quantize_tensor`, which the module's docstring describes."""

    name = "quantize_tensor"
    keys = (
        Numbers("shape", (1024, 1024), "of x and q", most=MOST_DIMENSIONS),
        Choice("dtype", "f16", "of x", FLOATS),
        Choice("out", "fp8", "of q", OUT),
        Choice("scales", "dynamic", "of the tensor: found, or given", SCALES),
        Strides("strides", None, "of x, in elements", most=MOST_DIMENSIONS),
        Strides("qstrides", None, "of q, in elements", most=MOST_DIMENSIONS),
        ALIGN,
    )

    def _problem(self, values: Mapping[str, Any]) -> QuantizeProblem:
        shape = values["shape"]
        axes = tuple(range(len(shape)))
        x = Operand("x", values["dtype"], shape, checked_strides("strides", shape, values["strides"]), axes)
        scale = Operand("scale", "f32", (1,), (1,), (-1,) * len(shape))
        q = Operand("q", values["out"], shape, checked_strides("qstrides", shape, values["qstrides"]), axes)
        dynamic = values["scales"] == "dynamic"
        problem = QuantizeProblem(shape, (x, scale), q, EXPRESSION, values["align"], dynamic=dynamic)
        size = find_dtype(x.dtype).bytes
        if values["align"] % size:
            raise RequestError(f"align={values['align']}: elements of x have {size} bytes; expected a multiple")
        self.check(replace(problem, align=max(values["align"], SCALE_BYTES)))
        if dynamic:
            _search(problem, 1.0)  # refuses what it cannot reach
        return problem

    def examples(self) -> Sequence[Mapping[str, object]]:
        return [{"dtype": dtype, "out": out} for dtype in FLOATS for out in OUT]

    def validate(self, spec: MapSpec, target: Target) -> list[Reason]:
        against = no_such_float("out", spec.dtypes[-1], target, "expected i8, or a chip from gfx942 on")
        return list(against) or super().validate(spec, target)

    def arrays(self, problem: MapProblem) -> tuple[ArraySpec, ...]:
        x, scale, q = super().arrays(problem)
        role = "out" if _dynamic(problem) else "in"
        return (x, replace(scale, role=role, align=max(problem.align, SCALE_BYTES)), q)

    def _values(self, problem: MapProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == "scale":
            return np.full((1,), 2.0 ** generator.uniform(-8, 0), np.float32)
        return super()._values(problem, array, generator)

    def reference(self, problem: MapProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Every output in float64; 8-bit floats are those of the OCP, see `expected`."""
        return self.expected(problem, arrays, get_target("gfx950"))

    def expected(self, problem: MapProblem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        out = problem.output.dtype
        scale = _scale(problem, arrays, target)
        q = rounded(out, target, quotients(arrays["x"], scale[0]))
        return {"scale": scale, "q": q} if _dynamic(problem) else {"q": q}

    def tolerances(
        self, problem: MapProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """The inverse and two products are off by a rounding each; a scale that is found two roundings more."""
        out = problem.output.dtype
        values = quotients(arrays["x"], _scale(problem, arrays, target)[0])
        if not _dynamic(problem):
            return {"q": given_tolerance(out, target, values)}
        error = np.nan_to_num(np.abs(values), nan=0.0, posinf=0.0) * 6 * UNIT
        return {
            "scale": Tolerance(3 * UNIT, 0.0, "a division in f32"),
            "q": rounded_tolerance(out, target, values, error),
        }

    def steps(self, problem: MapProblem, spec: MapSpec, target: Target) -> tuple[Step, ...]:
        """The search for the largest magnitude, where the scale is not given; then the mapping."""
        if not _dynamic(problem):
            return (OWN_KERNEL,)
        search = _search(problem, largest(problem.output.dtype, target))
        return (Run(REDUCE, search, {"x": "x", "y": "scale"}), OWN_KERNEL)


def _dynamic(problem: MapProblem) -> bool:
    assert isinstance(problem, QuantizeProblem)
    return problem.dynamic


def _search(problem: MapProblem, most: float) -> ReduceProblem:
    """The reduction of x to its scale."""
    x = problem.inputs[0]
    strides = None if 0 in x.shape else x.strides  # between elements that do not exist they may be anything
    found: ReduceProblem = inner_problem(
        REDUCE, {},
        shape=x.shape, dims=tuple(range(len(x.shape))), ops="amax", dtype=x.dtype, out="f32", strides=strides,
        after=f"maximum(a / {most!r}, {LEAST_SCALE!r})", split=min(max(ceil_div(prod(x.shape), PART), 1), MOST_PARTS),
        align=problem.align,
    )  # fmt: skip
    return found


def _scale(problem: MapProblem, arrays: Mapping[str, Array], target: Target) -> Array:
    """The scale, in float64, of shape (1,)."""
    if not _dynamic(problem):
        return arrays["scale"].astype(np.float64)
    amax = np.fmax.reduce(np.abs(arrays["x"].astype(np.float64)), axis=None, initial=0.0)
    scale = in_f32(np.asarray([amax])) / largest(problem.output.dtype, target)
    return np.maximum(scale, LEAST_SCALE)


OPERATOR = QuantizeTensor()
