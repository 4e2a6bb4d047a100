"""Rows gathered and scattered further than 2 GiB away, in address space that only takes memory where it is touched."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, Compiled, compile_traced

from ckmlir.codeobject import CodeObject
from ckmlir.lang import Kernel, Pointer, Scalar, TracingError, gather, i32, kernel, load, ptr, scatter, store, view
from ckmlir.sim import CheckFailure
from ckmlir.sim.checks.finding import parse_checks
from ckmlir.sim.simulator import Simulator
from ckmlir.targets import get_target

TILE = (32, 64)
PITCH = 1 << 20
"""Elements from row to row: rows of f32 lie 4 MiB apart, so that 1300 of them take more than 5 GB."""
ROWS = 1300


def pool_kernel(chip: str, reach: str | None, *, scattered: bool = False, origin: int = 0) -> Kernel:
    """y[i] = pool[origin + ids[i]], or pool[origin + ids[i]] = y[i]."""
    arguments = {"pool": ptr("f32"), "ids": ptr("i32"), "y": ptr("f32"), "rows": i32, "pitch": i32}

    @kernel("pool", target=get_target(chip), waves=2, arguments=arguments)
    def pool_rows(pool: Pointer, ids: Pointer, y: Pointer, rows: Scalar, pitch: Scalar) -> None:
        indices = load(view(ids, (TILE[0],), (1,)).window((TILE[0],), (0,)))
        far = view(pool, (rows, 60), (pitch.multiple_of(4), 1)).pad(*TILE).window(TILE, (origin, 0))
        near = view(y, TILE, (TILE[1], 1)).window(TILE, (0, 0))
        if scattered:
            scatter(load(near), far, indices, 0, reach)
        else:
            store(gather(far, indices, 0, reach=reach), near)

    return pool_rows


class Pool:
    """Rows that lie 4 MiB apart, each with its number in every element."""

    def __init__(self, simulator: Simulator, rows: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        self.bytes = np.frombuffer(mmap.mmap(-1, rows * PITCH * 4, flags=flags), np.uint8)
        simulator.share(self.bytes, "pool")
        self.address = np.uint64(self.bytes.ctypes.data)
        self.rows = self.bytes.view(np.float32).reshape(rows, PITCH)

    def fill(self, ids: Iterable[int]) -> None:
        """Give those rows contents."""
        for row in ids:
            self.rows[row, :64] = np.arange(64) + 100 * row


CHECKS = "memory,race,barrier,wait,hazard,promise"
"""All but the one that would need a second pool for what is known of every bit."""


def launch(compiled: Compiled, ids: np.ndarray, y: np.ndarray, rows: int) -> tuple[Pool, Any]:
    """The pool and y after a launch under checkers."""
    simulator = Simulator(target=compiled.kernel.target.name, seed=3, checks=parse_checks(CHECKS))
    pool = Pool(simulator, max(rows, 1))
    pool.fill(range(0, rows, 1 if rows < 64 else 100))
    pool.fill(ids[(ids >= 0) & (ids < rows)])
    memory = simulator.upload(y)
    given = [pool.address, simulator.upload(ids), memory, rows, PITCH]
    simulator.launch(CodeObject.parse(compiled.hsaco), compiled.kernel.name, (1, 1, 1), (128, 1, 1), given)
    return pool, memory.read(np.float32, TILE)


def far_ids() -> np.ndarray:
    """Rows below and beyond 2 GiB (512 rows) and 4 GiB (1024), with neighbours of both, and ids that have no row."""
    ids = np.random.default_rng(1).integers(0, ROWS, TILE[0])
    ids[:14] = [0, 1, 511, 512, 513, 1023, 1024, 1025, 1298, 1299, -1, 1300, 2**31 - 1, -(2**31)]
    return ids.astype(np.int32)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("reach", [None, "far"])
def test_gather_from_five_gigabytes(chip: str, reach: str | None) -> None:
    """A view of unknown size is far without a word; every row arrives, and what does not exist is zero."""
    ids = far_ids()
    compiled = compile_traced(pool_kernel(chip, reach))
    _, found = launch(compiled, ids, np.ones(TILE, np.float32), ROWS)
    expected = np.zeros(TILE, np.float32)
    exists = (ids >= 0) & (ids < ROWS)
    expected[exists, :60] = (np.arange(64) + 100 * ids[exists, None].astype(np.float32))[:, :60]
    np.testing.assert_array_equal(found, expected)
    assert compiled.spills == 0
    assert "global_load_dwordx4" in compiled.assembly


@pytest.mark.parametrize("chip", CHIPS)
def test_scatter_over_five_gigabytes(chip: str) -> None:
    """Every row arrives where its id says, and columns behind the 60 that exist stay as they were."""
    ids = far_ids()
    ids[14:] = 100 + np.arange(18)
    y = np.random.default_rng(2).standard_normal(TILE).astype(np.float32)
    pool, _ = launch(compile_traced(pool_kernel(chip, None, scattered=True)), ids, y, ROWS)
    for row, number in enumerate(ids):
        if 0 <= number < ROWS:
            np.testing.assert_array_equal(pool.rows[number, :60], y[row, :60])
            np.testing.assert_array_equal(pool.rows[number, 60:64], np.arange(60, 64) + 100 * number)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("reach", ["near", "far"])
def test_a_negative_index_does_not_come_back_from_a_large_origin(chip: str, reach: str) -> None:
    """Indices count from the window's origin, below which there is nothing; nor is there behind the last row."""
    ids = (np.arange(TILE[0]) - 20).astype(np.int32)
    compiled = compile_traced(pool_kernel(chip, reach, origin=30))
    for rows in (40, 29):  # ten rows behind the origin, or none
        _, found = launch(compiled, ids, np.ones(TILE, np.float32), rows)
        exists = (ids >= 0) & (ids < rows - 30)
        assert not found[~exists].any()
        np.testing.assert_array_equal(found[exists, 1], 1 + 100 * (30 + ids[exists]))


