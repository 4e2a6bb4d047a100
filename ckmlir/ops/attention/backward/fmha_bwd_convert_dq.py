"""fmha_bwd_convert_dq: dQ from its parts in the slots of workgroups that stay, the last step of `fmha_bwd` then.

    dq = alpha · (the head's slot + the slots of workgroups that begin in the head, in their order)

How many slots a head has follows from costs, by the arithmetic of `slot_table`, or is there (`block_table`); which rows
each has is in memory, and others are not read. A sequence without keys has dQ = 0. Nothing is promised of rows of no
sequence, which are left as they are.

Arrays: dq_parts (elements) f32, those of the sequences' places and lengths as `sequences.py` has them, costs i32 as
`fmha_bwd_costs` makes it, written (slots, 2) i32, the first row of each slot and their end, dq (b, h, sq, d) with
layout bhsd or (b, sq, h, d) with bshd. Kernel arguments: the arrays but written; the most queries and keys of a
sequence, rows of a batch, h (i32); written; the numbers of `Shares.arguments` and `Shares.bounding`; alpha (f32); the
strides of dq along the sequence (i32), the head and the batch (i64). Grid: (blocks of queries, heads, sequences).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.backward.block_table import BLOCKS, KINDS
from ckmlir.ops.attention.backward.fmha_bwd_costs import RANGES
from ckmlir.ops.attention.backward.slots_operator import WAVES, SlotsOperator, SlotsProblem, SlotsSpec, slot_keys
from ckmlir.ops.attention.head_strides import by_head
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Argument, Launch
from ckmlir.ops.precision import OVERFLOW, UNIT, order_decides
from ckmlir.ops.request import Real, RequestError
from ckmlir.ops.scalars import ceil_div, f32, i32, i64
from ckmlir.ops.spec import Reason, not_a_choice
from ckmlir.records import replace
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE


class Problem(SlotsProblem, frozen=True):
    """Parts of dQ to add, and what sums are multiplied with."""

    side = "queries"
    alpha: float

    @property
    def fields(self) -> dict[str, Any]:
        """See `SlotsProblem`: where slots lie in the order of heads, no mask says which."""
        return {**super().fields, "ranges": self.shares.ranges, "mask": self.shares.counted_mask}

    @property
    def elements(self) -> int:
        """Of all slots."""
        return self.shares.elements(self.d)


class ConvertDqSpec(SlotsSpec):
    """Of a kernel that adds blocks of queries.

    Attributes:
        ranges: what those of workgroups end behind.
    """

    operator = "fmha_bwd_convert_dq"
    ranges: str = "steps"

    @property
    def name(self) -> str:
        return "_".join([super().name, *[self.ranges] * (self.ranges != "steps")])


class ConvertDq(SlotsOperator[Problem, ConvertDqSpec]):
    """Sums of dQ over the slots of each head."""

    name = "fmha_bwd_convert_dq"
    output, numbers = "dq", ("alpha",)
    problem_type, spec_type = Problem, ConvertDqSpec
    keys = slot_keys("dq", RANGES, Real("alpha", 1.0, "what the sums are multiplied with"))

    def kernels(self, target: Target) -> list[ConvertDqSpec]:
        listed = super().kernels(target)
        return [*listed, *(replace(one, ranges=BLOCKS) for one in listed if one.mask == "none")]

    def validate(self, spec: ConvertDqSpec, target: Target) -> list[Reason]:
        return [*super().validate(spec, target), *not_a_choice(spec, ranges=tuple(KINDS))]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (
            array_spec("dq_parts", (problem.elements,), "f32", "in", limited=False),
            *self.lists(problem),
            array_spec("written", (problem.shares.count, 2), "i32", "in"),
            self.result(problem),
        )

    def _together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        values = problem.shares.values()
        return {**values, "costs": problem.shares.costs(values), "written": problem.shares.written(values)}

    def check_inputs(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        super().check_inputs(problem, arrays)
        if (arrays["written"] != problem.shares.written(arrays)).any():
            raise RequestError("array written: it does not belong to these lengths; expected what fmha_bwd leaves")

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        found = self._empty(problem)
        heads = by_head(problem.layout, found)
        with np.errstate(invalid="ignore", over="ignore"):
            for place, parts in self._parts(problem, arrays):
                heads[place] = np.float32(problem.alpha) * parts.sum(0)
        return {"dq": found}

    def _empty(self, problem: Problem) -> Array:
        return np.zeros(self.result(problem).shape)

    def _parts(self, problem: Problem, arrays: Mapping[str, Array]) -> Iterator[tuple[Any, Array]]:
        """The rows of each head of each sequence in dQ by heads, and their parts (slots, rows, channels)."""
        shares, parts = problem.shares, arrays["dq_parts"].astype(np.float64)
        costs = arrays["costs"]
        for number in range(shares.sequences):
            start, length = shares.queries.of(arrays, number)
            for head in range(shares.heads):
                place = 0 if shares.queries.slots else number, head, slice(start, start + length)
                slots = shares.slots(costs, arrays, number, head)
                found = np.zeros((len(slots), length, problem.d))
                for at, slot in enumerate(slots):
                    begin = shares.place(costs, arrays, number, head, slot, problem.d)
                    rows = slice(*arrays["written"][shares.index(costs, number, head, slot)])
                    found[at][rows] = parts[begin : begin + length * problem.d].reshape(length, problem.d)[rows]
                yield place, found

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """A sum of n parts takes n additions from zero on, each rounded in f32, and the product with alpha one more;
        then it is rounded to the dtype."""
        error, free = self._empty(problem), np.ones(reference["dq"].shape, np.bool_)
        views = [by_head(problem.layout, one) for one in (error, free)]
        alpha = abs(float(np.float32(problem.alpha)))
        for place, parts in self._parts(problem, arrays):
            sizes = np.where(np.isfinite(parts), np.abs(parts), 0.0).sum(0)
            views[0][place] = (len(parts) + 1) * UNIT * alpha * sizes
            views[1][place] = order_decides(parts, 0) | (sizes >= OVERFLOW) | (alpha * sizes >= OVERFLOW)
        kind = find_dtype(problem.dtype)
        return {"dq": Tolerance(kind.unit_roundoff, error + kind.underflow, "an f32 sum of parts", free)}

    def launch(self, problem: Problem, spec: ConvertDqSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        shares, (batch, head, row) = problem.shares, problem.strides
        sizes = (shares.queries.longest, shares.keys.longest, shares.queries.total, shares.heads)
        arguments: tuple[Argument, ...] = ("dq_parts", *spec.lists, "costs", "dq", *map(i32, sizes), "written")
        arguments += (*shares.arguments(problem.d), *(shares.bounding if spec.mask != "none" else ()))
        arguments += (f32(problem.alpha), i32(row), i64(head), i64(batch))
        grid = (ceil_div(shares.queries.longest, spec.block[0]), shares.heads, shares.sequences)
        return Launch(grid, (WAVES * WAVE_SIZE, 1, 1), arguments)


OPERATOR = ConvertDq()
