"""Shares of attention backward: every block of keys once, equal ranges of cost, slots that belong to one workgroup."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from ckmlir.ops.attention.slot_table import SlotTable, slot_table

BLOCK = (32, 128)


def brute_force(
    queries: list[int], keys: list[int], heads: int, workgroups: int, block: tuple[int, int]
) -> list[list[tuple[int, int, int]]]:
    """The (sequence, head, block of keys) of every workgroup: block after block, each goes to the workgroup in whose
    range of cost it begins."""
    items = []
    for number, (sq, sk) in enumerate(zip(queries, keys, strict=True)):
        cost = sum(block[0] for _ in range(0, max(sq, 1), block[0]))
        items += [(number, head, place, cost) for head in range(heads) for place in range(len(range(0, sk, block[1])))]
    total = sum(cost for *_, cost in items)
    share = (total + workgroups - 1) // workgroups
    found: list[list[tuple[int, int, int]]] = [[] for _ in range(workgroups)]
    begin = 0
    for number, head, place, cost in items:
        found[begin // share].append((number, head, place))
        begin += cost
    return found


def check(queries: list[int], keys: list[int], heads: int, workgroups: int, block: tuple[int, int]) -> SlotTable:
    """Everything that a table promises."""
    table = slot_table(queries, keys, heads, workgroups, block)
    expected = brute_force(queries, keys, heads, workgroups, block)
    owner: dict[tuple[int, int, int], int] = {}
    used = np.ones(len(queries), np.int64)
    for workgroup in range(workgroups):
        work = list(table.work(workgroup))
        assert [place for *place, _ in work] == [list(place) for place in expected[workgroup]]
        for batch, head, _, slot in work:
            assert owner.setdefault((batch, head, slot), workgroup) == workgroup
            used[batch] = max(used[batch], slot + 1)
    assert (table.slots == used).all()
    assert (table.slots <= np.maximum(table.blocks, 1)).all()
    sizes = [heads * int(slots) * sq * 64 for slots, sq in zip(table.slots, queries, strict=True)]
    assert table.offsets(queries, 64).tolist() == [sum(sizes[:end]) for end in range(len(sizes) + 1)]
    return table


def drawn(random: Random) -> tuple[list[int], list[int], int, int, tuple[int, int]]:
    """A few sequences of any lengths, none or one among them, or many short ones."""
    count = random.choice((1, 1, 2, 3, 5, 20))
    longest = random.choice((3, 40, 300, 3000)) if count < 20 else 150
    queries, keys = ([random.choice((0, 1, random.randint(0, longest), longest)) for _ in range(count)] for _ in "qk")
    heads, workgroups = random.choice((1, 2, 3, 8)), random.choice((1, 2, 3, 7, 20, 64))
    return queries, keys, heads, workgroups, random.choice((BLOCK, (16, 64)))


@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.full)])
def test_tables_of_random_lengths(count: int) -> None:
    """Against the brute-force partition: every block of keys exactly once, in the same workgroup, in order."""
    random = Random(11)
    for _ in range(count):
        check(*drawn(random))


def test_a_table_by_hand() -> None:
    """Two heads of three blocks that cost 64 each, for four workgroups: 96 of 384 for each."""
    table = check([64], [300], 2, 4, (64, 128))
    states = list(zip(table.head, table.block, table.slot, table.low, table.high, strict=True))
    assert states == [(0, 0, 0, 0, 128), (0, 2, 1, 128, 192), (1, 0, 0, 192, 320), (1, 2, 1, 320, 384)]
    assert table.slots.tolist() == [2]


def test_fewer_slots_than_blocks() -> None:
    """Long sequences of which a workgroup takes several blocks of keys: slots are fewer than those, and ranges are as
    long as each other but for one block."""
    queries = [4096, 3072, 2048, 1024]
    table = check(queries, queries, 8, 304, BLOCK)
    assert (table.slots < table.blocks).all()
    costs = table.high - table.low
    assert costs.max() - costs[costs > 0][:-1].min() <= 2 * 4096
    whole = np.cumsum(8 * table.blocks * np.array(queries) * 128)[-1]
    assert table.offsets(queries, 128)[-1] < 0.7 * whole


@pytest.mark.parametrize(("queries", "keys"), [([], []), ([5, 0], [0, 0]), ([0, 0, 0], [1, 0, 300]), ([7], [9])])
def test_tables_at_the_ends(queries: list[int], keys: list[int]) -> None:
    """No sequences, none with keys, none with queries, one block for many workgroups."""
    table = check(queries, keys, 2, 9, BLOCK)
    assert table.slots.min(initial=1) == 1
