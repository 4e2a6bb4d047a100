"""Ranges of whole blocks of keys: the partition that CK Tile publishes, read independently, and slots that are one
workgroup's."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from test_slot_table import BLOCK, attending, drawn, made

from ckmlir.ops.attention.backward.block_table import BlockShares, shares_by
from ckmlir.ops.attention.backward.slot_table import BESIDE
from ckmlir.ops.attention.masks import Mask
from ckmlir.ops.attention.sequences import Rows
from ckmlir.ops.request import RequestError


class Published(NamedTuple):
    """What CK Tile packs, and what its workgroups then do.

    Attributes:
        states: of each workgroup with a range: sequence, head, block, slot, first row of work, and the end.
        splits: slots of a head, of each sequence.
        work: of each workgroup the sequence, head, block and slot of its turns.
    """

    states: list[tuple[int, int, int, int, int, int]]
    splits: list[int]
    work: list[list[tuple[int, int, int, int]]]


def ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)


def published(
    queries: list[int], keys: list[int], heads: int, units: int, block: tuple[int, int] = BLOCK
) -> Published:
    """As CK Tile's host code partitions work in group mode, whatever the mask, and its device code goes through it."""
    widths = [max(ceil_div(one, block[0]), 1) * block[0] for one in queries]
    counts = [ceil_div(one, block[1]) for one in keys]
    whole = sum(heads * width * count for width, count in zip(widths, counts, strict=True))
    target = ceil_div(whole, units)
    begins: list[tuple[int, int, int, int, int]] = []
    splits, prefix = [], 0
    for number, (width, count) in enumerate(zip(widths, counts, strict=True)):
        head_rows, most = count * width, 1
        behind = prefix + heads * head_rows
        while whole and len(begins) < min(units, ceil_div(behind, target)):
            at = len(begins) * target
            head = max((at - prefix) // head_rows, 0)
            within = max(at - (prefix + head * head_rows), 0)
            place = ceil_div(within, width)
            split = min(ceil_div(within, max(width, target)), max(count - 1, 0))
            most = max(most, split + 1) if place < count else most
            begins.append((number, head, place, split, prefix + head * head_rows + place * width))
        splits.append(most if count else 0)
        prefix = behind
    ends = [*(one[-1] for one in begins[1:]), whole]
    states = [(*one, end) for one, end in zip(begins, ends, strict=False)]
    work: list[list[tuple[int, int, int, int]]] = []
    for number, head, place, split, at, end in states:
        work.append([])
        while at < end:
            if place == counts[number]:
                place, split, head = 0, 0, head + 1
                number, head = (number, head) if head < heads else (number + 1, 0)
                continue
            work[-1].append((number, head, place, split))
            at, place = at + widths[number], place + 1
    return Published(states, splits, [*work, *([] for _ in range(units - len(work)))])


def blocks(*given: Any, **more: Any) -> tuple[BlockShares, Any]:
    """Shares as `made` makes them, of whole blocks, and the arrays."""
    some, arrays = made(*given, **more)
    sizes = some.sequences, some.heads, some.queries, some.keys, some.block, some.workgroups
    shares = shares_by("blocks", *sizes, some.mask, some.beside)
    assert isinstance(shares, BlockShares)
    return shares, arrays


def in_order(places: int, mask: Mask) -> list[int]:
    """The blocks of a head as they come: one behind the other, or under a mask even places from the front and odd ones
    from the back."""
    both = [one // 2 if one % 2 == 0 else places - 1 - one // 2 for one in range(places)]
    return list(range(places)) if mask.kind == "none" else both


def check(
    queries: list[int], keys: list[int], heads: int, workgroups: int, block: tuple[int, int], mask: str = "none",
    beside: int = BESIDE,
) -> None:  # fmt: skip
    """Every block once, whole, in order, and as published; a slot is one workgroup's, within bounds, and where no other
    lies."""
    shares, arrays = blocks(queries, keys, heads, workgroups, block, mask, beside)
    costs, written = shares.costs(arrays), shares.written(arrays)
    counts = [ceil_div(one, block[1]) for one in keys]
    splits = costs[shares.sequences + 2 : shares.rows_at].tolist()
    work = [list(shares.work(arrays, one)) for one in range(workgroups)]
    orders = [in_order(count, shares.mask) for count in counts]
    expected = published(queries, keys, heads, workgroups, block)
    assert splits == expected.splits
    assert [[one[:4] for one in own] for own in work] == [
        [(number, head, orders[number][place], slot) for number, head, place, slot in own] for own in expected.work
    ]
    assert [(*one[:3], list(one.steps)) for own in work for one in own] == [
        (number, head, place, attending(shares.mask, queries[number], keys[number], block, place))
        for number, order in enumerate(orders)
        for head in range(heads)
        for place in order
    ]
    owners: dict[tuple[int, int, int], int] = {}
    rows: dict[int, set[int]] = {}
    for workgroup, own in enumerate(work):
        for number, head, _, slot, steps in own:
            assert slot is not None and 0 <= slot < splits[number] <= counts[number]
            assert owners.setdefault((number, head, slot), workgroup) == workgroup
            rows.setdefault(shares.index(costs, number, head, slot), set()).update(steps)
    for index, (low, high) in enumerate(written.tolist()):
        there = rows.get(index, set())
        assert (low, high) == ((min(there) * block[0], (max(there) + 1) * block[0]) if there else (0, 0))
    every = list(itertools.chain.from_iterable(
        ((number, head, slot) for head in range(heads) for slot in range(count)) for number, count in enumerate(splits)
    ))  # fmt: skip
    assert [shares.index(costs, *one) for one in every] == list(range(len(every)))
    ends = np.cumsum([queries[number] for number, _, _ in every]).tolist()
    assert [shares.place(costs, arrays, *one, 1) for one in every] == [0, *ends][: len(every)]
    assert len(every) <= shares.count and [0, *ends][-1] <= shares.elements(1)
    used = [[slot for other, _, slot in owners if other == number] for number in range(len(queries))]
    assert splits == [max(slots, default=-1) + 1 for slots in used]


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.full)])
def test_blocks_of_random_lengths(count: int) -> None:
    """Against what CK Tile publishes, and a list of all steps."""
    random = Random(23)
    for _ in range(count):
        check(*drawn(random))


