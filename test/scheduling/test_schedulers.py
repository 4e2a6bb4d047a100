"""Schedulers: dependences and units are kept, intervals are no shorter than the bound, results follow from the seed."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Barrier, Fragments
from ckmlir.ops import find_operator
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import SCHEDULERS, Problem, SchedulingError, Workbench, exact, find_scheduler, lower_bounds
from ckmlir.scheduling.bounds import Bounds
from ckmlir.scheduling.evaluate import evaluate
from ckmlir.scheduling.exact import Exact
from ckmlir.scheduling.graph import broken_links, links_between_fragments
from ckmlir.scheduling.modulo import place_nodes
from ckmlir.scheduling.problem import Edge, Limits, Node
from ckmlir.scheduling.steps import places_of
from ckmlir.sim.checks.finding import parse_checks
from ckmlir.targets import get_target

NEEDS = {"exact": "ortools"}


def bench(arch: str = "gfx942", operator: str = "gemm", **keys: object) -> Workbench:
    found, target = find_operator(operator), get_target(arch)
    return Workbench.of(found, found.spec(found.problem(**keys), target), target)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize("name", [name for name in SCHEDULERS if name != "ping_pong"])
def test_dependences_are_kept(name: str, buffers: int) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason="the exact scheduler's solver is not installed")
    small = {"m": 128, "n": 128, "k": 128, "block": "64x64x32"}
    problem = bench(**small).problem.with_buffers(buffers)
    solution = find_scheduler(name).solve(problem, seed=1)
    assert broken_links(problem, links_between_fragments(problem), solution.schedule) == []
    assert len(places_of(solution.schedule)) == len(problem.fragments)
    assert Schedule.parse(str(solution.schedule)) == solution.schedule
    assert solution == find_scheduler(name).solve(problem, seed=1)
    assert solution.interval is None or solution.interval >= lower_bounds(problem).interval


@pytest.mark.parametrize(("refuted", "words"), [
    (0, "128 cycles (200.0 %) above the least, which is 64 or more"),
    (2, "123 cycles (178.3 %) above the least, which is 69 or more"),
])  # fmt: skip
def test_the_exact_scheduler_says_how_far_it_may_be_when_time_runs_out(
    refuted: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solver that answers for the first intervals only; the bound is a third of what modulo scheduling finds."""
    pytest.importorskip("ortools", reason="the exact scheduler's solver is not installed")
    answers = iter([True] * refuted + [False] * 16)
    monkeypatch.setattr(Exact, "_times", lambda *_: (None, next(answers)))
    monkeypatch.setattr(exact, "lower_bounds", lambda _: Bounds(64, "matrix", 0, {}))
    problem = bench(m=128, n=128, k=128, block="64x64x32").problem
    solution = find_scheduler("exact").solve(problem)
    assert solution.interval == 192 and words in solution.remark
    assert solution.remark.startswith("time ran out for every interval up to 124, so this is modulo scheduling's;")
    assert broken_links(problem, links_between_fragments(problem), solution.schedule) == []


def test_the_exact_scheduler_is_no_worse_than_modulo_scheduling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time runs out for the bound, and a longer interval than modulo scheduling's has a solution."""
    pytest.importorskip("ortools", reason="the exact scheduler's solver is not installed")
    problem = bench(m=128, n=128, k=128, block="64x64x32").problem
    shortest = find_scheduler("modulo").solve(problem).interval
    assert shortest is not None
    solved = Exact._times

    def times(self: Exact, cp: Any, problem: Problem, interval: int, seed: int) -> tuple[dict[int, int] | None, bool]:
        return solved(self, cp, problem, interval, seed) if interval > shortest else (None, False)

    monkeypatch.setattr(Exact, "_times", times)
    solution = find_scheduler("exact").solve(problem)
    assert solution.interval == shortest and solution.schedule.name == "exact"
    assert "so this is modulo scheduling's; interval" in solution.remark
    monkeypatch.setattr(exact.ModuloScheduling, "solve", refuse)
    assert find_scheduler("exact").solve(problem).interval > shortest


def refuse(*_: Any) -> Any:
    raise SchedulingError("none")


def test_ping_pong_takes_turns() -> None:
    """Turns of memory fragments and matrix instructions with barriers behind both; proved, without spills."""
    one = bench(m=512, n=512, k=512, block="256x256x32", wave="2x4", schedule="compv4")
    problem = one.problem.with_buffers(2)
    schedule = one.solve("ping_pong", buffers=2).schedule
    assert schedule.groups == 2 and dict(schedule.priority) == {"math": 1}
    assert len(places_of(schedule)) == len(problem.fragments)
    phases: list[set[bool]] = [set()]
    for item in schedule.step:
        if isinstance(item, Barrier):
            phases.append(set())
        else:
            assert isinstance(item, Fragments)
            phases[-1].add(item.stage == "math")
    assert phases == [{False}, {True}] * 4 + [set()]
    assert broken_links(problem, links_between_fragments(problem), schedule) == []
    assert Schedule.parse(str(schedule)) == schedule
    found = evaluate(one, schedule)
    assert found.findings == () and found.spills == 0 and found.loop["vmov"] == 0


def test_ping_pong_says_when_the_groups_would_meet() -> None:
    problem = bench(m=512, n=512, k=512, block="256x256x32", wave="2x4").problem.with_buffers(1)
    with pytest.raises(SchedulingError, match=r"ping_pong: .*; more LDS buffers may do"):
        find_scheduler("ping_pong").solve(problem)


