"""Registers and buffers that take turns without copies.

A result that is used n steps later needs n sets of registers, n + 1 where its last user stands behind the next result's
place; the steady loop is unrolled until all sets and LDS buffers are back where they were. Numbers that do not divide
each other make that long, so global loads, on which nothing waits before, run further ahead until theirs do.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import lcm

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import MOST_AHEAD
from ckmlir.passes.steady_turn import steady_turn
from ckmlir.scheduling.graph import Link, links_between_fragments
from ckmlir.scheduling.problem import Problem
from ckmlir.scheduling.steps import Place, places_of, step_of


def with_even_turns(problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule with loads so far ahead that the steady loop is unrolled as little as possible."""
    places = places_of(schedule)
    numbers = {(node.stage, node.index): node for node in problem.fragments}
    turns = turns_of(problem, links_between_fragments(problem), places)
    loads = {at for at in turns if numbers[places[at][:2]].unit == "memory" and turns[at] > 1}
    if not loads:
        return schedule
    others = lcm(schedule.turn_of(""), *(count for at, count in turns.items() if at not in loads))
    least = max(turns[at] for at in loads)
    wanted = min(range(least, least + others), key=lambda count: (lcm(others, count), count))
    for at in loads:
        ahead = places[at].ahead + wanted - turns[at]
        if ahead > MOST_AHEAD:
            return schedule
        places[at] = places[at]._replace(ahead=ahead)
    return replace(schedule, step=step_of(places))


def turns_of(problem: Problem, links: Sequence[Link], places: Sequence[Place]) -> dict[int, int]:
    """Sets of registers that the result of each load and LDS read needs, by its place in the step."""
    numbers = problem.numbers
    home = {numbers[place[:2]]: at for at, place in enumerate(places) if place[:2] in numbers}
    found = {home[node.number]: 1 for node in problem.fragments if node.defines and node.unit in ("memory", "lds")}
    for link in links:
        source, target = home[link.source], home[link.target]
        if source in found and link.distance == 0:
            late = places[source].ahead - places[target].ahead
            found[source] = max(found[source], late + (target > source))
    return found


def steps_of(problem: Problem, links: Sequence[Link], schedule: Schedule) -> int:
    """Steps of the steady loop that a schedule's fragments and LDS buffers need."""
    buffers = {schedule.turn_of(node.tensor) for node in problem.nodes if node.tensor}
    return steady_turn([schedule.unroll, *buffers], turns_of(problem, links, places_of(schedule)).values())
