"""Rows of different lengths: the references against brute force, the kernels on every chip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.ops import find_operator
from ckmlir.ops.ragged.ragged_tiles import pack_table
from ckmlir.ops.request import RequestError
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.targets import TARGETS, get_target

SUMS, TILES = find_operator("ragged_row_sums"), find_operator("ragged_tiles")
GFX942 = get_target("gfx942")


@settings(max_examples=50)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.sampled_from([1, 4, 16]), st.integers(0, 30))
def test_tiles_cover_every_element_once(lengths: list[int], tile: int, spare: int) -> None:
    """In order, none longer than a tile, none across a boundary, and never more than the table has room for."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    problem = TILES.problem(rows=len(lengths), total=int(offsets[-1]) + spare, tile=tile)
    table = np.zeros((problem.slots, 4), np.int32)
    pack_table(offsets, tile, table)
    covered = [(row, at) for row, start, stop, _ in table.tolist() for at in range(start, stop)]
    assert covered == [(row, at) for row in range(len(lengths)) for at in range(offsets[row], offsets[row + 1])]
    assert all(stop - 1 < (start // tile + 1) * tile for _, start, stop, _ in table.tolist() if stop > start)


@pytest.mark.parametrize("chip", TARGETS)
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("ragged_tiles", {"rows": 3, "total": 40_000}),
        ("ragged_tiles", {"rows": 40, "total": 100, "tile": 8}),
        ("ragged_row_sums", {"rows": 9, "total": 5000, "pack": "host"}),
        ("ragged_row_sums", {"rows": 9, "total": 5000, "pack": "device"}),
    ],
)
def test_kernels(chip: str, name: str, keys: dict[str, Any]) -> None:
    target, operator = get_target(chip), find_operator(name)
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, target, seed=1)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target))
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))


@pytest.mark.parametrize("pack", ["host", "device"])
def test_the_total_is_an_upper_bound(pack: str) -> None:
    """Offsets that end before it leave slots and elements alone."""
    problem = SUMS.problem(rows=4, total=3000, pack=pack)
    values = np.random.default_rng(2).standard_normal(3000).astype(np.float32)
    arrays = {"values": values, "offsets": np.array([0, 700, 700, 1500, 1501], np.int32)}
    result = run_operator(SUMS, problem, arrays, GFX942, open_device("sim", GFX942))
    assert all(one.ok for one in check_outputs(SUMS, problem, arrays, result.outputs, GFX942))
    brute = [
        values[begin:end].astype(np.float64).sum() for begin, end in ((0, 700), (700, 700), (700, 1500), (1500, 1501))
    ]
    np.testing.assert_allclose(result.outputs["sums"], brute, rtol=1e-4, atol=1e-4)


def test_requests_that_are_refused() -> None:
    with pytest.raises(RequestError, match="tile=3: expected a power of two"):
        TILES.problem(tile=3)
    with pytest.raises(RequestError, match="pack=gpu"):
        SUMS.problem(pack="gpu")
