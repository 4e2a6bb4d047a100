"""fmha_bwd_convert_dq: dQ from its parts in the slots of workgroups that stay, the last step of `fmha_bwd` then.

    dq = alpha · (the head's slot + the slots of workgroups that begin in the head, in their order)

How many slots a head has follows from costs, by the arithmetic of `slot_table`, and which rows each has is in memory;
others are not read. A sequence without keys has dQ = 0. Nothing is promised of rows of no sequence, which are left as
they are.

Arrays: dq_parts (elements) f32, those of the sequences' places and lengths as `sequences.py` has them, costs (b + 2)
i32 as `fmha_bwd_costs` makes it, written (slots, 2) i32, the first row of each slot and their end, dq (b, h, sq, d)
with layout bhsd or (b, sq, h, d) with bshd. Kernel arguments: the arrays but written; the most queries and keys of a
sequence, rows of a batch, h (i32); written; the numbers of `Shares.arguments` and `Shares.bounding`; alpha (f32); the
strides of dq along the sequence (i32), the head and the batch (i64). Grid: (blocks of queries, heads, sequences).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ckmlir.ops.attention.fmha_bwd_costs import BLOCKS, SEQUENCE_KEYS, read_shares, unknown_places
from ckmlir.ops.attention.fmha_bwd_spec import block_of
from ckmlir.ops.attention.fmha_fwd_spec import FORWARD_MASKS, HEAD_TILES, lists_of
from ckmlir.ops.attention.head_strides import VECTOR_BYTES, HeadStrides, checked_head_strides
from ckmlir.ops.attention.slot_table import Shares
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, ArraySpec, Launch, Operator, array_spec, ceil_div
from ckmlir.ops.precision import OVERFLOW, UNIT, order_decides
from ckmlir.ops.request import Choice, Integer, Real, RequestError
from ckmlir.ops.spec import Reason, Spec, by, not_a_choice, unlike
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

DTYPES = ("f16", "bf16", "f32")
WAVES = 4
"""Of a workgroup, which adds a block of queries."""


@dataclass(frozen=True)
class Problem:
    """Parts of dQ to add; strides along batches, heads and rows."""

    shares: Shares
    d: int
    dtype: str
    layout: str
    strides: tuple[int, int, int]
    alpha: float

    @property
    def batches(self) -> int:
        """Of dq."""
        return 1 if self.shares.queries.slots else self.shares.sequences

    @property
    def elements(self) -> int:
        """Of all slots."""
        return self.shares.elements(self.d)


@dataclass(frozen=True)
class ConvertDqSpec(Spec):
    """What the kernel's code depends on: the type and channels of dQ, the block of a step, what memory holds of queries
    and of keys, and the mask, as `FmhaBwdSpec` has it."""

    dtype: str
    d: int
    block: tuple[int, int]
    sequences: tuple[str, str]
    mask: str

    @property
    def name(self) -> str:
        words = [f"{side}_{word}" for side, word in zip("qk", self.sequences, strict=True) if word]
        return "_".join([f"fmha_bwd_convert_dq_{self.dtype}_d{self.d}", by(self.block), *words, f"mask_{self.mask}"])

    @property
    def lists(self) -> tuple[str, ...]:
        """The arrays that say where sequences begin and how long they are."""
        return lists_of(self.sequences)

    @property
    def d_tile(self) -> int:
        """Channels of a tile: the power of two that holds a row."""
        return max(1 << (self.d - 1).bit_length(), HEAD_TILES[0])

    @property
    def row_multiple(self) -> int:
        """Elements of which the distances of rows and heads are multiples."""
        return VECTOR_BYTES // find_dtype(self.dtype).bytes


class ConvertDq(Operator[Problem, ConvertDqSpec]):
    """See the module's text."""

    name = "fmha_bwd_convert_dq"
    summary = "attention backward with a fixed number of workgroups, last step: dQ from the slots of its parts"
    spec_type = ConvertDqSpec
    keys = (
        *SEQUENCE_KEYS,
        Integer("d", 128, "channels: a multiple of 8 (f32: 4) up to 256", minimum=1, multiple=8),
        Choice("dtype", "f16", "of dQ", DTYPES),
        Choice("layout", "bhsd", "order of the dimensions in memory", ("bhsd", "bshd")),
        Real("alpha", 1.0, "what the sums are multiplied with"),
        HeadStrides("dq_strides", None, "elements from one batch, head and row of dq to the next", 3, array="dq"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        shares = read_shares(values)
        d, dtype, layout = values["d"], values["dtype"], values["layout"]
        check_channels(d, dtype)
        batches = 1 if shares.queries.slots else shares.sequences
        sizes = (shares.heads, shares.queries.total, d)
        strides = checked_head_strides("dq", layout, batches, sizes, dtype, values["dq_strides"])
        problem = Problem(shares, d, dtype, layout, strides, values["alpha"])
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: Problem, target: Target) -> ConvertDqSpec:
        return ConvertDqSpec(**_fields(problem))

    def mismatches(self, problem: Problem, spec: ConvertDqSpec, target: Target) -> list[Reason]:
        return list(unlike(spec, **_fields(problem)))

    def validate(self, spec: ConvertDqSpec, target: Target) -> list[Reason]:
        return invalid_fields(spec)

    def kernels(self, target: Target) -> list[ConvertDqSpec]:
        words = (("", ""), ("start", "start"))
        return [
            ConvertDqSpec(dtype, d, block_of(dtype, d)[:2], pair, mask)
            for dtype in DTYPES for d in HEAD_TILES for pair in words for mask in ("none", "causal")
        ]  # fmt: skip

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        shares, (batch, head, row) = problem.shares, problem.strides
        middle = ((shares.heads, head), (shares.queries.total, row))
        (first, far), (second, near) = middle if problem.layout == "bhsd" else middle[::-1]
        return (
            array_spec("dq_parts", (problem.elements,), "f32", "in", limited=False),
            *shares.arrays(),
            array_spec("costs", (shares.sequences + 2,), "i32", "in"),
            array_spec("written", (shares.count, 2), "i32", "in"),
            ArraySpec("dq", (problem.batches, first, second, problem.d), problem.dtype, "out", (batch, far, near, 1)),
        )

    def _together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        values = problem.shares.values()
        return {**values, "costs": problem.shares.costs(values), "written": problem.shares.written(values)}

    def check_inputs(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        problem.shares.check_arrays(arrays)
        if (arrays["costs"] != problem.shares.costs(arrays)).any():
            raise RequestError("array costs: it does not belong to these lengths; expected what fmha_bwd_costs makes")
        if (arrays["written"] != problem.shares.written(arrays)).any():
            raise RequestError("array written: it does not belong to these lengths; expected what fmha_bwd leaves")

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return generator.standard_normal(array.shape, dtype=np.float32)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        found = self._empty(problem)
        by_head = found if problem.layout == "bhsd" else found.transpose(0, 2, 1, 3)
        with np.errstate(invalid="ignore", over="ignore"):
            for place, parts in self._parts(problem, arrays):
                by_head[place] = np.float32(problem.alpha) * parts.sum(0)
        return {"dq": found}

    def _empty(self, problem: Problem) -> Array:
        return np.zeros(self.arrays(problem)[-1].shape)

    def _parts(self, problem: Problem, arrays: Mapping[str, Array]) -> Iterator[tuple[Any, Array]]:
        """The rows of each head of each sequence in dQ by heads, and their parts (slots, rows, channels)."""
        shares, parts = problem.shares, arrays["dq_parts"].astype(np.float64)
        first, own = shares.first_own(problem.d), shares.queries.longest * problem.d
        of_heads = parts[:first].reshape(problem.batches, shares.heads, shares.queries.total, problem.d)
        for number in range(shares.sequences):
            start, length = shares.queries.of(arrays, number)
            for head in range(shares.heads):
                place = 0 if shares.queries.slots else number, head, slice(start, start + length)
                slots = shares.slots(arrays["costs"], arrays, number, head)
                found = np.zeros((len(slots), length, problem.d))
                for at, slot in enumerate(slots):
                    begin = 0 if slot is None else first + slot * own
                    own_rows = parts[begin : begin + length * problem.d]
                    rows = slice(*arrays["written"][shares.index(number, head, slot)])
                    whole = of_heads[place] if slot is None else own_rows.reshape(length, problem.d)
                    found[at][rows] = whole[rows]
                yield place, found

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """A sum of n parts takes n additions from zero on, each rounded in f32, and the product with alpha one more;
        then it is rounded to the dtype."""
        error, free = self._empty(problem), np.ones(reference["dq"].shape, np.bool_)
        views = [one if problem.layout == "bhsd" else one.transpose(0, 2, 1, 3) for one in (error, free)]
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
        arguments = ("dq_parts", *spec.lists, "costs", "dq", *map(np.int32, sizes), "written")
        arguments += (*shares.arguments(problem.d), *shares.bounding)
        arguments += (np.float32(problem.alpha), np.int32(row), np.int64(head), np.int64(batch))
        grid = (ceil_div(shares.queries.longest, spec.block[0]), shares.heads, shares.sequences)
        return Launch(grid, (WAVES * WAVE_SIZE, 1, 1), arguments)


def invalid_fields(spec: ConvertDqSpec) -> list[Reason]:
    """Why there is no kernel of a specification."""
    choices = {"dtype": DTYPES, "block": tuple(BLOCKS.values()), "mask": FORWARD_MASKS}
    reasons = [*not_a_choice(spec, **choices), *unknown_places(spec)]
    multiple = spec.row_multiple if spec.dtype in DTYPES else 1
    if spec.d % multiple or not multiple <= spec.d <= HEAD_TILES[-1]:
        right = f"expected a multiple of {multiple} from {multiple} to {HEAD_TILES[-1]}"
        reasons.append(Reason("d", spec.d, "no tile holds so many channels in whole vectors", right))
    return reasons


def check_channels(d: int, dtype: str) -> None:
    """Raise RequestError for a number of channels that no kernel takes."""
    multiple = VECTOR_BYTES // find_dtype(dtype).bytes
    if d % multiple or d > HEAD_TILES[-1]:
        raise RequestError(f"d={d}: expected a multiple of {multiple} from {multiple} to {HEAD_TILES[-1]}")


def _fields(problem: Problem) -> dict[str, Any]:
    shares = problem.shares
    return {
        "dtype": problem.dtype, "d": problem.d, "block": shares.block, "sequences": shares.words,
        "mask": shares.mask.kind,
    }  # fmt: skip


OPERATOR = ConvertDq()
