"""The program's own order, one iteration after the other."""

from ckmlir.scheduling.phases import in_groups
from ckmlir.scheduling.problem import Problem
from ckmlir.scheduling.scheduler import Solution
from ckmlir.scheduling.steps import Place, schedule_of_places


class SourceOrder:
    """Every fragment in its place."""

    def solve(self, problem: Problem, seed: int = 0) -> Solution:
        """The program's order, whatever the seed."""
        places = [Place(node.stage, node.index) for node in problem.fragments]
        return Solution(in_groups(problem, schedule_of_places("source", problem.buffers, places, fenced=False)))
