"""Reductions over the lanes of a wave: right on every chip, and without the LDS unit."""

from __future__ import annotations

import re

import numpy as np
import pytest
from kernel_runner import CHIPS, Compiled, compile_traced

from ckmlir.dialect.distribution_builders import rows
from ckmlir.lang import Pointer, Scalar, coordinates, kernel, load, ptr, reduce, reduce_sum, store, view
from ckmlir.targets import get_target


def compile_sum(chip: str, count: int, length: int) -> Compiled:
    """One wave sums `count` rows of `length` elements, one element a lane."""

    @kernel("sum_rows", target=get_target(chip), waves=1, arguments={"x": ptr("f32"), "y": ptr("f32")})
    def sum_rows(x: Pointer, y: Pointer) -> None:
        tile = load(view(x, (count, length), (length, 1)).window((count, length), (0, 0)), rows(count, length, 1, 1))
        store(reduce_sum(tile, 1), view(y, (count,), (1,)).window((count,), (0,)))

    return compile_traced(sum_rows)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("length", [2, 4, 8, 16, 32, 64])
def test_a_wave_reduces_without_lds(chip: str, length: int) -> None:
    """Sums of integers are exact in any order; no exchange goes through the LDS unit."""
    count = 64 // length
    compiled = compile_sum(chip, count, length)
    x = np.random.default_rng(length).integers(-99, 99, (count, length)).astype(np.float32)
    _, y = compiled.run(x, np.zeros(count, np.float32))
    np.testing.assert_array_equal(y, x.sum(axis=1))
    assert not re.search(r"^\s*ds_", compiled.assembly, re.MULTILINE)
    assert "_dpp" in compiled.assembly


@pytest.mark.parametrize("chip", CHIPS)
def test_a_reduction_may_choose_between_pairs(chip: str) -> None:
    """The largest element with the lowest of its places: value and index fold together by `select`."""
    shape = (4, 64)

    @kernel("largest", target=get_target(chip), waves=1, arguments={"x": ptr("f32"), "place": ptr("i32")})
    def largest(x: Pointer, place: Pointer) -> None:
        tile = load(view(x, shape, (64, 1)).window(shape, (0, 0)), rows(4, 64, 1, 4))

        def better(left: list[Scalar], right: list[Scalar]) -> list[Scalar]:
            first = (left[0] > right[0]) | (left[0].equals(right[0]) & (left[1] < right[1]))
            return [first.select(one, other) for one, other in zip(left, right, strict=True)]

        _, index = reduce([tile, coordinates(tile, 1)], 1, better)
        store(index, view(place, (4,), (1,)).window((4,), (0,)))

    x = np.random.default_rng(1).integers(0, 5, shape).astype(np.float32)
    _, found = compile_traced(largest).run(x, np.zeros(4, np.int32))
    np.testing.assert_array_equal(found, x.argmax(axis=1))
