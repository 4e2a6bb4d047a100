"""The last of a list's numbers that is at most another, which a workgroup asks memory for 64 places at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import full, i32, kernel, ptr, store, view, workgroup_id
from ckmlir.ops.attention.backward.shares_kernel import ONE
from ckmlir.ops.listed_search import Listed
from ckmlir.targets import get_target

COUNTS = 1, 2, 63, 64, 65, 128, 700, 4095, 4096, 4097, 9000
"""Around a lane for each, and around a lane for as many as lanes."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_every_place_is_found(chip: str) -> None:
    """Against bisection in NumPy, with equal numbers in lists of every length, and with less than the first."""

    @kernel("find", target=get_target(chip), waves=4,
            arguments={"numbers": ptr("i32"), "asked": ptr("i32"), "y": ptr("i32"), "n": i32})
    def find(given: Any) -> None:
        group = workgroup_id(0)
        numbers = Listed(given.numbers, given.n, 4)
        first = numbers.first_asked()
        place = numbers.last(given.asked.scalar(group), first)
        store(full((1,), place, "i32", ONE), view(given.y.offset(group), (1,), (1,)).window((1,), (0,)))

    compiled = compile_traced(find)
    generator = np.random.default_rng(7)
    for count in COUNTS:
        numbers = np.cumsum(generator.integers(0, 3, count)).astype(np.int32)
        among = generator.integers(-2, numbers[-1] + 3, 12)
        asked = np.array([numbers[0] - 1, numbers[0], numbers[-1], numbers[-1] + 1, *among], np.int32)
        *_, found = compiled.run(numbers, asked, np.full(asked.size, -1, np.int32), count, grid=(asked.size, 1, 1),
                                 checks="all")  # fmt: skip
        expected = np.searchsorted(numbers, asked, side="right") - 1
        np.testing.assert_array_equal(found, np.maximum(expected, 0), err_msg=str(count))


def test_numbers_apart_and_computed() -> None:
    """Numbers in a column of a table, of which others follow; a workgroup of one wave."""

    @kernel("find", target=get_target("gfx942"), waves=1,
            arguments={"table": ptr("i32"), "asked": ptr("i32"), "y": ptr("i32"), "n": i32})
    def find(given: Any) -> None:
        group, one = workgroup_id(0), Distribution.parse("d0: 64@lane").expand(0, 1).reduce(1)
        begins = Listed(given.table.offset(2), given.n, 1, 5, of=lambda number, place: number // 3 + place)
        place = begins.last(given.asked.scalar(group))
        store(full((1,), place, "i32", one), view(given.y.offset(group), (1,), (1,)).window((1,), (0,)))

    compiled = compile_traced(find)
    generator = np.random.default_rng(8)
    for count in (1, 64, 65, 300):
        table = generator.integers(-9, 9, (count, 5)).astype(np.int32)
        table[:, 2] = np.cumsum(generator.integers(0, 7, count))
        numbers = table[:, 2] // 3 + np.arange(count)
        asked = np.arange(numbers[-1] + 2, dtype=np.int32)[:: max(1, count // 20)]
        *_, found = compiled.run(table, asked, np.full(asked.size, -1, np.int32), count, grid=(asked.size, 1, 1),
                                 checks="all")  # fmt: skip
        expected = np.searchsorted(numbers, asked, side="right") - 1
        np.testing.assert_array_equal(found, np.maximum(expected, 0), err_msg=str(count))
