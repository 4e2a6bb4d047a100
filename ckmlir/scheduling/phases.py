"""Barriers that cut a step into phases, so that groups of waves can run it out of phase.

Accesses to LDS that depend on each other need as many barriers between them as there are groups
(passes/wave_groups.py). With P(x) barriers before x and `count` in a step, a link of which the second end runs `early`
steps after the first asks for early * count + P(second) - P(first) >= groups. Enough barriers everywhere always do; the
fewest are looked for.
"""

from collections.abc import Iterable
from dataclasses import replace

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Barrier
from ckmlir.scheduling.graph import links_between_fragments
from ckmlir.scheduling.problem import Problem, ProblemError
from ckmlir.scheduling.steps import Entry, places_of, step_of

Constraint = tuple[int, int, int]
"""`first`, `second`, `early`: places of two accesses to LDS, and the steps between them."""


def in_groups(problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule for the problem's groups of waves, with the fewest barriers that its order needs.

    Raises:
        ProblemError: the waves do not form groups of equal size.
    """
    if problem.groups == 1:
        return schedule
    if problem.limits.waves % problem.groups:
        raise ProblemError(
            f"{problem.name} has {problem.limits.waves} waves, which do not form {problem.groups} groups of equal size"
        )
    places = places_of(schedule)
    numbers = problem.numbers
    at = {numbers[place[:2]]: number for number, place in enumerate(places) if place[:2] in numbers}
    links = [link for link in links_between_fragments(problem, schedule) if link.lds]
    constraints = [
        (first, second, link.distance + places[first].ahead - places[second].ahead)
        for link in links
        for first, second in [(at[link.source], at[link.target])]
    ]
    before, count = _fewest(len(places), constraints, problem.groups)
    entries: list[Entry] = []
    for number, place in enumerate(places):
        entries += [Barrier()] * (before[number] - (before[number - 1] if number else 0))
        entries.append(place)
    entries += [Barrier()] * (count - (before[-1] if before else 0))
    return replace(schedule, step=step_of(entries), groups=problem.groups)


def _fewest(places: int, constraints: Iterable[Constraint], groups: int) -> tuple[list[int], int]:
    """The barriers before each place, and in the step.

    Of the solutions with the fewest one half way between the one with all barriers as late as can be, and the one with
    all as early: halves of two solutions of such constraints, rounded alike, are one.
    """
    for count in range(groups, groups * (places + 1) + 1):
        needed = [(first, second, groups - early * count) for first, second, early in constraints]
        late = _least(places, needed, count)
        if late is not None:
            turned = [(places - 1 - second, places - 1 - first, least) for first, second, least in needed]
            early = _least(places, turned, count)
            assert early is not None, "the same constraints read from the end"
            return [(one + count - other) // 2 for one, other in zip(late, reversed(early))], count
    raise AssertionError("as many barriers as there are groups between all places suffice for any legal order")


def _least(places: int, needed: list[Constraint], most: int) -> list[int] | None:
    """The least numbers from 0 to `most` that do not fall and in which `second` is `least` above `first`."""
    found = [0] * places
    rules = [*needed, *((number, number + 1, 0) for number in range(places - 1))]
    changed = True
    while changed:
        changed = False
        for first, second, least in rules:
            if found[first] + least > found[second]:
                found[second] = found[first] + least
                changed = True
                if found[second] > most:
                    return None
    return found
