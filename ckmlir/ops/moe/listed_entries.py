"""listed_entries: which entries of a routing, (token, slot), a list of `moe_sorting` names.

    entry_ids[token, slot] = token topk + slot, or -1 where no unit of an expert names it

`moe_sorting` says so itself with `entry_ids=1`. This finds it from the list alone, for the experts whose matrices are
there: an entry of expert e or beyond counts as not named, as in `moe_gemm`, which sums rows by these numbers. So do
entries in units behind the places taken.

Arrays: sorted_ids (places), expert_ids (units), totals (2); entry_ids (t, topk), all i32. Kernel arguments: these, then
places, t, topk, e (i32). Grid: parts of the places, each of a workgroup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.moe.moe_sorting import OPERATOR as MOE_SORTING
from ckmlir.ops.moe.moe_sorting import PART, every_expert
from ckmlir.ops.moe.routing import MOST_SLOTS, TOKEN_BITS, most_units, rows_of_words
from ckmlir.ops.operator import NOTHING, Launch, Operator, Step
from ckmlir.ops.request import Integer, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Reason, Spec
from ckmlir.ops.steps import OWN_KERNEL, Fill
from ckmlir.targets import Target


class Problem(Struct, frozen=True):
    """The list of t tokens with topk of e experts each, in units of so many places."""

    t: int
    e: int
    topk: int
    unit: int

    @property
    def units(self) -> int:
        """Units at most."""
        return most_units(self.t * self.topk, self.e, self.unit)


class ListedEntriesSpec(Spec):
    """What the kernel's code depends on: places of a unit."""

    unit: int

    @property
    def name(self) -> str:
        return f"listed_entries_unit{self.unit}"


class ListedEntries(Operator[Problem, ListedEntriesSpec]):
    """The operator `listed_entries`, which the module's docstring describes."""

    name = "listed_entries"
    spec_type = ListedEntriesSpec
    keys = (
        Integer("t", 128, "tokens"),
        Integer("e", 8, "experts whose entries count", minimum=1),
        Integer("topk", 4, "experts of each token"),
        Integer("unit", 32, "places of a unit, which has one expert", minimum=1),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        problem = Problem(**values)
        if problem.t >= 1 << TOKEN_BITS:
            raise RequestError(f"t={problem.t}: a word has {TOKEN_BITS} bits for a token; expected less than 2^24")
        if problem.topk > MOST_SLOTS:
            raise RequestError(f"topk={problem.topk}: a word has a byte for a slot; expected at most {MOST_SLOTS}")
        return problem

    def spec(self, problem: Problem, target: Target) -> ListedEntriesSpec:
        return ListedEntriesSpec(problem.unit)

    def validate(self, spec: ListedEntriesSpec, target: Target) -> list[Reason]:
        return [] if spec.unit > 0 else [Reason("unit", spec.unit, "units have places", "expected 1 or more")]

    def kernels(self, target: Target) -> list[ListedEntriesSpec]:
        return [ListedEntriesSpec(unit) for unit in (16, 32, 64, 128)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (
            array_spec("sorted_ids", (problem.units * problem.unit,), "i32", "in"),
            array_spec("expert_ids", (problem.units,), "i32", "in"),
            array_spec("totals", (2,), "i32", "in"),
            array_spec("entry_ids", (problem.t, problem.topk), "i32", "out"),
        )

    def _together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        """The list of a routing to twice as many experts, half of which do not count."""
        sorting = every_expert(problem.t, 2 * problem.e, problem.topk, problem.unit)
        found = MOE_SORTING.some_lists(sorting, generator)
        return {array.name: np.resize(found[array.name], array.shape) for array in self.arrays(problem)[:3]}

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        raise AssertionError(array.name)  # all are made together

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        places = problem.units * problem.unit
        taken = max(min(int(arrays["totals"][0]), places), 0) // problem.unit * problem.unit
        expert = np.repeat(arrays["expert_ids"].astype(np.int64), problem.unit)[:taken]
        entries = rows_of_words(arrays["sorted_ids"][:taken], "entry", problem.t, problem.topk)
        named = entries[(expert >= 0) & (expert < problem.e) & (entries >= 0)]
        found = np.full(problem.t * problem.topk, -1)
        found[named] = named
        return {"entry_ids": found.reshape(problem.t, problem.topk)}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        return dict.fromkeys(reference, Tolerance(0.0, 0.0, "integers are exact"))

    def launch(self, problem: Problem, spec: ListedEntriesSpec, target: Target) -> Launch:
        places = problem.units * problem.unit
        if not places:
            return NOTHING
        names = (array.name for array in self.arrays(problem))
        sizes = places, problem.t, problem.topk, problem.e
        return Launch((ceil_div(places, PART), 1, 1), (PART, 1, 1), (*names, *map(i32, sizes)))

    def steps(self, problem: Problem, spec: ListedEntriesSpec, target: Target) -> tuple[Step, ...]:
        return (Fill("entry_ids", 255), OWN_KERNEL)


OPERATOR = ListedEntries()
