"""Distributions for memory and for rows: every tile covered, vectors contiguous, lanes next to each other."""

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import (
    coalesced,
    in_groups,
    in_quads,
    lanes_last,
    quad_distance,
    row_tile_length,
    rows,
    rows_at_once,
)  # fmt: skip

powers = st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128])


def test_worked_example():
    assert coalesced((256, 32), 4, 1, 8) == Distribution.parse("m: 4@y0 4@wave 16@lane, k: 4@lane 8@y1")
    assert coalesced((32, 256), 4, 0, 8) == Distribution.parse("k: 4@lane.1 8@y1, m: 4@y0 4@wave 16@lane.0")


@pytest.mark.parametrize(
    "made, text",
    [
        (coalesced((16, 4096), 4, 1, 8), "m: 16@y0, k: 2@y1 4@wave 64@lane 8@y2"),  # a row is longer than all threads
        (coalesced((4, 1024), 4, 1, 8), "m: 2@y0 2@wave, k: 2@wave 64@lane 8@y1"),  # longer than a wave
        (coalesced((128, 64), 4, 1, 8, transposed_block=4), "m: 4@wave 8@lane 4@y0, k: 8@lane 8@y1"),
        (coalesced((128, 96), 4, 1, 8), "m: 2@y0 4@wave 16@lane, k: 3@y1 4@lane 8@y2"),  # no power of two
        (coalesced((32, 32), 4, 1, 8), "m: 4@wave 8@lane, k: 8@lane 4@y0"),  # vectors shrink so that all threads work
        (coalesced((2, 8), 4, 1, 8), "r: 4@wave 4@lane, m: 2@lane, k: 8@lane"),  # fewer elements than threads
        (coalesced((2, 16, 32), 1, 2, 8), "a: 2@y0, b: 16@lane, c: 4@lane 8@y1"),
        (coalesced((64,), 1, 0, 4), "m: 64@lane"),
    ],
)
def test_known_shapes(made, text):
    assert made == Distribution.parse(text)


