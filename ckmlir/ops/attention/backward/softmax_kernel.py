"""Softmax weights in attention backward: P = min(exp2(scale·S - exponent), 1), dS = P ∘ dP.

`exponent` is the logarithm of a query's sum of weights, `delta` minus its rowsum(dO·O), with which dP begins. So
weights are at most 1; limiting them costs nothing, and keeps keys that do not exist (zeros) from overflowing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ckmlir.lang import Scalar, Tile, View, exp2, load, maximum, minimum, stretch, to_lds
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.backward.loop_kernel import ExponentPart, Form, Kept, MaskPart, Weights
from ckmlir.ops.attention.loop.heads_kernel import values_of_head
from ckmlir.ops.attention.loop.work_kernel import Work

ROWS = ("exponent", "delta")
"""Kernel arguments, arrays with one f32 for each query of each head."""


class Softmax(Weights):
    """Weights of queries whose rows there are.

    Attributes:
        exponent: by query; delta: (keys, queries), as dP lies.
    """

    exponent: Tile
    delta: Tile

    def begin(self) -> Tile:
        """See `loop_kernel.Weights`."""
        return self.delta

    def weigh(self, scores: Tile, masks: Iterable[MaskPart], query: Amount) -> tuple[Tile, Tile]:
        """See `loop_kernel.Weights`."""
        exponents = self.changed(scores * self.scale - self.exponent[None, :], query)
        weights = minimum(maximum(exp2(exponents), 0.0), 1.0)
        for one in masks:
            weights = one.apply(weights, query, 0.0)
        marked = self.kept.mark(weights)
        return marked, self.kept.counted(marked)

    def ds(self, held: Tile, dp: Tile) -> Tile:
        """See `loop_kernel.Weights`."""
        return self.kept.ds(held, dp, self.delta)


class SoftmaxOfRows(Softmax):
    """Weights of queries whose rows are loaded with their blocks.

    Attributes:
        rows: exponent and delta of all queries, filled up to whole blocks.
    """

    rows: tuple[View, View]

    def whole(self) -> Weights:
        """See `loop_kernel.Weights`."""
        found = Softmax(self.form, self.scale, self.parts, self.kept)
        by_query = self.form.score_layout.reduce(0)
        found.exponent, delta = (load(one.window((self.form.queries,), (0,)), by_query) for one in self.rows)
        found.delta = self._stretched(delta)
        return found

    def load(self, query: Amount) -> None:
        """See `loop_kernel.Weights`."""
        self.loaded = [load(one.window((self.form.queries,), (query,))) for one in self.rows]
        super().load(query)

    def hold(self, query: Amount) -> None:
        """See `loop_kernel.Weights`."""
        self.in_lds = [to_lds(one, name) for one, name in zip(self.loaded, ROWS, strict=True)]
        super().hold(query)

    def read(self) -> None:
        """See `loop_kernel.Weights`."""
        by_query = self.form.score_layout.reduce(0)
        self.exponent, delta = (one.read(by_query) for one in self.in_lds)
        self.delta = self._stretched(delta)
        super().read()

    def _stretched(self, delta: Tile) -> Tile:
        return stretch(delta, 0, self.form.keys, self.form.score_layout)


def softmax(
    given: Any, work: Work, form: Form, scale: Scalar, parts: Sequence[ExponentPart], kept: Kept
) -> SoftmaxOfRows:
    """The weights of a head's queries; `given` has the kernel's arguments."""
    found = SoftmaxOfRows(form, scale, parts, kept)
    exponent, delta = (values_of_head(given, one, work.head, work.q).pad(form.queries) for one in ROWS)
    found.rows = exponent, delta
    return found
