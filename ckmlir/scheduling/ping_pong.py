"""Two groups of waves that take turns: while one multiplies, the other moves data.

The step is a few turns, each of memory accesses and then of matrix instructions, with a barrier behind each half, and
the schedule asks for two groups of waves, one phase apart. Matrix instructions have priority, so that the group that
moves data does not delay them. Source: CK Tile, the pipelines with two wave groups and with eight waves
(pipeline/gemm_pipeline_ag_bg_cr_comp_v5.hpp); where theirs differ: docs/schedules.md.

Accesses to LDS that depend on each other lie two barriers apart: what would be nearer runs an iteration further ahead.
"""

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import MOST_AHEAD, Barrier
from ckmlir.scheduling.graph import Link, broken_links, links_between_fragments
from ckmlir.scheduling.modulo import ModuloScheduling
from ckmlir.scheduling.problem import Problem
from ckmlir.scheduling.scheduler import SchedulingError, Solution
from ckmlir.scheduling.steps import Entry, Place, places_of, schedule_of_places, step_of
from ckmlir.scheduling.turns import with_even_turns

GROUPS = 2
MOST_TURNS = 4
LEAST_OF_A_TURN = 4
"""Matrix instructions: fewer are over before the other group has moved anything."""


class PingPong:
    """Eight waves in two groups."""

    def solve(self, problem: Problem, seed: int = 0) -> Solution:
        """Turns of memory accesses and matrix instructions; refused for waves that have no partner on their SIMD."""
        if problem.limits.waves_per_simd != GROUPS:
            raise SchedulingError(
                f"ping_pong is for two waves a SIMD; {problem.name} has {problem.limits.waves} waves on "
                f"{problem.limits.simds} SIMDs"
            )
        if problem.groups not in (1, GROUPS):
            raise SchedulingError(f"ping_pong is for {GROUPS} groups of waves, not {problem.groups}")
        found = ModuloScheduling().solve(structs.replace(problem, groups=1), seed)
        links = links_between_fragments(problem)
        phases = _phases(problem, links, places_of(found.schedule))
        apart = _far_enough_ahead(problem, links, phases)
        listed = schedule_of_places("ping_pong", problem.buffers, [place for phase in apart for place in phase])
        even = with_even_turns(problem, listed)
        parted = _with_barriers(even, _split(even, apart), problem)
        broken = broken_links(problem, links, parted)
        if broken:
            raise SchedulingError(f"ping_pong: {broken[0]}; more LDS buffers may do")
        return Solution(parted, found.interval, found.remark)


def _phases(problem: Problem, links: Sequence[Link], places: list[Place]) -> list[list[Place]]:
    """Memory and matrix phases in turn; LDS reads in the turn of their first user, the others shared out."""
    nodes = {(node.stage, node.index): node for node in problem.fragments}
    matrix = [place for place in places if nodes[place[:2]].unit == "matrix"]
    others = [place for place in places if nodes[place[:2]].unit != "matrix"]
    turns = max(1, min(MOST_TURNS, len(matrix) // LEAST_OF_A_TURN))
    turn = {nodes[place[:2]].number: at * turns // len(matrix) for at, place in enumerate(matrix)}
    used: dict[int, int] = {}
    for link in links:
        if link.target in turn and link.source not in turn:
            used[link.source] = min(turn[link.target], used.get(link.source, turns))
    reads = [place for place in others if nodes[place[:2]].tensor and nodes[place[:2]].number in used]
    rest = [place for place in others if place not in reads]
    phases: list[list[Place]] = [[] for _ in range(2 * turns)]
    for place in reads:
        phases[2 * used[nodes[place[:2]].number]].append(place)
    for at, place in enumerate(rest):
        phases[2 * (at * turns // len(rest))].append(place)
    for place in matrix:
        phases[2 * turn[nodes[place[:2]].number] + 1].append(place)
    return phases


def _needed(link: Link, source_phase: int, target_phase: int, before: bool, count: int) -> int:
    """The iterations by which one fragment has to come before another: two barriers apart where they meet in LDS."""
    if link.lds:
        return -(-(GROUPS - (target_phase - source_phase)) // count)
    return 0 if before else 1


def _far_enough_ahead(problem: Problem, links: Sequence[Link], phases: list[list[Place]]) -> list[list[Place]]:
    """The phases with what comes too late for the others running further ahead."""
    numbers = {(node.stage, node.index): node.number for node in problem.fragments}
    listed = [(place, phase) for phase, places in enumerate(phases) for place in places]
    at = {numbers[place[:2]]: index for index, (place, _) in enumerate(listed)}
    ahead = {number: listed[index][0].ahead for number, index in at.items()}
    changed = True
    while changed:
        changed = False
        for link in links:
            source, target = at[link.source], at[link.target]
            needed = _needed(link, listed[source][1], listed[target][1], source < target, len(phases))
            late = needed - (link.distance + ahead[link.source] - ahead[link.target])
            if late > 0 and ahead[link.source] + late <= MOST_AHEAD:
                ahead[link.source] += late
                changed = True
    return [[place._replace(ahead=ahead[numbers[place[:2]]]) for place in places] for places in phases]


def _split(schedule: Schedule, phases: list[list[Place]]) -> list[list[Place]]:
    """The places of a schedule in phases of as many as these have."""
    places = iter(places_of(schedule))
    return [[next(places) for _ in phase] for phase in phases]


def _with_barriers(schedule: Schedule, phases: list[list[Place]], problem: Problem) -> Schedule:
    """The schedule in two groups, a barrier behind every phase, matrix instructions with priority."""
    numbers = {(node.stage, node.index): node for node in problem.fragments}
    stages = {place.stage for phase in phases for place in phase if numbers[place[:2]].unit == "matrix"}
    entries: list[Entry] = []
    for phase in phases:
        entries += [*phase, Barrier()]
    priority = tuple((stage, 1) for stage in sorted(stages))
    return replace(schedule, step=step_of(entries), groups=GROUPS, priority=priority)
