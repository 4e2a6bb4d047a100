"""Operators by the model of time: recorded, simulated, carried over to the launch, with the work they really do."""

from __future__ import annotations

import math

import pytest

from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.runtime.timing import OperatorModel
from ckmlir.sim.timing.parameters import load
from ckmlir.targets import get_target

KEYS = {"m": 512, "n": 768, "k": 256, "block": "128x128x64"}


@pytest.fixture(scope="module")
def gemm() -> OperatorModel:
    operator = find_operator("gemm")
    return OperatorModel(operator, operator.problem(**KEYS), get_target("gfx942"), load("gfx942"))


def test_the_launch_of_a_gemm(gemm: OperatorModel) -> None:
    launch = gemm.under(load("gfx942"))
    grid = launch.grid
    assert gemm.shape == (6, 4)
    assert (grid.workgroups, grid.rounds, grid.workgroups_a_unit) == (24, 1, 1)
    assert grid.roofline.operations == find_operator("gemm").flops(find_operator("gemm").problem(**KEYS))
    steady = grid.workgroup.steady
    assert steady is not None
    assert steady.trips * steady.cycles_per_iteration < launch.timeline.cycles
    assert 0 < steady.busy["mfma"] <= 1
    assert 0 < grid.matrix_share < 1
    # A and B are read at least once, C is written once; copies that run ahead of the end repeat a tile.
    arrays = 2 * (512 * 256 + 768 * 256)
    assert grid.bytes["hbm_written"] == 2 * 512 * 768
    assert arrays <= grid.bytes["hbm_read"] <= 1.5 * arrays


def test_tiles_of_a_row_and_of_a_column_share_their_inputs(gemm: OperatorModel) -> None:
    """24 workgroups on eight dies: number d has tiles d, d + 8 and d + 16 of a grid of six columns and four rows."""
    assert gemm.trace.workgroups == (0, 1, 6)
    sharing = gemm.under(load("gfx942")).sharing
    pieces = sum(len({n // 6 for n in range(d, 24, 8)}) + len({n % 6 for n in range(d, 24, 8)}) for d in range(8))
    assert sharing.l2 == pytest.approx(24 * 2 / pieces)
    assert sharing.mall == pytest.approx(pieces / (4 + 6))


def test_one_recording_serves_many_parameters(gemm: OperatorModel) -> None:
    first, again = gemm.under(load("gfx942")), gemm.under(load("gfx942"))
    assert (first.timeline.events == again.timeline.events).all()
    slow = gemm.under(load("gfx942", overrides=["memory.hbm.latency=3000"]))
    assert slow.grid.cycles > first.grid.cycles + 2000


def test_nothing_to_launch_is_refused() -> None:
    operator = find_operator("copy")
    with pytest.raises(RequestError, match="nothing is launched"):
        OperatorModel(operator, operator.problem(m=0, n=64), get_target("gfx942"), load("gfx942"))


@pytest.mark.parametrize(("m", "n"), [(1000, 300), (128, 128), (1, 4096)])
def test_the_shape_of_a_gemm_has_the_workgroups_of_its_grid(m: int, n: int) -> None:
    operator = find_operator("gemm")
    problem = operator.problem(m=m, n=n, k=64)
    launch = operator.launch(problem, operator.spec(problem, get_target("gfx942")), get_target("gfx942"))
    assert launch.shape is not None
    assert math.prod(launch.shape) == math.prod(launch.grid)