@pytest.mark.parametrize("waves", [1, 4, 8])
@pytest.mark.parametrize("vector", [1, 4, 8])
@pytest.mark.parametrize("lengths", [(128, 64), (64, 32), (16, 32), (256, 64), (32, 2)])
def test_quads(lengths: tuple[int, int], vector: int, waves: int) -> None:
    """Lanes of a quad have the same fours along the second dimension, where there are enough elements."""
    made = in_quads(lengths, waves, vector)
    assert made.lengths == lengths and (made.waves, made.lanes) == (waves, 64)
    if lengths[1] % 4 or prod(lengths) < 4 * 64 * waves:
        assert made == coalesced(lengths, waves, 0, vector)
        return
    assert made.is_bijective()
    along = made.coordinates()[1].reshape(waves, 16, 4, -1)
    assert (along == along[:, :, :1]).all()
    places = np.sort(along[:, :, 0], axis=-1).reshape(-1, made.registers)
    assert all(set(row) == {place // 4 * 4 + seat for place in row for seat in range(4)} for row in places)


@pytest.mark.parametrize(("text", "apart"), [
    ("d0: 4@y0 4@wave 16@lane, d1: 4@lane 8@y1", [64, None]),
    ("d0: 8@y0 2@wave 8@lane, d1: 8@lane 4@y1", [16, None]),
    ("d0: 2@y0 32@lane, d1: 2@lane 8@y1", [None, None]),  # two rows of a lane, and two lanes of a row
    ("d0: 2@y0 16@lane, d1: 4@lane 8@y1", [None, None]),
    ("d0: 16@lane.1 8@y1, d1: 4@lane.0 4@y0", [None, 1]),
    ("d0: 2@y0 16@lane 2@y1, d1: 4@lane 8@y2", [None, None]),  # 0, 1, 32 and 33 are not as far from each other
])  # fmt: skip
def test_distances_of_fours(text: str, apart: list[int | None]) -> None:
    """Which all lanes of a quad have the same."""
    made = Distribution.parse(text)
    assert [quad_distance(made, dim) for dim in range(2)] == apart


def test_lanes_last() -> None:
    """Who has what changes, and nothing else does."""
    made = coalesced((32, 64), 2, 1, 1, lanes_first=(0, 4))
    assert made == Distribution.parse("m: 8@y0 4@lane.1, k: 2@y1 2@wave 16@lane.0")
    turned = lanes_last(made, 0)
    assert turned == Distribution.parse("m: 8@y0 4@lane.0, k: 2@y1 2@wave 16@lane.1")
    assert (quad_distance(made, 0), quad_distance(turned, 0)) == (None, 4)


@given(st.tuples(powers, powers), st.sampled_from([1, 2, 4, 8]), st.integers(0, 1), st.sampled_from([1, 2, 4, 8, 16]))
@settings(max_examples=120)
def test_coalesced(lengths, waves, dim, vector):
    made = coalesced(lengths, waves, dim, vector)
    assert made.lengths == lengths and (made.waves, made.lanes) == (waves, 64) and made.is_bijective()
    elements, threads = prod(lengths), waves * 64
    assert made.registers == max(1, elements // threads)
    assert made.replication == max(1, threads // elements)
    width = min(vector, lengths[dim], made.registers)
    along, other = made.coordinates()[dim], made.coordinates()[1 - dim]
    runs = along.reshape(waves, 64, -1, width)
    assert (np.diff(runs, axis=-1) == 1).all() and (runs[..., 0] % width == 0).all()
    assert (np.diff(other.reshape(runs.shape), axis=-1) == 0).all()
    # The lanes of one access cover whole rows, or one run within a row.
    neighbours = min(64, lengths[dim] // width)
    if made.replication == 1:
        assert (np.diff(along[0, :neighbours, 0]) == width).all()


@given(st.sampled_from([16, 32, 64, 128]), st.sampled_from([16, 32, 64, 128]), st.sampled_from([2, 4, 8]))
@settings(max_examples=40)
def test_transposed_blocks(m, k, block):
    """Every thread owns blocks of `block` consecutive rows by one vector, so it can transpose them by itself."""
    if m * k < 256 * block * 8:
        return
    made = coalesced((m, k), 4, 1, 8, transposed_block=block)
    row, column = made.coordinates().reshape(2, 4, 64, -1, block, 8)
    assert (np.diff(row, axis=-2) == 1).all() and (row[..., 0, 0] % block == 0).all()
    assert (np.diff(column, axis=-1) == 1).all() and (np.diff(column, axis=-2) == 0).all()


@pytest.mark.parametrize(
    "act, words",
    [
        (lambda: coalesced((64, 64), 4, 2, 8), "no dimension 2"),
        (lambda: coalesced((64, 64), 0, 1, 8), "must be positive"),
        (lambda: coalesced((6, 64), 4, 1, 8, transposed_block=4), "do not divide the rows"),
        (lambda: coalesced((64,), 1, 0, 4, transposed_block=2), "do not divide the rows"),
        (lambda: rows(4, 100, 4, 8), "pad it to 128"),
        (lambda: rows(4, 4096, 4, 8, 3), "3 waves a row cannot be made of 4"),
        (lambda: rows(16, 64, 4, 8), "not a multiple of the 32"),
    ],
)
def test_refusals(act, words):
    with pytest.raises(ValueError, match=words):
        act()


@pytest.mark.parametrize(
    "made, text",
    [
        (rows(4, 4096, 4, 8), "m: 4@wave, n: 8@y0 64@lane 8@y1"),
        (rows(1, 4096, 4, 8, 4), "m: 1, n: 2@y0 4@wave 64@lane 8@y1"),
        (rows(4, 2048, 4, 8, 2), "m: 2@y0 2@wave, n: 2@y1 2@wave 64@lane 8@y2"),
        (rows(64, 64, 4, 8), "m: 2@y0 4@wave 8@lane, n: 8@lane 8@y1"),
    ],
)
def test_rows_of_known_shapes(made, text):
    assert made == Distribution.parse(text)


@given(st.integers(1, 5000), st.sampled_from([1, 2, 4, 8]), st.sampled_from([(1, 1), (4, 1), (4, 4), (8, 2)]))
@settings(max_examples=80)
def test_rows(length, vector, waves):
    count, per_row = waves
    padded = row_tile_length(length, vector, per_row)
    assert padded >= length
    step = rows_at_once(padded, count, vector, per_row)
    made = rows(2 * step, padded, count, vector, per_row)
    assert made.lengths == (2 * step, padded) and made.replication == 1 and made.is_bijective()
    row, column = made.coordinates()
    runs = column.reshape(count, 64, -1, vector)
    assert (np.diff(runs, axis=-1) == 1).all() and (runs[..., 0] % vector == 0).all()
    holders = len({(wave, int(r)) for wave in range(count) for r in np.unique(row[wave])}) / (2 * step)
    assert holders == per_row
    assert padded - length < max(length, 64 * per_row * vector)  # at most doubled, or one step of the waves


@pytest.mark.parametrize(("lengths", "waves", "group", "turned"), [
    ((56, 64), 4, 1, 2), ((84, 64), 4, 3, 4), ((40, 96), 2, 1, 2), ((64, 128), 4, 1, 2), ((48, 48), 1, 3, 4),
])  # fmt: skip
def test_groups_across_that_are_no_power_of_two(
    lengths: tuple[int, int], waves: int, group: int, turned: int
) -> None:
    """A lane has as many neighbours along the other dimension as are turned together, or a power of two times as many.
    """
    found = in_groups(lengths, waves, 0, group, turned, across=1)
    assert found.lengths == lengths
    own = prod(factor.length for factor in found.dims[1] if factor.owner == "register")
    assert own % turned == 0
