"""Shares of attention backward: every step once, equal ranges, slots that belong to one workgroup, blocks to two."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from ckmlir.ops.attention.sequences import Rows
from ckmlir.ops.attention.slot_table import BESIDE, Shares
from ckmlir.ops.request import RequestError

BLOCK = (32, 128)


def made(queries: list[int], keys: list[int], heads: int, workgroups: int, block: tuple[int, int]) -> tuple[Any, ...]:
    """Shares of sequences that follow each other, and the arrays that say where they begin."""
    sides = [Rows(side, max(lengths, default=0), (), tuple(lengths)) for side, lengths in (("q", queries), ("k", keys))]
    arrays = {name: array for side in sides for name, array in side.values().items()}
    return Shares(len(queries), heads, sides[0], sides[1], block, workgroups), arrays


Step = tuple[int, int, int, int]
"""The sequence, the head, the block of keys, and the block of queries."""


def brute_force(
    queries: list[int], keys: list[int], heads: int, workgroups: int, block: tuple[int, int]
) -> list[list[Step]]:
    """The steps of every workgroup: one step after the other, each goes to the workgroup in whose range it stands."""
    steps: list[Step | None] = []
    dearest = 0
    for number, (sq, sk) in enumerate(zip(queries, keys, strict=True)):
        for head in range(heads):
            for place in range(len(range(0, sk, block[1]))):
                own = [(number, head, place, one) for one in range(len(range(0, sq, block[0])))]
                dearest = max(dearest, BESIDE + len(own))
                steps += [*[None] * BESIDE, *own]
    share = max((len(steps) + workgroups - 1) // workgroups, dearest)
    ranges = [steps[one * share : (one + 1) * share] for one in range(workgroups)]
    return [[one for one in own if one is not None] for own in ranges]


def check(queries: list[int], keys: list[int], heads: int, workgroups: int, block: tuple[int, int]) -> Shares:
    """Everything that shares promise."""
    shares, arrays = made(queries, keys, heads, workgroups, block)
    expected = brute_force(queries, keys, heads, workgroups, block)
    assert sorted(itertools.chain(*expected)) == sorted({*itertools.chain(*expected)})
    owner: dict[tuple[int, int, int | None], int] = {}
    numbers: dict[int, tuple[int, int, int]] = {}
    sharing: dict[tuple[int, int, int], set[int]] = {}
    used: Mapping[tuple[int, int], list[int | None]] = {
        place: [] for place in itertools.product(range(len(queries)), range(heads))
    }
    for workgroup in range(workgroups):
        work = list(shares.work(arrays, workgroup))
        assert [(*one[:3], step) for one in work for step in one.steps] == expected[workgroup]
        for number, head, place, slot, _ in work:
            sharing.setdefault((number, head, place), set()).add(workgroup)
            assert owner.setdefault((number, head, slot), workgroup) == workgroup
            assert (slot is None) == (owner[number, head, None] == workgroup)
            assert slot is None or 0 <= slot < shares.own_slots
            assert slot is None or numbers.setdefault(slot, (workgroup, number, head)) == (workgroup, number, head)
            if slot not in used[number, head]:
                used[number, head].append(slot)
    assert all(len(workgroups) <= 2 for workgroups in sharing.values())
    costs = shares.costs(arrays)
    for (number, head), slots in used.items():
        assert shares.slots(costs, arrays, number, head) == slots
        assert len(slots) <= len(range(0, keys[number], block[1])) + 1
    most = len(range(0, shares.keys.longest, block[1])) * heads * len(queries)
    assert shares.elements(1) == heads * sum(queries) + min(most, workgroups) * shares.queries.longest
    return shares


def drawn(random: Random) -> tuple[list[int], list[int], int, int, tuple[int, int]]:
    """A few sequences of any lengths, none or one among them, or many short ones."""
    count = random.choice((1, 1, 2, 3, 5, 20))
    longest = random.choice((3, 40, 300, 3000)) if count < 20 else 150
    queries, keys = ([random.choice((0, 1, random.randint(0, longest), longest)) for _ in range(count)] for _ in "qk")
    heads, workgroups = random.choice((1, 2, 3, 8)), random.choice((1, 2, 3, 7, 20, 64))
    return queries, keys, heads, workgroups, random.choice((BLOCK, (16, 64)))


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.full)])
def test_shares_of_random_lengths(count: int) -> None:
    """Against the brute-force partition: every sequence, head, block of keys and block of queries exactly once, in the
    same workgroup, in order."""
    random = Random(11)
    for _ in range(count):
        check(*drawn(random))


def test_shares_by_hand() -> None:
    """Two heads of three blocks of 4 steps, 1 of them with queries, for four workgroups: 6 of 24 for each."""
    shares, arrays = made([1], [300], 2, 4, (64, 128))
    found = [[(*one[:4], len(one.steps)) for one in shares.work(arrays, workgroup)] for workgroup in range(4)]
    assert found == [
        [(0, 0, 0, None, 1), (0, 0, 1, None, 0)], [(0, 0, 1, 1, 1), (0, 0, 2, 1, 1)],
        [(0, 1, 0, None, 1), (0, 1, 1, None, 0)], [(0, 1, 1, 3, 1), (0, 1, 2, 3, 1)],
    ]  # fmt: skip
    assert (shares.own_slots, shares.by_block, shares.elements(8)) == (4, 0, (2 + 4) * 8)


def test_fewer_slots_than_blocks() -> None:
    """Long sequences of which a workgroup takes more than a block of keys: the workspace is smaller than a slot for
    each, and all have as much to do, but for what blocks that are shared cost twice."""
    lengths = [4096, 3072, 2048, 1024]
    shares = check(lengths, lengths, 8, 304, BLOCK)
    arrays = made(lengths, lengths, 8, 304, BLOCK)[1]
    steps = [sum(len(one.steps) for one in shares.work(arrays, workgroup)) for workgroup in range(304)]
    assert max(steps) <= sum(steps) / 304 + 2 * BESIDE
    exact = sum(8 * (one // 128) * one for one in lengths)
    assert shares.elements(1) < 0.7 * exact


@pytest.mark.parametrize(("queries", "keys"), [([], []), ([5, 0], [0, 0]), ([0, 0, 0], [1, 0, 300]), ([7], [9])])
def test_shares_at_the_ends(queries: list[int], keys: list[int]) -> None:
    """No sequences, none with keys, none with queries, one block for many workgroups."""
    check(queries, keys, 2, 9, BLOCK)


def test_more_work_than_is_counted() -> None:
    """Refused in words."""
    side = Rows("q", 1 << 20), Rows("k", 1 << 20)
    with pytest.raises(RequestError, match=r"persistent=1: .* steps; kernels count to 2147483647"):
        Shares(4, 64, *side, BLOCK, 304).check()
