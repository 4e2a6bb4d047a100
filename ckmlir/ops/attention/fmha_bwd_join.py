"""fmha_bwd_join: dK or dV of the blocks of keys that two workgroups share, of those that stay; behind the main kernel.

A workgroup that begins within a block has a slot, to which it and the one before have added what they have of the
block's dK or dV. Here the slot takes its type, and the block's place; other blocks are left as they are. Which blocks
are shared follows from costs, by the arithmetic of `slot_table`. Nothing is promised of rows of no sequence.

Arrays: slots (workgroups that may have one, keys of a block, d) f32, those of the sequences' places and lengths as
`sequences.py` has them, costs (b + 2) i32 as `fmha_bwd_costs` makes it, dk (b, h, sk, d) with layout bhsd or (b, sk, h,
d) with bshd. Kernel arguments: the arrays; the most queries and keys of a sequence, sequences (i32); the numbers of
`Shares.bounding`; the strides of dk along the sequence (i32), the head and the batch (i64). Grid: (slots but the first,
which nobody has).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ckmlir.ops.attention.fmha_bwd_convert_dq import DTYPES, WAVES, ConvertDqSpec, check_channels, invalid_fields
from ckmlir.ops.attention.fmha_bwd_costs import SEQUENCE_KEYS, read_shares
from ckmlir.ops.attention.fmha_bwd_spec import block_of
from ckmlir.ops.attention.fmha_fwd_spec import HEAD_TILES
from ckmlir.ops.attention.head_strides import HeadStrides, checked_head_strides
from ckmlir.ops.attention.slot_table import Shares
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, ArraySpec, Launch, Operator, array_spec
from ckmlir.ops.request import Choice, Integer, RequestError
from ckmlir.ops.spec import Reason, by, unlike
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE


@dataclass(frozen=True)
class Problem:
    """Blocks to join; strides along batches, heads and rows."""

    shares: Shares
    d: int
    dtype: str
    layout: str
    strides: tuple[int, int, int]

    @property
    def batches(self) -> int:
        """Of dk."""
        return 1 if self.shares.keys.slots else self.shares.sequences


class JoinSpec(ConvertDqSpec):
    """What the kernel's code depends on: the type and channels of dK, the block of a step, what memory holds of queries
    and of keys, and the mask, as `FmhaBwdSpec` has it."""

    @property
    def name(self) -> str:
        words = [f"{side}_{word}" for side, word in zip("qk", self.sequences, strict=True) if word]
        return "_".join([f"fmha_bwd_join_{self.dtype}_d{self.d}", by(self.block), *words, f"mask_{self.mask}"])


class Join(Operator[Problem, JoinSpec]):
    """See the module's text."""

    name = "fmha_bwd_join"
    summary = "attention backward with a fixed number of workgroups: dK or dV of blocks of keys that two share"
    spec_type = JoinSpec
    keys = (
        *SEQUENCE_KEYS,
        Integer("d", 128, "channels: a multiple of 8 (f32: 4) up to 256", minimum=1, multiple=4),
        Choice("dtype", "f16", "of dK", DTYPES),
        Choice("layout", "bhsd", "order of the dimensions in memory", ("bhsd", "bshd")),
        HeadStrides("dk_strides", None, "elements from one batch, head and row of dk to the next", 3, array="dk"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        shares = read_shares(values)
        d, dtype, layout = values["d"], values["dtype"], values["layout"]
        check_channels(d, dtype)
        batches = 1 if shares.keys.slots else shares.sequences
        sizes = (shares.heads, shares.keys.total, d)
        strides = checked_head_strides("dk", layout, batches, sizes, dtype, values["dk_strides"])
        problem = Problem(shares, d, dtype, layout, strides)
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: Problem, target: Target) -> JoinSpec:
        return JoinSpec(**_fields(problem))

    def mismatches(self, problem: Problem, spec: JoinSpec, target: Target) -> list[Reason]:
        return list(unlike(spec, **_fields(problem)))

    def validate(self, spec: JoinSpec, target: Target) -> list[Reason]:
        return invalid_fields(spec)

    def kernels(self, target: Target) -> list[JoinSpec]:
        words = (("", ""), ("start", "start"))
        return [
            JoinSpec(dtype, d, block_of(dtype, d)[:2], pair, mask)
            for dtype in DTYPES for d in HEAD_TILES for pair in words for mask in ("none", "causal")
        ]  # fmt: skip

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        shares, (batch, head, row) = problem.shares, problem.strides
        middle = ((shares.heads, head), (shares.keys.total, row))
        (first, far), (second, near) = middle if problem.layout == "bhsd" else middle[::-1]
        return (
            array_spec("slots", (shares.own_slots, shares.block[1], problem.d), "f32", "in", limited=False),
            *shares.arrays(),
            array_spec("costs", (shares.sequences + 2,), "i32", "in"),
            ArraySpec("dk", (problem.batches, first, second, problem.d), problem.dtype, "out", (batch, far, near, 1)),
        )

    def _together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        values = problem.shares.values()
        return {**values, "costs": problem.shares.costs(values)}

    def check_inputs(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        problem.shares.check_arrays(arrays)
        if (arrays["costs"] != problem.shares.costs(arrays)).any():
            raise RequestError("array costs: it does not belong to these lengths; expected what fmha_bwd_costs makes")

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return generator.standard_normal(array.shape, dtype=np.float32)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        found = np.zeros(self.arrays(problem)[-1].shape)
        for place, rows in _joined(problem, arrays):
            _by_head(problem, found)[place] = rows
        return {"dk": found}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Rounded once; of blocks that are not shared nothing is promised."""
        free = np.ones(reference["dk"].shape, np.bool_)
        for place, _ in _joined(problem, arrays):
            _by_head(problem, free)[place] = False
        kind = find_dtype(problem.dtype)
        return {"dk": Tolerance(kind.unit_roundoff, kind.underflow, "a number rounded once", free)}

    def launch(self, problem: Problem, spec: JoinSpec, target: Target) -> Launch:
        shares, (batch, head, row) = problem.shares, problem.strides
        if shares.own_slots < 2 or self.writes_nothing(problem):
            return NOTHING
        sizes = (shares.queries.longest, shares.keys.longest, shares.sequences)
        arguments = ("slots", *spec.lists, "costs", "dk", *map(np.int32, sizes), *shares.bounding)
        arguments += (np.int32(row), np.int64(head), np.int64(batch))
        return Launch((shares.own_slots - 1, 1, 1), (WAVES * WAVE_SIZE, 1, 1), arguments)


def _by_head(problem: Problem, array: Array) -> Array:
    return array if problem.layout == "bhsd" else array.transpose(0, 2, 1, 3)


def _joined(problem: Problem, arrays: Mapping[str, Array]) -> Iterator[tuple[Any, Array]]:
    """Where the rows of each shared block lie in dK by heads, and what they are."""
    shares = problem.shares
    for workgroup, number, head, place in shares.cut(arrays):
        start, length = shares.keys.of(arrays, number)
        first = place * shares.block[1]
        count = min(shares.block[1], length - first)
        batch = 0 if shares.keys.slots else number
        where = batch, head, slice(start + first, start + first + count)
        yield where, arrays["slots"][workgroup, :count].astype(np.float64)


def _fields(problem: Problem) -> dict[str, Any]:
    shares = problem.shares
    return {
        "dtype": problem.dtype, "d": problem.d, "block": shares.block, "sequences": shares.words,
        "mask": shares.mask.kind,
    }  # fmt: skip


OPERATOR = Join()
