"""A scheduler: everything starts as soon as what it needs is there, and a new iteration every few cycles."""

from ckmlir.scheduling import Problem, SchedulingError, Solution, lower_bounds
from ckmlir.scheduling.scheduler import in_one_step, schedule_of_times


class AsSoonAsPossible:
    """No unit is ever busy for it: dependences alone decide. The seed decides nothing."""

    def solve(self, problem: Problem, seed: int = 0) -> Solution:
        """Start times from the longest ways; an interval at which no node waits for a later iteration of itself."""
        interval = max(1, lower_bounds(problem).interval)
        kept = in_one_step(problem)  # an iteration's matrix instructions: accumulators stay in place
        for _ in range(16):
            times = starts(kept, interval)
            if times is not None:
                schedule = schedule_of_times(problem, "as_soon_as_possible", times, interval)
                return Solution(schedule, interval, "dependences alone")
            interval += interval // 4 + 1
        raise SchedulingError(f"{problem.name}: no interval up to {interval} cycles suits all dependences")


def starts(problem: Problem, interval: int) -> dict[int, int] | None:
    """The earliest start of every node; None where dependences round the loop take longer than the interval."""
    times = {node.number: 0 for node in problem.nodes}
    for _ in problem.nodes:
        changed = False
        for edge in problem.edges:
            # What is `distance` iterations later starts that many intervals later anyway.
            earliest = times[edge.source] + edge.latency - interval * edge.distance
            if times[edge.target] < earliest:
                times[edge.target], changed = earliest, True
        if not changed:
            return times
    return None
