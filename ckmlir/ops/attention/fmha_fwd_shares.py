"""fmha_fwd_shares: how many workgroups share the keys of each sequence, so that none has much more to do than others.

For `unified_attention` with balanced=1, on the device, where lengths are. A block of queries costs as many steps as
there are blocks of keys that it attends to at most. All together are divided by the workgroups that there should be;
what comes of it is how long a share should be. Blocks are cut into the nearest number of such shares, so that none is
half as long again, and what is hardly longer stays whole:

    length = max(ceil(cost of all blocks / workgroups), ceil(dearest block / most))
    counts = cost of a block of the sequence / length, rounded, at least 1
    begins = the shares of all blocks of the sequences before; behind the last, those of all

Arrays: those of the sequences' places and lengths as `sequences.py` has them; counts (b) and begins (b + 1) i32. Kernel
arguments: the arrays; sequences, the most queries and keys of one, heads that are rows of a block together, blocks of
keys that one of queries attends to at most, workgroups a head, the most shares of a block (i32). Grid: one workgroup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.fmha_fwd_spec import UNPAGED, lists_of, words_of
from ckmlir.ops.attention.fmha_fwd_splitkv_combine import MOST_SPLITS
from ckmlir.ops.attention.sequences import KEYS, Rows, read_sequences
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.operator import Argument, Launch, Operator
from ckmlir.ops.request import Integer, PowerOfTwo, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Reason, Spec, by, not_a_choice, unlike
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

"""What memory may hold of queries and of keys."""
MOST_ROWS = 1 << 10
"""Queries or keys of a block."""
MOST_STEPS = (1 << 31) - 1
"""Of all blocks together, which are summed up in i32."""


class ForwardShares(Struct, frozen=True):
    """Blocks of queries whose keys workgroups share.

    Attributes:
        sequences: how many.
        together: heads that are rows of a block.
        block: queries and keys of a step.
        dearest: blocks of keys that one of queries attends to at most.
        workgroups: that there should be of a head, or of heads together; most: shares of a block.
    """

    sequences: int
    queries: Rows
    keys: Rows
    together: int
    block: tuple[int, int]
    dearest: int
    workgroups: int
    most: int

    @property
    def words(self) -> tuple[str, str]:
        """What memory holds of queries and of keys: see `sequences.Rows.word`."""
        return self.queries.word, self.keys.word

    @property
    def blocks(self) -> int:
        """The most blocks that there are of a head."""
        rows = self.queries.total if self.queries.slots else self.sequences * self.queries.longest
        return rows * self.together // self.block[0] + self.sequences

    def check(self) -> None:
        """Raise RequestError where the steps of all blocks might not be an i32."""
        if self.blocks * self.dearest > MOST_STEPS:
            what = f"{self.blocks} blocks of queries and {self.dearest} of keys"
            raise RequestError(f"{what} are too much to be shared; expected at most {MOST_STEPS} of both together")

    def found(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The kernel's results, from the arrays."""
        rows, columns = self.block
        pairs = [(self.queries.of(arrays, one)[1], self.keys.of(arrays, one)[1]) for one in range(self.sequences)]
        lengths = np.array(pairs, np.int64).reshape(-1, 2)
        blocks = -(-lengths[:, 0] * self.together // rows)
        steps = np.clip(-(-lengths[:, 1] // columns), 1, max(self.dearest, 1))
        total, dearest = int((blocks * steps).sum()), int(steps.max(initial=0))
        length = max(ceil_div(total, self.workgroups), ceil_div(dearest, self.most), 1)
        counts = np.maximum((steps + length // 2) // length, 1)
        begins = np.concatenate([[0], np.cumsum(blocks * counts)])
        return {"counts": counts.astype(np.int32), "begins": begins.astype(np.int32)}


class ForwardSharesSpec(Spec):
    """What the kernel's code depends on: queries and keys of a step, what memory holds of both."""

    block: tuple[int, int]
    sequences: tuple[str, str]

    @property
    def name(self) -> str:
        return "_".join(["fmha_fwd_shares", by(self.block), *words_of(self.sequences)])

    @property
    def lists(self) -> tuple[str, ...]:
        """The arrays that say where sequences begin and how long they are."""
        return lists_of(self.sequences)


class ForwardSharesOperator(Operator[ForwardShares, ForwardSharesSpec]):
    """The operator `fmha_fwd_shares`, which the module's docstring describes."""

    name = "fmha_fwd_shares"
    spec_type = ForwardSharesSpec
    keys = (
        Integer("b", None, "sequences; by default 1, or as many as there are lengths"),
        Integer("sq", None, "queries, or the most of a sequence; by default 256, or the longest"),
        Integer("sk", None, "keys, or the most of a sequence; by default as sq, or the longest"),
        *KEYS,
        Integer("together", 1, "heads that are rows of a block together", minimum=1, maximum=1 << 10),
        PowerOfTwo("block_q", 16, "rows of a block of queries", minimum=1, maximum=MOST_ROWS),
        PowerOfTwo("block_k", 64, "keys of a block", minimum=1, maximum=MOST_ROWS),
        Integer("dearest", None, "blocks of keys that one of queries attends to at most; by default all", minimum=1),
        Integer("workgroups", 304, "that there should be of a head", minimum=1, maximum=1 << 16),
        Integer("most", MOST_SPLITS, "shares of a block at most", minimum=1, maximum=MOST_SPLITS),
    )

    def _problem(self, values: Mapping[str, Any]) -> ForwardShares:
        sequences, queries, keys = read_sequences(values)
        block = values["block_q"], values["block_k"]
        for name, size in zip(("block_q", "block_k"), block, strict=True):
            if size & (size - 1):
                raise RequestError(f"{name}={size}: expected a power of two up to {MOST_ROWS}")
        dearest = values["dearest"] or max(ceil_div(keys.longest, block[1]), 1)
        shares = ForwardShares(
            sequences, queries, keys, values["together"], block, dearest, values["workgroups"], values["most"]
        )
        shares.check()
        self.arrays(shares)  # refuses what is too large
        return shares

    def spec(self, problem: ForwardShares, target: Target) -> ForwardSharesSpec:
        return ForwardSharesSpec(**_fields(problem))

    def mismatches(self, problem: ForwardShares, spec: ForwardSharesSpec, target: Target) -> list[Reason]:
        return list(unlike(spec, **_fields(problem)))

    def validate(self, spec: ForwardSharesSpec, target: Target) -> list[Reason]:
        sizes = tuple(1 << one for one in range(MOST_ROWS.bit_length()))
        wrong = len(spec.block) != 2 or any(one not in sizes for one in spec.block)
        right = f"expected powers of two up to {MOST_ROWS}"
        reasons = [Reason("block", spec.block, "blocks have other sizes", right)] if wrong else []
        pairs = tuple((queries, keys) for queries in UNPAGED for keys in UNPAGED)
        return [*reasons, *not_a_choice(spec, sequences=pairs)]

    def kernels(self, target: Target) -> list[ForwardSharesSpec]:
        return [
            ForwardSharesSpec((rows, columns), ("start", "length"))
            for rows in (16, 32, 128, 256) for columns in (32, 64, 128)
        ]  # fmt: skip

    def arrays(self, problem: ForwardShares) -> tuple[ArraySpec, ...]:
        counts = array_spec("counts", (problem.sequences,), "i32", "out")
        begins = array_spec("begins", (problem.sequences + 1,), "i32", "out")
        return (*problem.queries.arrays(), *problem.keys.arrays(), counts, begins)

    def _together(self, problem: ForwardShares, generator: np.random.Generator) -> Mapping[str, Array]:
        return {**problem.queries.values(), **problem.keys.values()}

    def check_inputs(self, problem: ForwardShares, arrays: Mapping[str, Array]) -> None:
        problem.queries.check(arrays)
        problem.keys.check(arrays)

    def _values(self, problem: ForwardShares, array: ArraySpec, generator: np.random.Generator) -> Array:
        raise AssertionError(array.name)  # all are made together

    def reference(self, problem: ForwardShares, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return problem.found(arrays)

    def tolerances(
        self, problem: ForwardShares, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        exact = Tolerance(0.0, 0.0, "integers are exact")
        return {"counts": exact, "begins": exact}

    def launch(self, problem: ForwardShares, spec: ForwardSharesSpec, target: Target) -> Launch:
        sizes = problem.sequences, problem.queries.longest, problem.keys.longest
        numbers = (*sizes, problem.together, problem.dearest, problem.workgroups, problem.most)
        arguments: tuple[Argument, ...] = (*spec.lists, "counts", "begins", *map(i32, numbers))
        return Launch((1, 1, 1), (WAVE_SIZE, 1, 1), arguments)


def _fields(problem: ForwardShares) -> dict[str, Any]:
    return {"block": problem.block, "sequences": problem.words}


OPERATOR = ForwardSharesOperator()
