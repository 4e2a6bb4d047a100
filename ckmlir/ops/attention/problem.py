"""An attention to compute, as its keys describe it."""

from __future__ import annotations

from dataclasses import dataclass

from ckmlir.ops.attention.masks import Mask
from ckmlir.ops.comparison import Array


@dataclass(frozen=True)
class Problem:
    """An attention to compute."""

    b: int
    h: int
    hk: int
    sq: int
    sk: int
    d: int
    dv: int
    dtype: str
    out: str
    mask: Mask
    layout: str
    lse: bool
    scale: float
    q_scale: float
    k_scale: float
    v_scale: float
    schedule: str | None
    q_strides: tuple[int, int, int]
    """Elements from one batch, one head and one row to the next; so for the other arrays."""
    k_strides: tuple[int, int, int]
    v_strides: tuple[int, int, int]
    o_strides: tuple[int, int, int]

    @property
    def score_scale(self) -> float:
        """What the products of stored queries and keys are multiplied with."""
        return self.scale * self.q_scale * self.k_scale

    def shape(self, name: str) -> tuple[int, int, int, int]:
        """The shape of q, k, v or o in memory."""
        heads, sequence, channels = self.sizes(name)
        return (self.b, heads, sequence, channels) if self.layout == "bhsd" else (self.b, sequence, heads, channels)

    def sizes(self, name: str) -> tuple[int, int, int]:
        """Heads, rows and channels of q, k, v or o."""
        return (
            self.h if name in "qo" else self.hk,
            self.sq if name in "qo" else self.sk,
            self.d if name in "qk" else self.dv,
        )

    def strides(self, name: str) -> tuple[int, int, int]:
        """Of q, k, v or o along batches, heads and rows."""
        found: tuple[int, int, int] = getattr(self, f"{name}_strides")
        return found

    def by_head(self, array: Array) -> Array:
        """A view of q, k, v or o with the axes (batch, head, sequence, channel)."""
        return array if self.layout == "bhsd" else array.transpose(0, 2, 1, 3)
