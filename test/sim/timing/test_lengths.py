"""How long the workgroups of a launch are is found from a few of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckmlir.ops import find_operator
from ckmlir.runtime.recording import record_operator
from ckmlir.sim.timing.lengths import MOST_COUNTED, Lengths, survey
from ckmlir.targets import get_target


def surveyed(shape: tuple[int, ...], length: Callable[..., float]) -> tuple[Lengths | None, list[int]]:
    """What a survey finds of a grid in which a place has a length, and the workgroups that it counted."""
    counted: list[int] = []

    def count(numbers: Sequence[int]) -> list[int]:
        counted.extend(numbers)
        return [round(length(*place)) for place in zip(*np.unravel_index(list(numbers), shape, order="F"))]

    return survey(shape, count), counted


def all_lengths(shape: tuple[int, ...], length: Callable[..., float]) -> np.ndarray:
    places = np.unravel_index(np.arange(math.prod(shape)), shape, order="F")
    return np.array([round(length(*place)) for place in zip(*places)], np.float64)


def test_workgroups_that_are_alike_are_hardly_counted() -> None:
    lengths, counted = surveyed((40, 30, 20), lambda x, y, z: 10_000 + (x == 39) * 150)
    assert lengths is None
    assert len(counted) <= 8 and len(set(counted)) == len(counted)
    assert surveyed((1, 1, 1), lambda x, y, z: 5) == (None, [0])


def test_one_axis_matters() -> None:
    def length(x: int, y: int, z: int) -> float:
        return 300 + 1000 * x

    lengths, counted = surveyed((32, 16, 4), length)
    assert lengths is not None
    assert lengths.places == (tuple(range(32)), (0,), (0,))
    assert len(counted) < 45
    np.testing.assert_allclose(lengths.all(), all_lengths((32, 16, 4), length))


def test_a_short_last_one_is_not_smeared() -> None:
    def length(x: int) -> float:
        return 100 if x == 999 else 5000

    lengths, counted = surveyed((1000,), length)
    assert lengths is not None and len(counted) <= MOST_COUNTED + 8
    np.testing.assert_allclose(lengths.all(), all_lengths((1000,), length))


def test_two_axes_matter_together() -> None:
    """Neither does alone: along each from the first workgroup, all are alike."""

    def length(x: int, y: int) -> float:
        return 1000 + 10 * x * y

    lengths, _ = surveyed((60, 50), length)
    assert lengths is not None
    assert all(len(places) > 1 for places in lengths.places)
    np.testing.assert_allclose(lengths.all(), all_lengths((60, 50), length), rtol=0.01)


@given(
    shape=st.lists(st.integers(1, 70), min_size=1, max_size=3).map(tuple),
    slopes=st.lists(st.integers(0, 50), min_size=3, max_size=3),
)
def test_lengths_that_grow_evenly_are_found(shape: tuple[int, ...], slopes: list[int]) -> None:
    def length(*place: int) -> float:
        return 500 + sum(slope * at for slope, at in zip(slopes, place))

    lengths, counted = surveyed(shape, length)
    assert len(counted) <= MOST_COUNTED + 12
    expected = all_lengths(shape, length)
    found = np.full(len(expected), expected[0]) if lengths is None else lengths.all()
    np.testing.assert_allclose(found, expected, rtol=0.12 if lengths is None else 0.05)


@pytest.mark.parametrize(("keys", "alike"), [({}, True), ({"mask": "top_left"}, False)])
def test_of_attention(keys: dict[str, object], alike: bool) -> None:
    """Under a causal mask the last tile of queries looks at all keys, the first at one tile of them."""
    operator, target = find_operator("fmha_fwd"), get_target("gfx942")
    found: list[Lengths | None] = []

    def choose(lengths: Lengths | None) -> list[int]:
        found.append(lengths)
        return [0]

    problem = operator.problem(h=3, sq=1024, d=64, schedule="qr", **keys)
    trace = record_operator(operator, problem, target, workgroups=choose)
    (lengths,) = found
    assert trace.lengths is lengths and (lengths is None) == alike
    if lengths is not None:
        every = lengths.all()
        assert every.max() > 4 * every.min()
        launch = operator.launch(problem, operator.spec(problem, target), target)
        whole = record_operator(operator, problem, target, workgroups=math.prod(launch.grid))
        executed = [int((whole.groups[whole.steps["wave"]] == number).sum()) for number in whole.workgroups]
        np.testing.assert_allclose(every, executed, rtol=0.01)


def test_counting_leaves_tickets_alone() -> None:
    """A kernel that asks memory what is left to do finds it as it was."""
    from llvm_kernels import compile_kernel

    from ckmlir.sim import Simulator
    from ckmlir.sim.timing.lengths import count_workgroups

    text = """define amdgpu_kernel void @k(ptr addrspace(1) %p) {
  %old = atomicrmw add ptr addrspace(1) %p, i32 1 syncscope("agent") monotonic
  ret void
}
"""
    simulator = Simulator("gfx942", checks=["race"])
    tickets = simulator.upload(np.array([5], np.int32))
    launch = (simulator, compile_kernel(text), "k", (8, 1, 1), (64, 1, 1), [tickets], 0)
    first, second = count_workgroups(*launch, [0, 7])
    assert first == second > 2
    assert tickets.read(np.int32)[0] == 5
