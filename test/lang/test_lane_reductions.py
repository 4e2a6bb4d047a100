"""Reductions over the lanes of a wave: right on every chip, and without the LDS unit."""

from __future__ import annotations

import re

import numpy as np
import pytest
from kernel_runner import CHIPS, Compiled, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import rows
from ckmlir.lang import Pointer, Scalar, coordinates, kernel, load, ptr, reduce, reduce_max, reduce_sum, store, view
from ckmlir.ops.dtypes import numpy_dtype
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


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["f32", "f16", "i64"])
def test_halves_of_a_wave_change_places_in_registers(chip: str, dtype: str) -> None:
    """Columns of which a lane of either half holds one element; only gfx950 has the instruction."""
    shape = (2, 32)

    @kernel("columns", target=get_target(chip), waves=1, arguments={"x": ptr(dtype), "y": ptr(dtype)})
    def columns(x: Pointer, y: Pointer) -> None:
        tile = load(view(x, shape, (32, 1)).window(shape, (0, 0)), rows(*shape, 1, 1))
        store(reduce_sum(tile, 0), view(y, (32,), (1,)).window((32,), (0,)))

    compiled = compile_traced(columns)
    numbers = np.random.default_rng(0).integers(-99, 99, shape)
    x = numbers.astype({"f32": np.float32, "f16": np.float16, "i64": np.int64}[dtype])
    _, y = compiled.run(x, np.zeros(32, x.dtype))
    np.testing.assert_array_equal(y, x.sum(axis=0))
    swaps = len(re.findall(r"v_permlane32_swap", compiled.assembly))
    assert swaps == ((2 if dtype == "i64" else 1) if chip == "gfx950" else 0)
    assert bool(re.search(r"^\s*ds_", compiled.assembly, re.MULTILINE)) == (chip != "gfx950")


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["f32", "i32"])
@pytest.mark.parametrize("length", [6, 32])
def test_maxima_take_two_elements_an_instruction(chip: str, dtype: str, length: int) -> None:
    """About one instruction of three operands for every two elements; a tree has one for every three."""

    in_lanes = Distribution.parse(f"d0: 64@lane, d1: {length}@y0")

    @kernel("largest", target=get_target(chip), waves=1, arguments={"x": ptr(dtype), "y": ptr(dtype)})
    def largest(x: Pointer, y: Pointer) -> None:
        tile = load(view(x, (64, length), (length, 1)).window((64, length), (0, 0)), in_lanes)
        store(reduce_max(tile, 1), view(y, (64,), (1,)).window((64,), (0,)))

    compiled = compile_traced(largest)
    x = np.random.default_rng(length).integers(-99, 99, (64, length)).astype(numpy_dtype(dtype, get_target(chip)))
    _, y = compiled.run(x, np.zeros(64, x.dtype))
    np.testing.assert_array_equal(y, x.max(axis=1))
    assert len(re.findall(r"v_max3_", compiled.assembly)) >= length // 2 - 2
