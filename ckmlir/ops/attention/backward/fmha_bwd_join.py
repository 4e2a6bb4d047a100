"""fmha_bwd_join: dK or dV of the blocks of keys that workgroups share, of those that stay; behind the main kernel.

Each workgroup has two slots: for what it has of dK or dV of the block that it begins within, and of another that it
ends within. Here the second of a workgroup and the first of those behind it that begin within the block are added, in
their order, and the sum takes its type, and the block's place; other blocks are left as they are. Which blocks are
shared follows from costs, by the arithmetic of `slot_table`. Nothing is promised of rows of no sequence.

Arrays: slots (twice the workgroups that may have some, keys of a block, d) f32, those of the sequences' places and
lengths as `sequences.py` has them, costs (b + 2) i32 as `fmha_bwd_costs` makes it, dk (b, h, sk, d) with layout bhsd or
(b, sk, h, d) with bshd. Kernel arguments: the arrays; the most queries and keys of a sequence, sequences, what is
beside the steps of a block, which stay uncut (i32); the numbers of `Shares.bounding`; the strides of dk along the
sequence (i32), the head and the batch (i64). Grid: (workgroups but the first, which begins with a block).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.backward.slots_operator import WAVES, SlotsOperator, SlotsProblem, SlotsSpec, slot_keys
from ckmlir.ops.attention.head_strides import by_head
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Launch
from ckmlir.ops.precision import OVERFLOW, UNIT, order_decides
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
    """dK or dV of blocks of keys that workgroups share."""

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
        for place, pieces in _joined(problem, arrays):
            with np.errstate(over="ignore", invalid="ignore"):
                by_head(problem.layout, found)[place] = pieces.sum(0)
        return {"dk": found}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """A sum of n pieces takes n - 1 additions, each rounded in f32; then it is rounded to the dtype. Of blocks that
        are not shared nothing is promised."""
        error, free = np.zeros(reference["dk"].shape), np.ones(reference["dk"].shape, np.bool_)
        views = [by_head(problem.layout, one) for one in (error, free)]
        for place, pieces in _joined(problem, arrays):
            sizes = np.where(np.isfinite(pieces), np.abs(pieces), 0.0).sum(0)
            views[0][place] = (len(pieces) - 1) * UNIT * sizes
            views[1][place] = order_decides(pieces, 0) | (sizes >= OVERFLOW)
        kind = find_dtype(problem.dtype)
        return {"dk": Tolerance(kind.unit_roundoff, error + kind.underflow, "an f32 sum of pieces", free)}

    def launch(self, problem: Problem, spec: JoinSpec, target: Target) -> Launch:
        shares, (batch, head, row) = problem.shares, problem.strides
        if shares.own_slots < 2 or not shares.pieces or self.writes_nothing(problem):
            return NOTHING
        sizes = (shares.queries.longest, shares.keys.longest, shares.sequences)
        numbers = map(i32, (*sizes, shares.beside, shares.uncut))
        arguments = ("slots", *spec.lists, "costs", "dk", *numbers, *shares.bounding)
        arguments += (i32(row), i64(head), i64(batch))
        return Launch((shares.own_slots - 1, 1, 1), (WAVES * WAVE_SIZE, 1, 1), arguments)


def _joined(problem: Problem, arrays: Mapping[str, Array]) -> Iterator[tuple[Any, Array]]:
    """Where the rows of each shared block lie in dK by heads, and their pieces (pieces, rows, channels)."""
    shares = problem.shares
    blocks: dict[tuple[int, int, int], list[int]] = {}
    for workgroup, number, head, place in shares.cut(arrays):
        blocks.setdefault((number, head, place), [2 * workgroup - 1]).append(2 * workgroup)
    for (number, head, place), slots in blocks.items():
        start, length = shares.keys.of(arrays, number)
        first = place * shares.block[1]
        count = min(shares.block[1], length - first)
        batch = 0 if shares.keys.slots else number
        where = batch, head, slice(start + first, start + first + count)
        yield where, arrays["slots"][slots, :count].astype(np.float64)


OPERATOR = Join()
