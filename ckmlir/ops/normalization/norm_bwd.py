"""What the gradients of normalisations of rows have in common.

x is what the forward pass normalised, xhat the normalised row before gamma, by the statistics that were saved:

    g      = dy gamma
    dgamma = sum over rows of dy xhat; dbeta that of dy, where there is a beta
    dx     = inv_std (g - mean of g - xhat mean of g xhat), with means of each row

The mean of g is taken off where the forward pass takes a mean off x. With add=1 the forward pass stored the sum of x
and a residual, which is x here, and `dsum`, the gradient of that sum, is added to dx: it then is the gradient of both.

All is f32, and nothing is promised where that overflows on the way.

A workgroup takes a part of the rows, one block of them after another: dx is stored as rows pass, and each work-item
keeps the sums of its own columns. `sum_parts` adds those of all parts in a fixed order. Rows that stream are more
columns than registers hold: they pass once, some columns at a time, for the sums (work=columns), and then for dx
(work=rows).

Kernel arguments: the arrays of `NormBwdSpec.arrays`; m, n, parts (i32); row strides (i32); rows of a part (i32). Grid:
parts, blocks of columns; with work=rows blocks of rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.sum_parts import OPERATOR as SUM_PARTS
from ckmlir.ops.contraction.sum_parts import sum_over
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Launch, Run, Step
from ckmlir.ops.precision import UNIT, fold_steps
from ckmlir.ops.request import Choice, Flag, Integer
from ckmlir.ops.rows.arrays import FLOATS, RowArray, RowOptions, channels_in, row_values_in, rows_in, rows_out
from ckmlir.ops.rows.layout import MAXIMUM_WHOLE, REACH, RowSpec
from ckmlir.ops.rows.operator import RowOperator, RowProblem, stride_keys
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.steps import OWN_KERNEL, Workspace
from ckmlir.ops.tensors.rounding import Bounded, bounded, bounded_sum, output_tolerance
from ckmlir.records import replace as with_fields
from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.lang import Kernel

WORK = ("all", "rows", "columns")
A_UNIT = 1
"""Workgroups of a compute unit: with more, sums of parts take longer than memory is busier for them."""
STEPS = 4
"""Blocks of rows of a part, at least, where there are so many."""


class NormBwdOptions(RowOptions):
    """Choices of the gradients of a normalisation.

    Attributes:
        add: a gradient of the rows themselves is added to dx.
        work: what a kernel does: all, or dx (rows), or sums over rows (columns).
    """

    statistics: ClassVar[tuple[str, ...]]
    """Names of what the forward pass saved; a mean and 1 / the deviation, or the latter alone."""
    summands: ClassVar[Mapping[str, str]]
    """Names of the gradients of columns -> what is summed up over rows, as expressions of dy and xhat."""

    add: bool
    work: str

    @property
    def centred(self) -> bool:
        """Whether a mean was taken off x."""
        return len(self.statistics) > 1

    @property
    def images(self) -> tuple[str, ...]:
        """The arrays of rows that are read."""
        return ("x", "dy", "dsum") if self.add and self.work != "columns" else ("x", "dy")

    def arrays(self) -> tuple[RowArray, ...]:
        if self.work == "columns":
            return (*self._inputs(), *self._parts())
        gradients = (RowArray(name, self.dtype, "out", ("n",)) for name in self.summands)
        return (*self._inputs(), rows_out("dx", self.dtype), *gradients)

    def kernel_arrays(self) -> tuple[RowArray, ...]:
        """What a kernel takes."""
        dx = () if self.work == "columns" else (rows_out("dx", self.dtype),)
        return (*self._inputs(), *dx, *(() if self.work == "rows" else self._parts()))

    def _inputs(self) -> tuple[RowArray, ...]:
        gamma = () if self.work == "columns" else (channels_in("gamma", self.dtype),)
        return (*(rows_in(name, self.dtype) for name in self.images), *gamma, *map(row_values_in, self.statistics))

    def _parts(self) -> tuple[RowArray, ...]:
        return tuple(RowArray(parts_of(name), "f32", "out", ("parts", "n")) for name in self.summands)

    def choices(self) -> dict[str, tuple[object, ...]]:
        return {**super().choices(), "work": WORK}


class NormBwdSpec(NormBwdOptions, RowSpec):
    """What a kernel's code depends on."""

    def arrays(self) -> tuple[RowArray, ...]:
        return self.kernel_arrays()


