"""Barriers: no race on any path, and none that could be left out, by trying paths one by one."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ckmlir.dialect.context import shared_context
from ckmlir.mlir import ir
from ckmlir.passes.framework import PassFailure
from ckmlir.passes.insert_barriers import InsertBarriers

THREAD = 'distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>'
LDS = "!ck.lds<[128], f32>"
WAIT, BARRIER = ("wait", -1), ("barrier", -1)
Event = tuple[str, int]
"""("write" or "read", tensor), WAIT or BARRIER."""


@dataclass(frozen=True)
class Graph:
    """Blocks of events and their successors; the last block returns.

    Tensors with equal numbers in `shares` share bytes.
    """

    blocks: tuple[tuple[Event, ...], ...]
    successors: tuple[tuple[int, ...], ...]
    shares: tuple[int, ...] = (0, 1, 2)

    def module(self, waves: int = 2) -> ir.Module:
        layout = 'layout = "lengths 128 order 0 pitch 128"'
        lines = [
            f'%t{number} = "ck.lds_alloc"() {{{layout}, offset = {512 * place} : i64}} : () -> {LDS}'
            for number, place in enumerate(self.shares)
        ]
        lines += ["%v = vector.broadcast %x : f32 to vector<1xf32>", "cf.br ^b0"]
        for number, (events, successors) in enumerate(zip(self.blocks, self.successors, strict=True)):
            lines.append(f"^b{number}:")
            lines += [TEXT[kind].format(tensor=tensor) for kind, tensor in events]
            if not successors:
                lines.append("return")
            elif len(set(successors)) == 1:
                lines.append(f"cf.br ^b{successors[0]}")
            else:
                lines.append(f"cf.cond_br %c, ^b{successors[0]}, ^b{successors[1]}")
        body = "\n  ".join(lines)
        return ir.Module.parse(
            f"func.func @f(%x: f32, %c: i1) attributes {{ck.waves = {waves} : i32}} {{\n  {body}\n}}"
        )

    def protected(self, waves: int = 2) -> Graph:
        """What the pass makes of it."""
        module = self.module(waves)
        InsertBarriers().apply(module)
        assert module.operation.verify()
        return self.read_back(module)

    def read_back(self, module: ir.Module) -> Graph:
        function = module.body.operations[0].operation
        blocks = list(function.regions[0])
        tensors = [op.operation.results[0] for op in blocks[0] if op.operation.name == "ck.lds_alloc"]
        return Graph(tuple(tuple(_events(block, tensors)) for block in blocks[1:]), self.successors, self.shares)


TEXT = {
    "write": f'"ck.lds_write"(%v, %t{{tensor}}) {{{{{THREAD}}}}} : (vector<1xf32>, {LDS}) -> ()',
    "read": f'"ck.lds_read"(%t{{tensor}}) {{{{{THREAD}}}}} : ({LDS}) -> vector<1xf32>',
    "wait": '"ck.wait"() {{lds = 0 : i64}} : () -> ()',
    "barrier": '"ck.barrier"() : () -> ()',
}


def _events(block: ir.Block, tensors: list[ir.Value]) -> list[Event]:
    events = []
    for op in (op.operation for op in block):
        if op.name == "ck.lds_write":
            events.append(("write", tensors.index(op.operands[1])))
        elif op.name == "ck.lds_read":
            events.append(("read", tensors.index(op.operands[0])))
        elif op.name == "ck.wait":
            events.append(WAIT)
        elif op.name == "ck.barrier":
            events.append(BARRIER)
    return events


def races(graph: Graph, longest: int = 8) -> list[list[Event]]:
    """Paths on which another wave may still be at an access that the last one conflicts with.

    An access of another wave is over after that wave has waited for it and then come to a barrier.
    """
    found: list[list[Event]] = []

    def conflict(one: Event, two: Event) -> bool:
        same = one[1] == two[1]
        shared = graph.shares[one[1]] == graph.shares[two[1]]
        return shared and "write" in (one[0], two[0]) and not (same and one[0] == two[0])

    def walk(block: int, open_: frozenset[Event], waited: frozenset[Event], path: list[Event], left: int) -> None:
        for event in graph.blocks[block]:
            path = [*path, event]
            if event == WAIT:
                open_, waited = frozenset(), waited | open_
            elif event == BARRIER:
                waited = frozenset()
            else:
                if any(conflict(event, other) for other in open_ | waited):
                    found.append(path)
                    return
                open_ = open_ | {event}
        if left:
            for successor in dict.fromkeys(graph.successors[block]):
                walk(successor, open_, waited, path, left - 1)

    walk(0, frozenset(), frozenset(), [], longest)
    return found


def without(graph: Graph, block: int, position: int) -> Graph:
    """The graph without one barrier and the wait before it."""
    events = graph.blocks[block]
    start = position - 1 if position and events[position - 1] == WAIT else position
    shorter = events[:start] + events[position + 1 :]
    return Graph((*graph.blocks[:block], shorter, *graph.blocks[block + 1 :]), graph.successors, graph.shares)


def barriers(graph: Graph) -> list[tuple[int, int]]:
    return [
        (block, position)
        for block, events in enumerate(graph.blocks)
        for position, event in enumerate(events)
        if event == BARRIER
    ]


def reachable(graph: Graph) -> set[int]:
    found, pending = {0}, [0]
    while pending:
        for successor in set(graph.successors[pending.pop()]) - found:
            found.add(successor)
            pending.append(successor)
    return found


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 4))
    event = st.tuples(st.sampled_from(["write", "read", "read"]), st.integers(0, 2)) | st.sampled_from([WAIT, BARRIER])
    weights = [st.tuples(st.sampled_from(["write", "read"]), st.integers(0, 2))] * 3 + [event]
    blocks = tuple(tuple(draw(st.lists(st.one_of(weights), max_size=4))) for _ in range(count))
    edges = [tuple(draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=2))) for _ in range(count - 1)]
    graph = Graph(blocks, (*edges, ()), draw(st.sampled_from([(0, 1, 2), (0, 0, 1), (0, 0, 0)])))
    assume(len(reachable(graph)) == count)
    return graph


@settings(max_examples=200)
@given(graphs())
def test_no_path_has_a_race(graph: Graph) -> None:
    with shared_context():
        assert not races(graph.protected())


@settings(max_examples=100)
@given(graphs())
def test_a_second_run_adds_nothing(graph: Graph) -> None:
    with shared_context():
        module = graph.module()
        InsertBarriers().apply(module)
        once = str(module)
        InsertBarriers().apply(module)
        assert str(module) == once


@settings(max_examples=100)
@given(graphs())
def test_one_wave_has_the_order_and_no_waits(graph: Graph) -> None:
    with shared_context():
        waves = [graph.module(waves=count) for count in (1, 2)]
        for module in waves:
            InsertBarriers().apply(module)
        one, two = (graph.read_back(module) for module in waves)
        given_waits = sum(events.count(WAIT) for events in graph.blocks)
        assert sum(events.count(WAIT) for events in one.blocks) == given_waits
        assert len(barriers(one)) == len(barriers(two))


LOADED = ("write", 0), ("write", 1)
LOOPS = {
    # one LDS buffer: two barriers a step
    "single": Graph(((), (("write", 0), ("read", 0)), ()), ((1,), (1, 2), ())),
    # two buffers, unrolled: one barrier a step
    "double": Graph(
        ((("write", 0),), (("read", 0), ("write", 1), ("read", 1), ("write", 0)), ()), ((1,), (1, 2), ()), (0, 1, 2)
    ),
    # A and B in two buffers each would be four tensors; three here, of which two rotate
    "triple": Graph(
        (
            (("write", 0), ("write", 1)),
            (("read", 0), ("write", 2), ("read", 1), ("write", 0), ("read", 2), ("write", 1)),
            (),
        ),
        ((1,), (1, 2), ()),
    ),
    # the epilogue's tensor has the bytes of the loop's
    "epilogue": Graph(((), (("write", 0), ("read", 0)), (("write", 1), ("read", 1))), ((1,), (1, 2), ()), (0, 0, 1)),
}


@pytest.mark.parametrize(("name", "count"), [("single", 2), ("double", 2), ("triple", 2), ("epilogue", 4)])
def test_loops_get_as_few_barriers_as_they_need(context: ir.Context, name: str, count: int) -> None:
    graph = LOOPS[name].protected()
    assert not races(graph)
    assert len(barriers(graph)) == count
    for place in barriers(graph):
        assert races(without(graph, *place)), f"the barrier at {place} could be left out"


def test_a_barrier_that_the_back_edge_asks_for_makes_a_later_one_needless(context: ir.Context) -> None:
    """Read of 1 after the write of 1 around the loop: that barrier also parts the read of 0 from the write of 0."""
    loop = ((), (("read", 0), ("read", 1), ("write", 0)), (("read", 0), ("write", 1)), ())
    graph = Graph(loop, ((1,), (2,), (1, 3), ())).protected()
    assert graph.blocks[1] == (("read", 0), WAIT, BARRIER, ("read", 1), ("write", 0))


@settings(max_examples=100)
@given(graphs())
def test_none_can_be_left_out(graph: Graph) -> None:
    with shared_context():
        before, after = graph, graph.protected()
        own = [sum(event == BARRIER for event in events) for events in before.blocks]
        for block, position in barriers(after):
            if not own[block]:
                assert races(without(after, block, position)), f"the barrier at {block}, {position} is needless"


def test_a_wait_comes_before_each_barrier(context: ir.Context) -> None:
    for graph in LOOPS.values():
        done = graph.protected()
        for block, position in barriers(done):
            assert done.blocks[block][position - 1] == WAIT


def test_a_barrier_without_a_wait_gets_one(context: ir.Context) -> None:
    graph = Graph(((("write", 0), BARRIER, ("read", 0)),), ((),)).protected()
    assert graph.blocks == ((("write", 0), WAIT, BARRIER, ("read", 0)),)


def test_barriers_that_are_there_serve(context: ir.Context) -> None:
    events = (("write", 0), WAIT, BARRIER, ("read", 0))
    assert Graph((events,), ((),)).protected().blocks == (events,)


def test_reads_of_one_tensor_and_writes_of_its_fragments_need_none(context: ir.Context) -> None:
    events = (("write", 0), ("write", 0), WAIT, BARRIER, ("read", 0), ("read", 0))
    assert Graph((events,), ((),)).protected().blocks == (events,)


def test_tensors_without_an_offset_are_refused(context: ir.Context) -> None:
    text = re.sub(r", offset = \d+", "", str(LOOPS["single"].module()))
    with pytest.raises(PassFailure, match="has no offset; run ck-allocate-lds before ck-insert-barriers"):
        InsertBarriers().apply(ir.Module.parse(text))


def test_loops_must_be_expanded_before(context: ir.Context) -> None:
    text = "func.func @f(%n: i32) attributes {ck.waves = 2 : i32} { scf.for %i = %n to %n step %n : i32 {} return }"
    with pytest.raises(PassFailure, match="holds loops of stages; run ck-pipeline-loops before ck-insert-barriers"):
        InsertBarriers().apply(ir.Module.parse(text))
