"""Heads of arrays as views, from strides that a kernel is given."""

from __future__ import annotations

from typing import Any

from ckmlir.lang import Scalar, View, view
from ckmlir.ops.attention.loop.work_kernel import Side


def rows_of_head(given: Any, name: str, head: Scalar, side: Side, channels: int, multiple: int) -> View:
    """The rows of a sequence in a head (rows, channels), at any distance from the array's start.

    The kernel takes the array as `name` and its strides as `name`_seq, _head and _batch, multiples of `multiple`
    elements.
    """
    by_head, by_batch = getattr(given, f"{name}_head"), getattr(given, f"{name}_batch")
    row = getattr(given, f"{name}_seq").multiple_of(multiple)
    distance = (head.to("i64") * by_head + side.origin(row, by_batch)).multiple_of(multiple)
    return view(getattr(given, name).offset(distance), (side.length, channels), (row, 1))


def values_of_head(given: Any, name: str, head: Scalar, side: Side) -> View:
    """One number for each query of a sequence in a head, of a packed array (batches, heads, rows)."""
    rows = given.rows.to("i64")
    distance = head.to("i64") * rows + side.origin(1, given.h.to("i64") * rows)
    return view(getattr(given, name).offset(distance), (side.length,), (1,))
