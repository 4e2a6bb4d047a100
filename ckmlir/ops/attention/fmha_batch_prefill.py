"""fmha_batch_prefill: `fmha_fwd` over packed queries of many sequences, with K and V in the pages of a pool.

Q and O are packed in rows (group mode: seqstart_q); what is a sequence's of K and V one of two tables says:

- table=vllm: block_table (sequences, entries) and lengths in seqlen_k, as `fmha_fwd_pagedkv` has them;
- table=sglang: kv_indptr (sequences + 1), kv_page_indices and kv_last_page_lens (sequences): the pages of all sequences
  in one list, and how many keys of each one's last page count.

kv_layout says how a page lies in memory: linear has rows of keys, (pages, hk, page_size, d), with layout bshd (pages,
page_size, hk, d). vectorised has vectors of x elements, 16 bytes, side by side: K is (pages, hk, d / x, page_size, x),
V (pages, hk, page_size / x, dv, x). Pages that are not in the pool read as zeros, and so does what lies behind the last
key. Pools may have any size: see `fmha_fwd_pagedkv`.

Kernel arguments are those of `fmha_fwd`, those of the table in the places of seqlen_k and behind the mask's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ckmlir.ops.attention.fmha_fwd import FmhaFwd
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
from ckmlir.ops.attention.parts import PAGED_PARTS
from ckmlir.ops.attention.parts.dense import Dense
from ckmlir.ops.attention.parts.page_lists import PageLists
from ckmlir.ops.attention.parts.pages import Pages
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.request import Choice, Key
from ckmlir.targets import Target

DEFAULT_PAGE = 16
DEFAULTS: dict[str, Any] = {"seqlens_q": (100, 30), "seqlens_k": (300, 100)}
LEFT_OUT = ("mode", "v_layout")


class FmhaBatchPrefill(FmhaFwd):
    """The operator `fmha_batch_prefill`, which the module's docstring describes."""

    name = "fmha_batch_prefill"
    own_keys: ClassVar[tuple[Key, ...]] = (
        *(key for key in FmhaFwd.own_keys if key.name not in LEFT_OUT),
        Choice("kv_layout", "linear", "of a page: rows, or vectors of 16 bytes", ("linear", "vectorised")),
        Choice("table", "vllm", "which pages are a sequence's: rows of a table, or one list", ("vllm", "sglang")),
    )

    def __init__(self) -> None:
        super().__init__(PAGED_PARTS, (Dense, Pages, PageLists))

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        given = {**values, "mode": "group", "v_layout": "rows"}
        if values["seqlens_q"] is None and values["seqlens_k"] is None:
            given |= DEFAULTS
        if values["page_size"] is None:
            given["page_size"] = DEFAULT_PAGE
        return super()._problem(given)

    def kernels(self, target: Target) -> list[FmhaFwdSpec]:
        requests: list[dict[str, Any]] = [
            {"d": d, "page_size": size, "mask": mask, "table": table, "layout": "bshd"}
            for d in (64, 128)
            for size in (1, 16, 1024)
            for mask in ("none", "bottom_right")
            for table in ("vllm", "sglang")
        ]
        requests += [
            {"d": 128, "page_size": size, "kv_layout": "vectorised", "dtype": dtype}
            for size in (16, 1024)
            for dtype in ("f16", "bf16", "fp8")
        ]
        requests += [{"d": 128, "page_size": size, "dtype": "fp8", "scales": "page"} for size in (128, 1024)]
        specs = [self.spec(self.problem(**one), target) for one in requests]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]


OPERATOR = FmhaBatchPrefill()
