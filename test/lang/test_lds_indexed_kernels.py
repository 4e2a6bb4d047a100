"""LDS read, written and updated at run-time indices, against NumPy under all checkers."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CHIPS, DTYPES, Compiled, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    Pointer,
    Scalar,
    Tile,
    Window,
    coordinates,
    copy_to_lds,
    full,
    i32,
    kernel,
    load,
    loop,
    ptr,
    scan_sum,
    splat_like,
    stage,
    store,
    to_lds,
    view,
    where,
    zeros,
)
from ckmlir.targets import get_target

ENTRIES, BINS = 1024, 100
LINE = Distribution.parse("d0: 4@wave 64@lane 4@y0")
EVERYWHERE = Distribution.parse("r: 4@wave 16@lane, d0: 4@lane 25@y0")


def entries(pointer: Pointer, count: Scalar) -> Tile:
    """Up to ENTRIES numbers; -1 behind the last."""
    tile = load(view(pointer, (count,), (1,)).pad(ENTRIES).window((ENTRIES,), (0,)), LINE)
    return where(coordinates(tile, 0) < count, tile, -1)


def some_ids(count: int) -> np.ndarray:
    """Bins, most of them several times, and indices outside: below, just beyond, and the numbers furthest away."""
    ids = np.random.default_rng(count).integers(-9, BINS + 9, count).astype(np.int32)
    ids[:4] = [2**31 - 1, -(2**31), BINS, -1]
    return ids


def histogram(chip: str) -> Compiled:
    """Counts of every bin, and of each entry's own; sums and maxima of places by bin in f32."""
    names = ("ids", "own", "counts")

    @kernel(
        "histogram",
        target=get_target(chip),
        waves=4,
        arguments={**{name: ptr("i32") for name in names}, "sums": ptr("f32"), "n": i32},
    )
    def traced(ids: Pointer, own: Pointer, counts: Pointer, sums: Pointer, n: Scalar) -> None:
        bins = entries(ids, n)
        counted = to_lds(zeros((BINS,), "i32", EVERYWHERE))
        counted.scatter_add(splat_like(bins, 1, "i32"), bins)
        store(counted.gather(bins), view(own, (n,), (1,)).pad(ENTRIES).window((ENTRIES,), (0,)))
        store(counted.read(EVERYWHERE), view(counts, (BINS,), (1,)).window((BINS,), (0,)))
        summed = to_lds(zeros((BINS,), "f32", EVERYWHERE))
        summed.scatter_add(splat_like(bins, 2, "f32"), bins)
        summed.scatter_max(splat_like(bins, 7, "f32"), bins)
        store(summed.read(EVERYWHERE), view(sums, (BINS,), (1,)).window((BINS,), (0,)))

    return compile_traced(traced)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_counts(chip: str) -> None:
    """Equal indices all count; what lies outside counts nowhere and reads zero. No loop of compare-and-swap."""
    compiled = histogram(chip)
    for count in (4, 1000, ENTRIES):
        ids = some_ids(count)
        inside = (ids >= 0) & (ids < BINS)
        expected = np.bincount(ids[inside], minlength=BINS)
        _, own, counts, sums = compiled.run(
            ids, np.full(count, -7, np.int32), np.full(BINS, -7, np.int32), np.zeros(BINS, np.float32),
            np.int32(count), checks="all",
        )  # fmt: skip
        np.testing.assert_array_equal(counts, expected)
        np.testing.assert_array_equal(own, np.where(inside, expected[np.where(inside, ids, 0)], 0))
        np.testing.assert_array_equal(sums, np.where(expected > 0, np.maximum(2 * expected, 7), 0))
    assert "ds_add_u32" in compiled.assembly and "ds_max_f32" in compiled.assembly and "cmpst" not in compiled.assembly
    assert compiled.spills == 0


