"""What workgroups read in common, on grids where it can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from made_timelines import LOAD, made_trace

from ckmlir.errors import CkmlirError
from ckmlir.sim.timing.memory_shares import Sharing
from ckmlir.sim.timing.parameters import Parameters, load
from ckmlir.sim.timing.recording import Trace
from ckmlir.sim.timing.sharing import lines_read, measure_sharing, neighbours, surveyed_shape

A, B = 1 << 32, 1 << 33
LINES = 8  # of 128 bytes that a workgroup reads of each array


def rows(start: int, first: int) -> list[np.ndarray]:
    """The addresses of one load that reads LINES lines, 16 bytes a lane."""
    return [(start + 128 * LINES * first + 16 * np.arange(64)).astype(np.uint64)]


def product(shape: tuple[int, int], grid: tuple[int, int, int], chosen: tuple[int, ...]) -> Trace:
    """Workgroups of a product: tile (n, m) reads row m of A and column n of B."""
    loads = [rows(A, number // shape[0]) + rows(B, number % shape[0]) for number in chosen]
    return made_trace([[LOAD, LOAD]] * len(chosen), groups=chosen, grid=grid, loads=loads)


def counted(parameters: Parameters, shape: tuple[int, int], running: int, dies: int) -> Sharing:
    """By brute force: which rows and columns the workgroups that run at a time read, die by die."""
    wanted, on_dies = 0, 0
    everywhere: set[tuple[str, int]] = set()
    for die in range(dies):
        here: set[tuple[str, int]] = set()
        for number in range(die, running, dies):
            pieces = {("a", number // shape[0]), ("b", number % shape[0])}
            wanted += len(pieces)
            here |= pieces
        on_dies += len(here)
        everywhere |= here
    return Sharing(max(1.0, wanted / on_dies), max(1.0, on_dies / len(everywhere)))


@pytest.mark.parametrize("shape", [(32, 32), (16, 8), (8, 64), (5, 7), (1, 40), (304, 1)])
@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_products_share_rows_and_columns(shape: tuple[int, int], target: str) -> None:
    parameters = load(target)
    count = shape[0] * shape[1]
    trace = product(shape, (count, 1, 1), neighbours(shape))
    found = measure_sharing(trace, parameters, 1, shape)
    units, dies = {"gfx90a": (110, 1), "gfx942": (304, 8)}[target]
    expected = counted(parameters, shape, min(count, units), dies)
    assert (found.l2, found.mall) == pytest.approx((expected.l2, expected.mall))


@pytest.mark.parametrize(("shape", "count"), [((24, 22), 512), ((19, 17), 310), ((40, 1), 33), ((7, 6), 36)])
def test_the_last_row_may_be_cut_off(shape: tuple[int, int], count: int) -> None:
    """As many workgroups as a chip holds take the first tiles of a product."""
    parameters, chosen = load("gfx942"), neighbours(shape, count=count)
    found = measure_sharing(product(shape, (count, 1, 1), chosen), parameters, 2, shape)
    expected = counted(parameters, shape, min(count, 2 * 304), 8)
    assert (found.l2, found.mall) == pytest.approx((expected.l2, expected.mall))
    assert surveyed_shape(shape, (count, 1, 1)) == (count, 1, 1)
    assert surveyed_shape(shape, (shape[0] * shape[1], 1, 1)) == shape


def test_streams_share_nothing() -> None:
    chosen = neighbours((1000, 1, 1))
    loads = [rows(A, number) for number in chosen]
    trace = made_trace([[LOAD]] * 2, groups=chosen, grid=(1000, 1, 1), loads=loads)
    assert measure_sharing(trace, load("gfx942"), 4) == Sharing(1.0, 1.0)


def test_an_axis_without_a_recorded_neighbour_shares_nothing() -> None:
    shape = (32, 32)
    along_n = measure_sharing(product(shape, (1024, 1, 1), (0, 1)), load("gfx942"), 1, shape)
    both = measure_sharing(product(shape, (1024, 1, 1), (0, 1, 32)), load("gfx942"), 1, shape)
    assert 1 <= along_n.l2 < both.l2


def test_what_simulated_workgroups_share_is_left_out() -> None:
    shape, parameters = (8, 8), load("gfx90a")
    trace = product(shape, (64, 1, 1), (0, 1, 8))
    alone = measure_sharing(trace, parameters, 1, shape)
    # Workgroups 0 and 1 read the same row of A: 4 pieces, 3 of them distinct.
    assert measure_sharing(trace, parameters, 1, shape, (0, 1)).l2 == pytest.approx(alone.l2 / (4 / 3))


def test_lines_are_those_that_loads_touch() -> None:
    trace = product((4, 4), (16, 1, 1), (5,))
    expected = {(A + 128 * LINES + 128 * n) // 128 for n in range(LINES)}
    expected |= {(B + 128 * LINES + 128 * n) // 128 for n in range(LINES)}
    assert set(lines_read(trace, 128)[5].tolist()) == expected


def test_stores_are_not_read() -> None:
    trace = product((4, 4), (16, 1, 1), (5,))
    trace.accesses["store"][1] = 1
    assert set((lines_read(trace, 128)[5] // (B // 128)).tolist()) == {0}


def test_neighbours_are_one_step_along_each_axis() -> None:
    assert neighbours((32, 16, 1)) == (0, 1, 32)
    assert neighbours((1, 4, 3)) == (0, 1, 4)
    assert neighbours((1, 1, 1)) == (0,)
    assert neighbours((4, 3), 6) == (6, 7, 10)
    assert neighbours((4, 3), 6, 9) == (6, 7, 2)
    assert neighbours((4, 3), 8, 9) == (8, 7, 4)
    assert neighbours((4, 1), 0, 1) == (0,)


def test_a_shape_of_another_size_is_refused() -> None:
    with pytest.raises(CkmlirError, match=r"\(3, 5\) has 15 workgroups, the grid has 16"):
        measure_sharing(product((4, 4), (16, 1, 1), (0,)), load("gfx942"), 1, (3, 5))
