"""Byte offsets for LDS buffers, and what could be changed where they do not fit.

Buffers that are never live together may share bytes. The largest comes first, each at the lowest place that is free of
those it is live with.
"""

from collections.abc import Hashable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.dialect.fragment_lds import ALIGNMENT

SMALLEST_PART = 64
"""Tensors are not proposed at less than this part of their size."""

K = TypeVar("K", bound=Hashable)


class Buffer(Struct, frozen=True):
    """What has to be placed: a buffer of a tensor.

    Attributes:
        tensor: what the tensor is called, empty if it has no name; buffers of one name rotate.
        bytes: that it takes.
        unpadded: that it takes in rows without padding.
    """

    tensor: str
    bytes: int
    unpadded: int


def aligned(size: int) -> int:
    """The bytes that are set aside for `size`."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def place(buffers: Mapping[K, Buffer], together: Mapping[K, AbstractSet[K]]) -> dict[K, int]:
    """An offset for each buffer; `together` has for each those that are live somewhere where it is."""
    placed: dict[K, int] = {}
    for one in sorted(buffers, key=lambda item: -buffers[item].bytes):
        others = (other for other in together[one] if other in placed)
        taken = sorted((placed[other], placed[other] + buffers[other].bytes) for other in others)
        placed[one] = _first_gap(taken, buffers[one].bytes)
    return placed


def extent(buffers: Mapping[K, Buffer], placed: Mapping[K, int]) -> int:
    """Bytes from the first to the last that is taken."""
    return max((placed[one] + buffers[one].bytes for one in placed), default=0)


def _first_gap(taken: list[tuple[int, int]], size: int) -> int:
    start = 0
    for low, high in taken:
        if start + size <= low:
            break
        start = max(start, high)
    return start


def without_padding(buffers: Mapping[K, Buffer]) -> dict[K, Buffer]:
    """The same buffers in rows without padding."""
    return {key: replace(one, bytes=one.unpadded) for key, one in buffers.items()}


def remedy(buffers: Mapping[K, Buffer], together: Mapping[K, AbstractSet[K]], limit: int) -> str:
    """The smallest change found after which buffers that take more than `limit` bytes would fit, in words.

    In this order: fewer rotating buffers, smaller tensors with the buffers they have.
    """
    changes = (_with_fewer(buffers), _smaller(buffers))
    for words, changed in (change for kind in changes for change in kind):
        needed = extent(changed, place(changed, together))
        if needed <= limit:
            return f"{words} would take {needed}"
    return f"even tensors of 1/{SMALLEST_PART} of their size would not fit"


Change = tuple[str, dict[K, Buffer]]


def _with_fewer(buffers: Mapping[K, Buffer]) -> Iterator[Change[K]]:
    """Fewer buffers of one tensor, then of all; the changes that save least first."""
    groups: dict[str, list[K]] = {}
    for key, one in buffers.items():
        if one.tensor:
            groups.setdefault(one.tensor, []).append(key)
    most = max((len(keys) for keys in groups.values()), default=0)
    for count in range(most - 1, 0, -1):
        rotating = [name for name, keys in groups.items() if len(keys) > count]
        for names in (*([name] for name in rotating), *([rotating] if len(rotating) > 1 else ())):
            dropped = {key for name in names for key in groups[name][count:]}
            kept = {key: one for key, one in buffers.items() if key not in dropped}
            had = " and ".join(str(number) for number in sorted({len(groups[name]) for name in names}))
            listed = " and ".join(f"'{name}'" for name in names)
            each = " each" if len(names) > 1 else ""
            yield f"{count} LDS buffer{'s' * (count > 1)} of {listed}{each} instead of {had}", kept


def _smaller(buffers: Mapping[K, Buffer]) -> Iterator[Change[K]]:
    part = 2
    while part <= SMALLEST_PART:
        words = "half" if part == 2 else f"1/{part}"
        yield (
            f"a block whose tensors have {words} of their elements",
            {key: replace(one, bytes=aligned(-(-one.bytes // part))) for key, one in buffers.items()},
        )
        part *= 2