@pytest.mark.parametrize("chip", CHIPS)
def test_close_indices_end_behind_the_view(chip: str) -> None:
    """No lane compares them: a buffer that ends with the last row refuses those behind it."""
    ids = np.arange(TILE[0], dtype=np.int32)
    compiled = compile_traced(pool_kernel(chip, "close"))
    assert "global_load" not in compiled.assembly
    rows = TILE[0] - 5
    _, found = launch(compiled, ids, np.ones(TILE, np.float32), rows)
    assert not found[rows:].any()
    np.testing.assert_array_equal(found[:rows, 1], 1 + 100 * ids[:rows])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_windows_in_five_gigabytes(chip: str) -> None:
    """A window's buffer holds what is left behind its origin: more than 4 GiB, than 2, less, nothing, less than
    nothing. The scalar unit finds out which.
    """
    arguments = {"pool": ptr("f32"), "origins": ptr("i32"), "y": ptr("f32"), "rows": i32, "pitch": i32}

    @kernel("windows", target=get_target(chip), waves=2, arguments=arguments)
    def windows(pool: Pointer, origins: Pointer, y: Pointer, rows: Scalar, pitch: Scalar) -> None:
        whole = view(pool, (rows, 60), (pitch.multiple_of(4), 1)).pad(*TILE)
        store(load(whole.window(TILE, (origins.scalar(0), 0))), view(y, TILE, (TILE[1], 1)).window(TILE, (0, 0)))

    compiled = compile_traced(windows)
    assert "v_cmp_lt_i64" not in compiled.assembly and "v_cmp_gt_i64" not in compiled.assembly
    for origin in (0, 276, 787, 788, 789, 1024, 1290, 1299, 1300, 1310):
        rows = (origin + np.arange(TILE[0])).astype(np.int32)
        _, found = launch(compiled, rows, np.ones(TILE, np.float32), ROWS)
        left = max(min(ROWS - origin, TILE[0]), 0)
        assert not found[left:].any() and not found[:, 60:].any()
        if left:
            numbers = 100 * np.arange(origin, origin + left)[:, None]
            np.testing.assert_array_equal(found[:left, :60], (numbers + np.arange(60)).astype(np.float32))


def test_near_is_a_promise_that_a_checked_run_tests() -> None:
    """Near reaches 2 GiB: a launch with more rows breaks what the kernel says, and the finding names its line."""
    compiled = compile_traced(pool_kernel("gfx942", "near"))
    assert "global_load" not in compiled.assembly
    ids = np.zeros(TILE[0], np.int32)
    launch(compiled, ids, np.ones(TILE, np.float32), 512)
    with pytest.raises(CheckFailure, match=r"(?s)takes 2147483888 bytes, and near .* 2147483648.*test_far_gather"):
        launch(compiled, ids, np.ones(TILE, np.float32), 513)


def test_a_small_view_is_near_without_a_word() -> None:
    """Lengths and strides that are known decide."""

    @kernel("small", target=get_target("gfx942"), waves=1, arguments={"x": ptr("f32"), "ids": ptr("i32")})
    def small(x: Pointer, ids: Pointer) -> None:
        indices = load(view(ids, (TILE[0],), (1,)).window((TILE[0],), (0,)))
        rows = view(x, (1 << 13, 64), (1 << 16, 1)).window(TILE, (0, 0))
        store(gather(rows, indices, 0), view(x, TILE, (64, 1)).window(TILE, (0, 0)))

    assert "global_load" not in compile_traced(small).assembly


def test_another_reach_is_refused() -> None:
    """What it may be is said."""
    with pytest.raises(TracingError, match='reach "wide": expected "close", "near", "far" or nothing'):
        pool_kernel("gfx942", "wide")
