"""A gradient of attention to compute, as its keys describe it."""

from __future__ import annotations

from dataclasses import dataclass

from ckmlir.ops.attention.head_strides import SIZES
from ckmlir.ops.attention.masks import Mask
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import ArraySpec

INPUTS = ("q", "k", "v", "o", "do")
OUTPUTS = ("dq", "dk", "dv")


@dataclass(frozen=True)
class BackwardProblem:
    """A gradient of attention to compute.

    Attributes:
        head_strides: of the arrays of `INPUTS` and `OUTPUTS`, in this order: elements from one batch, one head and one
            row to the next.
    """

    b: int
    h: int
    hk: int
    sq: int
    sk: int
    d: int
    dv: int
    dtype: str
    mask: Mask
    layout: str
    deterministic: bool
    scale: float
    schedule: str | None
    head_strides: tuple[tuple[int, int, int], ...]

    @property
    def ratio(self) -> int:
        """Heads of Q that share one of K and V."""
        return self.h // self.hk

    def sizes(self, name: str) -> tuple[int, int, int]:
        """Heads, rows and channels of an array."""
        heads, rows, channels = (getattr(self, key) for key in SIZES[name[-1]])
        return heads, rows, channels

    def strides(self, name: str) -> tuple[int, int, int]:
        """Of an array along batches, heads and rows."""
        return self.head_strides[(*INPUTS, *OUTPUTS).index(name)]

    def array(self, name: str, role: str) -> ArraySpec:
        """An array as it lies in memory."""
        heads, rows, channels = self.sizes(name)
        batch, head, row = self.strides(name)
        if self.layout == "bhsd":
            return ArraySpec(name, (self.b, heads, rows, channels), self.dtype, role, (batch, head, row, 1))
        return ArraySpec(name, (self.b, rows, heads, channels), self.dtype, role, (batch, row, head, 1))

    def by_head(self, array: Array) -> Array:
        """A view of an array with the axes (batch, head, row, channel)."""
        return array if self.layout == "bhsd" else array.transpose(0, 2, 1, 3)
