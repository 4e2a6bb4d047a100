"""A gradient of attention to compute: an attention, and the arrays of its gradients."""

from __future__ import annotations

import math

from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.backward.fmha_bwd_spec import KEPT, block_of, most_kept
from ckmlir.ops.attention.backward.slot_table import FEW_STEPS
from ckmlir.ops.attention.fmha_fwd_spec import head_tile
from ckmlir.ops.attention.part import key_parts, weight_parts
from ckmlir.ops.attention.parts.bias_gradient import BiasGradient
from ckmlir.ops.attention.parts.sink import Sink
from ckmlir.ops.attention.problem import Problem, Wanted
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.schedules import BACKWARD

GRADIENTS = ("do", "dq", "dk", "dv")
"""Each is as large as the array of the last letter."""
FEW_BLOCKS = 4
"""Of keys, that a workgroup takes one after the other where it takes a whole head."""
MANY_HEADS = 1024
"""Of all sequences, of which each compute unit of any chip has more than three."""


class BackwardProblem(Struct, frozen=True):
    """A gradient of attention to compute.

    Attributes:
        attention: what is differentiated, with LSE.
        persistent: workgroups that stay share the work: `workgroups`, or as many as the device holds.
        ranges: what those of workgroups that stay end behind, any step or blocks of keys.
        pack: where it is found out which of it is whose.
        keeps: what a workgroup keeps in registers, keys or queries; None: queries where they are few.
        gradient_strides: of the arrays of `GRADIENTS`: elements from one batch, one head and one row to the next.
    """

    attention: Problem
    deterministic: bool
    persistent: bool
    workgroups: int | None
    ranges: str
    pack: str
    keeps: str | None
    schedule: str | None
    gradient_strides: tuple[tuple[int, int, int], ...]

    @property
    def ratio(self) -> int:
        """Heads of Q that share one of K and V."""
        return self.attention.h // self.attention.hk

    @property
    def factor(self) -> float:
        """What the main kernel's dV is multiplied with, and dK and dQ besides the scale."""
        return math.prod(part.multiplier for part in weight_parts(self.attention))

    @property
    def all_attend(self) -> bool:
        """Whether every query of the request attends to every key."""
        return self.attention.mask.kind == "none" and not key_parts(self.attention)

    @property
    def bias_gradient(self) -> BiasGradient | None:
        """The part that is the gradient of the bias, if that is wanted."""
        return next((part for part in self.attention.parts if isinstance(part, BiasGradient)), None)

    def written(self, name: str) -> str:
        """What the kernel writes for an array of a part: the gradient of a bias that is shared, before it is summed."""
        wanted = self.bias_gradient
        return "dbias_parts" if name == "dbias" and wanted and wanted.count > 1 else name

    @property
    def sink(self) -> Sink | None:
        """The part that is the sink logit, if there is one. Only LSE, and so the first kernel, knows of it."""
        return next((part for part in self.attention.parts if isinstance(part, Sink)), None)

    @property
    def kept(self) -> str:
        """What becomes of parts of dQ: see `fmha_bwd_spec.SINKS`."""
        if (self.keeps or self._rule) == "queries":
            return KEPT
        if not self.deterministic:
            return "atomic"
        if not self.persistent:
            return "slots"
        return "blocks" if self.ranges == "blocks" else "heads" if self._short else "shares"

    @property
    def _short(self) -> bool:
        """Whether sequences are so short, and so many, that a workgroup takes a whole head: blocks of keys would not be
        cut, so that equal shares of them are not equal, and the device evens heads out."""
        whole = self.attention
        queries, keys, _ = block_of(whole.dtype, max(head_tile(whole.d), head_tile(whole.dv)))
        few = ceil_div(whole.sq, queries) <= FEW_STEPS and ceil_div(whole.sk, keys) <= FEW_BLOCKS
        return few and whole.b * whole.h >= MANY_HEADS and not self.workgroups

    @property
    def _rule(self) -> str:
        """What a workgroup keeps where the request leaves it open."""
        other = self.persistent or self.schedule in BACKWARD
        return "queries" if not other and self.attention.sq <= self.most_kept else "keys"

    @property
    def most_kept(self) -> int:
        """The most queries that a workgroup can keep."""
        whole = self.attention
        return most_kept(whole.dtype, whole.d, whole.dv)

    @property
    def parted(self) -> bool:
        """Whether dK and dV are sums over heads of Q that share them."""
        return self.ratio > 1

    @property
    def kernel_parts(self) -> tuple[Wanted, ...]:
        """The parts that the main kernel knows of."""
        return tuple(part for part in self.attention.parts if part is not self.sink)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The gradients that are wanted."""
        return ("dq", "dk", "dv", *["dbias"] * bool(self.bias_gradient), *["dsink"] * bool(self.sink))

    def sizes(self, name: str) -> tuple[int, int, int]:
        """Heads, rows and channels of an array."""
        return self.attention.sizes(name[-1])

    def strides(self, name: str) -> tuple[int, int, int]:
        """Of an array along batches, heads and rows."""
        return self.gradient_strides[GRADIENTS.index(name)] if name in GRADIENTS else self.attention.strides(name)

    def output(self, name: str) -> ArraySpec:
        """One of `outputs`."""
        if name == "dsink":
            return array_spec(name, (self.attention.h,), "f32", "out")
        wanted = self.bias_gradient
        return wanted.arrays(self.attention)[0] if wanted and name == "dbias" else self.array(name, "out")

    def array(self, name: str, role: str) -> ArraySpec:
        """An array of q, k, v, o and their gradients as it lies in memory."""
        batch, head, row = self.strides(name)
        middle = (head, row) if self.attention.layout == "bhsd" else (row, head)
        shape = self.attention.shape(name[-1])
        return ArraySpec(name, shape, self.attention.dtype, role, (batch, *middle, 1))
