"""Grouping registers into accesses: every register once, each access a run of neighbours that starts aligned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckmlir.dialect.distribution import LANE, REGISTER, WAVE, Distribution, Factor
from ckmlir.passes.accesses import plan_accesses, run_length

OWNERS = st.sampled_from([REGISTER, REGISTER, LANE, WAVE])


@st.composite
def distributions(draw: st.DrawFn) -> Distribution:
    """Random factors of two dimensions, with the registers in a random order."""
    counts = dict.fromkeys((REGISTER, LANE, WAVE), 0)
    dims = []
    for _ in range(2):
        factors = []
        for _ in range(draw(st.integers(1, 3))):
            owner = draw(OWNERS)
            factors.append(Factor(draw(st.sampled_from([2, 3, 4])), owner, counts[owner]))
            counts[owner] += 1
        dims.append(tuple(factors))
    distribution = Distribution((), tuple(dims))
    return distribution.with_register_order(draw(st.permutations(range(len(distribution.register_lengths)))))


@given(distributions(), st.integers(0, 1), st.sampled_from([1, 2, 3, 4, 8, 16]))
def test_accesses_partition_the_registers_into_aligned_runs(distribution: Distribution, dim: int, most: int) -> None:
    accesses = plan_accesses(distribution, dim, most)
    assert sorted(register for access in accesses for register in access) == list(range(distribution.registers))
    length = run_length(distribution, dim, most)
    assert {len(access) for access in accesses} == {length}
    assert length <= most and length & (length - 1) == 0
    assert [min(access) for access in accesses] == sorted(min(access) for access in accesses)
    coordinates = distribution.coordinates()
    for access in accesses:
        along = coordinates[dim][:, :, list(access)]
        assert (along == along[:, :, :1] + np.arange(length)).all(), "neighbours, in every thread"
        assert (along[:, :, 0] % length == 0).all(), "aligned to their length, in every thread"
        other = coordinates[1 - dim][:, :, list(access)]
        assert (other == other[:, :, :1]).all()


@given(distributions(), st.integers(0, 1))
def test_a_longer_limit_never_makes_accesses_shorter(distribution: Distribution, dim: int) -> None:
    lengths = [run_length(distribution, dim, most) for most in (1, 2, 4, 8, 16)]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize(
    ("text", "dim", "most", "length"),
    [
        ("d0: 16@lane, d1: 4@lane 8@y0", 1, 8, 8),
        ("d0: 16@lane, d1: 4@lane 8@y0", 1, 6, 4),
        ("d0: 16@lane, d1: 4@lane 8@y0", 0, 8, 1),
        ("d0: 16@lane, d1: 2@y0 4@lane 4@y1", 1, 8, 4),
        ("d0: 64@lane, d1: 3@y0", 1, 8, 1),
        ("d0: 64@lane, d1: 12@y0", 1, 8, 4),
        ("d0: 64@lane, d1: 2@y1 4@y0", 1, 8, 8),
        ("d0: 4@y0, d1: 64@lane 2@y1", 1, 8, 2),
    ],
)
def test_lengths(text: str, dim: int, most: int, length: int) -> None:
    assert run_length(Distribution.parse(text), dim, most) == length


def test_registers_of_an_access_come_in_the_order_of_the_elements() -> None:
    assert plan_accesses(Distribution.parse("d0: 64@lane, d1: 2@y1 2@y0"), 1, 4) == ((0, 2, 1, 3),)
