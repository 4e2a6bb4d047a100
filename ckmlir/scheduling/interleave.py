"""Memory fragments spread between matrix instructions, for waves that have no partner to fill their gaps.

How far ahead each fragment runs comes from modulo scheduling; where it stands, from spreading: between one matrix
instruction and the next lies the same share of every kind of fragment, as CK's hot-loop schedulers do it
(include/ck/tensor_operation/gpu/block/blockwise_gemm_pipeline_xdlops_v3.hpp, HotLoopScheduler).
"""

from ckmlir.scheduling.graph import broken_links, links_between_fragments
from ckmlir.scheduling.modulo import ModuloScheduling
from ckmlir.scheduling.phases import in_groups
from ckmlir.scheduling.problem import Node, Problem
from ckmlir.scheduling.scheduler import SchedulingError, Solution
from ckmlir.scheduling.steps import Place, places_of, schedule_of_places
from ckmlir.scheduling.turns import with_even_turns


class Interleave:
    """Inside one wave: one memory fragment at a time, at even distances."""

    name = "interleave"

    def solve(self, problem: Problem, seed: int = 0) -> Solution:
        """Spread what modulo scheduling has placed, as far as dependences allow."""
        found = ModuloScheduling().solve(problem, seed)
        places = places_of(found.schedule)
        numbers = {(node.stage, node.index): node for node in problem.fragments}
        matrix = [place for place in places if numbers[place[:2]].unit == "matrix"]
        others = [place for place in places if numbers[place[:2]].unit != "matrix"]
        if not matrix or not others:
            raise SchedulingError(f"{self.name}: {problem.name} has no matrix instructions and memory accesses to mix")
        mixed = self.mix(matrix, others, numbers)
        schedule = with_even_turns(problem, schedule_of_places(self.name, problem.buffers, mixed))
        broken = broken_links(problem, links_between_fragments(problem), schedule)
        if broken:  # spreading moved something past what it depends on: back to the order that is known to be right
            schedule = in_groups(problem, schedule_of_places(self.name, problem.buffers, places))
            return Solution(schedule, found.interval, f"{len(broken)} dependences keep it from spreading further")
        return Solution(in_groups(problem, schedule), found.interval, found.remark)

    def mix(self, matrix: list[Place], others: list[Place], numbers: dict[tuple[str, int], Node]) -> list[Place]:
        """Matrix instructions and the others at even distances."""
        mixed = []
        for number, place in enumerate(matrix):
            mixed.append(place)
            first, last = number * len(others) // len(matrix), (number + 1) * len(others) // len(matrix)
            mixed += others[first:last]
        return mixed


class FourWaves(Interleave):
    """One wave a SIMD: clusters of as many matrix instructions as hide one memory fragment's issue."""

    name = "four_waves"

    def solve(self, problem: Problem, seed: int = 0) -> Solution:
        """As `Interleave`, refused where SIMDs have several waves of the workgroup."""
        if problem.limits.waves_per_simd > 1:
            raise SchedulingError(
                f"four_waves is for one wave a SIMD; {problem.name} has {problem.limits.waves} waves on "
                f"{problem.limits.simds} SIMDs: take ping_pong"
            )
        return super().solve(problem, seed)

    def mix(self, matrix: list[Place], others: list[Place], numbers: dict[tuple[str, int], Node]) -> list[Place]:
        """After each memory fragment matrix instructions for as long as its unit is busy with all four waves."""
        mixed: list[Place] = []
        waiting = list(matrix)
        for number, place in enumerate(others):
            node = numbers[place[:2]]
            mixed.append(place)
            spent, left = 0, max(1, len(others) - number)
            while waiting and (spent < 4 * node.busy or len(waiting) > left * len(matrix)):
                spent += numbers[waiting[0][:2]].busy
                mixed.append(waiting.pop(0))
        return mixed + waiting
