"""Heads of arrays as views, from strides that a kernel is given."""

from __future__ import annotations

from typing import Any

from ckmlir.lang import Pointer, Scalar, View, view
from ckmlir.ops.attention.loop.work_kernel import Side


def rows_of_head(
    given: Any, name: str, head: Scalar, side: Side, channels: int, multiple: int, pointer: Pointer | None = None
) -> View:
    """The rows of a sequence in a head (rows, channels), at any distance from the array's start.

    The kernel takes the array's strides as `name`_seq, _head and _batch, multiples of `multiple` elements; the array
    itself as `name`, unless there is a pointer.
    """
    by_head, by_batch = getattr(given, f"{name}_head"), getattr(given, f"{name}_batch")
    row = getattr(given, f"{name}_seq").multiple_of(multiple)
    distance = (head.to("i64") * by_head + side.origin(row, by_batch)).multiple_of(multiple)
    start = getattr(given, name) if pointer is None else pointer
    return view(start.offset(distance), (side.length, channels), (row, 1))


def values_of_head(given: Any, name: str, head: Scalar, side: Side) -> View:
    """One number for each query of a sequence in a head, of a packed array (batches, heads, rows)."""
    rows = given.rows.to("i64")
    distance = head.to("i64") * rows + side.origin(1, given.h.to("i64") * rows)
    return view(getattr(given, name).offset(distance), (side.length,), (1,))
