"""Steps of a steady loop in which LDS buffers and sets of registers are back where they were."""

from __future__ import annotations

from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckmlir.passes.steady_turn import MOST_STEPS, steady_turn

COUNTS = st.lists(st.integers(1, MOST_STEPS), min_size=1, max_size=4)


@pytest.mark.parametrize(("slots", "sets", "steps"), [
    ([1], [], 1), ([2, 1], [1, 1], 2), ([2], [3], 6),
    ([1], [5, 5, 5, 7], 10),  # one more load with 10 sets instead of 7, not three with 7 instead of 5
    ([1], [5, 7, 7, 7], 7), ([3], [7, 4], 12), ([2], [9, 7], 10),
    ([3, 7], [1], 21), ([1], [17, 5], 85),  # nothing helps
])  # fmt: skip
def test_sets_grow_where_that_makes_the_loop_short(slots: list[int], sets: list[int], steps: int) -> None:
    """As few as possible in all."""
    assert steady_turn(slots, sets) == steps


@given(COUNTS, COUNTS)
def test_every_turn_brings_all_back(slots: list[int], sets: list[int]) -> None:
    """Buffers exactly; loads with at least the sets that they need. The least common multiple where it is short."""
    steps = steady_turn(slots, sets)
    assert steps % lcm(*slots) == 0 and steps >= max(sets)
    assert steps == lcm(*slots, *sets) or steps <= MOST_STEPS < lcm(*slots, *sets)
