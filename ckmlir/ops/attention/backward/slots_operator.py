"""What operators have in common that read the slots of workgroups that stay, steps of `fmha_bwd` (`slot_table.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.backward.fmha_bwd_costs import BLOCKS, SEQUENCE_KEYS, read_shares, unknown_places
from ckmlir.ops.attention.backward.fmha_bwd_spec import block_of
from ckmlir.ops.attention.backward.slot_table import Shares
from ckmlir.ops.attention.fmha_fwd_spec import FORWARD_MASKS, HEAD_TILES, lists_of, row_multiple, words_of
from ckmlir.ops.attention.head_strides import HeadStrides, checked_head_strides
from ckmlir.ops.attention.sequences import Rows
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Operator
from ckmlir.ops.request import Choice, Integer, Key, RequestError
from ckmlir.ops.spec import Reason, Spec, by, not_a_choice, unlike
from ckmlir.targets import Target

DTYPES = ("f16", "bf16", "f32")
WAVES = 4
"""Of a workgroup, which writes a block of rows."""


class SlotsProblem(Struct, frozen=True):
    """Gradients of which slots have parts; strides of the result along batches, heads and rows.

    Attributes:
        side: "queries" or "keys", whose gradients they are.
    """

    side: ClassVar[str]
    shares: Shares
    d: int
    dtype: str
    layout: str
    strides: tuple[int, int, int]

    @property
    def rows(self) -> Rows:
        """Of the result."""
        rows: Rows = getattr(self.shares, self.side)
        return rows

    @property
    def batches(self) -> int:
        """Of the result."""
        return 1 if self.rows.slots else self.shares.sequences

    @property
    def fields(self) -> dict[str, Any]:
        """What a specification says of the problem."""
        shares = self.shares
        return {"dtype": self.dtype, "d": self.d, "block": shares.block, "sequences": shares.words,
                "mask": shares.mask.kind}  # fmt: skip


class SlotsSpec(Spec):
    """What such a kernel's code depends on: the result's type and channels, the block of a step, what memory holds of
    queries and of keys, and the mask, as `FmhaBwdSpec` has it.

    Attributes:
        operator: the name with which that of the kernel begins.
    """

    operator: ClassVar[str]
    dtype: str
    d: int
    block: tuple[int, int]
    sequences: tuple[str, str]
    mask: str

    @property
    def name(self) -> str:
        words = by(self.block), *words_of(self.sequences), f"mask_{self.mask}"
        return "_".join([f"{self.operator}_{self.dtype}_d{self.d}", *words])

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
        return row_multiple(self.dtype)


P = TypeVar("P", bound=SlotsProblem)
S = TypeVar("S", bound=SlotsSpec)


def slot_keys(output: str, *more: Key) -> tuple[Key, ...]:
    """The keys of such an operator with a result of this name."""
    return (
        *SEQUENCE_KEYS,
        Integer("d", 128, "channels: a multiple of 8 (f32: 4) up to 256", minimum=1, multiple=8),
        Choice("dtype", "f16", f"of {output}", DTYPES),
        Choice("layout", "bhsd", "order of the dimensions in memory", ("bhsd", "bshd")),
        *more,
        HeadStrides(f"{output}_strides", None, f"elements from one batch, head and row of {output} to the next", 3,
                    array=output),
    )  # fmt: skip


class SlotsOperator(Operator[P, S]):
    """An operator that reads slots.

    Attributes:
        output: its result's name.
        problem_type: of which `numbers` are more fields, by the names of their keys.
    """

    output: ClassVar[str]
    numbers: ClassVar[tuple[str, ...]] = ()
    problem_type: type[P]

    def _problem(self, values: Mapping[str, Any]) -> P:
        shares = read_shares(values)
        d, dtype, layout = values["d"], values["dtype"], values["layout"]
        multiple = row_multiple(dtype)
        if d % multiple or d > HEAD_TILES[-1]:
            raise RequestError(f"d={d}: expected a multiple of {multiple} from {multiple} to {HEAD_TILES[-1]}")
        rows: Rows = getattr(shares, self.problem_type.side)
        batches, sizes = 1 if rows.slots else shares.sequences, (shares.heads, rows.total, d)
        given = values[f"{self.output}_strides"]
        strides = checked_head_strides(self.output, layout, batches, sizes, dtype, given)
        problem = self.problem_type(shares, d, dtype, layout, strides, *(values[name] for name in self.numbers))
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: P, target: Target) -> S:
        return self.spec_type(**problem.fields)

    def mismatches(self, problem: P, spec: S, target: Target) -> list[Reason]:
        return list(unlike(spec, **problem.fields))

    def validate(self, spec: S, target: Target) -> list[Reason]:
        return invalid_fields(spec)

    def kernels(self, target: Target) -> list[S]:
        words = (("", ""), ("start", "start"))
        return [
            self.spec_type(dtype=dtype, d=d, block=block_of(dtype, d)[:2], sequences=pair, mask=mask)
            for dtype in DTYPES for d in HEAD_TILES for pair in words for mask in ("none", "causal")
        ]  # fmt: skip

    def lists(self, problem: P) -> tuple[ArraySpec, ...]:
        """The arrays that say what slots hold."""
        return (*problem.shares.arrays(), array_spec("costs", (problem.shares.numbers,), "i32", "in"))

    def result(self, problem: P) -> ArraySpec:
        """The array that is written."""
        heads, (batch, head, row) = problem.shares.heads, problem.strides
        middle = ((heads, head), (problem.rows.total, row))
        (first, far), (second, near) = middle if problem.layout == "bhsd" else middle[::-1]
        shape = (problem.batches, first, second, problem.d)
        return ArraySpec(self.output, shape, problem.dtype, "out", (batch, far, near, 1))

    def check_inputs(self, problem: P, arrays: Mapping[str, Array]) -> None:
        problem.shares.check_arrays(arrays)
        if (arrays["costs"] != problem.shares.costs(arrays)).any():
            raise RequestError("array costs: it does not belong to these lengths; expected what fmha_bwd_costs makes")

    def _values(self, problem: P, array: ArraySpec, generator: np.random.Generator) -> Array:
        return generator.standard_normal(array.shape, dtype=np.float32)


def invalid_fields(spec: SlotsSpec) -> list[Reason]:
    """Why a specification has no kernel; empty when it has one."""
    choices = {"dtype": DTYPES, "block": tuple(BLOCKS.values()), "mask": FORWARD_MASKS}
    reasons = [*not_a_choice(spec, **choices), *unknown_places(spec)]
    multiple = spec.row_multiple if spec.dtype in DTYPES else 1
    if spec.d % multiple or not multiple <= spec.d <= HEAD_TILES[-1]:
        right = f"expected a multiple of {multiple} from {multiple} to {HEAD_TILES[-1]}"
        reasons.append(Reason("d", spec.d, "no tile holds so many channels in whole vectors", right))
    return reasons
