"""Rows gathered and scattered through tiles of indices, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CHIPS, DTYPES, Compiled, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced, rows
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Kernel, Pointer, Scalar, View, gather, i32, kernel, load, loop, ptr, scatter, stage, store, view
from ckmlir.targets import get_target

TILE = (32, 64)
ARGUMENTS = {"rows": i32, "pitch": i32}


def row_view(pointer: Pointer, count: Scalar, pitch: Scalar, padding: int) -> View:
    """Rows of 60 elements, some pitch apart, their number padded to a multiple."""
    return view(pointer, (count, 60), (pitch.multiple_of(4), 1)).pad(padding, TILE[1])


def gather_kernel(chip: str, dtype: str, distribution: Distribution | None) -> Kernel:
    """y[i] = x[ids[i]]."""
    arguments = {"x": ptr(dtype), "ids": ptr("i32"), "y": ptr(dtype), **ARGUMENTS}

    @kernel("gathered", target=get_target(chip), waves=2, arguments=arguments)
    def gathered(x: Pointer, ids: Pointer, y: Pointer, rows: Scalar, pitch: Scalar) -> None:
        indices = load(view(ids, (TILE[0],), (1,)).window((TILE[0],), (0,)))
        tile = gather(row_view(x, rows, pitch, 1).window(TILE, (0, 0)), indices, 0, distribution)
        store(tile, view(y, TILE, (TILE[1], 1)).window(TILE, (0, 0)))

    return gathered


def scatter_kernel(chip: str, dtype: str, distribution: Distribution | None) -> Kernel:
    """y[ids[i]] = x[i]."""
    arguments = {"x": ptr(dtype), "ids": ptr("i32"), "y": ptr(dtype), **ARGUMENTS}

    @kernel("scattered", target=get_target(chip), waves=2, arguments=arguments)
    def scattered(x: Pointer, ids: Pointer, y: Pointer, rows: Scalar, pitch: Scalar) -> None:
        indices = load(view(ids, (TILE[0],), (1,)).window((TILE[0],), (0,)))
        tile = load(view(x, TILE, (TILE[1], 1)).window(TILE, (0, 0)), distribution)
        scatter(tile, row_view(y, rows, pitch, TILE[0]).window(TILE, (0, 0)), indices, 0)

    return scattered


def some_ids(count: int, *, distinct: bool) -> np.ndarray:
    """Row numbers, among them negative ones, those just beyond the end, and the largest numbers there are."""
    random = np.random.default_rng(8)
    ids = random.permutation(count)[: TILE[0]] if distinct else random.integers(0, count, TILE[0])
    ids[[1, 5, 9, 20, 30]] = [-1, count, count + 7, 2**31 - 1, -(2**31)]
    return ids.astype(np.int32)


DISTRIBUTIONS = {
    "inferred": None,
    "coalesced": coalesced(TILE, 2, 1, 4),
    "rows": rows(32, 64, 2, 4),
    "columns_in_registers": Distribution.parse("d0: 2@y0 16@lane, d1: 2@wave 4@lane 8@y1"),
    "replicated": Distribution.parse("r: 2@wave, d0: 8@y0 4@lane, d1: 16@lane 4@y1"),
}


TYPES = [*((chip, "f16") for chip in CHIPS), ("gfx942", "f32"), ("gfx942", "i8")]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "dtype"), TYPES)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_gather(chip: str, dtype: str, distribution: str) -> None:
    """Every row comes from where its id says; ids outside give zeros, and so do columns outside."""
    x = np.random.default_rng(2).integers(-99, 99, (50, 72)).astype(DTYPES[dtype])
    ids = some_ids(45, distinct=False)
    compiled = compile_traced(gather_kernel(chip, dtype, DISTRIBUTIONS[distribution]))
    *_, result = compiled.run(x, ids, np.ones(TILE, DTYPES[dtype]), 45, 72)
    valid = (ids >= 0) & (ids < 45)
    expected = np.zeros(TILE, DTYPES[dtype])
    expected[valid, :60] = x[ids[valid], :60]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "dtype"), TYPES)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_scatter(chip: str, dtype: str, distribution: str) -> None:
    """Every row goes where its id says; ids outside, and columns outside, leave the memory as it was."""
    random = np.random.default_rng(2)
    x = random.integers(-99, 99, TILE).astype(DTYPES[dtype])
    y = random.integers(-99, 99, (50, 72)).astype(DTYPES[dtype])
    ids = some_ids(45, distinct=True)
    compiled = compile_traced(scatter_kernel(chip, dtype, DISTRIBUTIONS[distribution]))
    *_, result = compiled.run(x, ids, y, 45, 72)
    valid = (ids >= 0) & (ids < 45)
    expected = y.copy()
    expected[ids[valid], :60] = x[valid, :60]
    np.testing.assert_array_equal(result, expected)


def element_kernel() -> Kernel:
    """y[i] = x[ids[i]] of single elements."""
    arguments = {"x": ptr("f32"), "ids": ptr("i32"), "y": ptr("f32"), "n": i32}

    @kernel("element", target=get_target("gfx942"), waves=1, arguments=arguments)
    def element(x: Pointer, ids: Pointer, y: Pointer, n: Scalar) -> None:
        indices = load(view(ids, (128,), (1,)).window((128,), (0,)))
        store(gather(view(x, (n,), (1,)).window((128,), (0,)), indices, 0), view(y, (128,), (1,)).window((128,), (0,)))

    return element


def test_gather_single_elements() -> None:
    """One dimension, which is the gathered one, without padding: the view's length alone bounds the indices."""
    x = np.random.default_rng(2).standard_normal(40).astype(np.float32)
    ids = np.arange(-44, 84, dtype=np.int32)
    *_, result = compile_traced(element_kernel()).run(x, ids, np.ones(128, np.float32), 33)
    np.testing.assert_array_equal(result, np.where((ids >= 0) & (ids < 33), x[np.clip(ids, 0, 32)], 0))


