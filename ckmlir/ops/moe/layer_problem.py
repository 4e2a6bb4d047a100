"""A layer of experts: what a request of `fused_moe` comes to, and which arrays its steps take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.contraction_spec import PRESHUFFLE
from ckmlir.ops.moe.experts_problem import ExpertsProblem
from ckmlir.ops.moe.moe_gemm import OPERATOR as MOE_GEMM
from ckmlir.ops.moe.moe_sorting import OPERATOR as MOE_SORTING
from ckmlir.ops.moe.moe_sorting import Problem as Sorting
from ckmlir.ops.operator import ArraySpec, ceil_div
from ckmlir.ops.request import RequestError

UNITS = (16, 32, 64, 128)
LISTS = ("sorted_ids", "sorted_weights", "expert_ids", "totals")
"""Workspaces that `moe_sorting` fills."""
INTER = "inter"
"""The workspace of what the first products make, a row for each entry."""
FIRST = {"a": "x", "b": "gate", "c": INTER}
SECOND = {"a": INTER, "b": "down", "d0": "sorted_weights", "c": "y", **{name: name for name in LISTS}}
"""What the products' arrays are called here, where that is something else."""


@dataclass(frozen=True)
class LayerProblem:
    """A layer of experts by the problems of its steps.

    Attributes:
        sorting, first, second: the routing's entries by expert, the products of gate and up, those of down.
        front: what finds the routing; None where it is given.
    """

    sorting: Sorting
    first: ExpertsProblem
    second: ExpertsProblem
    front: Any = None

    @property
    def matrices(self) -> tuple[ArraySpec, ...]:
        """The experts' arrays."""
        first, second = self.first.product, self.second.product
        found = [self._named(self.first, name, FIRST) for name in first.operands[1:]]
        return (*found, self._named(self.second, second.operands[1], SECOND))

    @property
    def routing(self) -> tuple[ArraySpec, ...]:
        """The arrays of the routing."""
        return tuple(array for array in MOE_SORTING.arrays(self.sorting) if array.name in ("topk_ids", "weights"))

    @property
    def mask(self) -> tuple[ArraySpec, ...]:
        """Which experts are there, where not all are."""
        return tuple(array for array in MOE_SORTING.arrays(self.sorting) if array.name == "mask")

    @property
    def x(self) -> ArraySpec:
        """The rows of tokens."""
        return self._named(self.first, "a", FIRST)

    @property
    def y(self) -> ArraySpec:
        """The result."""
        return self._named(self.second, "c", SECOND)

    @property
    def inter(self) -> ArraySpec:
        """What is between the products."""
        return self._named(self.first, "c", FIRST)

    def first_arrays(self, arrays: Mapping[str, Array], lists: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays of the first products by the names of their operator."""
        own = {name: arrays[FIRST.get(name, name)] for name in ("a", *self.first.product.operands[1:])}
        return {**own, **lists}

    def second_arrays(
        self, arrays: Mapping[str, Array], lists: Mapping[str, Array], inter: Array
    ) -> dict[str, Array]:
        """The arrays of the second products by the names of their operator."""
        return {"a": inter, "b": arrays["down"], "d0": lists["sorted_weights"], **lists}

    @staticmethod
    def _named(problem: ExpertsProblem, name: str, names: Mapping[str, str]) -> ArraySpec:
        array = next(one for one in problem.arrays() if one.name == name)
        return ArraySpec(names.get(name, name), array.shape, array.dtype, array.role, array.strides, array.align)


def read_layer(values: Mapping[str, Any], front: Any = None) -> LayerProblem:
    """The problem of keys that have been read. Raises RequestError where they do not fit each other."""
    t, e, topk, local = (values[name] for name in ("t", "e", "topk", "local"))
    experts = e if local is None else local
    if experts > e:
        raise RequestError(f"local={local}: there are e={e} experts; expected at most that")
    unit = values["unit"] or _unit(t * topk, e)
    preshuffled = {"shuffled": values["shuffled"], "schedule": PRESHUFFLE if values["shuffled"] else None}
    common = {"t": t, "e": experts, "topk": topk, "unit": unit, "dtype": values["dtype"], **preshuffled}
    sorting = MOE_SORTING.problem(t=t, e=e, k=topk, unit=unit, local=local is not None)
    first = MOE_GEMM.problem(
        **common, n=values["inter"], k=values["hidden"], a_rows="token", c_rows="entry", out=values["dtype"],
        op=values["op"],
    )  # fmt: skip
    second = MOE_GEMM.problem(
        **common, n=values["hidden"], k=values["inter"], a_rows="entry", c_rows="token", out=values["out"],
        reduction=values["reduction"], op="acc * d0", d="f32", d_kind="place",
    )  # fmt: skip
    return LayerProblem(sorting, first, second, front)


def _unit(entries: int, experts: int) -> int:
    """As many places as an expert has rows on average, or more."""
    rows = ceil_div(entries, experts)
    return next((unit for unit in UNITS if unit >= rows), UNITS[-1])
