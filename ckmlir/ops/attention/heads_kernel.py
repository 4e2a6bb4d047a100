"""Heads of arrays as views, from strides that a kernel is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckmlir.lang import Scalar, View, view


def rows_of_head(
    given: Any, name: str, head: Scalar, batch: Scalar, lengths: Sequence[Scalar | int], multiple: int
) -> View:
    """The rows of a head (rows, channels), at any distance from the array's start.

    The kernel takes the array's strides as `name`_seq, _head and _batch, multiples of `multiple` elements.
    """
    by_head, by_batch = getattr(given, f"{name}_head"), getattr(given, f"{name}_batch")
    distance = (head.to("i64") * by_head + batch.to("i64") * by_batch).multiple_of(multiple)
    row = getattr(given, f"{name}_seq").multiple_of(multiple)
    return view(getattr(given, name).offset(distance), lengths, (row, 1))


def values_of_head(given: Any, name: str, head: Scalar, batch: Scalar) -> View:
    """One number for each query of a head, of a packed array (batches, heads, queries)."""
    distance = (batch * given.h + head).to("i64") * given.sq.to("i64")
    return view(getattr(given, name).offset(distance), (given.sq,), (1,))
