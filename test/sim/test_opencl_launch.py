"""All that a kernel can want to know of its launch, by code object version and with preloaded arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from opencl_kernels import compiled, needs_clang

from ckmlir.codeobject import CodeObject
from ckmlir.sim import Simulator

pytestmark = needs_clang
OPTIONS = {
    "v4": ("-mcode-object-version=4",),
    "v5": ("-mcode-object-version=5",),
    "v6": ("-mcode-object-version=6",),
    **{f"preload{count}": ("-mllvm", f"-amdgpu-kernarg-preload-count={count}") for count in (1, 4, 14)},
}


@pytest.fixture(params=["gfx90a", "gfx942", "gfx950"])
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[0, 3], ids=["O0", "O3"])
def level(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=OPTIONS)
def code_object(request: pytest.FixtureRequest, target: str, level: int) -> CodeObject:
    return compiled("launch", target, level, OPTIONS[request.param])


def test_geometry(code_object: CodeObject) -> None:
    """Ids and sizes in three dimensions, from the dispatch packet (version 4) or hidden arguments (5 and later)."""
    grid, block = (3, 2, 2), (5, 4, 3)
    shape = tuple(g * b for g, b in zip(grid, block))[::-1]
    simulator = Simulator()
    seen = simulator.upload(np.zeros(shape, np.uint32))
    simulator.launch(code_object, "geometry", grid, block, [seen])
    z, y, x = np.indices(shape)
    np.testing.assert_array_equal(seen.read(np.uint32).reshape(shape), x + 100 * y + 10000 * z + 1000000 * block[1])


@pytest.mark.parametrize("size", [1, 5000, 16384])
def test_dynamic_lds(code_object: CodeObject, size: int) -> None:
    """A pointer to LDS whose size the launch says, with 1024 work-items."""
    simulator, x = Simulator(), np.arange(size, dtype=np.uint32) * 3
    given, output = simulator.upload(x), simulator.upload(np.zeros_like(x))
    simulator.launch(code_object, "dynamic_local", (1, 1, 1), (1024, 1, 1), [given, output, size], dynamic_lds=4 * size)
    np.testing.assert_array_equal(output.read(np.uint32), x[::-1])


def test_arguments_of_all_sizes(code_object: CodeObject) -> None:
    """Aligned as the kernel expects, in memory or preloaded into registers."""
    simulator = Simulator()
    out = simulator.upload(np.zeros(64, np.uint64))
    values: list[Any] = [200, -3, 4_000_000_000, 1 << 40, 12.5, 99.0, 65536, 65537]
    simulator.launch(code_object, "many", (1, 1, 1), (64, 1, 1), [out, *values])
    expected = 200 - 3 + 4_000_000_000 + (1 << 40) + 12 + 99 + (65536 * 65537 & 0xFFFFFFFF)
    np.testing.assert_array_equal(out.read(np.uint64), np.arange(64, dtype=np.uint64) + np.uint64(expected))


@pytest.mark.one_in(2)
def test_generic_pointers(code_object: CodeObject) -> None:
    """Flat accesses to global memory, LDS and scratch."""
    simulator, x = Simulator(), np.arange(64, dtype=np.uint32) * 1000
    given, output = simulator.upload(x), simulator.upload(np.zeros_like(x))
    simulator.launch(code_object, "flat_pointers", (1, 1, 1), (64, 1, 1), [given, output])
    lane = np.arange(64)
    own = np.stack([lane, lane * 2], 1)
    picked = own[lane, lane & 1]
    own[lane, lane & 1] = 3
    np.testing.assert_array_equal(output.read(np.uint32), x + (lane + 7) * 3 + picked * 5 + 2 + own.sum(1))
    np.testing.assert_array_equal(given.read(np.uint32), 1)
