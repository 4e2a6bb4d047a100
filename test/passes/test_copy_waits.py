"""Waits for copies to LDS: nothing reads or overwrites what a copy in flight fills, on any path, and no wait is too
long; at the end s_endpgm waits itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ckmlir.dialect.context import shared_context
from ckmlir.mlir import ir
from ckmlir.passes.insert_barriers import InsertBarriers

LDS = "!ck.lds<[128], f32>"
PLACE = 'distribution = "d0: 2@wave 64@lane", registers = array<i32: 0>'
DESCRIPTOR = "d0 = embed(offset, lengths=[128], strides=[1]); view(d0)"
WINDOW = f'!ck.window<f32, "global", "{DESCRIPTOR}", [128]>'
TEXT = {
    "copy": f'"ck.copy_fragment"(%w, %t{{tensor}}) {{{{{PLACE}}}}} : ({WINDOW}, {LDS}) -> ()',
    "write": f'"ck.lds_write"(%v, %t{{tensor}}) {{{{{PLACE}}}}} : (vector<1xf32>, {LDS}) -> ()',
    "read": f'"ck.lds_read"(%t{{tensor}}) {{{{{PLACE}}}}} : ({LDS}) -> vector<1xf32>',
}
Event = tuple[str, int]
"""("copy", "write" or "read", tensor), ("wait", copies left or -1 for LDS), or ("barrier", 0)."""


@dataclass(frozen=True)
class Graph:
    """Blocks of events and their successors; the last block returns. Tensors with equal places share bytes."""

    blocks: tuple[tuple[Event, ...], ...]
    successors: tuple[tuple[int, ...], ...]
    places: tuple[int, ...] = (0, 1, 2)

    def protected(self, waves: int) -> Graph:
        """What the pass makes of it."""
        lines = [
            f'%t{number} = "ck.lds_alloc"() {{layout = "lengths 128 order 0 pitch 128", offset = {512 * place} : i64}}'
            f" : () -> {LDS}"
            for number, place in enumerate(self.places)
        ]
        view = f'!ck.view<f32, "global", "{DESCRIPTOR}">'
        lines += [f'%view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> {view}']
        lines += [f'%w = "ck.make_window"(%view, %o) : ({view}, i32) -> {WINDOW}']
        lines += ["%v = vector.broadcast %x : f32 to vector<1xf32>", "cf.br ^b0"]
        for number, (events, successors) in enumerate(zip(self.blocks, self.successors, strict=True)):
            lines.append(f"^b{number}:")
            lines += [TEXT[kind].format(tensor=tensor) for kind, tensor in events]
            first, last = (successors[0], successors[-1]) if successors else (0, 0)
            lines.append(f"cf.cond_br %c, ^b{first}, ^b{last}" if successors else "return")
        body = "\n  ".join(lines)
        head = "func.func @f(%p: !llvm.ptr<1>, %o: i32, %x: f32, %c: i1)"
        module = ir.Module.parse(f"{head} attributes {{ck.waves = {waves} : i32}} {{{body}}}")
        InsertBarriers().apply(module)
        assert module.operation.verify()
        blocks = list(module.body.operations[0].operation.regions[0])
        tensors = [op.operation.results[0] for op in blocks[0] if op.operation.name == "ck.lds_alloc"]
        events = tuple(tuple(event for op in block for event in _events(op.operation, tensors)) for block in blocks[1:])
        return Graph(events, self.successors, self.places)


def _events(op: ir.Operation, tensors: list[ir.Value]) -> list[Event]:
    if op.name == "ck.wait":
        found = [("wait", int(op.attributes["copies"].value))] if "copies" in op.attributes else []
        return [*found, ("wait", -1)] if "lds" in op.attributes else found
    if op.name == "ck.barrier":
        return [("barrier", 0)]
    kind = {"ck.copy_fragment": "copy", "ck.lds_write": "write", "ck.lds_read": "read"}.get(op.name)
    if kind is None:
        return []
    return [(kind, tensors.index(op.operands[0 if kind == "read" else 1]))]


def races(graph: Graph, longest: int = 7) -> bool:
    """Whether on some path something conflicts with what may still be going on, in this wave or another.

    A wave's copies end in their order. Another wave has done what this one has at its last barrier and waited for.
    """

    def conflict(one: Event, two: Event) -> bool:
        shared = graph.places[one[1]] == graph.places[two[1]]
        reads = (one[0], two[0]).count("read")
        return shared and (reads == 1 or (reads == 0 and one[1] != two[1]))

    def walk(block: int, flying: tuple[Event, ...], lds: frozenset[Event], ended: frozenset[Event], left: int) -> bool:
        for event in graph.blocks[block]:
            kind, number = event
            if kind == "wait" and number < 0:
                lds, ended = frozenset(), ended | lds
            elif kind == "wait":
                kept = flying[len(flying) - number :] if number else ()
                flying, ended = kept, ended | set(flying[: len(flying) - len(kept)])
            elif kind == "barrier":
                ended = frozenset()
            else:
                others = {*flying, *lds, *ended}
                if any(conflict(event, other) for other in others):
                    return True
                flying, lds = ((*flying, event), lds) if kind == "copy" else (flying, lds | {event})
        return left > 0 and any(
            walk(successor, flying, lds, ended, left - 1) for successor in dict.fromkeys(graph.successors[block])
        )

    return walk(0, (), frozenset(), frozenset(), longest)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 3))
    event = st.tuples(st.sampled_from(["copy", "copy", "write", "read", "read"]), st.integers(0, 2))
    blocks = tuple(tuple(draw(st.lists(event, max_size=5))) for _ in range(count))
    edges = [tuple(draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=2))) for _ in range(count - 1)]
    reached, pending = {0}, [0]
    while pending:
        for successor in {*([*edges, ()][pending.pop()])} - reached:
            reached.add(successor)
            pending.append(successor)
    assume(len(reached) == count)
    return Graph(blocks, (*edges, ()), draw(st.sampled_from([(0, 1, 2), (0, 0, 1)])))


@settings(max_examples=150)
@given(graphs())
def test_no_path_has_a_race(graph: Graph) -> None:
    with shared_context():
        assert not races(graph.protected(2))


@settings(max_examples=100)
@given(graphs())
@example(Graph(((("copy", 0),), (("write", 0), ("copy", 1)), ()), ((1,), (1, 2), ()), (0, 0, 1)))
def test_no_wait_is_longer_than_needed(graph: Graph) -> None:
    """Leaving one copy more in flight at any wait is a race on some path."""
    with shared_context():
        done = graph.protected(2)
        for number, events in enumerate(done.blocks):
            for place, (kind, copies) in enumerate(events):
                if kind != "wait" or copies < 0:
                    continue
                longer = (*events[:place], ("wait", copies + 1), *events[place + 1 :])
                blocks = (*done.blocks[:number], longer, *done.blocks[number + 1 :])
                assert races(Graph(blocks, done.successors, done.places), longest=9), (number, place)


LOOPS = {
    # copies run one iteration ahead, two tensors of two copies each: the copies of the next iteration stay in flight
    "ahead": (
        Graph(((("copy", 0),) * 2, (("copy", 1), ("copy", 1), ("read", 0), ("copy", 0), ("copy", 0), ("read", 1)), ()),
              ((1,), (1, 2), ())),
        [[], [2, 2], []],
    ),
    "plain": (Graph(((), (("copy", 0), ("read", 0)), ()), ((1,), (1, 2), ())), [[], [0], []]),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_loops_wait_for_what_they_need(context: ir.Context, name: str) -> None:
    graph, expected = LOOPS[name]
    done = graph.protected(2)
    assert not races(done)
    assert [[n for kind, n in events if kind == "wait" and n >= 0] for events in done.blocks] == expected


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_paths_with_different_numbers_of_copies(context: ir.Context, order: tuple[int, int]) -> None:
    """Where paths meet, the one with the fewest later copies says how many may stay in flight."""
    blocks = ((("copy", 0),), (("copy", 1), ("copy", 1)), (("copy", 1),), (("read", 0),))
    done = Graph(blocks, (order, (3,), (3,), ())).protected(2)
    assert done.blocks[3][0] == ("wait", 1)
    assert not races(done)


@settings(max_examples=50)
@given(graphs())
def test_one_wave_waits_where_it_copies(graph: Graph) -> None:
    """Copies and other accesses of one wave do not complete in order; where there are none, the order is enough."""
    copies = any(kind == "copy" for events in graph.blocks for kind, _ in events)
    with shared_context():
        one, two = graph.protected(1), graph.protected(2)
    if copies:
        assert one == two
    else:
        assert one.blocks == tuple(tuple(event for event in events if event[0] != "wait") for events in two.blocks)


STAGED = """
func.func @f(%p: !llvm.ptr<1>, %o: i32) attributes {{ck.waves = 2 : i32}} {{
  %a = "ck.lds_alloc"() {{layout = "lengths 128 order 0 pitch 128", offset = 0 : i64}} : () -> {lds}
  %b = "ck.lds_alloc"() {{layout = "lengths 128 order 0 pitch 128", offset = 512 : i64}} : () -> {lds}
  %view = "ck.make_view"(%p) : (!llvm.ptr<1>) -> !ck.view<f32, "global", "{descriptor}">
  %w = "ck.make_window"(%view, %o) : (!ck.view<f32, "global", "{descriptor}">, i32) -> {window}
  "ck.copy_fragment"(%w, %a) {{{place}}} : ({window}, {lds}) -> ()
  "ck.copy_fragment"(%w, %b) {{{place}}} : ({window}, {lds}) -> ()
  "ck.lds_read"(%a) {{{place}, ck.stage = "{first}"}} : ({lds}) -> vector<1xf32>
  "ck.lds_read"(%b) {{{place}, ck.stage = "{second}"}} : ({lds}) -> vector<1xf32>
  return
}}
"""


@pytest.mark.parametrize(("second", "waits"), [("math", [0]), ("later", [1, 0])])
def test_readers_of_one_stage_wait_together(context: ir.Context, second: str, waits: list[int]) -> None:
    """One barrier for the operands of a product; the operand of a later product stays in flight."""
    keys = {"lds": LDS, "window": WINDOW, "place": PLACE, "descriptor": DESCRIPTOR}
    module = ir.Module.parse(STAGED.format(first="math", second=second, **keys))
    InsertBarriers().apply(module)
    assert [int(n) for n in re.findall(r"copies = (\d+)", str(module))] == waits
    assert str(module).count('"ck.barrier"') == len(waits)
