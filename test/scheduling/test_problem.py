"""Scheduling problems: what they say of a GEMM's loop, their JSON form, and that the lower bounds are lower bounds."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.dialect.context import shared_context
from ckmlir.mlir import ir
from ckmlir.ops import find_operator
from ckmlir.passes.walk import loops_of
from ckmlir.scheduling import Problem, ProblemError, Workbench, lower_bounds
from ckmlir.scheduling.bounds import recurrence_bound
from ckmlir.scheduling.loops import problem_of
from ckmlir.scheduling.problem import Edge, Limits, Node
from ckmlir.targets import get_target


def bench(operator: str = "gemm", arch: str = "gfx942", **keys: object) -> Workbench:
    found, target = find_operator(operator), get_target(arch)
    return Workbench.of(found, found.spec(found.problem(**keys), target), target)


def problem_of_edges(count: int, edges: list[tuple[int, int, int, int]]) -> Problem:
    """A problem of vector instructions with (source, target, latency, distance) edges."""
    nodes = tuple(Node(n, "op", "s", n, "vector", 4, 4, 4, "", 1, 0, "", 0, "", False) for n in range(count))
    made = tuple(Edge(source, target, "flow", latency, distance) for source, target, latency, distance in edges)
    limits = Limits(512, 256, 65536, 4, 4, {"vector": False}, True)
    return Problem("p", "gfx942", nodes, made, limits, 1, ())


def test_a_gemm_loop() -> None:
    problem = bench(m=1024, n=1024, k=1024, block="128x128x64").problem
    kinds = [node.op for node in problem.nodes]
    assert (kinds.count("ck.mfma"), kinds.count("ck.load_fragment"), kinds.count("ck.lds_write")) == (32, 8, 8)
    files = {node.line.split(":")[0].rpartition("/")[2] for node in problem.nodes}
    assert all(node.is_fragment for node in problem.nodes)
    assert files == {"loop_kernel.py", "rows_kernel.py", "accumulation_kernel.py"}
    assert [node.index for node in problem.nodes if node.stage == "math"] == list(range(32))
    by_kind = {edge.kind for edge in problem.edges}
    assert by_kind == {"flow", "memory", "anti"}
    chains = [edge for edge in problem.edges if edge.distance == 1 and edge.kind == "flow"]
    assert len(chains) == 4 and all(problem.nodes[edge.source].carried for edge in chains)
    assert sum(node.defines for node in problem.nodes if node.stage == "load") == 8 * 4
    assert problem.with_buffers(3).edges != problem.edges


def test_bounds_of_a_gemm_loop() -> None:
    target = get_target("gfx942")
    bounds = lower_bounds(bench(m=1024, n=1024, k=1024, block="128x128x64").problem)
    cycles = target.mfma_cycles["f32.32x32x8f16"]
    assert (bounds.unit, bounds.resource) == ("matrix", 32 * cycles)
    assert bounds.recurrence == 8 * cycles  # the accumulations of one block of C, one behind the other


@pytest.mark.parametrize(("operator", "arch"), [("gemm", "gfx950"), ("fmha_fwd", "gfx942"), ("layernorm2d", "gfx90a")])
def test_json_round_trip(operator: str, arch: str) -> None:
    keys = {"n": 65536} if operator == "layernorm2d" else {}
    problem = bench(operator, arch, **keys).problem
    assert Problem.from_json(problem.to_json()) == problem
    assert json.loads(problem.to_json())["version"] == 1


def test_json_that_is_no_problem() -> None:
    data = json.loads(problem_of_edges(2, [(0, 1, 4, 0)]).to_json())
    for change, expected in (
        ({"version": 2}, "version 1 is expected, not 2"),
        ({"nodes": None}, "lacks or misplaces"),
        ({"edges": [{**data["edges"][0], "target": 7}]}, "an edge from node 0 to 7; there are 2"),
        ({"edges": [{**data["edges"][0], "colour": 7}]}, "unknown field colour of a edge"),
    ):
        with pytest.raises(ProblemError, match=expected):
            Problem.from_json(json.dumps({**data, **change}))
    for text, expected in (("{", r"not JSON: .*: line 1 column 2"), ("[" * 100_000, "not JSON: it is nested too deep")):
        with pytest.raises(ProblemError, match=expected):
            Problem.from_json(text)


def test_a_kernel_without_a_loop_is_no_problem() -> None:
    with pytest.raises(ProblemError, match="has no loop to schedule"):
        bench("layernorm2d", n=1024)


def test_a_loop_without_stages_is_a_problem_whose_schedules_cannot_be_written() -> None:
    found = bench("argsort", n=64)
    assert found.problem.fragments
    for refused in (lambda: found.solve("list"), lambda: found.listed(found.schedule)):
        with pytest.raises(ProblemError, match=r"^argsort_\S+: no schedule can list ck\.\S+ \(\S+:\d+\), which is in"):
            refused()


EDGES = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 20), st.integers(0, 3)), min_size=1, max_size=9
).map(lambda edges: [(a, b, latency, distance if a < b else distance + 1) for a, b, latency, distance in edges])


@settings(max_examples=60, deadline=None)
@given(EDGES)
def test_recurrence_bound_is_that_of_the_slowest_circle(edges: list[tuple[int, int, int, int]]) -> None:
    slowest = 0
    for length in range(1, 6):
        for circle in permutations(range(5), length):
            pairs = list(zip(circle, (*circle[1:], circle[0]), strict=True))
            choices = [[(lat, d) for a, b, lat, d in edges if (a, b) == pair] for pair in pairs]
            totals = [(0, 0)]
            for options in choices:
                totals = [(latency + one, distance + d) for latency, distance in totals for one, d in options]
            slowest = max([slowest, *(-(-latency // distance) for latency, distance in totals)])
    assert recurrence_bound(problem_of_edges(5, edges)) == slowest


def problem_of_loop(inside: str) -> Problem:
    """That of a loop that holds some text."""
    text = f"""
      module attributes {{ck.target = "gfx942"}} {{
        func.func @f(%n: i32, %c: i1, %x: vector<64xf32>) attributes {{ck.waves = 1 : i32}} {{
          scf.for %i = %n to %n step %n : i32 {{ {inside} }}
          return
        }}
      }}"""
    with shared_context():
        module = ir.Module.parse(text)
        return problem_of(loops_of(module)[0])


@pytest.mark.parametrize("branch", ["", "scf.if %c { }"])
def test_a_loop_that_holds_another_is_no_problem(branch: str) -> None:
    inner = "scf.for %j = %n to %n step %n : i32 { }"
    with pytest.raises(ProblemError, match="only innermost loops are scheduling problems"):
        problem_of_loop(branch.replace("{ }", f"{{ {inner} }}") or inner)


def test_a_branch_takes_what_its_dearest_way_takes() -> None:
    """And no less than its cheapest."""
    one, two = (f"%y{n} = arith.{op}f %x, %x : vector<64xf32>" for n, op in enumerate(("add", "mul")))
    found = problem_of_loop(f"scf.if %c {{ {one} }} else {{ {one.replace('y0', 'y2')} {two} }} scf.if %c {{ {two} }}")
    whole, half = found.nodes
    assert (whole.op, whole.unit, whole.busy, half.busy) == ("scf.if", "vector", 2 * half.busy, half.busy)
    assert half.busy > 0 and (whole.least, half.least) == (lower_bounds(problem_of_loop(one)).resource, 0)
    assert not whole.is_fragment and problem_of_loop("scf.if %c { }").nodes[0].busy == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mask", ["none", "top_left"])
def test_a_loop_that_stores_or_adds(mask: str) -> None:
    """Workgroups that stay store a part of dQ, or add to it: one access, which no other runs past, nor ahead."""
    found = bench("fmha_bwd", sq=256, sk=256, mask=mask, deterministic=1, persistent=1)
    (branch,) = [node for node in found.problem.nodes if node.op == "scf.if"]
    assert (branch.stage, branch.unit, branch.ends) == ("dq_out", "memory", 16) and branch.busy > 0
    assert branch.number in found.problem.effects
    assert {edge.kind for edge in found.problem.edges if edge.source == edge.target == branch.number} == {"output"}
    solved = found.solve("list")
    assert found.compile(solved.schedule, code=False).findings == ()


def test_the_problem_under_another_schedule() -> None:
    """Of a loop that lives no longer than it is read."""
    found = bench(m=256, n=256, k=256, block="64x64x32", schedule="compv3")
    same, other = found.problem_under(found.schedule), found.problem_under(replace(found.schedule, buffers=2))
    assert same == found.problem
    assert len(other.nodes) == len(same.nodes) and other != same
