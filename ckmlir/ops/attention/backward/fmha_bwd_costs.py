"""fmha_bwd_costs: where the work of each sequence begins for attention backward with a fixed number of workgroups.

A sequence's work is what its blocks of keys cost in all heads, in steps (`slot_table`); costs are the sums over the
sequences before, behind the last the sum over all, and how many steps are a workgroup's. With ranges=blocks that is a
number of rows, and slots of dQ follow (`block_table`): for each sequence those of a head, then (b + 1) the rows in
front of it, then (b + 1) the slots. It is one kernel of a workgroup: what `fmha_bwd` with pack=host has a function on
the host do.

Arrays: those of the sequences' places and lengths as `sequences.py` has them; costs (b + 2, with ranges=blocks 4b + 4)
i32. Kernel arguments: the arrays; sequences, heads, the most queries and keys of a sequence, workgroups, what is beside
the steps of a block, those of `Shares.bounding` (i32). Grid: one workgroup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.backward.block_table import KINDS, shares_by
from ckmlir.ops.attention.backward.slot_table import BESIDE, Shares
from ckmlir.ops.attention.fmha_fwd_spec import FORWARD_MASKS, UNPAGED, lists_of, words_of
from ckmlir.ops.attention.masks import Mask, MaskKey
from ckmlir.ops.attention.sequences import KEYS, read_sequences
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.operator import Launch, Operator
from ckmlir.ops.request import Choice, Integer
from ckmlir.ops.scalars import i32
from ckmlir.ops.spec import Reason, Spec, by, not_a_choice, unlike
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

BLOCKS = {"32x128": (32, 128), "16x64": (16, 64)}
"""Queries and keys of a step."""
SEQUENCE_KEYS = (
    Integer("b", None, "sequences; by default 1, or as many as there are lengths"),
    Integer("h", 2, "heads of Q", minimum=1),
    Integer("sq", None, "queries, or the most of a sequence; by default 256, or the longest"),
    Integer("sk", None, "keys, or the most of a sequence; by default as sq, or the longest"),
    *KEYS,
    Choice("block", "16x64", "queries and keys of a step", tuple(BLOCKS)),
    MaskKey("mask", Mask.parse("none"), "which keys a query attends to"),
    Integer("workgroups", 3, "that share the work", minimum=1, maximum=1 << 16),
    Integer("beside", BESIDE, "steps that loading and leaving a block of keys is worth", minimum=1, maximum=64),
)
"""The keys of shares."""
RANGES = Choice("ranges", "steps", "what those of workgroups end behind: any step, or blocks of keys", tuple(KINDS))


class CostsSpec(Spec):
    """What the kernel's code depends on: the block of a step, what memory holds of queries and of keys, the mask as
    `FmhaBwdSpec` has it, and what ranges end behind."""

    block: tuple[int, int]
    sequences: tuple[str, str]
    mask: str
    ranges: str = "steps"

    @property
    def name(self) -> str:
        words = by(self.block), *words_of(self.sequences), f"mask_{self.mask}"
        return "_".join(["fmha_bwd_costs", *words, *[self.ranges] * (self.ranges != "steps")])

    @property
    def lists(self) -> tuple[str, ...]:
        """The arrays that say where sequences begin and how long they are."""
        return lists_of(self.sequences)


class Costs(Operator[Shares, CostsSpec]):
    """The operator `fmha_bwd_costs`, which the module's docstring describes."""

    name = "fmha_bwd_costs"
    spec_type = CostsSpec
    keys = (*SEQUENCE_KEYS, RANGES)

    def _problem(self, values: Mapping[str, Any]) -> Shares:
        return read_shares(values)

    def spec(self, problem: Shares, target: Target) -> CostsSpec:
        return CostsSpec(**_fields(problem))

    def mismatches(self, problem: Shares, spec: CostsSpec, target: Target) -> list[Reason]:
        return list(unlike(spec, **_fields(problem)))

    def validate(self, spec: CostsSpec, target: Target) -> list[Reason]:
        return [
            *not_a_choice(spec, block=tuple(BLOCKS.values()), mask=FORWARD_MASKS, ranges=tuple(KINDS)),
            *unknown_places(spec),
        ]

    def kernels(self, target: Target) -> list[CostsSpec]:
        return [
            CostsSpec(block, (word, word), mask, ranges)
            for block in BLOCKS.values() for word in UNPAGED
            for mask, ranges in (("none", "steps"), ("causal", "steps"), ("none", "blocks"))
        ]  # fmt: skip

    def arrays(self, problem: Shares) -> tuple[ArraySpec, ...]:
        return (*problem.arrays(), array_spec("costs", (problem.numbers,), "i32", "out"))

    def _together(self, problem: Shares, generator: np.random.Generator) -> Mapping[str, Array]:
        return problem.values()

    def check_inputs(self, problem: Shares, arrays: Mapping[str, Array]) -> None:
        problem.check_arrays(arrays)

    def _values(self, problem: Shares, array: ArraySpec, generator: np.random.Generator) -> Array:
        raise AssertionError(array.name)  # all are made together

    def reference(self, problem: Shares, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"costs": problem.costs(arrays)}

    def tolerances(
        self, problem: Shares, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        return {"costs": Tolerance(0.0, 0.0, "integers are exact")}

    def launch(self, problem: Shares, spec: CostsSpec, target: Target) -> Launch:
        sizes = (problem.sequences, problem.heads, problem.queries.longest, problem.keys.longest)
        numbers = map(i32, (*sizes, problem.working, problem.beside))
        bounding = problem.bounding if spec.mask != "none" else ()
        return Launch((1, 1, 1), (WAVE_SIZE, 1, 1), (*spec.lists, "costs", *numbers, *bounding))


def read_shares(values: Mapping[str, Any]) -> Shares:
    """The shares of a request with `SEQUENCE_KEYS`. Raises RequestError."""
    sequences, queries, keys = read_sequences(values)
    block, workgroups = BLOCKS[values["block"]], values["workgroups"]
    ranges, mask, beside = values.get("ranges", "steps"), values["mask"], values["beside"]
    return shares_by(ranges, sequences, values["h"], queries, keys, block, workgroups, mask, beside)


def unknown_places(spec: Any) -> list[Reason]:
    """Why memory cannot hold what a specification's words say."""
    expected = f"expected words of {', '.join(map(repr, UNPAGED))}"
    wrong = any(word not in UNPAGED for word in spec.sequences) or len(spec.sequences) != 2
    return [Reason("sequences", spec.sequences, "not what memory holds of sequences", expected)] if wrong else []


def _fields(problem: Shares) -> dict[str, Any]:
    return {"block": problem.block, "sequences": problem.words, "mask": problem.counted_mask,
            "ranges": problem.ranges}  # fmt: skip


OPERATOR = Costs()
