"""moe_sorting: the entries of a routing, (token, slot), sorted by the expert that each chose.

Entry (token, slot) belongs to expert topk_ids[token, slot]. Experts follow each other in the order of their numbers,
the entries of one in the order of tokens, then slots. Each expert's entries are padded to a multiple of `unit`; an
expert without entries takes nothing. So a unit of `unit` rows has one expert, and a product of matrices may take it as
a block.

    sorted_ids[i]     = token | slot << 24, or t | k << 24 for padding
    sorted_weights[i] = weights[token, slot], or 0 for padding
    expert_ids[i]     = the expert of unit i
    totals            = {places taken with padding, tokens}

What lies behind the places taken keeps what it held. An id that is not an expert (negative, or e and beyond) gives an
entry that appears nowhere; a token that names an expert twice has both entries. With `local`, only experts whose `mask`
is not 0 take part, the first `most` of them, and expert_ids counts those alone: the share of one device of several.
With `width`, an array of t rows is filled with zeros in the same launch, for products that are added to it. With
`entry_ids`, an array of that name says which entries appear: entry_ids[token, slot] = token k + slot, or -1.

Few entries are sorted by one workgroup (`phases=one`). Of many, each workgroup places PART entries (`phases=many`):
`histogram` counts the entries of each part for each expert, `cumsum` says how many entries of each expert lie in the
parts before, and how many there are of each. Where an entry comes among those of its part with its expert is found by
comparing them, so the result is the same each time.

Arrays: topk_ids (t, k) i32, weights (t, k) f32, mask (e) i32 if local; sorted_ids, sorted_weights, expert_ids, totals
(2), entry_ids (t, k) and buffer (t, width) if there are such. Kernel arguments: these, with before (parts, e) and
counts (e) in front of the outputs where there are phases; then t, k, most if local, workgroups that sort, elements of
the buffer (i32).

Semantics: CK Tile, example 13_moe_sorting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.indexed.cumsum import OPERATOR as CUMSUM
from ckmlir.ops.indexed.histogram import MOST_BINS
from ckmlir.ops.indexed.histogram import OPERATOR as HISTOGRAM
from ckmlir.ops.inner import inner_problem
from ckmlir.ops.moe.routing import MOST_SLOTS, TOKEN_BITS, most_units
from ckmlir.ops.operator import Launch, Operator, Run, Step
from ckmlir.ops.request import Choice, Flag, Integer, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Algorithm, Reason, Spec, not_a_choice
from ckmlir.ops.steps import OWN_KERNEL, Workspace
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

WAVES = 4
PART = WAVES * WAVE_SIZE
"""Entries that a workgroup places at a time, and units whose experts it finds."""
FEW = 8 * PART
"""Entries that one workgroup sorts as soon as three launches do, by the model."""
BUFFERS = ("f16", "bf16", "f32")
FILLED = 1 << 15
"""Bytes of the buffer that a workgroup fills."""
PHASES = ("one", "many")
WORDS = {"n": "t * k", "bins": "e"}
"""Keys of `histogram` -> those here that they follow from."""


class Problem(Struct, frozen=True):
    """A routing of t tokens to k of e experts each."""

    t: int
    e: int
    k: int
    unit: int
    local: bool
    width: int
    dtype: str
    phases: str
    entry_ids: bool
    most: int

    @property
    def entries(self) -> int:
        """Pairs of token and slot."""
        return self.t * self.k

    @property
    def units(self) -> int:
        """Units at most."""
        return most_units(self.entries, self.e, self.unit)

    @property
    def parts(self) -> int:
        """Parts of the entries."""
        return ceil_div(self.entries, PART)

    @property
    def sorters(self) -> int:
        """Workgroups that sort; at least one, which says how many there are."""
        return 1 if self.phases == "one" else max(self.parts, ceil_div(self.units, PART), 1)


def every_expert(t: int, e: int, k: int, unit: int, *, entry_ids: bool = False) -> Problem:
    """A routing in which all experts take part, of any number, for what needs its lists in NumPy alone."""
    return Problem(t, e, k, unit, False, 0, "f16", "one", entry_ids, e)


class MoeSortingSpec(Spec):
    """What the kernel's code depends on.

    Attributes:
        phases: whether entries have been counted before.
        buffer: dtype of the array to be filled, "" for none.
        entry_ids: whether it says which entries appear.
    """

    experts: int
    unit: int
    local: bool
    buffer: str
    phases: Algorithm[str]
    entry_ids: bool = False

    @property
    def name(self) -> str:
        options = [self.phases, *(["local"] if self.local else []), *(["zeros", self.buffer] if self.buffer else [])]
        options += ["entries"] if self.entry_ids else []
        return "_".join(["moe_sorting", f"e{self.experts}", f"unit{self.unit}", *options])


class MoeSorting(Operator[Problem, MoeSortingSpec]):
    """The operator `moe_sorting`, which the module's docstring describes."""

    name = "moe_sorting"
    spec_type = MoeSortingSpec
    keys = (
        Integer("t", 128, "tokens"),
        Integer("e", 8, "experts", minimum=1),
        Integer("k", 4, "experts of each token"),
        Integer("unit", 32, "what each expert's entries are padded to a multiple of", minimum=1),
        Flag("local", False, "only experts whose mask is not 0"),
        Integer("width", 0, "elements of a row of an array of t rows that is filled with zeros; 0: there is none"),
        Choice("dtype", "f16", "of that array", BUFFERS),
        Choice("phases", None, "by one workgroup, or by many in three launches", PHASES),
        Flag("entry_ids", False, "also which entries appear"),
        Integer("most", None, "with local: experts that take part at most, the first of them; by default all"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        if values["most"] is not None and not values["local"]:
            raise RequestError(f"most={values['most']}: without local=1 all experts take part; expected nothing")
        most = values["e"] if values["most"] is None else min(values["most"], values["e"])
        values = {**values, "most": most}
        names = Problem.__struct_fields__
        phases = values["phases"] or ("one" if values["t"] * values["k"] <= FEW else "many")
        problem = Problem(**{name: values[name] for name in names if name != "phases"}, phases=phases)
        if problem.t >= 1 << TOKEN_BITS:
            raise RequestError(f"t={problem.t}: a word has {TOKEN_BITS} bits for a token; expected less than 2^24")
        if problem.k > MOST_SLOTS:
            raise RequestError(f"k={problem.k}: a word has a byte for a slot; expected at most {MOST_SLOTS}")
        if problem.e > MOST_BINS:
            raise RequestError(f"e={problem.e}: expected at most {MOST_BINS} experts, whose counts a workgroup holds")
        if phases == "many":
            self._histogram(problem), self._cumsum(problem)  # refuse what is too large
        return problem

    def _histogram(self, problem: Problem) -> Any:
        return inner_problem(HISTOGRAM, WORDS, n=problem.entries, part=PART, bins=problem.e)

    def _cumsum(self, problem: Problem) -> Any:
        return inner_problem(
            CUMSUM, {"n": "e"}, m=problem.parts, n=problem.e, along="columns", dtype="i32", exclusive=1, totals=1
        )  # fmt: skip

    def spec(self, problem: Problem, target: Target) -> MoeSortingSpec:
        buffer = problem.dtype if problem.width else ""
        return MoeSortingSpec(problem.e, problem.unit, problem.local, buffer, problem.phases, problem.entry_ids)

    def validate(self, spec: MoeSortingSpec, target: Target) -> list[Reason]:
        return list(_invalid(spec))

    def kernels(self, target: Target) -> list[MoeSortingSpec]:
        requests: list[dict[str, object]] = [
            {}, {"e": 256, "k": 8, "width": 4096}, {"e": 256, "k": 8, "t": 4096, "width": 7168, "dtype": "bf16"},
            {"e": 256, "k": 8, "t": 4096, "local": 1, "entry_ids": 1},
        ]  # fmt: skip
        return [self.spec(self.problem(**request), target) for request in requests]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        t, k, units = problem.t, problem.k, problem.units
        return (
            array_spec("topk_ids", (t, k), "i32", "in"),
            array_spec("weights", (t, k), "f32", "in"),
            *([array_spec("mask", (problem.e,), "i32", "in")] if problem.local else ()),
            array_spec("sorted_ids", (units * problem.unit,), "i32", "out"),
            array_spec("sorted_weights", (units * problem.unit,), "f32", "out"),
            array_spec("expert_ids", (units,), "i32", "out"),
            array_spec("totals", (2,), "i32", "out"),
            *([array_spec("entry_ids", (t, k), "i32", "out")] if problem.entry_ids else ()),
            *([array_spec("buffer", (t, problem.width), problem.dtype, "out")] if problem.width else ()),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == "weights":
            return generator.random(array.shape, np.float32)
        if array.name == "mask":
            return generator.integers(0, 2, array.shape)
        # Different experts for each token, where there are as many: a step that has no divisor in common with e.
        steps = [step for step in range(1, min(problem.e, MOST_BINS) + 1) if gcd(step, problem.e) == 1]
        first = generator.integers(0, problem.e, (problem.t, 1))
        return (first + generator.choice(steps, (problem.t, 1)) * np.arange(problem.k)) % problem.e

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        found = {
            array.name: np.zeros(array.shape, np.float64 if array.dtype in BUFFERS else np.int64)
            for array in self.arrays(problem)
            if array.role == "out"
        }
        ids, weights = arrays["topk_ids"].reshape(-1), arrays["weights"].reshape(-1)
        numbers = _numbers(problem, arrays, ids)
        in_order = np.argsort(numbers, kind="stable")
        experts, counts = np.unique(numbers, return_counts=True)
        at = 0
        for local, count, last in zip(experts, counts, np.cumsum(counts), strict=True):
            if local < 0:
                continue
            own = in_order[last - count : last]
            end = at + ceil_div(len(own), problem.unit) * problem.unit
            found["sorted_ids"][at:end] = problem.t | problem.k << TOKEN_BITS
            found["sorted_ids"][at : at + len(own)] = own // problem.k | own % problem.k << TOKEN_BITS
            found["sorted_weights"][at : at + len(own)] = weights[own]
            found["expert_ids"][at // problem.unit : end // problem.unit] = local
            at = end
        found["totals"][:] = at, problem.t
        if problem.entry_ids:
            found["entry_ids"][:] = np.where(numbers >= 0, np.arange(len(ids)), -1).reshape(problem.t, problem.k)
        return found

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Nothing is computed; what lies behind the places taken is not promised."""
        taken = int(reference["totals"][0])
        ends = {"sorted_ids": taken, "sorted_weights": taken, "expert_ids": taken // problem.unit}
        return {
            name: Tolerance(0.0, 0.0, "exact", np.arange(len(array)) >= ends[name] if name in ends else False)
            for name, array in reference.items()
        }

    def some_lists(self, problem: Problem, generator: np.random.Generator) -> dict[str, Array]:
        """The outputs for a routing that is made up, as inputs of operators which take lists."""
        inputs = (array for array in self.arrays(problem) if array.role == "in")
        return self.reference(problem, {array.name: self._values(problem, array, generator) for array in inputs})

    def launch(self, problem: Problem, spec: MoeSortingSpec, target: Target) -> Launch:
        names = [array.name for array in self.arrays(problem)]
        inputs = 3 if problem.local else 2
        phases = ["before", "counts"] if problem.phases == "many" else []
        filled = problem.t * problem.width
        fillers = ceil_div(filled, FILLED // find_dtype(problem.dtype).bytes)
        limit = (problem.most,) if problem.local else ()
        scalars = map(i32, (problem.t, problem.k, *limit, problem.sorters, filled))
        return Launch(
            (problem.sorters + fillers, 1, 1),
            (WAVES * WAVE_SIZE, 1, 1),
            (*names[:inputs], *phases, *names[inputs:], *scalars),
        )

    def workspaces(self, problem: Problem, spec: MoeSortingSpec, target: Target) -> tuple[Workspace, ...]:
        if problem.phases == "one":
            return ()
        size = problem.parts * problem.e * 4
        return Workspace("parts", size), Workspace("before", size), Workspace("counts", problem.e * 4)

    def steps(self, problem: Problem, spec: MoeSortingSpec, target: Target) -> tuple[Step, ...]:
        if problem.phases == "one":
            return (OWN_KERNEL,)
        return (
            Run(HISTOGRAM, self._histogram(problem), {"x": "topk_ids", "counts": "parts"}, WORDS),
            Run(CUMSUM, self._cumsum(problem), {"x": "parts", "y": "before", "totals": "counts"}, {"n": "e"}),
            OWN_KERNEL,
        )


def _numbers(problem: Problem, arrays: Mapping[str, Array], ids: Array) -> Array:
    """The number of each entry's expert among those that take part; -1 where it takes none."""
    exists = (ids >= 0) & (ids < problem.e)
    if not problem.local:
        return np.where(exists, ids, -1)
    enabled = arrays["mask"] != 0
    numbers = np.cumsum(enabled) - 1
    numbers[~enabled | (numbers >= problem.most)] = -1
    return np.where(exists, numbers[np.where(exists, ids, 0)], -1)


def _invalid(spec: MoeSortingSpec) -> Iterator[Reason]:
    yield from not_a_choice(spec, phases=PHASES, buffer=("", *BUFFERS))
    if not 1 <= spec.experts <= MOST_BINS:
        yield Reason("experts", spec.experts, "a workgroup holds their counts", f"expected 1 to {MOST_BINS}")
    if spec.unit < 1:
        yield Reason("unit", spec.unit, "units have places", "expected 1 or more")


OPERATOR = MoeSorting()
