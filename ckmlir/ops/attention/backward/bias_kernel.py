"""Where dS goes whose sum is the gradient of a bias: packed arrays (batches, heads, queries, keys)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.lang import Pointer, Scalar, Tile, cast, permute_axes, store, view
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.backward.loop_kernel import Form, wide
from ckmlir.ops.attention.loop.work_kernel import Work


class Stored(Struct, frozen=True):
    """A head's dS for every query and key.

    Attributes:
        pointer: the sequence's first row in the head; rows are `row` elements apart.
        first: the block's first key.
        queries, keys: of the sequence.
        factors: what dS has to be multiplied with.
    """

    form: Form
    dtype: str
    pointer: Pointer
    row: Scalar
    first: Scalar
    queries: Scalar
    keys: Scalar
    factors: Sequence[Scalar]

    def at(self, first: Scalar) -> Stored:
        """See `loop_kernel.Slopes`."""
        return replace(self, first=first)

    def put(self, tile: Tile, query: Amount) -> None:
        """See `loop_kernel.Sink`. The step goes into the base, so that lanes' offsets stay what they are."""
        for factor in self.factors:
            tile = tile * factor
        block = self.form.queries, self.form.keys
        start = self.pointer.offset(wide(query) * self.row.to("i64"))
        rows = view(start, (self.queries - query, self.keys), (self.row, 1)).pad(*block)
        store(cast(permute_axes(tile, 1, 0), self.dtype), rows.window(block, (0, self.first)))


def stored(word: str, given: Any, work: Work, form: Form, factors: Sequence[Scalar]) -> Stored:
    """See `parts/bias_gradient.py` for the word; it ends with what divides rows."""
    _, dtype, align = word.split("_")
    row = given.dbias_seq.multiple_of(int(align))
    by_head = given.rows.to("i64") * row.to("i64")
    begin = work.head.to("i64") * by_head + work.q.origin(row, given.h.to("i64") * by_head)
    pointer = given.dbias.offset(begin.multiple_of(int(align)))
    return Stored(form, dtype, pointer, row, work.first, work.sq, work.sk, factors)
