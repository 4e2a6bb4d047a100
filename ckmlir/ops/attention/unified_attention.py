"""unified_attention: prefill and decode in one launch: queries of sequences packed in rows, K and V in pages.

q and o are (queries of all sequences, h, d) in one batch, k and v a pool (pages, page_size, hk, d). seqstart_q
(sequences + 1) says where each sequence's queries begin, seqlen_k (sequences) how many keys it has, those of its new
queries included, and block_table (sequences, entries) in which pages they lie; all i32. The queries are the last of
their sequence: one that decodes has one, one that is prefilled many, and each attends to the keys up to its own, or
to a window in front of it.

Scores may be capped (soft_cap) or have distances taken from them (alibi), and a logit of each head may join the sum
(sink). Heads of Q that share keys are packed
in the rows of a block. The blocks of all sequences are in one row, in which a workgroup finds its sequence by
seqstart_q; so a launch has as many workgroups as there is work, and at most one more for each sequence and head.

Where all queries together are too few to fill the compute units, several workgroups share the keys of a block, as in
`fmha_fwd_splitkv`, whose second kernel puts their results together: `splits` says how many, 0 finds it by the number of
queries and sequences and the most keys of one. Each sequence's own keys, as device memory has them, are dealt out
evenly; a sequence too short for all shares leaves some of them empty.

With balanced=1 a sequence has as many shares as its keys are worth, so that one long sequence among many short ones is
cut, and they are not: `fmha_fwd_shares`, a kernel that runs before, finds how many by the lengths in device memory.
There are about twice as many workgroups as compute units then, and `splits` is the most that share a block.

Arrays and kernel arguments are those of `fmha_fwd_pagedkv`, with the number of sequences (i32) behind them, and then,
where keys are shared, those of `fmha_fwd_splitkv`; with balanced=1 counts and begins, the results of `fmha_fwd_shares`,
in place of the splits. Under a causal mask the last blocks of a sequence, which have the
most keys, come first (`orders.JoinedFalling`); the grid is (heads of K and V, 1, blocks of all sequences times splits),
under a window (blocks of all sequences times splits, heads of K and V, 1), with balanced=1 (shares of all blocks, heads
of K and V, 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ckmlir.ops.attention.fmha_fwd_shares import OPERATOR as SHARES
from ckmlir.ops.attention.fmha_fwd_shares import ForwardShares
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
from ckmlir.ops.attention.fmha_fwd_splitkv import FmhaFwdSplitkv
from ckmlir.ops.attention.masks import Mask, MaskKey
from ckmlir.ops.attention.orders import DEALT, JOINED, JOINED_FALLING
from ckmlir.ops.attention.parts.alibi import Alibi
from ckmlir.ops.attention.parts.block_scales import BlockScales
from ckmlir.ops.attention.parts.dense import Dense
from ckmlir.ops.attention.parts.output_scale import OutputScale
from ckmlir.ops.attention.parts.page_scales import PageScales
from ckmlir.ops.attention.parts.pages import Pages
from ckmlir.ops.attention.parts.scales import HeadScales
from ckmlir.ops.attention.parts.sink import Sink
from ckmlir.ops.attention.parts.soft_cap import SoftCap
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.splits import SHARED, SplitProblem, blocks_of_keys, splits_of, workgroups_of_a_head
from ckmlir.ops.operator import Run, Step
from ckmlir.ops.request import Choice, Flag, Key, RequestError
from ckmlir.ops.spec import Reason
from ckmlir.ops.steps import Workspace
from ckmlir.records import replace
from ckmlir.targets import Target

if TYPE_CHECKING:
    from random import Random

DEFAULT_PAGE = 16
DEFAULTS: dict[str, Any] = {"seqlens_q": (100, 1, 1), "seqlens_k": (300, 200, 77)}
LEFT_OUT = ("mode", "v_layout", "mask", "layout", "slots_q", "slots_k")


class EndingMask(MaskKey, frozen=True):
    """A mask under which the last query attends to the last key."""

    @property
    def form(self) -> str:
        return "bottom_right|window_bottom_right:L,0[,S]"

    def read(self, value: object) -> Mask:
        mask = super().read(value)
        if mask.right != 0 or not mask.bottom_right:
            what = "queries are the last of their sequence, and no keys are behind them"
            raise RequestError(f"mask={mask}: {what}; expected {self.form}")
        return mask

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        windows = [f"window_bottom_right:{left}" for left in ("0,0", "1,0", "17,0", "130,0", "70,0,9")]
        return random.choice(("bottom_right", *windows))


class UnifiedAttention(FmhaFwdSplitkv):
    """The operator `unified_attention`, which the module's docstring describes."""

    name = "unified_attention"
    own_keys: ClassVar[tuple[Key, ...]] = (
        *(key for key in FmhaFwdSplitkv.own_keys if key.name not in LEFT_OUT),
        EndingMask("mask", Mask.parse("bottom_right"), "which keys a query attends to: all up to its own, or a window"),
        Flag("balanced", False, "keys of long sequences are cut into more shares, by lengths in device memory"),
        Choice("layout", "bshd", "order of the dimensions in memory", ("bshd", "bhsd")),
    )

    def __init__(self) -> None:
        parts = (Alibi, SoftCap, Sink, HeadScales, BlockScales, OutputScale, PageScales)
        super().__init__(parts, (Dense, Pages))

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        given = {**values, "mode": "group", "v_layout": "rows", "slots_q": None, "slots_k": None}
        if values["seqlens_q"] is None and values["seqlens_k"] is None:
            given |= DEFAULTS
        if values["page_size"] is None:
            given["page_size"] = DEFAULT_PAGE
        return super()._problem(given)

    def arranged(self, problem: Problem, target: Target) -> list[FmhaFwdSpec]:
        """All sequences' blocks in one row, and heads that share keys in one block."""
        ratio = problem.h // problem.hk
        packed = ratio > 1 and self._sharing(problem) == ratio
        return [self._dealt(problem, replace(one, packed=packed), target) for one in super().arranged(problem, target)]

    def order(self, problem: Problem, spec: FmhaFwdSpec) -> str:
        if spec.split and getattr(problem, "balanced", False):
            return DEALT
        return JOINED_FALLING if spec.mask == "causal" else JOINED

    def mismatches(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> list[Reason]:
        assert isinstance(problem, SplitProblem)
        reasons = super().mismatches(problem, spec, target)
        if spec.split and (spec.order == DEALT) != problem.balanced:
            why = "shares of blocks are dealt out otherwise"
            reasons.append(Reason("order", spec.order, why, f"expected {self.order(problem, spec)}"))
        return reasons

    def steps(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> tuple[Step, ...]:
        steps = super().steps(problem, spec, target)
        if spec.order != DEALT or self.writes_nothing(problem):
            return steps
        return (Run(SHARES, _shares(problem, spec, target), {}), *steps)

    def workspaces(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> tuple[Workspace, ...]:
        spaces = super().workspaces(problem, spec, target)
        more = [Workspace(name, 4 * (problem.b + 1)) for name in SHARED] if spaces and spec.order == DEALT else []
        return (*spaces, *more)

    def kernels(self, target: Target) -> list[FmhaFwdSpec]:
        decode = {"seqlens_q": (1, 1), "seqlens_k": (1024, 500)}
        kinds: tuple[dict[str, Any], ...] = (
            {"splits": 1}, {**decode, "splits": 1}, {**decode, "splits": 4}, {**decode, "splits": 4, "balanced": True},
        )  # fmt: skip
        requests: list[dict[str, Any]] = [
            {"d": d, "page_size": size, "h": 8, "hk": 1, **lengths}
            for d in (64, 128)
            for size in (16, 64)
            for lengths in kinds
        ]
        varieties: tuple[dict[str, Any], ...] = (
            {"soft_cap": 30}, {"sink": 1}, {"mask": "window_bottom_right:127,0"}, {"dtype": "bf16"}, {"dtype": "fp8"},
        )  # fmt: skip
        requests += [{"d": 128, "h": 8, "hk": 1, **one, **lengths} for one in varieties for lengths in kinds]
        specs = [self.spec(self.problem(**one), target) for one in requests]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]


def _shares(problem: Problem, spec: FmhaFwdSpec, target: Target) -> ForwardShares:
    """What `fmha_fwd_shares` finds before. Raises RequestError for more blocks than it sums up."""
    together = problem.h // problem.hk if spec.packed else 1
    dearest = max(blocks_of_keys(problem, spec), 1)
    wanted, most = workgroups_of_a_head(problem, spec, target), splits_of(problem, spec, target)
    shares = ForwardShares(problem.b, problem.queries, problem.keys, together, spec.block, dearest, wanted, most)
    shares.check()
    return shares


OPERATOR = UnifiedAttention()
