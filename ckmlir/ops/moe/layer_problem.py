"""A layer of experts: what a request of `fused_moe` comes to, and which arrays its steps take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES, ArraySpec, find_array
from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.contraction_spec import PRESHUFFLE
from ckmlir.ops.dtypes import HALF_BYTES
from ckmlir.ops.inner import inner_problem
from ckmlir.ops.moe.between import INTER, OF_GROUPS, AsComputed, Between, Quantised, QuantisedByGroups
from ckmlir.ops.moe.experts_copies import FILLED_UNIT, PAST_UNIT, fill_units, units_go_past_lds
from ckmlir.ops.moe.experts_problem import BY_WORKSPACE, ExpertsProblem, used_in
from ckmlir.ops.moe.experts_scales import has_channels
from ckmlir.ops.moe.layer_sums import WEIGHTS, first_sums, second_sums
from ckmlir.ops.moe.moe_gemm import OPERATOR as MOE_GEMM
from ckmlir.ops.moe.moe_smoothquant import OPERATOR as MOE_SMOOTHQUANT
from ckmlir.ops.moe.moe_sorting import OPERATOR as MOE_SORTING
from ckmlir.ops.moe.moe_sorting import Problem as Sorting
from ckmlir.ops.moe.routing import most_units
from ckmlir.ops.quantization.quantize_blocks import OPERATOR as QUANTIZE_BLOCKS
from ckmlir.ops.request import RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target

UNITS = (16, 32, 64, 128)
WORD = 4
"""Bytes of a place of a list."""
LISTS = ("sorted_ids", "sorted_weights", "expert_ids", "totals", "entry_ids")
"""Workspaces that `moe_sorting` fills."""
_FIRST = {
    "a": "x", "b": "gate", "c": INTER, "scale_a": "x_scale", "scale_b": "gate_scale", "scale_gate": "gate_scale",
    "scale_up": "up_scale", "zero_b": "gate_zero", "zero_gate": "gate_zero", "zero_up": "up_zero",
}  # fmt: skip
"""What the first products' arrays but D tensors are called here, where that is something else."""
SUMS = "sums"
"""What memory adds up in f32 where y is of another type."""
OF_FIRST = {"n": "inter", "k": "hidden"}
"""Keys of the first products -> those here that they follow from."""
OF_SECOND = {"n": "hidden", "k": "inter"}
OF_SORTING = {"k": "topk", "most": "local"}
_SECOND = {"b": "down", "c": "y", "scale_b": "down_scale", "zero_b": "down_zero", **{name: name for name in LISTS}}


