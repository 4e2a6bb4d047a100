"""Blocks of a kernel as a graph: loops, what every way passes, where a turn of an outer loop begins and goes on."""

from __future__ import annotations

import pytest

from ckmlir.mlir import ir
from ckmlir.passes.flow import Flow

NESTED = """
func.func @f(%c: i1) {
  cf.br ^bb1
^bb1:  // decides whether there is a turn
  cf.cond_br %c, ^bb2, ^bb8
^bb2:
  cf.cond_br %c, ^bb3, ^bb5
^bb3:  // a loop of one block, which a turn may leave out
  cf.cond_br %c, ^bb3, ^bb4
^bb4:  // only behind that
  cf.br ^bb5
^bb5:
  cf.br ^bb6
^bb6:  // another loop, of two blocks
  cf.cond_br %c, ^bb7, ^bb9
^bb7:
  cf.br ^bb6
^bb8:
  return
^bb9:
  cf.br ^bb1
}
"""


@pytest.fixture
def flow(context: ir.Context) -> Flow:
    return flow_of(NESTED)


def flow_of(text: str) -> Flow:
    """That of the one function of a module."""
    module = ir.Module.parse(text)
    return Flow(list(module.body.operations[0].operation.regions[0]))


def test_loops_are_those_blocks_that_lead_back(flow: Flow) -> None:
    """Also where blocks do not stand in the order in which they run."""
    inside = [(one.begin, sorted(one.places), sorted(one.ends)) for one in flow.loops]
    assert inside == [(1, [1, 2, 3, 4, 5, 6, 7, 9], [9]), (3, [3], [3]), (6, [6, 7], [7])]
    assert [one.begin for one in flow.innermost] == [3, 6]
    assert [one.begin for one in flow.outermost] == [1]
    assert flow.inside(flow.outermost[0]) == {3, 6, 7}


def test_every_way_passes_some_blocks(flow: Flow) -> None:
    assert flow.dominators[5] == {0, 1, 2, 5}
    assert flow.dominators[9] == {0, 1, 2, 5, 6, 9}
    assert [flow.depth(place) for place in (0, 1, 8)] == [1, 2, 3]


def test_the_last_block_before_some(flow: Flow) -> None:
    """It may be one of them; what leads on without passing it is found too."""
    assert flow.last_before([3, 5]) == 2
    assert flow.last_before([8, 9]) == 1
    assert flow.last_before([2, 5]) == 2
    assert flow.reaching([5], 2) == {2, 3, 4, 5}


def test_where_turns_begin_and_go_on(flow: Flow) -> None:
    """Behind a loop that may be left out where both ways meet; never in another loop."""
    (turns,), (first, second) = flow.outermost, flow.innermost
    assert flow.entry(turns) == 2
    assert flow.behind(first, turns) == 5
    assert flow.behind(second, turns) == 9


def test_a_loop_that_ends_with_another_has_nothing_behind_it(context: ir.Context) -> None:
    """Its first block begins a turn, as it decides nothing."""
    text = "func.func @f(%c: i1) { cf.br ^bb1 ^bb1: cf.br ^bb2 ^bb2: cf.cond_br %c, ^bb3, ^bb4 " \
           "^bb3: cf.cond_br %c, ^bb2, ^bb1 ^bb4: return }"
    flow = flow_of(text)
    (turns,), (steady,) = flow.outermost, flow.innermost
    assert (flow.entry(turns), flow.behind(steady, turns)) == (1, None)
