"""Workgroups of different length on the compute units of a device: schedules that are known, and laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckmlir.sim.timing.dealing import Dealt, deal

KNOWN = np.array([1.0, 1000.0])


def dealt(
    lengths: list[float], units: int, together: int = 1, dies: int = 1, slow: float = 0.0, delay: float = 0.0
) -> Dealt:
    """A workgroup takes as many cycles as it is long, and `slow` times as many more for each beside it."""
    table = KNOWN[:, None] * (1 + slow * np.arange(together))
    return deal(np.array(lengths, np.float64), KNOWN, table, compute_units=units, dies=dies, start_delay=delay)


def test_schedules_that_are_known() -> None:
    assert dealt([10, 10, 10, 10], 2) == Dealt(20, 1.0)
    assert dealt([10, 10, 10], 2) == Dealt(20, 0.75)
    # The long one comes last: 1 2 | 3, then 12 beside nothing.
    assert dealt([1, 2, 3, 12], 2).cycles == 14
    assert dealt([12, 3, 2, 1], 2).cycles == 12
    assert dealt([10, 10], 4).cycles == 10
    assert dealt([7], 1).cycles == 7
    assert dealt([10, 10, 10], 1, delay=5).cycles == 40


def test_those_beside_slow_it_down() -> None:
    assert dealt([10, 10], 1, together=2, slow=1.0).cycles == 20  # as one after the other
    assert dealt([10, 10], 1, together=2, slow=0.0).cycles == 10
    # 4 and 12 together: at half speed until the short one ends at 8, with 8 left of the other.
    assert dealt([4, 12], 1, together=2, slow=1.0).cycles == 16
    assert dealt([10, 10], 2, together=2, slow=1.0).cycles == 10  # each has a compute unit of its own


def test_dies_get_what_the_number_says() -> None:
    """Every second workgroup is long, and all of these go to one die."""
    assert dealt([10, 100] * 4, 4, dies=2).cycles == 200
    assert dealt([10, 100] * 4, 4, dies=1).cycles < 200


@given(
    lengths=st.lists(st.integers(1, 1000), min_size=1, max_size=60),
    units=st.integers(1, 9),
    together=st.integers(1, 3),
    slow=st.sampled_from([0.0, 0.4, 1.0]),
)
def test_laws(lengths: list[int], units: int, together: int, slow: float) -> None:
    cycles, filled = dealt(list(map(float, lengths)), units, together, slow=slow)
    slowest = 1 + slow * (together - 1)
    assert max(max(lengths), sum(lengths) * slowest / (units * together)) <= cycles * (1 + 1e-9)
    assert cycles <= sum(lengths) * slowest * (1 + 1e-9)
    assert 0 < filled <= 1 + 1e-9


@pytest.mark.parametrize("count", [304, 305, 608, 1000])
def test_workgroups_that_are_alike_run_in_rounds(count: int) -> None:
    assert dealt([50.0] * count, 304, dies=8).cycles == 50 * -(-count // 304)
