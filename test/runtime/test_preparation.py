"""Workspaces and their preparation on a stream, on the simulator and on a GPU behind the real hip-python."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ckmlir.ops import find_operator
from ckmlir.ops.ragged.ragged_tiles import Problem as Tiles
from ckmlir.ops.ragged.ragged_tiles import pack_table
from ckmlir.runtime import Device, DeviceError, Memory, check_outputs, open_device, run_operator
from ckmlir.runtime.compile_cache import compile_cached
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.pool import Pool
from ckmlir.targets import get_target

GFX942 = get_target("gfx942")
SUMS, TILES = find_operator("ragged_row_sums"), find_operator("ragged_tiles")


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    return {one.name: compile_cached(one, one.kernels(GFX942)[0], GFX942) for one in (SUMS, TILES)}


@pytest.fixture(autouse=True)
def _compiled_once(compiled: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["ckmlir.runtime.operator_kernels"]
    monkeypatch.setattr(module, "compile_cached", lambda operator, spec, target: compiled[operator.name])


@pytest.fixture(params=["sim", "hip"])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    if request.param == "hip":
        request.getfixturevalue("driver")
    device = open_device(request.param, GFX942, seed=3)
    yield device
    device.close()


def upload(device: Device, problem: Any, seed: int) -> tuple[dict[str, Any], dict[str, Memory]]:
    """Inputs, and memory for all arrays."""
    arrays = SUMS.inputs(problem, GFX942, seed)
    memories = {array.name: device.allocate(array.nbytes) for array in SUMS.arrays(problem)}
    for name, array in arrays.items():
        device.write(memories[name], array)
    return arrays, memories


def expect_sums(device: Device, problem: Any, arrays: dict[str, Any], memories: dict[str, Memory]) -> None:
    sums = np.empty(problem.tiles.rows, np.float32)
    device.read(sums, memories["sums"])
    assert all(one.ok for one in check_outputs(SUMS, problem, arrays, {"sums": sums}, GFX942))


@pytest.mark.parametrize("pack", ["host", "device"])
@pytest.mark.parametrize(("rows", "total"), [(1, 0), (5, 0), (1, 1000), (9, 2600), (70, 300)])
def test_right_sums(device: Device, pack: str, rows: int, total: int) -> None:
    problem = SUMS.problem(rows=rows, total=total, pack=pack)
    arrays = SUMS.inputs(problem, GFX942)
    result = run_operator(SUMS, problem, arrays, GFX942, device)
    assert all(one.ok for one in check_outputs(SUMS, problem, arrays, result.outputs, GFX942))


@pytest.mark.parametrize("case", ["random", "equal", "all in one", "on boundaries", "empty"])
def test_both_ways_to_pack_give_the_same_bytes(device: Device, case: str) -> None:
    """What the kernel runs on is compared, not only what comes out of it."""
    rows, total = 12, 3072
    offsets = {
        "random": np.sort(np.random.default_rng(5).integers(0, total, rows + 1)),
        "equal": np.arange(rows + 1) * 256,
        "all in one": np.where(np.arange(rows + 1) > 7, total, 0),
        "on boundaries": np.minimum(np.arange(rows + 1) * 512, total),
        "empty": np.zeros(rows + 1),
    }[case].astype(np.int32)
    offsets[0] = 0
    problem = TILES.problem(rows=rows, total=total)
    packed = np.zeros((problem.slots, 4), np.int32)
    pack_table(offsets, problem.tile, packed)
    table = np.zeros_like(packed)
    table[: offsets[-1] // problem.tile + rows] = 77  # what the rows can fill; the rest stays as it was
    executable = Executable(device, TILES, problem)
    executable(offsets=offsets, table=table)
    executable.close()
    np.testing.assert_array_equal(table, packed)
    covered = [(row, element) for row, start, stop, _ in packed for element in range(start, stop)]
    assert covered == [(row, at) for row in range(rows) for at in range(offsets[row], offsets[row + 1])]


def test_sizes_follow_from_upper_bounds() -> None:
    """No offsets are needed to know them, and no offsets need more."""
    problem = SUMS.problem(rows=5, total=1000)
    (workspace,) = SUMS.workspaces(problem, SUMS.spec(problem, GFX942), GFX942)
    assert workspace.nbytes == (1000 // 256 + 5) * 16
    for seed in range(50):
        table = np.zeros((Tiles(5, 1000, 256).slots, 4), np.int32)
        offsets = SUMS.inputs(problem, GFX942, seed)["offsets"]
        pack_table(offsets, 256, table)
        assert (table[:, 2] - table[:, 1]).sum() == 1000


@pytest.mark.parametrize("pack", ["host", "device"])
def test_many_runs_on_several_streams(device: Device, pack: str) -> None:
    """Nothing waits in between: each stream has workspaces and staging of its own, and uses them again."""
    problem = SUMS.problem(rows=6, total=1500, pack=pack)
    executable = Executable(device, SUMS, problem)
    streams = [device.create_stream() for _ in range(3)]
    runs = [(stream, *upload(device, problem, number)) for number, stream in enumerate(streams * 4)]
    for stream, _, memories in runs:
        executable(stream=stream, **memories)
    device.synchronize()
    for _, arrays, memories in runs:
        expect_sums(device, problem, arrays, memories)
    executable.close()
    executable.close()


def test_staging_lives_until_the_stream_has_passed_it(driver: Any) -> None:
    """The driver starts nothing until everything is queued, and the program forgets all it can."""
    device = open_device("hip", GFX942)
    problem = SUMS.problem(rows=6, total=1500)
    executable = Executable(device, SUMS, problem)
    streams = [device.create_stream(), device.create_stream()]
    runs = [upload(device, problem, number) for number in range(4)]
    driver.hold()
    for number, (_, memories) in enumerate(runs):
        executable(stream=streams[number % 2], **memories)
        gc.collect()
    staged = driver.live()["pinned"]
    assert staged == 2 * 2  # two blocks a stream
    driver.release()
    for arrays, memories in runs:
        expect_sums(device, problem, arrays, memories)
    assert driver.live()["pinned"] == staged
    executable.close()
    assert "pinned" not in driver.live()
    del executable, runs, memories
    device.close()


def test_a_host_function_that_fails_is_told(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckmlir.ops.ragged.ragged_row_sums.pack_table", lambda *_: 1 / 0)
    problem = SUMS.problem(rows=6, total=1500)
    _, memories = upload(device, problem, 0)
    executable = Executable(device, SUMS, problem)
    with pytest.raises(DeviceError, match="a host function raised ZeroDivisionError"):
        executable(**memories)
        device.synchronize()
    executable.close()


def test_a_refused_step_leaves_nothing_behind(driver: Any) -> None:
    """Whatever step HIP refuses, the borrowed memory comes back and the next run is right."""
    device = open_device("hip", GFX942)
    problem = SUMS.problem(rows=6, total=1500)
    arrays, memories = upload(device, problem, 0)
    executable = Executable(device, SUMS, problem)
    for function in ("hipMemsetAsync", "hipMemcpyAsync", "hipLaunchHostFunc", "hipModuleLaunchKernel",
                     "hipEventCreateWithFlags", "hipEventRecord", "hipHostMalloc", "hipMalloc"):  # fmt: skip
        driver.inject(function, 1)
        with pytest.raises(DeviceError, match=function):
            executable(**memories)
        assert driver.live().get("pinned", 0) <= 2
        executable(**memories)
        expect_sums(device, problem, arrays, memories)
        executable.close()
        assert "pinned" not in driver.live()
        executable = Executable(device, SUMS, problem)
    executable.close()
    device.close()


def test_a_pool_serves_streams_apart_and_again(driver: Any) -> None:
    device = open_device("hip", GFX942)
    pool: Pool[Memory] = Pool(device, device.allocate)
    one, other = device.create_stream(), device.create_stream()

    def borrow(size: int, stream: Any) -> Memory:
        with pool.borrow(size, stream) as block:
            return block

    driver.hold()
    blocks = [borrow(1000, one), borrow(1000, one), borrow(1000, other), borrow(100_000, one)]
    assert blocks[0] is blocks[1]
    assert len({block.address for block in blocks}) == 3
    driver.release()
    device.synchronize()
    assert borrow(1000, other) in blocks
    assert borrow(1000, None) in blocks
    assert borrow(90_000, other) is blocks[3]
    assert driver.live()["memory"] == 3
    pool.close()
    assert "memory" not in driver.live()
    del blocks
    device.close()


def test_pinned_memory_is_freed_by_the_program_not_by_the_driver(driver: Any) -> None:
    """The double complains about every call from its own thread; here the last reference dies there."""
    device = open_device("hip", GFX942)
    pinned, done = [device.allocate_host(4096)], threading.Event()

    def function() -> None:
        pinned.clear()
        gc.collect()
        done.set()

    device.call_on_host(function)
    assert done.wait(10)
    driver.settle()
    assert driver.live() == {"pinned": 1}
    device.synchronize()
    assert driver.live() == {}
    device.close()
