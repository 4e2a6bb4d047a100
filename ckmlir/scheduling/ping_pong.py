"""Two groups of waves that take turns: while one multiplies, the other moves data.

The step has two halves, memory accesses for later and matrix instructions, and the schedule asks for two groups of
waves half a step apart. Matrix instructions have priority, so that the group that moves data does not delay them.
Source: CK Tile, the 8-wave pipelines with two barriers a half (pipeline/gemm_pipeline_ag_bg_cr_comp_v5.hpp).
"""

from dataclasses import replace

from ckmlir.scheduling.graph import broken_links, links_between_fragments
from ckmlir.scheduling.modulo import ModuloScheduling
from ckmlir.scheduling.problem import Problem
from ckmlir.scheduling.scheduler import SchedulingError, Solution
from ckmlir.scheduling.steps import places_of, schedule_of_places
from ckmlir.scheduling.turns import with_even_turns


class PingPong:
    """Eight waves in two groups."""

    def solve(self, problem: Problem, seed: int = 0) -> Solution:
        """Memory first, then matrix instructions; refused for waves that have no partner on their SIMD."""
        if problem.limits.waves_per_simd != 2:
            raise SchedulingError(
                f"ping_pong is for two waves a SIMD; {problem.name} has {problem.limits.waves} waves on "
                f"{problem.limits.simds} SIMDs"
            )
        found = ModuloScheduling().solve(problem, seed)
        numbers = {(node.stage, node.index): node for node in problem.fragments}
        matrix = {place for place in places_of(found.schedule) if numbers[place[:2]].unit == "matrix"}
        places = sorted(places_of(found.schedule), key=lambda place: place in matrix)
        schedule = with_even_turns(problem, schedule_of_places("ping_pong", problem.buffers, places))
        stages = sorted({place.stage for place in matrix})
        schedule = replace(schedule, groups=2, priority=tuple((stage, 1) for stage in stages))
        broken = broken_links(problem, links_between_fragments(problem), schedule)
        if broken:
            raise SchedulingError(f"ping_pong: {broken[0]}; more LDS buffers may do")
        return Solution(schedule, found.interval, found.remark)