@pytest.mark.one_in(4)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("chip", "dtype"), [("gfx90a", "f16"), ("gfx942", "i8"), ("gfx950", "f64"), ("gfx942", "f32")])
def test_rows_and_columns(chip: str, dtype: str, axis: int) -> None:
    """A permutation of rows or columns written by index, then read back by index; the last of two writers counts."""
    lies = Distribution.parse("d0: 2@y0 2@wave 8@lane, d1: 8@lane 8@y1")
    shape = lies.lengths

    @kernel(
        "moved",
        target=get_target(chip),
        waves=2,
        arguments={"x": ptr(dtype), "to": ptr("i32"), "back": ptr("i32"), "y": ptr(dtype), "z": ptr(dtype)},
    )
    def moved(x: Pointer, to: Pointer, back: Pointer, y: Pointer, z: Pointer) -> None:
        tile = load(view(x, shape, (shape[1], 1)).window(shape, (0, 0)), lies)
        length = shape[axis]
        targets = load(view(to, (length,), (1,)).window((length,), (0,)), lies.along(axis))
        sources = load(view(back, (length,), (1,)).window((length,), (0,)), lies.along(axis))
        held = to_lds(zeros(shape, dtype, lies))
        held.scatter(splat_like(tile, 1, dtype), sources, axis)
        held.scatter(tile, targets, axis)
        store(held.read(lies), view(y, shape, (shape[1], 1)).window(shape, (0, 0)))
        store(held.gather(sources, axis, lies), view(z, shape, (shape[1], 1)).window(shape, (0, 0)))

    random = np.random.default_rng(axis)
    x = random.integers(-99, 99, shape).astype(DTYPES[dtype])
    to = random.permutation(shape[axis]).astype(np.int32)
    back = np.argsort(to)[::-1].astype(np.int32)
    to[3], back[5] = shape[axis], -2  # one row goes nowhere, one is read from nowhere
    *_, y, z = compile_traced(moved).run(x, to, back, np.zeros_like(x), np.zeros_like(x), checks="all")
    rows, got, read = (np.moveaxis(one, axis, 0) for one in (x, y, z))
    expected = np.zeros_like(rows)
    expected[back[back >= 0]] = 1
    for row, place in enumerate(to):
        if place < len(rows):
            expected[place] = rows[row]
    np.testing.assert_array_equal(got, expected)
    again = np.where((back >= 0)[:, None], expected[np.maximum(back, 0)], 0)
    np.testing.assert_array_equal(read, again.astype(x.dtype))


@pytest.mark.parametrize("chip", CHIPS)
def test_a_tensor_a_step(chip: str) -> None:
    """A loop that counts a piece at a time, in a new tensor each, and carries the sums."""
    compiled = compile_traced(counted_by_pieces(chip))
    for count in (1, 256, 900):
        ids = np.random.default_rng(count).integers(-3, 260, count).astype(np.int32)
        _, before = compiled.run(ids, np.full(256, -7, np.int32), np.int32(count), checks="all")
        counts = np.bincount(ids[(ids >= 0) & (ids < 256)], minlength=256)
        np.testing.assert_array_equal(before, counts.cumsum() - counts)


def counted_by_pieces(chip: str) -> Kernel:
    """How many entries have a smaller bin, for each of 256."""
    line = Distribution.parse("d0: 4@wave 64@lane")

    @kernel("pieces", target=get_target(chip), waves=4, arguments={"ids": ptr("i32"), "before": ptr("i32"), "n": i32})
    def pieces(ids: Pointer, before: Pointer, n: Scalar) -> None:
        with loop(0, n, 256, carry=[full((256,), 0, "i32", line)]) as step:
            (counts,) = step.carried
            tile = load(view(ids, (n,), (1,)).pad(256).window((256,), (step.index,)), line)
            bins = where(coordinates(tile, 0) < n - step.index, tile, -1)
            counted = to_lds(zeros((256,), "i32", line))
            counted.scatter_add(splat_like(bins, 1, "i32"), bins)
            step.carry(counts + counted.read(line))
        (counts,) = step.results
        store(scan_sum(counts, 0, exclusive=True), view(before, (256,), (1,)).window((256,), (0,)))

    return pieces


