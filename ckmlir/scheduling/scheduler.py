"""What a scheduler is and gives back, and what those that work with start times share."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import MOST_AHEAD
from ckmlir.errors import CkmlirError
from ckmlir.scheduling.phases import in_groups
from ckmlir.scheduling.problem import Edge, Problem
from ckmlir.scheduling.steps import Place, schedule_of_places
from ckmlir.scheduling.turns import with_even_turns


class SchedulingError(CkmlirError):
    """A scheduler finds no schedule, or is not for such a problem; the text says why."""


class Solution(Struct, frozen=True):
    """What a scheduler finds.

    Attributes:
        schedule: lists every fragment of the loop, for the problem's groups of waves.
        interval: cycles of a step as far as the scheduler's model knows; None where it has none.
        remark: what else there is to say, e.g. whether the interval is proved to be the least.
    """

    schedule: Schedule
    interval: int | None = None
    remark: str = ""


class Scheduler(Protocol):
    """Solves problems; the same problem and seed give the same solution."""

    def solve(self, problem: Problem, seed: int = 0) -> Solution:
        """A schedule that keeps all dependences, also between the problem's groups of waves.

        Raises:
            SchedulingError: none is found.
            ProblemError: the waves do not form such groups.
        """


def in_one_step(problem: Problem) -> Problem:
    """The problem with the matrix instructions of an iteration kept in one step, so that accumulators stay in place.

    Those that begin a chain of accumulations follow all that end one in the iteration before.
    """
    matrix = {node.number for node in problem.nodes if node.unit == "matrix"}
    steps = [(e.source, e.target) for e in problem.edges if e.distance == 0 and {e.source, e.target} <= matrix]
    chained = {number for number in matrix if problem.nodes[number].carried}
    grown = True
    while grown:
        more = {source for source, target in steps if target in chained} - chained
        chained |= more
        grown = bool(more)
    firsts = sorted(chained - {target for source, target in steps if source in chained})
    lasts = [number for number in sorted(chained) if problem.nodes[number].carried]
    added = [Edge(last, first, "output", problem.nodes[last].issue, 1) for last in lasts for first in firsts]
    return replace(problem, edges=(*problem.edges, *added))


def schedule_of_times(problem: Problem, name: str, times: Mapping[int, int], interval: int) -> Schedule:
    """The schedule of start times in cycles, one for every node: stages are intervals, the place in one the order.

    Raises:
        SchedulingError: effects do not come to lie in the last interval.
    """
    shifted = _with_effects_last(problem, times, interval)
    last = max((shifted[node.number] // interval for node in problem.fragments), default=0)
    listed = sorted(problem.fragments, key=lambda node: (shifted[node.number] % interval, node.number))
    places = [Place(node.stage, node.index, last - shifted[node.number] // interval) for node in listed]
    return in_groups(problem, with_even_turns(problem, schedule_of_places(name, problem.buffers, places)))


def _with_effects_last(problem: Problem, times: Mapping[int, int], interval: int) -> dict[int, int]:
    """Times since a step's begin of which all effects are in the last interval, since they must not run ahead.

    A step begins with the first matrix instruction, or with the first effect where there is none or others end an
    interval behind an effect. Where that does not do, effects wait by whole intervals, for which their unit is free
    too, and so does what follows them.
    """
    moved = dict(times)
    matrix = [node.number for node in problem.nodes if node.unit == "matrix"]
    for first in filter(None, (matrix, problem.effects)):
        start = min(times[number] for number in first)
        moved = {number: time - start for number, time in times.items()}
        if not _early(problem, moved, interval)[0]:
            return moved
    after = dict[int, list[Edge]]()
    for edge in in_one_step(problem).edges:
        after.setdefault(edge.source, []).append(edge)
    for _ in range(MOST_AHEAD):
        early, last = _early(problem, moved, interval)
        if not early:
            return moved
        moved.update({number: moved[number] % interval + last * interval for number in early})
        while early:
            source = early.pop()
            for edge in after.get(source, ()):
                wait = moved[source] + edge.latency - interval * edge.distance - moved[edge.target]
                if wait > 0:
                    moved[edge.target] += -(-wait // interval) * interval
                    early.append(edge.target)
    raise SchedulingError(f"{problem.name}: its effects wait for what waits for them")


def _early(problem: Problem, times: Mapping[int, int], interval: int) -> tuple[list[int], int]:
    """Effects before the last interval that a fragment is in, and the number of that."""
    last = max((times[node.number] // interval for node in problem.fragments), default=0)
    return [number for number in problem.effects if times[number] // interval < last], last
