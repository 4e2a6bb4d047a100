"""What `predict_blocks` is asked for, and what its kernel's code depends on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import find_array
from ckmlir.ops.attention.prediction import block_means
from ckmlir.ops.attention.prediction.block_means import OPERATOR as BLOCK_MEANS
from ckmlir.ops.comparison import Array
from ckmlir.ops.gemm.batched_gemm import OPERATOR as BATCHED_GEMM
from ckmlir.ops.reduction.reduce import OPERATOR as REDUCE
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.spec import Algorithm, Spec
from ckmlir.targets.cdna import WAVE_SIZE

WAVES = 4
VECTOR = 4
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Blocks of keys that a row of a tile may have."""
LONGEST_OF_A_WAVE = 1024
"""Of these lengths, that of a row that one wave holds."""
LONGEST_OF_FOUR, MOST_WAVES = 4096, 8
"""That of a row that four waves hold, and how many hold a longer one: a lane's conditions, one for each element, are
scalar registers, of which 32 elements leave none. (Sixteen waves, with 8 elements a lane, took 1.4 of the time.)"""
MASKS = ("none", "top_left", "bottom_right")
ROWS_OF_A_PART = 1024
"""Keys of a workgroup that sums them."""
MOST_PARTS = 64


class PredictSpec(Spec):
    """What the kernel's code depends on.

    Attributes:
        counted: a number of blocks is wanted, not a share of their weights.
        length: blocks of keys of a tile's row; align: what divides theirs.
    """

    counted: bool
    causal: bool
    by_head: bool
    first: bool
    length: Algorithm[int]
    align: Algorithm[int]

    @property
    def name(self) -> str:
        words = [word for word in ("counted", "causal", "by_head", "first") if getattr(self, word)]
        return "_".join(["predict_blocks", *words, str(self.length), f"align{self.align}"])

    @property
    def waves(self) -> int:
        """Of a workgroup."""
        return WAVES if self.length <= LONGEST_OF_FOUR else MOST_WAVES

    @property
    def row_waves(self) -> int:
        """Waves that hold a row."""
        return 1 if self.length <= LONGEST_OF_A_WAVE else self.waves

    @property
    def rows(self) -> int:
        """Of a workgroup."""
        return self.waves // self.row_waves * max(WAVE_SIZE * VECTOR // self.length, 1)


class Problem(Struct, frozen=True):
    """Blocks of queries and of keys, and what is wanted of them.

    Attributes:
        queries, keys: means of both.
        topk, cdf: the share of all blocks of keys, where one is wanted, and else that of their weights.
        similar: what `alike` has to exceed.
    """

    queries: block_means.Problem
    keys: block_means.Problem
    topk: float | None
    cdf: float
    similar: float
    scale: float
    by_head: bool
    mask: str
    first: bool
    lists: bool

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the map."""
        return self.queries.b, self.queries.h, self.queries.blocks, self.keys.blocks

    @property
    def ratio(self) -> int:
        """Heads of Q that share one of K."""
        return self.queries.h // self.keys.h

    @property
    def count(self) -> int:
        """Blocks of keys that topk wants."""
        assert self.topk is not None
        return max(math.floor(self.topk * self.keys.blocks), 1)

    @property
    def further(self) -> int:
        """How much further than its own place in Q a query sees, with a mask."""
        return self.keys.s - self.queries.s if self.mask == "bottom_right" else 0

    @property
    def products(self) -> Any:
        """Of all means of queries with those of keys, heads of Q that share one of K side by side."""
        b, _, rows, columns = self.shape
        batch = b, self.keys.h, self.ratio
        sizes = {"m": rows, "n": columns, "k": self.queries.d}
        return BATCHED_GEMM.problem(batch=batch, b_batch=(b, self.keys.h, 1), **sizes, dtype="f32", layout="RCR")

    @property
    def mean(self) -> Any:
        """Of K over the sequence."""
        x = find_array(BLOCK_MEANS.arrays(self.keys), "x")
        along = 2 if self.keys.layout == "bhsd" else 1
        parts = min(ceil_div(self.keys.s, ROWS_OF_A_PART), MOST_PARTS)
        return REDUCE.problem(
            shape=x.shape, strides=x.strides, dims=(along,), ops="mean", dtype=x.dtype, out="f32", split=max(parts, 1)
        )

    def reach(self) -> Array:
        """How many blocks of keys each block of queries may take."""
        rows, columns = self.shape[2:]
        if self.mask == "none":
            return np.full(rows, columns)
        ends = np.minimum((np.arange(rows) + 1) * self.queries.block, self.queries.s)
        found: Array = np.clip((ends - 1 + self.further) // self.keys.block + 1, 0, columns)
        return found
