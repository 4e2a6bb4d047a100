"""When units are busy, modulo the interval of a step."""

from ckmlir.scheduling.problem import Node, Problem


class Reservations:
    """For every unit the node that holds it in each cycle of the interval."""

    def __init__(self, problem: Problem, interval: int) -> None:
        self.problem = problem
        self.interval = interval
        self.held: dict[str, list[int | None]] = {unit: [None] * interval for unit in problem.limits.units}

    def cycles(self, node: Node) -> int:
        """Cycles that a unit is busy with a node of all waves that share it."""
        limits = self.problem.limits
        return node.busy * (limits.waves if limits.units[node.unit] else limits.waves_per_simd)

    def holders(self, node: Node, time: int) -> set[int]:
        """The nodes that are in the way of one that starts at a time."""
        held = self.held[node.unit]
        cycles = (held[cycle % self.interval] for cycle in range(time, time + self.cycles(node)))
        return {number for number in cycles if number is not None}

    def first_free(self, node: Node, early: int) -> int | None:
        """The first time from `early` on at which a node's unit is free for it, within one interval; None: never."""
        held, length = self.held[node.unit], self.cycles(node)
        time = early
        while time < early + self.interval:
            cycles = range(time + length - 1, time - 1, -1)
            last = next((cycle for cycle in cycles if held[cycle % self.interval] is not None), None)
            if last is None:
                return time
            time = last + 1
        return None

    def place(self, node: Node, time: int) -> None:
        """Hold the unit for a node."""
        for cycle in range(time, time + self.cycles(node)):
            self.held[node.unit][cycle % self.interval] = node.number

    def remove(self, node: Node, time: int) -> None:
        """Give up what a node held."""
        held = self.held[node.unit]
        for cycle in range(time, time + self.cycles(node)):
            if held[cycle % self.interval] == node.number:
                held[cycle % self.interval] = None