@pytest.mark.parametrize("chip", CHIPS)
def test_vectors_by_index_of_what_is_written_one_by_one(chip: str) -> None:
    """A read at an index takes vectors where nothing else does: they stay together, as do those that are written."""
    single = Distribution.parse("d0: 16@lane, d1: 2@lane 2@y0 2@lane")
    vectors = Distribution.parse("r: 2@lane, d0: 16@lane, d1: 2@lane 4@y0")
    shape = single.lengths

    @kernel(
        "moved",
        target=get_target(chip),
        waves=1,
        arguments={"x": ptr("i32"), "ids": ptr("i32"), "y": ptr("i32"), "z": ptr("i32")},
    )
    def moved(x: Pointer, ids: Pointer, y: Pointer, z: Pointer) -> None:
        def whole(pointer: Pointer) -> Window:
            return view(pointer, shape, (shape[1], 1)).window(shape, (0, 0))

        rows = load(view(ids, (16,), (1,)).window((16,), (0,)), vectors.along(0))
        tile = load(whole(x), single)
        store(to_lds(tile).gather(rows, 0, vectors), whole(y))
        held = to_lds(splat_like(tile, -5, "i32"))
        held.scatter(load(whole(x), vectors), rows, 0)
        store(held.read(single), whole(z))

    x = np.arange(128, dtype=np.int32).reshape(shape)
    ids = np.array([0, 1, 2, 15, 16, -1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 99], np.int32)
    inside = (ids >= 0) & (ids < 16)
    _, _, y, z = compile_traced(moved).run(x, ids, np.zeros_like(x), np.zeros_like(x), checks="all")
    np.testing.assert_array_equal(y, np.where(inside[:, None], x[np.where(inside, ids, 0)], 0))
    expected = np.full_like(x, -5)
    expected[ids[inside]] = x[inside]
    np.testing.assert_array_equal(z, expected)


def read_by_index_beside_copies(chip: str) -> Kernel:
    """z = rows by index of what copies bring of x, 128 columns a step; y = their sums by index."""
    arguments = {"x": ptr("i32"), "numbers": ptr("i32"), "y": ptr("i32"), "z": ptr("i32"), "n": i32}
    lies, tile = Distribution.parse("d0: 4@y0 2@wave, d1: 64@lane 2@y1"), (8, 128)

    @kernel("beside_copies", target=get_target(chip), waves=2, arguments=arguments)
    def beside_copies(x: Pointer, numbers: Pointer, y: Pointer, z: Pointer, n: Scalar) -> None:
        n = n.multiple_of(128)
        source, target = (view(one, (8, n), (n, 1)) for one in (x, z))
        sums = to_lds(zeros(tile, "i32", lies))
        index = load(view(numbers, (8,), (1,)).window((8,), (0,)), lies.along(0))
        schedule = Schedule.parse("schedule beside 1; ahead copy 1; buffers 3")
        with loop(0, n, 128, schedule=schedule) as step:
            with stage("copy"):
                copied = copy_to_lds(source.window(tile, (0, step.index)))
            with stage("index"):
                found = copied.gather(index, 0, lies)
                sums.scatter_add(found, index)
            store(found, target.window(tile, (0, step.index)))
        store(sums.read(lies), view(y, tile, (128, 1)).window(tile, (0, 0)))

    return beside_copies


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_places_by_index_beside_copies_in_flight(chip: str) -> None:
    """Nothing is found, also where the run takes some of the paths only: by one step, or none."""
    compiled = compile_traced(read_by_index_beside_copies(chip))
    numbers = np.array([3, 3, -1, 0, 8, 7, 1, 2], np.int32)
    inside = (numbers >= 0) & (numbers < 8)
    for n in (0, 128, 640):
        x = np.random.default_rng(n).integers(-99, 99, (8, n)).astype(np.int32)
        *_, y, z = compiled.run(x, numbers, np.zeros((8, 128), np.int32), np.zeros_like(x), n, checks="all")
        found = np.where(inside[:, None], x[np.where(inside, numbers, 0)], 0)
        sums = np.zeros((8, 128), np.int32)
        np.add.at(sums, numbers[inside], found[inside].reshape(inside.sum(), n // 128, 128).sum(1))
        np.testing.assert_array_equal(z, found)
        np.testing.assert_array_equal(y, sums)
