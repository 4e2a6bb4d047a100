"""Choices by conditions that are joined: right for every element, and few conditions are there at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, DTYPES, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Kernel,
    cast,
    coordinates,
    i32,
    kernel,
    load,
    loop,
    ptr,
    reduce_sum,
    store,
    view,
    where,
    zeros,
)
from ckmlir.targets import get_target

ROWS, COLUMNS = 64, 64
LIES = Distribution.parse("d0: 64@lane, d1: 64@y0")


def band(row: Any, far: Any, column: Any, sink: Any, end: Any) -> Any:
    """A causal window from `far` on with a sink, up to `end`, but the other way round in column 3. Limits stand on both
    sides, and some are constants. For tiles and arrays.
    """
    return ((column <= row) & ((column < sink) | (far < column)) & (column < end)) ^ ((column > 2) & (column < 4))


def band_kernel(chip: str, dtype: str) -> Kernel:
    """x where the band holds, 0 elsewhere, and the sums of its rows."""
    arguments = {
        "x": ptr(dtype), "sums": ptr("f32"), "y": ptr(dtype), **dict.fromkeys(("n", "sink", "left", "end"), i32)
    }  # fmt: skip

    @kernel("band", target=get_target(chip), waves=1, arguments=arguments)
    def masked(given: Any) -> None:
        X, Y = (view(pointer, (ROWS, given.n), (given.n.multiple_of(8), 1)) for pointer in (given.x, given.y))
        with loop(0, given.n, COLUMNS, carry=[zeros((ROWS,), "f32", LIES.reduce(1))]) as step:
            (total,) = step.carried
            tile = load(X.window((ROWS, COLUMNS), (0, step.index)), LIES)
            row, column = coordinates(total, 0), coordinates(tile, 1) + step.index
            holds = band(row[:, None], (row - given.left)[:, None], column, given.sink, given.end)
            kept = where(holds, tile, 0)
            store(kept, Y.window((ROWS, COLUMNS), (0, step.index)))
            step.carry(total + reduce_sum(cast(kept, "f32"), 1))
        store(step.results[0], view(given.sums, (ROWS,), (1,)).window((ROWS,), (0,)))

    return masked


@pytest.mark.one_in(8)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32"])
def test_joined_conditions(chip: str, dtype: str) -> None:
    compiled = compile_traced(band_kernel(chip, dtype))
    assert compiled.spills == 0
    columns = 2 * COLUMNS
    x = np.random.default_rng(1).integers(1, 9, (ROWS, columns)).astype(DTYPES[dtype])
    row, column = np.arange(ROWS)[:, None], np.arange(columns)
    for sink, left, end in ((5, 20, 100), (0, 1, 50), (200, 0, 0)):
        holds = band(row, row - left, column, sink, end)
        _, sums, y = compiled.run(
            x, np.zeros(ROWS, np.float32), np.zeros_like(x), columns, sink, left, end, checks="all"
        )
        np.testing.assert_array_equal(y, np.where(holds, x, 0))
        np.testing.assert_array_equal(sums, np.where(holds, x, 0).sum(1, dtype=np.float64))
