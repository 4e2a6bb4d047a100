"""Lower bounds on the cycles of one step of a loop, whatever the schedule and the backend do.

They are of one workgroup that has the compute unit to itself: others that are resident use the same units, so that a
step of each takes longer, never less. The cycles are those of the chips' tables (`targets/timing.py`), which the model
of time has too: transcendentals at each chip's rate, LDS and L1 by bytes a cycle, arithmetic packed wherever it can be.
By the model no schedule takes less than its bound; a test holds that for all named ones.
"""

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.scheduling.problem import Node, Problem


class Bounds(Struct, frozen=True):
    """Cycles that one step takes at least.

    Attributes:
        resource: because of the busiest unit, `unit`, which all waves that share it must use in turn.
        recurrence: because of dependences round the loop.
        by_unit: cycles that each unit is busy.
    """

    resource: int
    unit: str
    recurrence: int
    by_unit: dict[str, int]

    @property
    def interval(self) -> int:
        """The larger: no step can be shorter."""
        return max(self.resource, self.recurrence)


def lower_bounds(problem: Problem) -> Bounds:
    """The bounds of a problem."""
    limits = problem.limits
    busy = {
        unit: sum(_least(node) for node in problem.nodes if node.unit == unit)
        * (limits.waves if shared else limits.waves_per_simd)
        for unit, shared in limits.units.items()
    }
    unit = max(busy, key=lambda name: busy[name])
    return Bounds(busy[unit], unit, recurrence_bound(_at_least(problem)), busy)


def _least(node: Node) -> int:
    return node.busy if node.least is None else node.least


def _at_least(problem: Problem) -> Problem:
    """The problem with latencies that no backend can do without."""
    edges = tuple(
        edge if (least := problem.nodes[edge.source].least) is None
        else replace(edge, latency=min(edge.latency, least))
        for edge in problem.edges
    )  # fmt: skip
    return replace(problem, edges=edges)


def recurrence_bound(problem: Problem) -> int:
    """The least interval at which no dependence circle needs more cycles than its iterations have.

    A circle of latency L over distance D needs an interval of L / D; the least whole number that suits all of them is
    found by bisection (Rau, "Iterative modulo scheduling", 1994).
    """
    low, high = 0, max(1, sum(edge.latency for edge in problem.edges))
    while low < high:
        middle = (low + high) // 2
        if _has_positive_circle(problem, middle):
            low = middle + 1
        else:
            high = middle
    return low


def _has_positive_circle(problem: Problem, interval: int) -> bool:
    """Whether times that keep all edges at an interval cannot exist (Bellman and Ford)."""
    times = [0] * len(problem.nodes)
    for _ in range(len(problem.nodes)):
        changed = False
        for edge in problem.edges:
            wanted = times[edge.source] + edge.latency - interval * edge.distance
            if wanted > times[edge.target]:
                times[edge.target] = wanted
                changed = True
        if not changed:
            return False
    return True
