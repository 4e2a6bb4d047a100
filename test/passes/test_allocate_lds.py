"""LDS tensors share bytes exactly when they may, by random control-flow graphs against paths tried one by one."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.diagnostics import Diagnostic
from ckmlir.dialect.context import shared_context
from ckmlir.mlir import ir
from ckmlir.passes.allocate_lds import AllocateLds
from ckmlir.passes.framework import PassFailure
from ckmlir.passes.lds_liveness import interferences
from ckmlir.passes.walk import blocks_of, functions, operations

THREAD = 'distribution = "d0: 64@lane", registers = array<i32: 0>'
Event = tuple[str, int]
"""("begin" or "write" or "read", number of the tensor): a write that begins a value, or adds to it."""


@dataclass(frozen=True)
class Graph:
    """Blocks of events, and for each block its one or two successors; the last block returns."""

    sizes: tuple[int, ...]
    blocks: tuple[tuple[Event, ...], ...]
    successors: tuple[tuple[int, ...], ...]

    def module(self, chip: str = "gfx942") -> ir.Module:
        """Tensors of 256 bytes times their size, each access of one wave."""
        lines = []
        for number, size in enumerate(self.sizes):
            layout = f'layout = "lengths {64 * size} order 0 pitch {64 * size}", name = "t{number}"'
            lines.append(f'%t{number} = "ck.lds_alloc"() {{{layout}}} : () -> !ck.lds<[{64 * size}], f32>')
        lines.append("%v = vector.broadcast %x : f32 to vector<1xf32>")
        lines.append("cf.br ^b0")
        for number, (events, successors) in enumerate(zip(self.blocks, self.successors, strict=True)):
            lines.append(f"^b{number}:")
            for kind, tensor in events:
                type_ = f"!ck.lds<[{64 * self.sizes[tensor]}], f32>"
                thread = (
                    THREAD if self.sizes[tensor] == 1 else THREAD.replace("64@lane", f"{self.sizes[tensor]}@y0 64@lane")
                )
                if kind != "read":
                    attributes = f"begins, {thread}" if kind == "begin" else thread
                    lines.append(f'"ck.lds_write"(%v, %t{tensor}) {{{attributes}}} : (vector<1xf32>, {type_}) -> ()')
                else:
                    lines.append(f'"ck.lds_read"(%t{tensor}) {{{thread}}} : ({type_}) -> vector<1xf32>')
            if not successors:
                lines.append("return")
            elif len(set(successors)) == 1:
                lines.append(f"cf.br ^b{successors[0]}")
            else:
                lines.append(f"cf.cond_br %c, ^b{successors[0]}, ^b{successors[1]}")
        body = "\n  ".join(lines)
        head = "func.func @f(%x: f32, %c: i1) attributes {ck.waves = 1 : i32} {"
        return ir.Module.parse(f'module attributes {{ck.target = "{chip}"}} {{ {head}\n  {body}\n}} }}')


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    sizes = tuple(draw(st.lists(st.sampled_from([1, 2, 4]), min_size=2, max_size=4)))
    count = draw(st.integers(1, 4))
    event = st.tuples(st.sampled_from(["begin", "write", "read"]), st.integers(0, len(sizes) - 1))
    blocks = tuple(tuple(draw(st.lists(event, max_size=4))) for _ in range(count))
    edges = [tuple(draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=2))) for _ in range(count - 1)]
    return Graph(sizes, blocks, (*edges, ()))


def paths(graph: Graph, longest: int = 9) -> list[list[Event]]:
    """The events along every path of up to so many blocks from the entry."""
    found: list[list[Event]] = []

    def walk(block: int, events: list[Event], left: int) -> None:
        events = [*events, *graph.blocks[block]]
        if not left or not graph.successors[block]:
            found.append(events)
            return
        for successor in dict.fromkeys(graph.successors[block]):
            walk(successor, events, left - 1)

    walk(0, [], longest)
    return found


def clashes(graph: Graph) -> set[frozenset[int]]:
    """Pairs of tensors of which one is written while the other, written before, is still to be read."""
    pairs: set[frozenset[int]] = set()
    for events in paths(graph):
        for at, (kind, tensor) in enumerate(events):
            if kind == "read":
                continue
            for other in range(len(graph.sizes)):
                before = any(one == other and does != "read" for does, one in events[:at])
                next_use = next((does for does, one in events[at:] if one == other and does != "write"), "none")
                if other != tensor and before and next_use == "read":
                    pairs.add(frozenset((tensor, other)))
    return pairs


def placed(graph: Graph) -> list[range]:
    """The bytes that every tensor gets."""
    module = graph.module()
    AllocateLds().apply(module)
    assert module.operation.verify()
    text = str(module)
    offsets = {int(name): int(offset) for name, offset in re.findall(r'name = "t(\d+)", offset = (\d+)', text)}
    total = int(re.search(r"ck.lds_bytes = (\d+)", text)[1])  # type: ignore[index]
    ranges = [range(offsets[number], offsets[number] + 256 * size) for number, size in enumerate(graph.sizes)]
    assert total == max(one.stop for one in ranges) and all(one.start % 16 == 0 for one in ranges)
    return ranges


@settings(max_examples=150)
@given(graphs())
def test_tensors_that_are_live_together_never_overlap(graph: Graph) -> None:
    with shared_context():
        ranges = placed(graph)
        found = clashes(graph)
        for pair in found:
            one, two = (ranges[number] for number in pair)
            assert one.stop <= two.start or two.stop <= one.start
        assert found <= live_together(graph)


def live_together(graph: Graph) -> set[frozenset[int]]:
    """The pairs that must not share bytes, whatever room there is."""
    module = graph.module()
    function = next(functions(module))
    tensors = [op.results[0] for op in operations(function) if op.name == "ck.lds_alloc"]
    together, apart = interferences(function, blocks_of(function), tensors)
    assert all(others <= apart[tensor] for tensor, others in together.items())
    return {
        frozenset((tensors.index(tensor), tensors.index(other))) for tensor in tensors for other in together[tensor]
    }


def test_a_value_that_begins_ends_the_one_before(context: ir.Context) -> None:
    """Round a loop nothing of t0 is left; without the word it might be."""
    for kind, expected in (("begin", set()), ("write", {frozenset((0, 1))})):
        events = ((kind, 0), ("read", 0)), (("begin", 1), ("read", 1)), ()
        assert live_together(Graph((1, 1), events, ((1,), (0, 2), ()))) == expected


def straight(*events: Event, sizes: tuple[int, ...]) -> Graph:
    return Graph(sizes, (events,), ((),))


def test_tensors_used_one_after_the_other_share_bytes(context: ir.Context) -> None:
    graph = straight(("write", 0), ("read", 0), ("write", 1), ("read", 1), sizes=(2, 4))
    assert placed(graph) == [range(512), range(1024)]


def test_tensors_used_at_once_do_not(context: ir.Context) -> None:
    graph = straight(("write", 0), ("write", 1), ("read", 0), ("read", 1), sizes=(2, 4))
    assert placed(graph) == [range(1024, 1536), range(1024)]


def test_a_third_tensor_fills_the_gap_that_fits(context: ir.Context) -> None:
    """t2 lives with t1 only, so it takes the bytes of t0."""
    events = (("write", 0), ("write", 1), ("read", 0), ("write", 2), ("read", 2), ("read", 1))
    assert placed(straight(*events, sizes=(2, 4, 1))) == [range(1024, 1536), range(1024), range(1024, 1280)]


def test_what_a_loop_reads_lives_through_all_of_it(context: ir.Context) -> None:
    """t0 is written before the loop and read in it: t1, which the loop writes after the read, cannot have its bytes."""
    graph = Graph((1, 1), ((("write", 0),), (("read", 0), ("write", 1), ("read", 1)), ()), ((1,), (1, 2), ()))
    one, two = placed(graph)
    assert one != two


def test_tensors_of_different_branches_share_bytes(context: ir.Context) -> None:
    branches = ((), (("write", 0), ("read", 0)), (("write", 1), ("read", 1)), ())
    assert placed(Graph((1, 1), branches, ((1, 2), (3,), (3,), ()))) == [range(256), range(256)]


def test_too_much_is_refused_and_names_the_tensors(context: ir.Context) -> None:
    graph = straight(("write", 0), ("write", 1), ("read", 0), ("read", 1), sizes=(256, 4))
    with pytest.raises(PassFailure) as caught:
        AllocateLds().apply(graph.module("gfx942"))
    found: Diagnostic = caught.value.diagnostic
    assert found.message == (
        "needs 66560 bytes of LDS, gfx942 has 65536; a block whose tensors have half of their elements would take 33280"
    )
    assert [note.message for note in found.notes] == ["'t0' takes 65536 bytes at 0", "'t1' takes 1024 bytes at 65536"]
    AllocateLds().apply(graph.module("gfx950"))


def test_a_tensor_without_a_name_can_be_refused_too(context: ir.Context) -> None:
    module = straight(("write", 0), ("read", 0), sizes=(512,)).module()
    text = str(module).replace(', name = "t0"', "")
    with pytest.raises(PassFailure, match="needs 131072 bytes of LDS"):
        AllocateLds().apply(ir.Module.parse(text))


def test_loops_must_be_expanded_before(context: ir.Context) -> None:
    text = "func.func @f(%n: i32) attributes {ck.waves = 1 : i32} { scf.for %i = %n to %n step %n : i32 {} return }"
    with pytest.raises(PassFailure, match="holds loops of stages; run ck-pipeline-loops before ck-allocate-lds"):
        AllocateLds().apply(ir.Module.parse(f'module attributes {{ck.target = "gfx942"}} {{ {text} }}'))


def test_a_kernel_for_no_chip_is_refused(context: ir.Context) -> None:
    text = str(straight(("write", 0), sizes=(1,)).module()).replace(' attributes {ck.target = "gfx942"}', "")
    with pytest.raises(PassFailure, match="no chip is named"):
        AllocateLds().apply(ir.Module.parse(text))
    with pytest.raises(PassFailure, match="gfx1100"):
        AllocateLds().apply(straight(("write", 0), sizes=(1,)).module("gfx1100"))
