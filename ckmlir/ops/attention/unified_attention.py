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

Arrays and kernel arguments are those of `fmha_fwd_pagedkv`, with the number of sequences (i32) at the end. Grid:
(blocks of all sequences, heads of K and V, 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar

from ckmlir.ops.attention.fmha_fwd import FmhaFwd
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
from ckmlir.ops.attention.masks import Mask, MaskKey
from ckmlir.ops.attention.orders import JOINED
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


class UnifiedAttention(FmhaFwd):
    """See the module's text."""

    name = "unified_attention"
    summary = "attention of sequences that are prefilled and that decode in one launch, with K and V in pages"
    own_keys: ClassVar[tuple[Key, ...]] = (
        *(key for key in FmhaFwd.own_keys if key.name not in LEFT_OUT),
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

    def proposals(self, problem: Problem, target: Target) -> list[FmhaFwdSpec]:
        ratio = problem.h // problem.hk
        packed = ratio > 1 and self._sharing(problem) == ratio
        return [replace(one, order=JOINED, packed=packed) for one in super().proposals(problem, target)]

    def kernels(self, target: Target) -> list[FmhaFwdSpec]:
        decode = {"seqlens_q": (1, 1), "seqlens_k": (1024, 500)}
        requests: list[dict[str, Any]] = [
            {"d": d, "page_size": size, "h": 8, "hk": 1, **lengths}
            for d in (64, 128)
            for size in (16, 64)
            for lengths in ({}, decode)
        ]
        varieties: tuple[dict[str, Any], ...] = (
            {"soft_cap": 30}, {"sink": 1}, {"mask": "window_bottom_right:127,0"}, {"dtype": "bf16"}, {"dtype": "fp8"},
        )  # fmt: skip
        requests += [{"d": 128, "h": 8, "hk": 1, **one, **lengths} for one in varieties for lengths in ({}, decode)]
        specs = [self.spec(self.problem(**one), target) for one in requests]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]


OPERATOR = UnifiedAttention()