C = TypeVar("C", bound=NormBwdOptions)
R = TypeVar("R", bound=NormBwdSpec)


def parts_of(name: str) -> str:
    """The array of the sums of all parts."""
    return f"{name}_parts"


class NormBwd(RowOperator[C, R]):
    """The gradients of a normalisation; operators say which statistics there are."""

    normalized: ClassVar[str]
    """xhat as an expression of x and the statistics."""
    elements = 16
    """Of x, dy, gamma and two sums: with 32 some choices spill."""
    keys = (
        Integer("m", 256, "rows"),
        Integer("n", 1024, "elements of a row"),
        Choice("dtype", "f16", "of all arrays but statistics", FLOATS),
        Flag("add", False, "add a gradient of the rows themselves, dsum, to dx"),
        *stride_keys("x", "dy", "dsum", "dx"),
    )

    def build(self, spec: R, target: Target) -> Kernel:
        kernel: Kernel = importlib.import_module("ckmlir.ops.normalization.norm_bwd_kernel").build(spec, target)
        return kernel

    def requests(self) -> Iterable[Mapping[str, object]]:
        return [{"dtype": dtype, "add": add} for dtype in FLOATS for add in (False, True)]

    def _choices(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**values, "work": "rows" if values["n"] > MAXIMUM_WHOLE else "all"}

    def kernels(self, target: Target) -> list[R]:
        found = super().kernels(target)
        columns = (self._columns(self.problem(dtype=dtype, n=2 * MAXIMUM_WHOLE), 1) for dtype in FLOATS)
        return [*found, *(self.spec(one, target) for one in columns)]

    def _values(self, problem: RowProblem[C], array: ArraySpec, generator: np.random.Generator) -> Array:
        values = super()._values(problem, array, generator)
        return np.square(values) + 0.1 if array.name == problem.options.statistics[-1] else values

    # -- what is queued

    def _columns(self, problem: RowProblem[C], parts: int) -> RowProblem[C]:
        """The sums over rows of a problem whose rows stream."""
        strides = {name: problem.strides[name] for name in ("x", "dy")}
        options = with_fields(problem.options, work="columns", add=False)
        return replace(problem, options=options, sizes={**problem.sizes, "parts": parts}, strides=strides)

    def _parts(self, problem: RowProblem[C], spec: R, target: Target) -> int:
        """Parts of the rows: as many as give each compute unit A_UNIT workgroups, those STEPS blocks, and reach."""
        if "parts" in problem.sizes:
            return problem.sizes["parts"]
        m, blocks = problem.sizes["m"], ceil_div(problem.sizes["m"], spec.rows)
        columns = ceil_div(problem.sizes["n"], spec.length) if spec.streamed else 1
        most = ceil_div(A_UNIT * target.compute_units, columns)
        near = ceil_div(m * problem.row_bytes, REACH // 2)
        return max(min(most, ceil_div(blocks, STEPS)), near, 1)

    def launch(self, problem: RowProblem[C], spec: R, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        parts = self._parts(problem, spec, target)
        rows = ceil_div(ceil_div(problem.sizes["m"], spec.rows), parts) * spec.rows
        found = self._launched(spec, spec.arrays(), replace(problem, sizes={**problem.sizes, "parts": parts}))
        if spec.work == "rows":
            return found
        columns = ceil_div(problem.sizes["n"], spec.length) if spec.streamed else 1
        return replace(found, grid=(parts, columns, 1), arguments=(*found.arguments, i32(rows)))

    def workspaces(self, problem: RowProblem[C], spec: R, target: Target) -> tuple[Workspace, ...]:
        if "parts" in problem.sizes:
            return ()
        size = self._parts(problem, spec, target) * problem.sizes["n"] * find_dtype("f32").bytes
        return tuple(Workspace(parts_of(name), size) for name in problem.options.summands)

    def steps(self, problem: RowProblem[C], spec: R, target: Target) -> tuple[Step, ...]:
        """Its own kernel, of rows that stream behind that of the sums, since dx may take x's place; what adds the sums
        of parts."""
        if "parts" in problem.sizes or self.writes_nothing(problem):
            return (OWN_KERNEL,)
        parts, n = self._parts(problem, spec, target), problem.sizes["n"]
        columns = (Run(self, self._columns(problem, parts), {}),) if spec.work == "rows" else ()
        total = sum_over(parts, (n,), "f32", (n, 1), problem.dtype, (1,), problem.base)
        sums = (Run(SUM_PARTS, total, {"acc_parts": parts_of(name), "c": name}) for name in problem.options.summands)
        return (*columns, OWN_KERNEL, *sums)

    # -- what is right

    def _found(self, problem: RowProblem[C], arrays: Mapping[str, Array]) -> dict[str, Bounded]:
        """Every output in float64, and how far a kernel's may be from it before it is rounded to its type; infinite
        where nothing is promised.

        Errors go through the expressions (`tensors/rounding.py`). A sum over rows takes as many additions as there are
        rows, in any order; one over a row `fold_steps`, and its mean two roundings more.
        """
        options, (m, n) = problem.options, (problem.sizes[name] for name in ("m", "n"))
        given = {name: Bounded(_spread(one, name, options), 0.0) for name, one in arrays.items()}
        given["xhat"] = bounded(self.normalized, given)
        sums = {name: bounded_sum(bounded(text, given), 0, m) for name, text in options.summands.items()}
        if options.work == "columns":
            return {parts_of(name): one for name, one in sums.items()}
        for name, text in MEANS.items():
            total, share = bounded_sum(bounded(text, given), 1, fold_steps(n)), 1 / max(n, 1)
            value, error = (one[:, None] * share for one in total[:2])
            given[name] = Bounded(value, error + 4 * UNIT * np.where(np.isfinite(value), np.abs(value), 0.0))
        return {"dx": bounded(_dx(options), given), **sums}

    def reference(self, problem: RowProblem[C], arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Every output in float64, infinite where f32 is on the way."""
        shapes = {one.name: one.shape for one in problem.arrays}
        return {name: np.broadcast_to(one.value, shapes[name]) for name, one in self._found(problem, arrays).items()}

    def tolerances(
        self, problem: RowProblem[C], arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """The bounds of `_found`, then half an ulp of the element type."""
        specs = {one.name: one for one in problem.arrays}
        return {
            name: output_tolerance(np.broadcast_to(one.error, specs[name].shape), specs[name].dtype, REASON, target)
            for name, one in self._found(problem, arrays).items()
        }


REASON = "f32 sums and arithmetic"
MEANS = {"mean_g": "dy * gamma", "mean_gx": "dy * gamma * xhat"}
"""Means of a row -> what they are of."""


def _dx(options: NormBwdOptions) -> str:
    """dx as an expression."""
    deviation = "dy * gamma - mean_g" if options.centred else "dy * gamma"
    return f"(({deviation}) - xhat * mean_gx) * {options.statistics[-1]}" + " + dsum" * options.add


def _spread(array: Array, name: str, options: NormBwdOptions) -> Array:
    """An input, so that it broadcasts to rows."""
    wide = array.astype(np.float64)
    return wide[:, None] if name in options.statistics else wide
