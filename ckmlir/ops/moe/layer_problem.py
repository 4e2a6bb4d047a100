"""A layer of experts: what a request of `fused_moe` comes to, and which arrays its steps take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES, ArraySpec, find_array
from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.contraction_spec import PRESHUFFLE
from ckmlir.ops.moe.between import INTER, AsComputed, Between, Quantised
from ckmlir.ops.moe.experts_copies import FILLED_UNIT, PAST_UNIT, fill_units, units_go_past_lds
from ckmlir.ops.moe.experts_problem import BY_WORKSPACE, ExpertsProblem
from ckmlir.ops.moe.moe_gemm import OPERATOR as MOE_GEMM
from ckmlir.ops.moe.moe_smoothquant import OPERATOR as MOE_SMOOTHQUANT
from ckmlir.ops.moe.moe_sorting import OPERATOR as MOE_SORTING
from ckmlir.ops.moe.moe_sorting import Problem as Sorting
from ckmlir.ops.moe.routing import most_units
from ckmlir.ops.request import RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target

UNITS = (16, 32, 64, 128)
WORD = 4
"""Bytes of a place of a list."""
LISTS = ("sorted_ids", "sorted_weights", "expert_ids", "totals", "entry_ids")
"""Workspaces that `moe_sorting` fills."""
FIRST = {"a": "x", "b": "gate", "c": INTER, "d0": "x_scale", "d1": "gate_scale", "d2": "up_scale"}
"""What the first products' arrays are called here, where that is something else."""
SUMS = "sums"
"""What memory adds up in f32 where y is of another type."""
_SECOND = {"b": "down", "d0": "sorted_weights", "c": "y", **{name: name for name in LISTS}}
WEIGHTED = {"op": "acc * d0", "d": "f32", "d_kind": "place"}
WEIGHTED_AND_SCALED = {"op": "acc * d0 * d1 * d2", "d": "f32,f32,f32", "d_kind": "place,column,row"}
NARROW = ("fp8", "i8")
"""Types whose products take scales."""