@pytest.mark.parametrize(
    ("name", "keys"),
    [("ping_pong", {}), ("four_waves", {"block": "256x256x32", "wave": "4x2", "epilogue": "direct"})],
)
def test_schedulers_for_other_workgroups_refuse(name: str, keys: dict[str, object]) -> None:
    with pytest.raises(SchedulingError, match=f"{name} is for (two waves|one wave) a SIMD"):
        find_scheduler(name).solve(bench(m=512, n=512, k=512, **keys).problem)


def test_an_unknown_scheduler_is_named() -> None:
    with pytest.raises(SchedulingError, match="unknown scheduler 'moduli'; did you mean modulo"):
        find_scheduler("moduli")


@pytest.mark.parametrize(("operator", "keys"), [("gemm", {"block": "128x128x64"}), ("fmha_fwd", {"schedule": "qr"})])
def test_modulo_schedules_reach_the_bound(operator: str, keys: dict[str, object]) -> None:
    problem = bench(operator=operator, **keys).problem
    assert find_scheduler("modulo").solve(problem).interval == lower_bounds(problem).interval


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["modulo", "interleave"])
@pytest.mark.parametrize(("chip", "d"), [("gfx942", 64), pytest.param("gfx90a", 32, marks=pytest.mark.full)])
def test_sums_that_go_on_within_a_step_compute_the_same(chip: str, d: int, name: str) -> None:
    """The step of attention backward, where the last products of one iteration stand before the first of the next."""
    one, target, fmha = bench(chip, "fmha_bwd", d=d), get_target(chip), find_operator("fmha_bwd")
    schedule = one.solve(name).schedule
    assert {place.ahead for place in places_of(schedule) if place.stage == "dk"} == {0, 1}
    made = one.compile(schedule)
    assert made.findings == ()
    problem = fmha.problem(d=d, sq=144, sk=40, h=1)
    arrays = fmha.inputs(problem, target)
    device = SimulatorDevice(target, checks=parse_checks("all"))
    outputs = run_operator(fmha, problem, arrays, target, device, compiled=made.compiled).outputs
    assert all(found.ok for found in check_outputs(fmha, problem, arrays, outputs, target))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["modulo", "interleave"])
def test_effects_wait_for_the_last_interval(name: str) -> None:
    """Where a step that begins with the first product has others an interval behind the atomics of dQ, which must not
    run ahead.
    """
    one = bench("gfx950", "fmha_bwd", d=128)
    schedule = one.solve(name).schedule
    assert {place.ahead for place in places_of(schedule) if place.stage == "dq_out"} == {0}
    assert one.compile(schedule, code=False).findings == ()


@settings(max_examples=50, deadline=None)
@given(
    st.integers(2, 9),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(1, 30), st.integers(0, 2)), max_size=14),
    st.sets(st.integers(0, 8), min_size=1, max_size=3),
)
def test_effects_do_not_run_ahead(count: int, edges: list[tuple[int, int, int, int]], effects: set[int]) -> None:
    """Or modulo scheduling says that it finds no such schedule."""
    plain = random_problem(count, edges, [2])
    problem = replace(plain, effects=tuple(sorted({number % count for number in effects})))
    with contextlib.suppress(SchedulingError):
        schedule = find_scheduler("modulo").solve(problem).schedule
        assert broken_links(problem, links_between_fragments(problem), schedule) == []


def random_problem(count: int, edges: list[tuple[int, int, int, int]], busy: list[int]) -> Problem:
    units = ("vector", "lds")
    nodes = tuple(
        Node(n, "op", "s", n, units[n % 2], busy[n % len(busy)] + 2, busy[n % len(busy)], 1, "", 1, 0, "", 0, "", False)
        for n in range(count)
    )
    made = tuple(
        Edge(a % count, b % count, "flow", latency, distance if a % count < b % count else distance + 1)
        for a, b, latency, distance in edges
    )
    limits = Limits(512, 256, 65536, 8, 4, {"vector": False, "lds": True}, True)
    return Problem("p", "gfx942", nodes, made, limits, 1, ())


@settings(max_examples=15, deadline=None)
@given(
    st.integers(2, 9),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(1, 30), st.integers(0, 2)), max_size=14),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(0, 3),
)
def test_modulo_placements_keep_edges_and_units(
    count: int, edges: list[tuple[int, int, int, int]], busy: list[int], seed: int
) -> None:
    problem = random_problem(count, edges, busy)
    interval = 2 * lower_bounds(problem).interval
    times = place_nodes(problem, interval, seed)
    if times is None:
        return
    for edge in problem.edges:
        assert times[edge.target] >= times[edge.source] + edge.latency - interval * edge.distance
    for unit, shared in problem.limits.units.items():
        held = [
            (times[node.number] + cycle) % interval
            for node in problem.nodes
            if node.unit == unit
            for cycle in range(node.busy * (8 if shared else 2))
        ]
        assert len(held) == len(set(held))


def test_broken_dependences_are_named() -> None:
    problem = bench(m=128, n=128, k=128, block="64x64x32").problem
    order = Schedule.parse("schedule s 1; step load.0-1, from_lds.0-3, to_lds.0-1, math.0-3")
    found = broken_links(problem, links_between_fragments(problem), order)
    assert found and all("would run before to_lds" in str(one) for one in found)
    with pytest.raises(ValueError, match=r"does not list to_lds.1 and 8 more; Workbench.listed does"):
        broken_links(problem, [], Schedule.parse("schedule s 1; step load.0-1, to_lds.0"))
    with pytest.raises(ValueError, match=r"lists load.7, which the loop does not have"):
        broken_links(problem, [], Schedule.parse("schedule s 1; step load.7"))