def test_the_published_example() -> None:
    """Two heads of three blocks of 64 rows for four workgroups: 96 of 384 rows for each, and two slots."""
    expected = [(0, 0, 0, 0, 0, 128), (0, 0, 2, 1, 128, 192), (0, 1, 0, 0, 192, 320), (0, 1, 2, 1, 320, 384)]
    found = published([64], [384], 2, 4, (64, 128))
    assert (found.states, found.splits) == (expected, [2])
    shares, arrays = blocks([64], [384], 2, 4, (64, 128))
    work = [[one[:4] for one in shares.work(arrays, workgroup)] for workgroup in range(4)]
    assert work == [[(0, 0, 0, 0), (0, 0, 1, 0)], [(0, 0, 2, 1)], [(0, 1, 0, 0), (0, 1, 1, 0)], [(0, 1, 2, 1)]]
    assert shares.costs(arrays).tolist() == [0, 6, 96, 2, 0, 2 * 2 * 64, 0, 4]


def test_less_than_a_block_for_each_workgroup() -> None:
    """Slots are places of blocks then, and there are as many."""
    shares, arrays = blocks([640, 64], [640, 300], 1, 64, BLOCK)
    work = [one for workgroup in range(64) for one in shares.work(arrays, workgroup)]
    assert [one.slot for one in work] == [one.place for one in work] == [0, 1, 2, 3, 4, 0, 1, 2]


@pytest.mark.parametrize(("queries", "keys"), [
    ([], []), ([5, 0], [0, 0]), ([0, 0, 0], [1, 0, 300]), ([7], [9]), ([0, 33, 0], [130, 0, 5]),
])  # fmt: skip
@pytest.mark.parametrize("mask", ["none", "top_left"])
def test_blocks_at_the_ends(queries: list[int], keys: list[int], mask: str) -> None:
    """No sequences, none with keys, none with queries, one block for many workgroups."""
    check(queries, keys, 2, 9, BLOCK, mask)


def test_bounds_of_the_workspace() -> None:
    """The smaller one of two: a slot for each block of keys, or what so many workgroups may begin."""
    lengths = [4096, 3072, 2048, 1024]
    shares, arrays = blocks(lengths, lengths, 8, 304, BLOCK)
    used = int(shares.costs(arrays)[shares.rows_at + 4])
    assert used <= shares.elements(1) == 2 * 8 * 10240 + 304 * 4096 < 8 * 10240 * 32
    short, _ = blocks([256] * 300, [256] * 300, 8, 304, BLOCK)
    assert short.elements(1) == 8 * 300 * 256 * 2
    assert (shares.count, short.count) == (2 * 8 * 4 + 304, 8 * 300 * 2)


def test_more_rows_than_are_counted() -> None:
    """Refused in words; ranges of steps count 32 times as far."""
    side = Rows("q", 1 << 16), Rows("k", 1 << 16)
    sizes: Any = 8, 64, *side, BLOCK, 304, Mask.parse("none"), BESIDE
    shares_by("steps", *sizes)
    with pytest.raises(RequestError, match=r"ranges=blocks: .* queries; .* 2147483647: expected ranges=steps"):
        shares_by("blocks", *sizes)
