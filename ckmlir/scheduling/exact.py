"""The least interval, by a constraint solver: OR-Tools CP-SAT, an optional dependence (`pip install ckmlir[solve]`).

For intervals from the lower bound on: does any assignment of start times keep all dependences and units? The first
interval that one has is the least, if every shorter one was refuted in time. What keeps an interval keeps a longer one,
so what is refuted refutes all below it. Where time runs out, modulo scheduling's schedule is given if it is
shorter, with how far it may be from the least.
"""

from dataclasses import replace
from typing import Any

from ckmlir.scheduling.bounds import lower_bounds
from ckmlir.scheduling.modulo import ModuloScheduling
from ckmlir.scheduling.problem import Problem
from ckmlir.scheduling.scheduler import SchedulingError, Solution, in_one_step, schedule_of_times

SECONDS = 10.0
"""For each interval; counted in the solver's own deterministic time, so that results do not depend on the machine."""
STAGES = 8
INTERVALS = 16
"""Intervals that are tried, each a sixteenth of the bound longer than the one before."""


class Exact:
    """Bounded search; says how far from the least interval the result may be."""

    seconds = SECONDS

    def solve(self, problem: Problem, seed: int = 0) -> Solution:
        """The first interval with a solution. Raises SchedulingError without the solver, or where modulo scheduling,
        whose schedule is given when time runs out, finds none either.
        """
        try:
            from ortools.sat.python import cp_model
        except ImportError:
            raise SchedulingError("the exact scheduler needs OR-Tools: pip install ortools, or ckmlir[solve]") from None
        bound = max(1, lower_bounds(problem).interval)
        kept, least = in_one_step(problem), bound
        for step in range(INTERVALS):
            interval = bound + step * max(1, bound // INTERVALS)
            times, certain = self._times(cp_model, kept, interval, seed)
            if times is not None:
                found = Solution(schedule_of_times(problem, "exact", times, interval), interval, _gap(interval, least))
                return found if interval <= least else _or_modulo(problem, seed, f"below {interval}", least, found)
            least = interval + 1 if certain else least
        return _or_modulo(problem, seed, f"up to {interval}", least)

    def _times(self, cp: Any, problem: Problem, interval: int, seed: int) -> tuple[dict[int, int] | None, bool]:
        """Start times (None: none found), and whether that there are none is certain."""
        model = cp.CpModel()
        limits = problem.limits
        start, places = [], []
        units: dict[str, list[Any]] = {unit: [] for unit in limits.units}
        for node in problem.nodes:
            cycles = node.busy * (limits.waves if limits.units[node.unit] else limits.waves_per_simd)
            if cycles > interval:
                return None, True
            place = model.new_int_var(0, interval - 1, f"place{node.number}")
            stage = model.new_int_var(0, STAGES, f"stage{node.number}")
            start.append(stage * interval + place)
            places.append(place)
            units[node.unit].append(model.new_fixed_size_interval_var(place, cycles, f"busy{node.number}"))
            # A unit that is held beyond the end of the interval is held from its beginning.
            units[node.unit].append(model.new_fixed_size_interval_var(place - interval, cycles, f"wrap{node.number}"))
        for intervals in units.values():
            model.add_no_overlap(intervals)
        for edge in problem.edges:
            model.add(start[edge.target] >= start[edge.source] + edge.latency - interval * edge.distance)
        model.minimize(sum(start))  # short lifetimes, so few registers
        solver = cp.CpSolver()
        solver.parameters.random_seed = seed
        solver.parameters.num_workers = 1
        solver.parameters.max_deterministic_time = self.seconds
        status = solver.solve(model)
        if status in (cp.OPTIMAL, cp.FEASIBLE):
            return {node.number: int(solver.value(start[node.number])) for node in problem.nodes}, True
        return None, bool(status == cp.INFEASIBLE)


def _or_modulo(problem: Problem, seed: int, tried: str, least: int, found: Solution | None = None) -> Solution:
    """Modulo scheduling's schedule, if it is shorter than what was found, or nothing was in the intervals tried.

    Raises SchedulingError where there is neither.
    """
    try:
        other = ModuloScheduling().solve(problem, seed)
    except SchedulingError:
        if found is None:
            raise
        return found
    assert other.interval is not None, "modulo scheduling has intervals"
    if found is not None and found.interval is not None and found.interval <= other.interval:
        return found
    remark = f"time ran out for every interval {tried}, so this is modulo scheduling's; "
    return Solution(replace(other.schedule, name="exact"), other.interval, remark + _gap(other.interval, least))


def _gap(interval: int, least: int) -> str:
    """How far an interval may be from the least, of which it is known that it is not below `least`."""
    if interval <= least:
        return f"interval {interval}, proved to be the least"
    gap = f"{interval - least} cycles ({100 * (interval - least) / least:.1f} %)"
    return f"interval {interval}, at most {gap} above the least, which is {least} or more"