def compile_table_sum(schedule: str) -> Compiled:
    """y[i] = sum over the loop of x[ids[k]][i], with ids and rows loaded ahead."""
    arguments = {"x": ptr("f32"), "ids": ptr("i32"), "y": ptr("f32"), "n": i32}

    @kernel("table", target=get_target("gfx942"), waves=1, arguments=arguments)
    def table(x: Pointer, ids: Pointer, y: Pointer, n: Scalar) -> None:
        lies = coalesced((4, 64), 1, 1, 4)
        start = load(view(y, (4, 64), (64, 1)).window((4, 64), (0, 0)), lies)
        rows_of_x = view(x, (9, 64), (64, 1)).window((4, 64), (0, 0))
        with loop(0, n, 4, carry=[start], schedule=Schedule.parse(schedule)) as step:
            (total,) = step.carried
            with stage("ids"):
                indices = load(view(ids, (n,), (1,)).pad(4).window((4,), (step.index,)))
            with stage("rows"):
                found = gather(rows_of_x, indices, 0, lies)
            with stage("sum"):
                step.carry(total + found)
        store(step.results[0], view(y, (4, 64), (64, 1)).window((4, 64), (0, 0)))

    return compile_traced(table)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("schedule", ["schedule plain 1", "schedule ahead 1; ahead ids 3, rows 1"])
@pytest.mark.parametrize("n", [0, 4, 20, 22])
def test_gather_runs_ahead(schedule: str, n: int) -> None:
    """A gather is pipelined like a load, behind the load of its indices."""
    random = np.random.default_rng(6)
    x, ids = random.integers(-9, 9, (9, 64)).astype(np.float32), random.integers(-1, 10, 24).astype(np.int32)
    *_, result = compile_table_sum(schedule).run(x, ids, np.zeros((4, 64), np.float32), n)
    expected = np.zeros((4, 64), np.float32)
    for k in range(-(-n // 4) * 4):
        row = ids[k] if k < n else 0  # the padding of the ids reads as row 0
        if 0 <= row < 9:
            expected[k % 4] += x[row]
    np.testing.assert_array_equal(result, expected)
