"""List scheduling: one iteration at a time, the node on the longest way to the end first."""

import random

from ckmlir.scheduling.phases import in_groups
from ckmlir.scheduling.problem import Problem
from ckmlir.scheduling.scheduler import Solution
from ckmlir.scheduling.steps import Place, schedule_of_places


class ListScheduling:
    """Greedy, without running ahead; the seed decides between equals."""

    def solve(self, problem: Problem, seed: int = 0) -> Solution:
        """Start every node as soon as its operands and its unit are there, the most urgent first."""
        chance = random.Random(seed)
        height = heights(problem)
        rank = {node.number: (-height[node.number], chance.random()) for node in problem.nodes}
        before: dict[int, list[tuple[int, int]]] = {node.number: [] for node in problem.nodes}
        for edge in problem.edges:
            if edge.distance == 0:
                before[edge.target].append((edge.source, edge.latency))
        free = dict.fromkeys(problem.limits.units, 0)
        times: dict[int, int] = {}
        limits = problem.limits
        while len(times) < len(problem.nodes):
            able = [n for n in before if n not in times and all(one in times for one, _ in before[n])]
            ready = {n: max([0, *(times[one] + latency for one, latency in before[n])]) for n in able}
            start = {n: max(ready[n], free[problem.nodes[n].unit]) for n in able}
            number = min(able, key=lambda n: (start[n], *rank[n]))
            node = problem.nodes[number]
            times[number] = start[number]
            share = limits.waves if limits.units[node.unit] else limits.waves_per_simd
            free[node.unit] = start[number] + node.busy * share
        listed = sorted(problem.fragments, key=lambda node: (times[node.number], node.number))
        places = [Place(node.stage, node.index) for node in listed]
        end = max((times[node.number] + node.latency for node in problem.nodes), default=0)
        return Solution(in_groups(problem, schedule_of_places("list", problem.buffers, places)), end)


def heights(problem: Problem) -> list[int]:
    """Cycles from the start of each node to the end of the iteration."""
    after: dict[int, list[tuple[int, int]]] = {}
    for edge in problem.edges:
        if edge.distance == 0:
            after.setdefault(edge.source, []).append((edge.target, edge.latency))
    found: dict[int, int] = {}
    for node in _topological(problem, after):
        follow = (found[target] + latency for target, latency in after.get(node, ()))
        found[node] = max([problem.nodes[node].latency, *follow])
    return [found[node.number] for node in problem.nodes]


def _topological(problem: Problem, after: dict[int, list[tuple[int, int]]]) -> list[int]:
    """Nodes behind all that depends on them in one iteration."""
    order: list[int] = []
    state: dict[int, int] = {}
    for node in problem.nodes:
        pending = [node.number]
        while pending:
            number = pending[-1]
            if state.get(number) == 2:
                pending.pop()
                continue
            more = [target for target, _ in after.get(number, ()) if state.get(target) is None]
            state[number] = 1
            if more:
                pending += more
            else:
                state[number] = 2
                order.append(number)
                pending.pop()
    return order
