"""unified_attention: prefill and decode in one launch: queries of sequences packed in rows, K and V in pages.

q and o are (queries of all sequences, h, d) in one batch, k and v a pool (pages, page_size, hk, d). seqstart_q
(sequences + 1) says where each sequence's queries begin, seqlen_k (sequences) how many keys it has, those of its new
queries included, and block_table (sequences, entries) in which pages they lie; all i32. The queries are the last of
their sequence: one that decodes has one, one that is prefilled many, and each attends to the keys up to its own, or
to a window in front of it.

Scores may be capped (soft_cap) or have distances taken from them (alibi), and a logit of each head may join the sum
(sink). Heads of Q that share keys are packed
in the rows of a block. The blocks of all sequences are in one row, in which a workgroup finds its sequence by bisection
of seqstart_q; so a launch has as many workgroups as there is work, and at most one more for each sequence and head.

Where all queries together are too few to fill the compute units, several workgroups share the keys of a block, as in
`fmha_fwd_splitkv`, whose second kernel puts their results together: `splits` says how many, 0 finds it by the number of
queries and sequences and the most keys of one. Each sequence's own keys, as device memory has them, are dealt out
evenly; a sequence too short for all shares leaves some of them empty.

Arrays and kernel arguments are those of `fmha_fwd_pagedkv`, with the number of sequences (i32) behind them, and then,
where keys are shared, those of `fmha_fwd_splitkv`. Under a causal mask the last blocks of a sequence, which have the
most keys, come first (`orders.JoinedFalling`); the grid is (heads of K and V, 1, blocks of all sequences times splits),
under a window (blocks of all sequences times splits, heads of K and V, 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
from ckmlir.ops.attention.fmha_fwd_splitkv import FmhaFwdSplitkv
from ckmlir.ops.attention.masks import Mask, MaskKey
from ckmlir.ops.attention.orders import JOINED, JOINED_FALLING
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
from ckmlir.ops.request import Choice, Key, RequestError
from ckmlir.targets import Target

if TYPE_CHECKING:
    from random import Random

DEFAULT_PAGE = 16
DEFAULTS: dict[str, Any] = {"seqlens_q": (100, 1, 1), "seqlens_k": (300, 200, 77)}
LEFT_OUT = ("mode", "v_layout", "mask", "layout", "slots_q", "slots_k")


@dataclass(frozen=True)
class EndingMask(MaskKey):
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
    summary = "attention of sequences that are prefilled and that decode in one launch, with K and V in pages"
    own_keys: ClassVar[tuple[Key, ...]] = (
        *(key for key in FmhaFwdSplitkv.own_keys if key.name not in LEFT_OUT),
        EndingMask("mask", Mask.parse("bottom_right"), "which keys a query attends to: all up to its own, or a window"),
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
        return JOINED_FALLING if spec.mask == "causal" else JOINED

    def kernels(self, target: Target) -> list[FmhaFwdSpec]:
        decode = {"seqlens_q": (1, 1), "seqlens_k": (1024, 500)}
        kinds: tuple[dict[str, Any], ...] = ({"splits": 1}, {**decode, "splits": 1}, {**decode, "splits": 4})
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


OPERATOR = UnifiedAttention()
