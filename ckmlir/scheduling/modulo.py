"""Iterative modulo scheduling (Rau, 1994): iterations overlap, a new one starts every interval.

For each interval from the lower bound on, nodes are placed by their height, each at the first cycle at which its unit
is free modulo the interval; where there is none, what is in the way gives place and is scheduled again, until a budget
of attempts is spent.
"""

import contextlib
import random

from ckmlir.scheduling.bounds import lower_bounds
from ckmlir.scheduling.list_scheduling import heights
from ckmlir.scheduling.problem import Problem
from ckmlir.scheduling.reservation import Reservations
from ckmlir.scheduling.scheduler import SchedulingError, Solution, in_one_step, schedule_of_times

ATTEMPTS = 12
"""Placements that a node may cost on average before a longer interval is tried."""
STEPS = 24
"""Intervals that are tried, each an eighth of the bound longer than the one before."""


class ModuloScheduling:
    """Overlaps iterations; the seed decides between equals."""

    def solve(self, problem: Problem, seed: int = 0) -> Solution:
        """The first interval for which all nodes find a place."""
        bound = max(1, lower_bounds(problem).interval)
        kept = in_one_step(problem)
        for step in range(STEPS):
            interval = bound + step * max(1, bound // 8)
            times = place_nodes(kept, interval, seed)
            if times is None:
                continue
            with contextlib.suppress(SchedulingError):  # effects that do not wait for all: a longer interval may do
                schedule = schedule_of_times(problem, "modulo", times, interval)
                return Solution(schedule, interval, f"lower bound {bound}")
        raise SchedulingError(f"no modulo schedule of {problem.name} with an interval of up to {interval} cycles")


def place_nodes(problem: Problem, interval: int, seed: int) -> dict[int, int] | None:
    """Start times that keep all edges and units at an interval; None where the attempts do not suffice."""
    chance = random.Random(seed)
    height = heights(problem)
    rank = {node.number: (-height[node.number], chance.random()) for node in problem.nodes}
    before: dict[int, list[tuple[int, int, int]]] = {node.number: [] for node in problem.nodes}
    after: dict[int, list[tuple[int, int, int]]] = {node.number: [] for node in problem.nodes}
    for edge in problem.edges:
        before[edge.target].append((edge.source, edge.latency, edge.distance))
        after[edge.source].append((edge.target, edge.latency, edge.distance))
    units = Reservations(problem, interval)
    if any(units.cycles(node) > interval for node in problem.nodes):
        return None
    times: dict[int, int] = {}
    last: dict[int, int] = {}
    budget = ATTEMPTS * len(problem.nodes)
    while len(times) < len(problem.nodes):
        budget -= 1
        if budget < 0:
            return None
        number = min((n for n in before if n not in times), key=lambda n: rank[n])
        node = problem.nodes[number]
        known = ((one, latency, distance) for one, latency, distance in before[number] if one in times)
        early = max([0, *(times[one] + latency - interval * distance for one, latency, distance in known)])
        time = units.first_free(node, early)
        if time is None:
            time = max(early, last.get(number, -1) + 1)
            for other in units.holders(node, time):
                units.remove(problem.nodes[other], times.pop(other))
        times[number] = last[number] = time
        units.place(node, time)
        for target, latency, distance in after[number]:
            if target != number and target in times and times[target] < time + latency - interval * distance:
                units.remove(problem.nodes[target], times.pop(target))
    return times
