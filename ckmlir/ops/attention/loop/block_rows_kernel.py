"""What the rows of a block are: queries of one head, or of all heads that share keys.

Heads of Q that share keys and values read them once where they are rows of one block. Row r is then the query r / n of
the head r % n of these n; so the rows of a sequence still follow its queries, and a mask cuts as few blocks as it does
with one head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.lang import Pointer, Scalar, Tile, View, full, load, view
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.loop.loop_kernel import Form


class BlockRows(Protocol):
    """Rows of blocks. `first` is a block's first row."""

    @property
    def head(self) -> Scalar:
        """The head of Q and O; of several, the first."""

    def placed(self, first: Scalar, form: Form) -> BlockRows:
        """The same, knowing what is found before the loop over keys."""

    def count(self, queries: Scalar) -> Scalar:
        """Rows of so many queries."""

    def query(self, row: Scalar) -> Scalar:
        """The query of a row."""

    def queries(self, first: Scalar, form: Form) -> Tile:
        """The queries of a block's rows."""

    def view(
        self, pointer: Pointer, by_head: Scalar, length: Scalar, by_query: Amount, *inner: Sequence[Amount]
    ) -> View:
        """An array (heads, queries, …) as (rows, …).

        Args:
            pointer: of head 0; by_head: elements (i64) from one to the next.
            length: queries; by_query: elements from one to the next.
            inner: length and stride of each further dimension.
        """

    def numbers(self, pointer: Pointer, first: Scalar, form: Form) -> Tile:
        """The number (f32) of the head of each of a block's rows."""


class OneHead(Struct, frozen=True):
    """Queries of one head."""

    head: Scalar

    def placed(self, first: Scalar, form: Form) -> BlockRows:
        """See `BlockRows`: a query's number is one addition, wherever it is needed."""
        return self

    def count(self, queries: Scalar) -> Scalar:
        """See `BlockRows`."""
        return queries

    def query(self, row: Scalar) -> Scalar:
        """See `BlockRows`."""
        return row

    def queries(self, first: Scalar, form: Form) -> Tile:
        """See `BlockRows`."""
        found: Tile = form.rows() + first
        return found

    def view(
        self, pointer: Pointer, by_head: Scalar, length: Scalar, by_query: Amount, *inner: Sequence[Amount]
    ) -> View:
        """See `BlockRows`."""
        lengths, strides = [one[0] for one in inner], [one[1] for one in inner]
        return view(pointer.offset(self.head.to("i64") * by_head), (length, *lengths), (by_query, *strides))

    def numbers(self, pointer: Pointer, first: Scalar, form: Form) -> Tile:
        """See `BlockRows`."""
        return full((form.queries,), pointer.scalar(self.head), "f32", form.row_layout)


class HeadsTogether(Struct, frozen=True):
    """Queries of all the `ratio` heads that share the keys of the head `shared`.

    Attributes:
        quotients: of a block's rows, once these are known: division takes long.
    """

    shared: Scalar
    ratio: Scalar
    quotients: Tile | None = None

    @property
    def head(self) -> Scalar:
        """See `BlockRows`."""
        found: Scalar = self.shared * self.ratio
        return found

    def placed(self, first: Scalar, form: Form) -> BlockRows:
        """See `BlockRows`."""
        return replace(self, quotients=(form.rows() + first) // self.ratio)

    def count(self, queries: Scalar) -> Scalar:
        """See `BlockRows`."""
        rows: Scalar = queries * self.ratio
        return rows

    def query(self, row: Scalar) -> Scalar:
        """See `BlockRows`."""
        found: Scalar = row // self.ratio
        return found

    def queries(self, first: Scalar, form: Form) -> Tile:
        """See `BlockRows`."""
        assert self.quotients is not None
        return self.quotients

    def view(
        self, pointer: Pointer, by_head: Scalar, length: Scalar, by_query: Amount, *inner: Sequence[Amount]
    ) -> View:
        """See `BlockRows`; what the heads of a sequence span is within 32-bit offsets."""
        lengths, strides = [one[0] for one in inner], [one[1] for one in inner]
        start = pointer.offset(self.head.to("i64") * by_head)
        shape, steps = (length, self.ratio, *lengths), (by_query, by_head.to("i32"), *strides)
        return view(start, shape, steps).merge(0, 1)

    def numbers(self, pointer: Pointer, first: Scalar, form: Form) -> Tile:
        """See `BlockRows`."""
        rows = view(pointer.offset(self.head), (self.ratio,), (1,))
        repeated = rows.insert(0, self.query(first) + form.queries).merge(0, 1).pad(form.queries)
        return load(repeated.window((form.queries,), (first,)), form.row_layout)
