"""What one-pass operators move to and from memory, behind caches of the chip's size: within 2 % of each array once.

Columns' arrays (gamma, beta, scales) are read by the lanes of every row; the L2 cache has them from the second row on.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("numba", reason="numba is not installed: the memory model does not run")

from ckmlir.ops import find_operator
from ckmlir.runtime.recording import record_operator
from ckmlir.sim.timing import parameters
from ckmlir.sim.timing.memory_hierarchy import REQUEST_BYTES, access, coalesce, memory_bytes
from ckmlir.sim.timing.memory_shares import new_memory
from ckmlir.sim.timing.recording import AccessKind, Trace
from ckmlir.targets import get_target

REQUESTS: dict[str, dict[str, Any]] = {
    "layernorm2d": {"m": 256, "n": 4096},
    "rmsnorm2d": {"m": 256, "n": 4096, "dtype": "bf16"},
    "add_rmsnorm2d_rdquant": {"m": 256, "n": 4096},
    "smoothquant": {"m": 256, "n": 4096, "dtype": "f32"},
    "softmax": {"m": 256, "n": 4096},
    "transpose2d": {"m": 1024, "n": 1024},
    "copy": {"m": 256, "n": 4096},
    "reduce": {"shape": (256, 4096)},
}


def bytes_of_memory(trace: Trace, *overrides: str) -> tuple[int, int]:
    """Bytes that memory gives and takes when the workgroups of a trace run one after another on one compute unit."""
    memory = new_memory(parameters.load(trace.target, overrides=overrides), 1, busy=1)
    for step in trace.steps[trace.steps["access"] >= 0]:
        row = step["access"]
        what = trace.accesses[row]
        if what["kind"] == AccessKind.MEMORY:
            lines = coalesce(trace.addresses[row], int(what["bytes"]), REQUEST_BYTES)
            access(memory, 0, 0, lines, len(lines), bool(what["store"]))
    moved = memory_bytes(memory)
    return moved["hbm_read"], moved["hbm_written"]


@pytest.mark.one_in(32)
@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("name", REQUESTS)
def test_memory_moves_every_array_once(name: str, chip: str) -> None:
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**REQUESTS[name])
    workgroups = math.prod(operator.launch(problem, operator.spec(problem, target), target).grid)
    read, written = bytes_of_memory(record_operator(operator, problem, target, workgroups=workgroups))
    arrays = operator.arrays(problem)
    least_read = sum(array.nbytes for array in arrays if array.role != "out")
    least_written = sum(array.nbytes for array in arrays if array.role != "in")
    assert least_read <= read <= 1.02 * least_read
    assert least_written <= written <= 1.02 * least_written


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("name", ["mhc_input", "mhc_post"])
def test_streams_are_read_and_written_once(name: str, chip: str) -> None:
    """Coefficients come by scalar loads, which are not counted here."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(m=16, c=4096)
    launch = operator.launch(problem, operator.spec(problem, target), target)
    read, written = bytes_of_memory(record_operator(operator, problem, target, workgroups=math.prod(launch.grid)))
    least = {array.name: array.nbytes for array in operator.arrays(problem) if array.name != "coefficients"}
    assert written == least.pop("y")
    assert read == sum(least.values())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx950"])
def test_rows_are_read_once_for_sums_and_squares(chip: str) -> None:
    """The first kernel of `mhc`, of two blocks of columns; the parts of sums are written, and nothing else."""
    operator, target = find_operator("mhc"), get_target(chip)
    problem = operator.problem(m=64, c=1024, streams=4, split_k=2, block="64x16x64")
    launch = operator.launch(problem, operator.spec(problem, target), target)
    read, written = bytes_of_memory(record_operator(operator, problem, target, workgroups=math.prod(launch.grid)))
    x, phi = operator.arrays(problem)[:2]
    least = x.nbytes + phi.nbytes
    assert launch.grid == (2, 1, 2)
    assert least <= read <= 1.02 * least
    (sums,) = operator.workspaces(problem, operator.spec(problem, target), target)
    assert written <= 1.02 * sums.nbytes


def test_it_is_the_caches_that_keep_what_belongs_to_columns() -> None:
    """With caches that hold no row, gamma and beta come from memory for every row."""
    operator, target = find_operator("layernorm2d"), get_target("gfx90a")
    problem = operator.problem(m=64, n=4096)
    workgroups = math.prod(operator.launch(problem, operator.spec(problem, target), target).grid)
    trace = record_operator(operator, problem, target, workgroups=workgroups)
    read, _ = bytes_of_memory(trace, "memory.l1.size=1024", "memory.l2.size=4096")
    assert read > 2.5 * 64 * 4096 * 2