class LayerProblem(Struct, frozen=True):
    """A layer of experts by the problems of its steps.

    Attributes:
        sorting, first, second: the routing's entries by expert, the products of gate and up, those of down.
        between: what becomes of the first products' rows before the second take them.
        front: what finds the routing; None where it is given.
        out: the type of y.
        chained: whether one kernel computes both products (`ckmlir.ops.moe.chained`).
        open_unit: whether a chip may take another unit, since no request names one.
    """

    sorting: Sorting
    first: ExpertsProblem
    second: ExpertsProblem
    between: Between
    out: str
    chained: bool = False
    front: Any = None
    open_unit: bool = False

    def on(self, target: Target) -> LayerProblem:
        """The layer in the units that a chip takes: of 96 places where the matrices of both products go past LDS, else
        of 160 where `fill_units` says so."""
        if not self.open_unit:
            return self
        if units_go_past_lds(self.first, self.second, target):
            return self._in_units_of(PAST_UNIT)
        return self._in_units_of(FILLED_UNIT) if fill_units(self.first, self.second, target) else self

    def _in_units_of(self, unit: int) -> LayerProblem:
        """The same with other units, which no chip changes."""
        first, second = (one.in_units_of(unit) for one in (self.first, self.second))
        return replace(self, sorting=replace(self.sorting, unit=unit), first=first, second=second, open_unit=False)

    @property
    def second_names(self) -> Mapping[str, str]:
        """What the second products' arrays are called here, where that is something else."""
        return {**_SECOND, **self.between.second}

    @property
    def matrices(self) -> tuple[ArraySpec, ...]:
        """The experts' arrays."""
        first, second = self.first.product, self.second.product
        found = [self._named(self.first, name, FIRST) for name in first.operands[1:]]
        return (*found, self._named(self.second, second.operands[1], self.second_names))

    @property
    def scales(self) -> tuple[ArraySpec, ...]:
        """Those of 8-bit rows and matrices, and what is between the products takes."""
        first = [self._named(self.first, one.name, FIRST) for one in self.first.product.side]
        second = [self._named(self.second, one.name, self.second_names) for one in self.second.product.side[2:]]
        return (*first, *second, *self.between.arrays)

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
        found = self._named(self.second, "c", self.second_names)
        return replace(found, dtype=self.out)

    @property
    def sums(self) -> ArraySpec:
        """What the second products come to: y, or what becomes y, in a workspace."""
        found = self._named(self.second, "c", self.second_names)
        return found if found.dtype == self.out else replace(found, name=SUMS)

    @property
    def inter(self) -> ArraySpec:
        """What is between the products."""
        return self._named(self.first, "c", FIRST)

    def first_arrays(self, arrays: Mapping[str, Array], lists: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays of the first products by the names of their operator."""
        product = self.first.product
        names = ("a", *product.operands[1:], *(one.name for one in product.side))
        return {**{name: arrays[FIRST.get(name, name)] for name in names}, **lists}

    def second_arrays(
        self, arrays: Mapping[str, Array], lists: Mapping[str, Array], rows: Mapping[str, Array]
    ) -> dict[str, Array]:
        """The arrays of the second products by the names of their operator; `rows` are what is between."""
        given = {one.name: arrays[self.second_names[one.name]] for one in self.second.product.side[2:]}
        return {"b": arrays["down"], "d0": lists["sorted_weights"], **given, **rows, **lists}

    @staticmethod
    def _named(problem: ExpertsProblem, name: str, names: Mapping[str, str]) -> ArraySpec:
        return replace(find_array(problem.arrays(), name), name=names.get(name, name))


def read_layer(values: Mapping[str, Any], front: Any = None) -> LayerProblem:
    """The problem of keys that have been read. Raises RequestError where they do not fit each other."""
    t, e, topk, local = (values[name] for name in ("t", "e", "topk", "local"))
    experts = e if local is None else local
    if experts > e:
        raise RequestError(f"local={local}: there are e={e} experts; expected at most that")
    unit = values["unit"] or _unit(t * topk, e, values["shuffled"] or 0)
    preshuffled = {"shuffled": values["shuffled"], "schedule": PRESHUFFLE if values["shuffled"] else None}
    narrow, chained = values["dtype"] in NARROW, values["between"] == "lds"
    if chained:
        _check_chained(values)
        chained = values["inter"] > 0  # with inter=0 zeros are still weighted, and 0 times NaN is NaN
    common = {"t": t, "e": experts, "topk": topk, "unit": unit, "dtype": values["dtype"], **preshuffled}
    listed = not chained and values["reduction"] != "atomic"
    sorting = MOE_SORTING.problem(
        t=t, e=e, k=topk, unit=unit, local=local is not None, most=local, entry_ids=listed or narrow,
    )  # fmt: skip
    first = MOE_GEMM.problem(
        **common, n=values["inter"], k=values["hidden"], a_rows="token", c_rows="entry",
        **(_scaled(values["op"]) if narrow else {"op": values["op"], "out": values["dtype"]}),
    )  # fmt: skip
    second = MOE_GEMM.problem(
        **common, n=values["hidden"], k=values["inter"], a_rows="entry", c_rows="token", entry_ids=listed,
        **({"out": "f32", "reduction": "atomic"} if chained else {name: values[name] for name in ("out", "reduction")}),
        **(WEIGHTED_AND_SCALED if narrow else WEIGHTED),
    )  # fmt: skip
    between: Between = AsComputed(values["dtype"])
    if narrow:
        # A front gives each slot an expert, and without a mask all of them are here.
        complete = front is not None and local is None
        between = Quantised(MOE_SMOOTHQUANT.problem(
            m=t * topk, n=values["inter"], experts=e, k=1, dtype="f32", out=values["dtype"], row_ids=not complete,
        ))  # fmt: skip
    out = values["out"] or (values["dtype"] if chained else second.product.out)
    fits = WORD * FILLED_UNIT * most_units(t * topk, experts, FILLED_UNIT) <= MAXIMUM_ARRAY_BYTES
    open_unit = values["unit"] is None and unit == UNITS[-1] and fits and not chained
    return LayerProblem(sorting, first, second, between, out, chained, front, open_unit)


def _check_chained(values: Mapping[str, Any]) -> None:
    """Raises RequestError for what one kernel for both products cannot be."""
    if values["dtype"] in NARROW:
        why = "a row between the products has one scale, and a workgroup a part of the row"
        raise RequestError(f"dtype={values['dtype']}: {why}; expected {'|'.join(FLOATS)}, or between=memory")
    if values["shuffled"]:
        raise RequestError(f"shuffled={values['shuffled']}: between=lds takes plain matrices; expected nothing")
    if values["reduction"] in BY_WORKSPACE:
        raise RequestError(f"reduction={values['reduction']}: with between=lds memory adds the sums; expected atomic")


def _scaled(op: str) -> dict[str, object]:
    """An expression of sums with the scales of their rows and columns."""
    scales = {"gate": "d0 * d1", "up": "d0 * d2", "acc": "d0 * d1"}
    found = re.sub(r"\b(gate|up|acc)\b", lambda name: f"({name[0]} * {scales[name[0]]})", op)
    kinds = [kind for name, kind in (("d0", "column"), ("d1", "row"), ("d2", "row")) if name in found]
    return {"op": found, "d": ",".join(["f32"] * len(kinds)), "d_kind": ",".join(kinds), "out": "f32"}


def _unit(entries: int, experts: int, columns: int) -> int:
    """As many places as an expert has rows on average, or more; as many as tiles of the matrices have columns at least.
    """
    rows = ceil_div(entries, experts)
    return next((unit for unit in UNITS if unit >= rows and unit >= columns), UNITS[-1])
