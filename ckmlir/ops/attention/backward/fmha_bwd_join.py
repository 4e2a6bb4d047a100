"""fmha_bwd_join: dK or dV of the blocks of keys that two workgroups share, of those that stay; behind the main kernel.

Each workgroup has two slots: for what it has of dK or dV of the block that it begins within, and of the one that it
ends within. Here the second of a workgroup and the first of the next are added, and the sum takes its type, and the
block's place; other blocks are left as they are. Which blocks are shared follows from costs, by the arithmetic of
`slot_table`. Nothing is promised of rows of no sequence.

Arrays: slots (twice the workgroups that may have some, keys of a block, d) f32, those of the sequences' places and
lengths as `sequences.py` has them, costs (b + 2) i32 as `fmha_bwd_costs` makes it, dk (b, h, sk, d) with layout bhsd or
(b, sk, h, d) with bshd. Kernel arguments: the arrays; the most queries and keys of a sequence, sequences (i32); the
numbers of `Shares.bounding`; the strides of dk along the sequence (i32), the head and the batch (i64). Grid:
(workgroups but the first, which begins with a block).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.backward.slots_operator import WAVES, SlotsOperator, SlotsProblem, SlotsSpec, slot_keys
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Launch
from ckmlir.ops.scalars import i32, i64
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE


class Problem(SlotsProblem, frozen=True):
    """Blocks to join."""

    side = "keys"


class JoinSpec(SlotsSpec):
    """Of a kernel that joins blocks of keys."""

    operator = "fmha_bwd_join"


class Join(SlotsOperator[Problem, JoinSpec]):
    """dK or dV of blocks of keys that two workgroups share."""

    name = "fmha_bwd_join"
    output = "dk"
    problem_type, spec_type = Problem, JoinSpec
    keys = slot_keys("dk")

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        shares = problem.shares
        return (
            array_spec("slots", (shares.pieces, shares.block[1], problem.d), "f32", "in", limited=False),
            *self.lists(problem),
            self.result(problem),
        )

    def _together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        values = problem.shares.values()
        return {**values, "costs": problem.shares.costs(values)}

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        found = np.zeros(self.result(problem).shape)
        for place, rows in _joined(problem, arrays):
            problem.by_head(found)[place] = rows
        return {"dk": found}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Rounded once; of blocks that are not shared nothing is promised."""
        free = np.ones(reference["dk"].shape, np.bool_)
        for place, _ in _joined(problem, arrays):
            problem.by_head(free)[place] = False
        kind = find_dtype(problem.dtype)
        return {"dk": Tolerance(kind.unit_roundoff, kind.underflow, "a sum in f32, rounded once", free)}

    def launch(self, problem: Problem, spec: JoinSpec, target: Target) -> Launch:
        shares, (batch, head, row) = problem.shares, problem.strides
        if shares.own_slots < 2 or not shares.pieces or self.writes_nothing(problem):
            return NOTHING
        sizes = (shares.queries.longest, shares.keys.longest, shares.sequences)
        arguments = ("slots", *spec.lists, "costs", "dk", *map(i32, sizes), *shares.bounding)
        arguments += (i32(row), i64(head), i64(batch))
        return Launch((shares.own_slots - 1, 1, 1), (WAVES * WAVE_SIZE, 1, 1), arguments)


def _joined(problem: Problem, arrays: Mapping[str, Array]) -> Iterator[tuple[Any, Array]]:
    """Where the rows of each shared block lie in dK by heads, and what they are."""
    shares = problem.shares
    for workgroup, number, head, place in shares.cut(arrays):
        start, length = shares.keys.of(arrays, number)
        first = place * shares.block[1]
        count = min(shares.block[1], length - first)
        batch = 0 if shares.keys.slots else number
        where = batch, head, slice(start + first, start + first + count)
        with np.errstate(over="ignore", invalid="ignore"):
            pieces = arrays["slots"][2 * workgroup - 1, :count] + arrays["slots"][2 * workgroup, :count]
        yield where, pieces.astype(np.float64)


OPERATOR = Join()
