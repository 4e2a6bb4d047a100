"""Fidelity: fenced orders come out as asked for, others not; the comparison itself on orders made by hand."""

from __future__ import annotations

from functools import lru_cache

import pytest

from ckmlir.dialect.schedule import Schedule
from ckmlir.ops import find_operator
from ckmlir.scheduling import ProblemError, Workbench, evaluate
from ckmlir.scheduling.fidelity import _common, _widened
from ckmlir.scheduling.step_stream import stream_of
from ckmlir.targets import get_target


@lru_cache(maxsize=4)
def bench(arch: str) -> Workbench:
    gemm, target = find_operator("gemm"), get_target(arch)
    return Workbench.of(gemm, gemm.spec(gemm.problem(m=512, n=512, k=512, schedule="compv3"), target), target)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_a_fenced_order_is_kept(arch: str) -> None:
    found = evaluate(bench(arch), bench(arch).schedule)
    fragments = len(bench(arch).problem.fragments)
    assert (found.fidelity.kept, found.fidelity.asked, found.fidelity.moved, found.fidelity.missing) == (
        fragments, fragments, 0, 0,
    )  # fmt: skip
    assert len(found.fidelity.clusters) == found.loop["barrier"] + 1 == 3
    assert sum(cluster.waits for cluster in found.fidelity.clusters) == found.loop["wait"]
    assert found.findings == () and found.spills == 0 and 0.2 < found.matrix_share < 0.5


def test_an_order_without_fences_is_not() -> None:
    free = Schedule.parse("schedule free 1; ahead load 1, to_lds 1; order interleave")
    found = evaluate(bench("gfx942"), free).fidelity
    assert found.moved > 0 and found.kept + found.moved + found.missing == found.asked == 64
    assert f"{found.moved} moved" in str(found)


def test_the_order_of_a_loop_with_a_branch_is_that_of_all_its_blocks() -> None:
    """Workgroups that stay either store a part of dQ or add to it; what the step takes is known when it is compiled."""
    backward, target = find_operator("fmha_bwd"), get_target("gfx942")
    problem = backward.problem(d=64, sq=128, sk=128, deterministic=1, persistent=1)
    workbench = Workbench.of(backward, backward.spec(problem, target), target)
    found = evaluate(workbench, workbench.schedule)
    assert found.fidelity.asked > found.loop["mfma"] == 2 * 48
    assert found.fidelity.missing == 0 and found.fidelity.kept > 0.9 * found.fidelity.asked
    words = "steady loop of this kernel holds a branch"
    with workbench.scheduled(workbench.schedule) as module, pytest.raises(ProblemError, match=words):
        stream_of(module)


def test_common_subsequence() -> None:
    a, b, c = ("mfma", "x:1"), ("ds_read", "x:2"), ("load", "x:3")
    assert _common([a, b, c, a], [a, b, c, a]) == {0, 1, 2, 3}
    assert len(_common([b, a, a, a], [a, a, a, b])) == 3
    assert _common([a, b], [c]) == set()


def test_fragments_of_several_instructions_are_widened() -> None:
    a, b = ("load", "x:1"), ("mfma", "x:2")
    assert _widened([a, b], [a, a, a, a, b]) == [a, a, a, a, b]
    assert _widened([a, a, b], [a, a, a, b]) == [a, a, b]