class LayerProblem(Struct, frozen=True):
    """A layer of experts by the problems of its steps.

    Attributes:
        sorting, first, second: the routing's entries by expert, the products of gate and up, those of down.
        between: what becomes of the first products' rows before the second take them.
        front: what finds the routing; None where it is given.
        out: the type of y.
        first_sides, second_sides: what the D tensors of the products are called here.
        chained: whether one kernel computes both products (`ckmlir.ops.moe.chained`).
        open_unit: whether a chip may take another unit, since no request names one.
    """

    sorting: Sorting
    first: ExpertsProblem
    second: ExpertsProblem
    between: Between
    out: str
    first_sides: tuple[str, ...]
    second_sides: tuple[str, ...]
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
    def first_names(self) -> Mapping[str, str]:
        """What the first products' arrays are called here, where that is something else."""
        return {**_FIRST, **{f"d{place}": name for place, name in enumerate(self.first_sides)}}

    @property
    def second_names(self) -> Mapping[str, str]:
        """What the second products' arrays are called here, where that is something else."""
        return {**_SECOND, **self.between.second, **{f"d{place}": name for place, name in enumerate(self.second_sides)}}

    @property
    def matrices(self) -> tuple[ArraySpec, ...]:
        """The experts' arrays."""
        first, second = self.first.product, self.second.product
        found = [self._named(self.first, name, self.first_names) for name in first.operands[1:]]
        return (*found, self._named(self.second, second.operands[1], self.second_names))

    @property
    def beside(self) -> tuple[ArraySpec, ...]:
        """Scales of rows and matrices, biases, and what is between the products takes."""
        first = [self._named(self.first, name, self.first_names) for name in _beside(self.first)]
        second = [self._named(self.second, name, self.second_names) for name in self._given_to_second]
        return (*first, *second, *self.between.arrays)

    @property
    def _given_to_second(self) -> tuple[str, ...]:
        """Arrays beside the second products' matrices that no step of the layer makes."""
        made = {*LISTS, *(one.name for one in self.between.workspaces)}
        return tuple(name for name in _beside(self.second) if self.second_names[name] not in made)

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
        return self._named(self.first, "a", self.first_names)

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
        return self._named(self.first, "c", self.first_names)

    def first_arrays(self, arrays: Mapping[str, Array], lists: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays of the first products by the names of their operator."""
        names = (*self.first.product.operands, *_beside(self.first))
        return {**{name: arrays[self.first_names.get(name, name)] for name in names}, **lists}

    def second_arrays(
        self, arrays: Mapping[str, Array], lists: Mapping[str, Array], rows: Mapping[str, Array]
    ) -> dict[str, Array]:
        """The arrays of the second products by the names of their operator; `rows` are what is between."""
        given = {name: arrays[self.second_names[name]] for name in self._given_to_second}
        return {"b": arrays["down"], "d0": lists[WEIGHTS], **given, **rows, **lists}

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
    narrow, chained = values["dtype"] not in FLOATS, values["between"] == "lds"
    _check_matrices(values)
    used_in(values["op"])  # as it was given, without the scales and biases that `first_sums` puts into it
    reduction = values["reduction"]
    if chained:
        _check_chained(values)
        # With inter=0 zeros are still weighted, and 0 times NaN is NaN: two products then, which sum as by default.
        chained, reduction = values["inter"] > 0, None
    own = {name: values[name] for name in ("dtype", "b_dtype", "a_scale", "b_scale", "scale", "zeros")}
    common = {"t": t, "e": experts, "topk": topk, "unit": unit, **own, **preshuffled}
    of_first, of_second = first_sums(values), second_sums(values)
    listed = not chained and reduction != "atomic"
    sorting = inner_problem(
        MOE_SORTING, OF_SORTING, t=t, e=e, k=topk, unit=unit, local=local is not None, most=local,
        entry_ids=listed or narrow,
    )  # fmt: skip
    first = inner_problem(
        MOE_GEMM, OF_FIRST | _FIRST,
        **common, n=values["inter"], k=values["hidden"], a_rows="token", c_rows="entry",
        out="f32" if narrow else values["dtype"], **of_first.keys,
    )  # fmt: skip
    second = inner_problem(
        MOE_GEMM, OF_SECOND | _SECOND | {"a": INTER},
        **common, n=values["hidden"], k=values["inter"], a_rows="entry", c_rows="token", entry_ids=listed,
        **({"out": "f32", "reduction": "atomic"} if chained else {"out": values["out"], "reduction": reduction}),
        **of_second.keys,
    )  # fmt: skip
    # A front gives each slot an expert, and without a mask all of them are here.
    complete = front is not None and local is None
    between = _between(values, first, second, complete=complete) if narrow else AsComputed(values["dtype"])
    out = values["out"] or (values["dtype"] if chained else second.product.out)
    fits = WORD * FILLED_UNIT * most_units(t * topk, experts, FILLED_UNIT) <= MAXIMUM_ARRAY_BYTES
    open_unit = values["unit"] is None and unit == UNITS[-1] and fits and not chained
    sides = of_first.sides, of_second.sides
    return LayerProblem(sorting, first, second, between, out, *sides, chained, front, open_unit)


def _between(values: Mapping[str, Any], first: ExpertsProblem, second: ExpertsProblem, *, complete: bool) -> Between:
    """What quantises rows between the products; `complete`: each slot has an expert whose matrices are there."""
    common = {"m": first.entries, "n": values["inter"], "dtype": "f32", "out": values["dtype"], "row_ids": not complete}
    if has_channels(values):
        words = {"m": "t * topk", "n": "inter", "experts": "e", "x": INTER}
        return Quantised(inner_problem(MOE_SMOOTHQUANT, words, **common, experts=first.e, k=1))
    of_rows = second.product.scaling[0]
    scales = {"block": f"{of_rows.rows}x{of_rows.group}", "scales": of_rows.dtype}
    return QuantisedByGroups(inner_problem(QUANTIZE_BLOCKS, OF_GROUPS, **common, **scales))


def _check_matrices(values: Mapping[str, Any]) -> None:
    """Raises RequestError for scales of matrices that have the type of x, which is of floats."""
    if values["dtype"] in FLOATS and values["b_dtype"] is None and values["b_scale"] is not None:
        right = "|".join(HALF_BYTES)
        raise RequestError(f"b_scale={values['b_scale']}: of matrices of 4 bits; expected b_dtype={right} as well")


def _check_chained(values: Mapping[str, Any]) -> None:
    """Raises RequestError for what one kernel for both products cannot be."""
    if values["dtype"] not in FLOATS:
        why = "rows between the products are quantised, and a workgroup has parts of them"
        raise RequestError(f"dtype={values['dtype']}: {why}; expected {'|'.join(FLOATS)}, or between=memory")
    if values["shuffled"]:
        raise RequestError(f"shuffled={values['shuffled']}: between=lds takes plain matrices; expected nothing")
    if values["zeros"]:
        raise RequestError("zeros=1: between=lds takes no zero points; expected nothing")
    if values["reduction"] in BY_WORKSPACE:
        raise RequestError(f"reduction={values['reduction']}: with between=lds memory adds the sums; expected atomic")


def _beside(problem: ExpertsProblem) -> tuple[str, ...]:
    """Names of a product's arrays beside its operands: D tensors, scales and zero points of matrices."""
    product = problem.product
    scales = (name for one in product.scaling for name in (one.name, *one.zero_names))
    return (*(one.name for one in product.side), *scales)


def _unit(entries: int, experts: int, columns: int) -> int:
    """As many places as an expert has rows on average, or more; as many as tiles of the matrices have columns at least.
    """
    rows = ceil_div(entries, experts)
    return next((unit for unit in UNITS if unit >= rows and unit >= columns), UNITS[-1])
