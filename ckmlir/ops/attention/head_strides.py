"""Distances of batches, heads and rows of an array of attention: keys for them, and their check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES, array_spec
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.list_keys import Lengths
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.spec import by
from ckmlir.ops.tensors.arrays import checked_strides
from ckmlir.targets.cdna import ACCESS_BYTES

if TYPE_CHECKING:
    from random import Random

ROW_MULTIPLE = 16
"""Elements of which all distances are multiples for every type."""
MOST_ROWS = 256
"""Of a block of queries or keys, in any schedule."""
SIZES = {
    "q": ("h", "sq", "d"), "k": ("hk", "sk", "d"), "v": ("hk", "sk", "dv"), "o": ("h", "sq", "dv"),
    "x": ("h", "s", "d"),
}  # fmt: skip
"""Keys of an array's heads, rows and channels, by the last letter of its name: dq is as large as q."""


class HeadStrides(Lengths, frozen=True):
    """Elements from one batch, head and row of `array` to the next; channels follow each other."""

    array: str = "q"

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        """Heads before rows or behind them, rows with gaps or without."""
        defaults = {"hk": "h", "sk": "sq", "dv": "d"}

        def size(name: str) -> int:
            found = request.get(name) or request[defaults.get(name, name)] or 256
            assert isinstance(found, int)
            return max(found, 1)

        def length(name: str) -> int:
            side = name[1:] if f"seqlens_{name[1:]}" in request else "q"
            for lengths in (request.get(f"slots_{side}"), request.get(f"seqlens_{side}")):
                if isinstance(lengths, tuple):
                    packed = request.get("mode", "group") == "group"  # without the key they always are
                    return max(sum(lengths) if packed else max(lengths), 1)
            return size(name)

        of_heads, of_rows, of_channels = SIZES[self.array[-1]]
        heads, rows, channels = size(of_heads), length(of_rows), size(of_channels)
        if self.array == "v" and request.get("v_layout") == "columns":
            rows, channels = channels, rows
        gap = ROW_MULTIPLE * random.choice((0, 0, 1, 5))
        unit = -(-channels // ROW_MULTIPLE) * ROW_MULTIPLE + gap
        if random.random() < 0.5:
            head, row = unit * rows, unit
        else:
            head, row = unit, unit * heads
        return tuple(min(stride, MAXIMUM_SIZE) for stride in (unit * rows * heads + gap, head, row))


def by_head(layout: str, array: Array) -> Array:
    """A view (batch, head, row, channel) of an array that lies so, or with rows in front of heads."""
    return array if layout == "bhsd" else array.transpose(0, 2, 1, 3)


def checked_head_strides(
    name: str, layout: str, batches: int, sizes: tuple[int, int, int], dtype: str, given: tuple[int, ...] | None,
    *, limited: bool = True,
) -> tuple[int, int, int]:
    """An array's strides along batches, heads and rows: those that were given, if a kernel can take them, or packed
    ones, with rows of whole vectors.

    Args:
        layout: bhsd or bshd, of the array in memory.
        sizes: heads, rows and channels.
        limited: the array has to be one that offsets of 32 bits reach.

    Raises:
        RequestError: the array is too large, rows overlap or lie so far apart that rows behind the last would come back
            to the first, or vectors would not be aligned.
    """
    heads, rows, channels = sizes
    size = find_dtype(dtype).bytes
    middle = (heads, rows) if layout == "bhsd" else (rows, heads)
    array_spec(name, (batches, *middle, channels), dtype, "in", limited=limited)  # refuses what is too large
    if given is None:
        length = ceil_div(channels * size, ACCESS_BYTES) * ACCESS_BYTES // size  # of V in columns, with any keys
        inner = (rows * length, length) if layout == "bhsd" else (length, heads * length)
        batch, head, row = heads * rows * length, *inner
    else:
        batch, head, row = given
        key, multiple = f"{name}_strides={by(given)}", ACCESS_BYTES // size
        if wrong := [stride for stride in given if stride % multiple]:
            right = f"expected multiples of {multiple}, whole vectors of {ACCESS_BYTES} bytes"
            raise RequestError(f"{key}: {wrong[0]} elements of {dtype}; {right}")
        if row < channels:
            raise RequestError(f"{key}: rows have {channels} channels; expected at least that from one to the next")
        checked_strides(f"{name}_strides", (batches, heads, rows, channels), (*given, 1))
    most = (1 << 32) // (MOST_ROWS * size)
    if limited and row > most and batches * heads * rows:
        raise RequestError(
            f"{name}_strides: rows of array {name} lie {row} elements apart; expected at most {most}: blocks have up "
            f"to {MOST_ROWS} rows, also behind the last, and offsets have 32 bits"
        )
    reach = (max(rows - 1, 0) * row + channels) * size
    if reach > MAXIMUM_ARRAY_BYTES:
        what = f"a head of array {name} reaches over {reach} bytes"
        raise RequestError(f"{what}; kernels address at most {MAXIMUM_ARRAY_BYTES} from its start")
    return batch, head, row
