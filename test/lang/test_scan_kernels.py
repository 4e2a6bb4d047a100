"""Scans along an axis, wherever its elements lie, against NumPy under all checkers."""

from __future__ import annotations

import re
from math import prod

import numpy as np
import pytest
from kernel_runner import CHIPS, DTYPES, Compiled, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Kernel,
    Pointer,
    Scalar,
    Window,
    full,
    i32,
    kernel,
    load,
    loop,
    ptr,
    reduce_sum,
    scan,
    scan_max,
    scan_sum,
    store,
    view,
)
from ckmlir.targets import get_target

VECTORS = (
    "d0: 64@lane",
    "d0: 4@wave 64@lane 4@y0",
    "d0: 64@lane 4@wave",
    "d0: 5@y0 4@wave 64@lane 3@y1",
    "d0: 2@y0 4@lane 2@wave 3@y1 16@lane 2@y2 2@wave",
    "r: 2@wave, d0: 2@wave 64@lane 2@y0",
)
MATRICES = (
    "d0: 4@wave 2@y0, d1: 64@lane 4@y1",
    "d0: 16@lane, d1: 4@lane 4@wave 3@y0",
    "r: 2@wave, d0: 8@lane 2@y0, d1: 8@lane 2@wave",
)


def whole(pointer: Pointer, shape: tuple[int, ...]) -> Window:
    """All of a packed tensor."""
    strides = [prod(shape[dim + 1 :]) for dim in range(len(shape))]
    return view(pointer, shape, strides).window(shape, [0] * len(shape))


def sums(chip: str, text: str, dtype: str, axis: int, *, exclusive: bool) -> Compiled:
    """y = the sums of x along an axis."""
    distribution = Distribution.parse(text)

    @kernel(
        "sums", target=get_target(chip), waves=distribution.waves, arguments={"x": ptr(dtype), "y": ptr(dtype)}
    )
    def traced(x: Pointer, y: Pointer) -> None:
        tile = load(whole(x, distribution.lengths), distribution)
        store(scan_sum(tile, axis, exclusive=exclusive), whole(y, distribution.lengths))

    return compile_traced(traced)


CASES = [(text, axis) for text in (*VECTORS, *MATRICES) for axis in range(Distribution.parse(text).rank)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(("text", "axis"), CASES)
def test_sums_wherever_elements_lie(text: str, axis: int, exclusive: bool) -> None:
    """Digits of an axis in registers, lanes and waves, in every order, some tiles held by several waves."""
    number = CASES.index((text, axis))
    compiled = sums(CHIPS[number % 3], text, "i32", axis, exclusive=exclusive)
    x = np.random.default_rng(number).integers(-99, 99, Distribution.parse(text).lengths).astype(np.int32)
    _, y = compiled.run(x, np.zeros_like(x), checks="all")
    np.testing.assert_array_equal(y, x.cumsum(axis) - (x if exclusive else 0))
    assert compiled.spills == 0


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["f16", "f64", "i8"])
def test_types(chip: str, dtype: str) -> None:
    """Elements of 8, 16 and 64 bits; the sums are small enough to be exact."""
    compiled = sums(chip, VECTORS[1], dtype, 0, exclusive=True)
    x = np.random.default_rng(3).integers(-1, 2, 1024).astype(DTYPES[dtype])
    _, y = compiled.run(x, np.zeros_like(x), checks="all")
    np.testing.assert_array_equal(y, (x.cumsum(dtype=np.int64) - x.astype(np.int64)).astype(x.dtype))


@pytest.mark.parametrize("chip", CHIPS)
def test_lanes_stay_out_of_the_lds_unit(chip: str) -> None:
    """64 neighbouring lanes scan by moves between lanes."""
    compiled = sums(chip, VECTORS[0], "f32", 0, exclusive=False)
    assert not re.search(r"^\s*ds_", compiled.assembly, re.MULTILINE)
    assert "_dpp" in compiled.assembly


@pytest.mark.one_in(4)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("text", [VECTORS[1], VECTORS[4]])
def test_what_comes_first_is_on_the_left(chip: str, text: str) -> None:
    """Sums that begin anew at flags: the function of flag and sum is associative and not commutative."""
    distribution = Distribution.parse(text)
    count = distribution.lengths[0]

    @kernel("segments", target=get_target(chip), waves=4, arguments={name: ptr("i32") for name in ("flags", "x", "y")})
    def segments(flags: Pointer, x: Pointer, y: Pointer) -> None:
        def onward(left: list[Scalar], right: list[Scalar]) -> list[Scalar]:
            return [left[0] | right[0], right[0].equals(0).select(left[1] + right[1], right[1])]

        tiles = [load(whole(pointer, (count,)), distribution) for pointer in (flags, x)]
        store(scan(tiles, 0, onward)[1], whole(y, (count,)))

    random = np.random.default_rng(11)
    flags, x = (random.random(count) < 0.1).astype(np.int32), random.integers(-99, 99, count).astype(np.int32)
    *_, y = compile_traced(segments).run(flags, x, np.zeros_like(x), checks="all")
    expected, total = np.zeros_like(x), 0
    for place in range(count):
        total = x[place] + (0 if flags[place] else total)
        expected[place] = total
    np.testing.assert_array_equal(y, expected)


def test_largest_so_far() -> None:
    """The exclusive maximum begins with minus infinity."""
    text = "d0: 2@wave, d1: 64@lane 2@y0"
    distribution = Distribution.parse(text)

    @kernel("largest", target=get_target("gfx950"), waves=2, arguments={"x": ptr("f32"), "y": ptr("f32")})
    def largest(x: Pointer, y: Pointer) -> None:
        tile = load(whole(x, distribution.lengths), distribution)
        store(scan_max(tile, 1, exclusive=True), whole(y, distribution.lengths))

    x = np.random.default_rng(4).standard_normal((2, 128)).astype(np.float32)
    _, y = compile_traced(largest).run(x, np.zeros_like(x), checks="all")
    np.testing.assert_array_equal(y[:, 0], -np.inf)
    np.testing.assert_array_equal(y[:, 1:], np.maximum.accumulate(x, 1)[:, :-1])


@pytest.mark.parametrize("chip", CHIPS)
def test_a_loop_carries_the_sum_on(chip: str) -> None:
    """Sums of a vector of any length, a piece a step; waves meet through LDS in every one."""
    compiled = compile_traced(running_sum(chip))
    for count in (1, 511, 512, 1700):
        x = np.random.default_rng(count).integers(-99, 99, count).astype(np.int32)
        _, y = compiled.run(x, np.zeros_like(x), np.int32(count), checks="all")
        np.testing.assert_array_equal(y, x.cumsum())


def running_sum(chip: str) -> Kernel:
    """y = the sums of a vector of n elements, 512 at a time."""
    piece = Distribution.parse("d0: 1, d1: 2@wave 64@lane 4@y0")

    @kernel("running", target=get_target(chip), waves=2, arguments={"x": ptr("i32"), "y": ptr("i32"), "n": i32})
    def running(x: Pointer, y: Pointer, n: Scalar) -> None:
        def window(pointer: Pointer, index: Scalar) -> Window:
            return view(pointer, (1, n), (n, 1)).pad(1, 512).window((1, 512), (0, index))

        with loop(0, n, 512, carry=[full((1,), 0, "i32", piece.reduce(1))]) as step:
            (total,) = step.carried
            tile = load(window(x, step.index), piece)
            store(scan_sum(tile, 1) + total[:, None], window(y, step.index))
            step.carry(total + reduce_sum(tile, 1))

    return running
