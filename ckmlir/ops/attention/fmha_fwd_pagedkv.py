"""fmha_fwd_pagedkv: `fmha_fwd` with K and V in the pages of a pool.

K is (pages, hk, page_size, d) and V (pages, hk, page_size, dv), with layout bshd (pages, page_size, hk, …). The pages
of a sequence are the first entries of its row in block_table (sequences, entries), i32, as many as its length in
seqlen_k takes. Other entries may hold anything, and so may the rows of a page behind the sequence's last key: they are
not read. A page that is not in the pool reads as zeros.

Pages of a block of keys or more are read through a base of 64 bits each. Keys of smaller pages are gathered: by offsets
of 32 bits, or by addresses where the pool is larger than 2 GiB.

Arrays and kernel arguments are those of `fmha_fwd`, where k_batch and v_batch are elements from one page to the next;
with block_table, entries and pages (i32) behind the mask's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckmlir.ops.attention.fmha_fwd import FmhaFwd
from ckmlir.ops.attention.fmha_fwd_spec import HEAD_TILES, FmhaFwdSpec
from ckmlir.ops.attention.parts import PAGED_PARTS
from ckmlir.ops.attention.parts.dense import Dense
from ckmlir.ops.attention.parts.pages import Pages
from ckmlir.ops.attention.problem import Problem
from ckmlir.targets import Target

PAGE_SIZE = 128


class FmhaFwdPagedkv(FmhaFwd):
    """The operator `fmha_fwd_pagedkv`, which the module's docstring describes."""

    name = "fmha_fwd_pagedkv"

    def __init__(self) -> None:
        super().__init__(PAGED_PARTS, (Dense, Pages))

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        given = values["page_size"]
        return super()._problem({**values, "page_size": PAGE_SIZE if given is None else given})

    def kernels(self, target: Target) -> list[FmhaFwdSpec]:
        requests: list[dict[str, Any]] = [
            {"d": d, "page_size": size, "mask": mask}
            for d in (64, 128)
            for size in (1, 16, 128)
            for mask in ("none", "bottom_right")
        ]
        requests += [{"d": d, "dtype": dtype, "page_size": 16} for d in HEAD_TILES for dtype in ("bf16", "fp8")]
        requests += [{"d": d, "dtype": "f32", "page_size": 16} for d in HEAD_TILES[:-1]]
        requests += [{"d": d, "sq": 1, "h": 8, "hk": 1, "page_size": size} for d in (64, 128) for size in (16, 128)]
        group = {"mode": "group", "seqlens_q": (1024, 500), "seqlens_k": (1024, 500), "lse": True}
        requests += [{"d": 128, "page_size": size, **group} for size in (16, 128)]
        specs = [self.spec(self.problem(**{"sq": 1024, **one}), target) for one in requests]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]


OPERATOR = FmhaFwdPagedkv()
