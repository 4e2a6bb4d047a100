"""Atomic updates that give what was there before, of memory and LDS, under all checkers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from kernel_runner import CHIPS, DTYPES, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Kernel,
    Pointer,
    Scalar,
    Tile,
    View,
    atomic_add,
    coordinates,
    fetch_add,
    fetch_max,
    full,
    i32,
    kernel,
    load,
    loop,
    ptr,
    reduce_max,
    splat_like,
    store,
    to_lds,
    uniform,
    view,
    where,
)
from ckmlir.mlir import ir
from ckmlir.passes.check_schedule import check_module
from ckmlir.passes.pipeline import PipelineFailure
from ckmlir.targets import get_target

ENTRIES, BINS = 1024, 100
LINE = Distribution.parse("d0: 4@wave 64@lane 4@y0")
EVERYWHERE = Distribution.parse("r: 4@wave 16@lane, d0: 4@lane 25@y0")
ROWS, COLUMNS, VALID = 32, 16, 14
LIES = Distribution.parse("d0: 2@y0 2@wave 8@lane, d1: 8@lane 2@y1")
SOME = {("gfx90a", "f16"), ("gfx90a", "f32"), ("gfx942", "bf16"), ("gfx942", "i32"), ("gfx950", "bf16")}
TYPES = [
    pytest.param(chip, kind, dtype, marks=[] if (chip, dtype) in SOME else pytest.mark.full)
    for chip in CHIPS
    for kind, dtype in (("add", "f32"), ("add", "i32"), ("add", "i64"), ("add", "f16"), ("add", "bf16"), ("add", "f64"),
                        ("max", "f32"), ("max", "f64"), ("max", "i32"), ("max", "i64"))
    if (chip, dtype) != ("gfx90a", "bf16")  # has no instruction for it
]  # fmt: skip
Array = npt.NDArray[np.generic]


def line(pointer: Pointer, count: Scalar) -> View:
    """A view of `count` numbers, padded to a window of ENTRIES."""
    return view(pointer, (count,), (1,)).pad(ENTRIES)


def entries(pointer: Pointer, count: Scalar) -> Tile:
    """Up to ENTRIES numbers; -1 behind the last."""
    tile = load(line(pointer, count).window((ENTRIES,), (0,)), LINE)
    return where(coordinates(tile, 0) < count, tile, -1)


def some_ids(count: int) -> npt.NDArray[np.int32]:
    """Bins, most of them several times, and indices outside: below, just beyond, and the numbers furthest away."""
    ids = np.random.default_rng(count).integers(-9, BINS + 9, count).astype(np.int32)
    ids[:4] = [2**31 - 1, -(2**31), BINS, -1]
    return ids


def dealt(ids: npt.NDArray[np.int32], before: Array, first: int = 0) -> None:
    """Each entry has a place of its own in its bin, `first` and on; those without a bin have zero."""
    for one in range(BINS):
        places = np.sort(before[ids == one].astype(np.int64))
        np.testing.assert_array_equal(places, first + np.arange(len(places)))
    assert not before[(ids < 0) | (ids >= BINS)].any()


def updated(chip: str, kind: str, dtype: str, distribution: Distribution = LIES) -> Kernel:
    """y[ids[i]] += x[i], or the larger of both, and what was there; then the same of z as a whole, twice."""
    update = {"add": fetch_add, "max": fetch_max}[kind]
    names = ("x", "y", "z", "before", "once", "twice")

    @kernel(
        "updated", target=get_target(chip), waves=2,
        arguments={**{name: ptr(dtype) for name in names}, "ids": ptr("i32"), "rows": i32},
    )  # fmt: skip
    def traced(
        x: Pointer, y: Pointer, z: Pointer, before: Pointer, once: Pointer, twice: Pointer, ids: Pointer, rows: Scalar
    ) -> None:
        shape, strides = (ROWS, COLUMNS), (COLUMNS, 1)
        tile = load(view(x, shape, strides).window(shape, (0, 0)), distribution)
        indices = load(view(ids, (ROWS,), (1,)).window((ROWS,), (0,)))
        some = view(y, (rows, VALID), strides).pad(1, COLUMNS).window(shape, (0, 0))
        store(update(tile, some, indices, 0), view(before, shape, strides).window(shape, (0, 0)))
        whole = view(z, (rows, VALID), strides).pad(ROWS, COLUMNS).window(shape, (0, 0))
        store(update(tile, whole), view(once, shape, strides).window(shape, (0, 0)))
        store(update(tile, whole), view(twice, shape, strides).window(shape, (0, 0)))

    return traced


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "kind", "dtype"), TYPES)
def test_rows(chip: str, kind: str, dtype: str) -> None:
    """Every entry learns of those before it, in some order that leads from what was there to the end; a thread that
    updates twice learns of itself; what lies outside the view gives zero. Small integers are exact in every type.
    """
    combine = np.add if kind == "add" else np.maximum
    compiled, random, rows = compile_traced(updated(chip, kind, dtype)), np.random.default_rng(5), 13
    x, y, z = (random.integers(-4, 5, (count, COLUMNS)).astype(DTYPES[dtype]) for count in (ROWS, rows, rows))
    ids = random.permutation(np.arange(ROWS, dtype=np.int32) % 16 - 1)  # most rows twice
    ids[[3, 8]] = [2**31 - 1, -(2**31)]
    empty = np.full_like(x, 7)
    _, last, whole, before, once, twice, *_ = (
        one.astype(np.float64) for one in compiled.run(x, y, z, empty, empty, empty, ids, np.int32(rows), checks="all")
    )
    expected = {name: np.zeros((ROWS, COLUMNS)) for name in ("once", "twice")}
    expected["once"][:rows, :VALID] = z[:, :VALID]
    expected["twice"][:rows, :VALID] = combine(z, x[:rows])[:, :VALID]
    np.testing.assert_array_equal(once, expected["once"])
    np.testing.assert_array_equal(twice, expected["twice"])
    np.testing.assert_array_equal(whole[:, :VALID], combine(expected["twice"], x)[:rows, :VALID])
    assert not before[(ids < 0) | (ids >= rows)].any() and not before[:, VALID:].any()
    for row in range(rows):
        own = np.flatnonzero(ids == row)
        now = y[row, :VALID].astype(np.float64)
        for column in range(VALID):
            left, value = list(own), now[column]
            while left:  # whoever saw this value comes next, first those who left it as it was
                saw = [one for one in left if before[one, column] == value]
                entry = min(saw, key=lambda one: combine(value, float(x[one, column])) != value)
                left.remove(entry)
                value = combine(value, float(x[entry, column]))
            assert value == last[row, column]
    assert "cmpswap" not in compiled.assembly and compiled.spills == 0


def places_in_bins(chip: str) -> Kernel:
    """A place in its bin for every entry: by counters in memory, in LDS, in LDS again, and the largest of each bin."""

    @kernel(
        "places", target=get_target(chip), waves=4,
        arguments={name: ptr("i32") for name in ("ids", "counts", "far", "near", "again", "most")} | {"n": i32},
    )  # fmt: skip
    def places(
        ids: Pointer, counts: Pointer, far: Pointer, near: Pointer, again: Pointer, most: Pointer, n: Scalar
    ) -> None:
        bins = entries(ids, n)
        one = splat_like(bins, 1, "i32")
        counters = view(counts, (BINS,), (1,)).pad(ENTRIES).window((ENTRIES,), (0,))
        store(fetch_add(one, counters, bins), line(far, n).window((ENTRIES,), (0,)))
        counted = to_lds(full((BINS,), 5, "i32", EVERYWHERE))
        place = counted.fetch_add(one, bins)
        store(place, line(near, n).window((ENTRIES,), (0,)))
        store(counted.fetch_add(one, bins), line(again, n).window((ENTRIES,), (0,)))
        highest = to_lds(full((BINS,), -1, "i32", EVERYWHERE))
        highest.fetch_max(place, bins)
        store(highest.gather(bins), line(most, n).window((ENTRIES,), (0,)))

    return places


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_places_in_bins(chip: str) -> None:
    """Counters in memory and in LDS deal out the places of their bins, those of LDS in two parts one after the other;
    the largest place of each bin comes last, too.
    """
    compiled = compile_traced(places_in_bins(chip))
    for count in (4, 1000, ENTRIES):
        ids = some_ids(count)
        empty = np.full(count, -7, np.int32)
        _, counts, far, near, again, most = compiled.run(
            ids, np.full(BINS, 3, np.int32), empty, empty, empty, empty, np.int32(count), checks="all"
        )
        inside = (ids >= 0) & (ids < BINS)
        sizes = np.bincount(ids[inside], minlength=BINS)
        np.testing.assert_array_equal(counts, 3 + sizes)
        dealt(ids, far, 3)
        dealt(ids, near, 5)
        own = np.where(inside, sizes[np.where(inside, ids, 0)], 0)
        dealt(ids, again - np.where(inside, own, 0), 5)
        np.testing.assert_array_equal(most, np.where(inside, own + 4, 0))
    assert "ds_add_rtn_u32" in compiled.assembly and "cmpst" not in compiled.assembly and compiled.spills == 0


def test_every_barrier_counts() -> None:
    """Without the barrier between counters and those who ask again, the proof finds a hazard, and so at every other."""
    compiled = compile_traced(places_in_bins("gfx942"))
    with compiled.kernel.module.context:
        lines = compiled.scheduled.splitlines()
        barriers = [number for number, line in enumerate(lines) if '"ck.barrier"' in line]
        for number in barriers:
            broken = ir.Module.parse("\n".join(lines[:number] + lines[number + 1 :]))
            assert {one.check for one in check_module(broken)} == {"hazard"}
    assert len(barriers) >= 4


@pytest.mark.parametrize("chip", CHIPS)
def test_work_by_ticket(chip: str) -> None:
    """Workgroups take pieces of work by a counter in memory until none is left: each is done once, by somebody."""
    everybody = Distribution.parse("d0: , d1: 4@wave 64@lane")
    pieces, each = 37, 256

    @kernel("worker", target=get_target(chip), waves=4, arguments={name: ptr("i32") for name in ("counted", "done")})
    def worker(counted: Pointer, done: Pointer) -> None:
        one = full((1, each), 1, "i32", everybody)
        threads = full((each,), 0, "i32", everybody.along(1))
        first = where(coordinates(threads, 0) < 1, threads, -1)
        counter = view(counted, (1, 1), (1, 1)).pad(1, each).window((1, each), (0, 0))
        with loop(0, pieces + 1, 1):
            ticket = uniform(reduce_max(fetch_add(one, counter, first, 1), 1))
            own = view(done, (pieces, each), (each, 1)).pad(1, 1).window((1, each), (ticket, 0))
            atomic_add(one, own)

    compiled = compile_traced(worker)
    counter, done = compiled.run(
        np.zeros(1, np.int32), np.zeros(pieces * each, np.int32), grid=(5, 1, 1), checks="all"
    )
    assert counter[0] == 5 * (pieces + 1)
    np.testing.assert_array_equal(done, 1)


def test_copies_are_refused() -> None:
    """Where two waves hold the same elements, one of them would learn nothing."""
    copies = Distribution.parse("r: 2@wave, d0: 4@y0 8@lane, d1: 8@lane 2@y1")
    with pytest.raises(PipelineFailure, match="several threads hold each element"):
        compile_traced(updated("gfx942", "add", "f32", copies))
