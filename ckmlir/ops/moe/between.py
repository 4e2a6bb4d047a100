"""What is between the products of a layer of experts: rows as they were computed, or quantised, each with a scale, or
with scales of groups.

Both say which workspaces and steps they take, and what the second products' rows are in NumPy, with how far those may
be off: not at all, but where an error crosses a step of the type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ckmlir.ops.arrays import ArraySpec, find_array
from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.sources import rounded
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.moe.moe_smoothquant import OPERATOR as MOE_SMOOTHQUANT
from ckmlir.ops.moe.moe_smoothquant import Problem as Smoothquant
from ckmlir.ops.operator import Run, Step
from ckmlir.ops.precision import UNIT
from ckmlir.ops.quantization.moved_blocks import moved_blocks
from ckmlir.ops.quantization.quantize_blocks import OPERATOR as QUANTIZE_BLOCKS
from ckmlir.ops.quantization.quantize_blocks import Problem as Blocks
from ckmlir.ops.rows.quantization import quantized_tolerances
from ckmlir.ops.steps import Workspace
from ckmlir.targets import Target

INTER = "inter"
"""The workspace of what the first products make, a row for each entry."""
QUANTISED, SCALES = "quantised", "quantised_scale"
"""Those of its rows in fewer bits, and of their scales."""
OF_GROUPS = {"m": "t * topk", "n": "inter", "out": "dtype", "x": INTER}
"""Keys and arrays of what quantises by groups -> those of a layer."""


class Rows(NamedTuple):
    """Rows of the second products.

    Attributes:
        arrays: by the names of `moe_gemm`.
        moved: how far elements of A may be off, where they have scales of groups times those; infinitely where nothing
            is known.
        errors: how far other arrays may be off.
    """

    arrays: dict[str, Array]
    moved: Array
    errors: dict[str, Array]


class Between(ABC):
    """What is between the products.

    Attributes:
        second: what arrays of the second products are called here, where that is something else.
    """

    second: ClassVar[Mapping[str, str]]

    @property
    @abstractmethod
    def arrays(self) -> tuple[ArraySpec, ...]:
        """Inputs of its own."""

    @property
    @abstractmethod
    def workspaces(self) -> tuple[Workspace, ...]:
        """Besides `INTER`."""

    @property
    @abstractmethod
    def behind(self) -> tuple[Step, ...]:
        """What is queued behind them."""

    @abstractmethod
    def rows(self, exact: Array, error: Array, arrays: Mapping[str, Array], target: Target) -> Rows:
        """The second products' rows, of what the first make in float64 (entries, inter), which may be off by `error`:
        infinitely where nothing is known. `arrays` are those of the layer, of its routing and of `moe_sorting`.
        """


@dataclass(frozen=True)
class AsComputed(Between):
    """Rows as the first products store them, rounded to `dtype`."""

    dtype: str
    second: ClassVar[Mapping[str, str]] = {"a": INTER}
    arrays: ClassVar[tuple[ArraySpec, ...]] = ()
    workspaces: ClassVar[tuple[Workspace, ...]] = ()
    behind: ClassVar[tuple[Step, ...]] = ()

    def rows(self, exact: Array, error: Array, arrays: Mapping[str, Array], target: Target) -> Rows:
        found, moved = rounded(exact, error, self.dtype, target)
        with np.errstate(over="ignore", invalid="ignore"):
            return Rows({"a": found.astype(numpy_dtype(self.dtype, target))}, moved, {})


@dataclass(frozen=True)
class Quantised(Between):
    """Rows in f32, multiplied by the columns' scales of their expert and quantised, a scale for each row, as
    `moe_smoothquant` does for tokens with one slot. Those of entries that have no expert here are not read.
    """

    problem: Smoothquant
    second: ClassVar[Mapping[str, str]] = {"a": QUANTISED}

    @property
    def arrays(self) -> tuple[ArraySpec, ...]:
        return (self._of("smooth"),)

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        return (Workspace(QUANTISED, self._of("q").nbytes), Workspace(SCALES, self._of("yscale").nbytes))

    @property
    def behind(self) -> tuple[Step, ...]:
        names = {"x": INTER, "q": QUANTISED, "yscale": SCALES, "row_ids": "entry_ids"}
        return (Run(MOE_SMOOTHQUANT, self.problem, names),)

    def rows(self, exact: Array, error: Array, arrays: Mapping[str, Array], target: Target) -> Rows:
        ids = {"topk_ids": arrays["topk_ids"].reshape(-1, 1), "row_ids": arrays["entry_ids"].reshape(-1)}
        given = {**arrays, "x": exact, **ids}
        y = MOE_SMOOTHQUANT.smoothed(self.problem, given)[0]
        smooth = MOE_SMOOTHQUANT.smoothed(self.problem, {**given, "x": np.ones_like(exact)})[0]
        found = {name: values[0] for name, values in MOE_SMOOTHQUANT.expected(self.problem, given, target).items()}
        finite = np.where(np.isfinite(error), error, 0.0)
        y_error = np.abs(smooth) * finite + 2 * UNIT * np.abs(y)  # stored in f32, then multiplied
        bounds = quantized_tolerances(self.problem.options, target, y, y_error, found["yscale"])
        unknown = np.isinf(error).any(axis=-1, keepdims=True)
        moved = np.where(unknown, np.inf, np.broadcast_to(bounds["q"].atol, y.shape))
        scale_error = bounds["yscale"].atol + bounds["yscale"].rtol * found["yscale"]
        q = found["q"].astype(numpy_dtype(self.problem.options.out, target))
        return Rows({"a": q, "d1": found["yscale"].astype(np.float32)}, moved, {"d1": scale_error})

    def _of(self, name: str) -> ArraySpec:
        return find_array(MOE_SMOOTHQUANT.arrays(self.problem), name)


@dataclass(frozen=True)
class QuantisedByGroups(Between):
    """Rows in f32, quantised with a scale for each group along them, as `quantize_blocks` does. Those of entries that
    have no expert here are not read.
    """

    problem: Blocks
    second: ClassVar[Mapping[str, str]] = {"a": QUANTISED, "scale_a": SCALES}
    arrays: ClassVar[tuple[ArraySpec, ...]] = ()

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        return (Workspace(QUANTISED, self._of("q").nbytes), Workspace(SCALES, self._of("scale").nbytes))

    @property
    def behind(self) -> tuple[Step, ...]:
        names = {"x": INTER, "q": QUANTISED, "scale": SCALES, "row_ids": "entry_ids"}
        return (Run(QUANTIZE_BLOCKS, self.problem, names, OF_GROUPS),)

    def rows(self, exact: Array, error: Array, arrays: Mapping[str, Array], target: Target) -> Rows:
        given = {"x": exact, "row_ids": arrays["entry_ids"].reshape(-1)}
        found = QUANTIZE_BLOCKS.expected(self.problem, given, target)
        there = given["row_ids"][:, None] >= 0
        off = np.where(there, error + UNIT * np.abs(exact), 0.0)  # stored in f32
        moved = moved_blocks(self.problem, np.where(there, exact, 0.0), off, target)
        q = found["q"].astype(numpy_dtype(self._of("q").dtype, target))
        scale = found["scale"].astype(numpy_dtype(self._of("scale").dtype, target))
        return Rows({"a": q, "scale_a": scale}, moved, {})

    def _of(self, name: str) -> ArraySpec:
        return find_array(QUANTIZE_BLOCKS.arrays(self.problem), name)
