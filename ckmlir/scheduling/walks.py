"""Walks through schedules by legal moves: where a search looks next.

A swap of neighbours changes little, so a step of a walk slides a fragment along: swaps, as long as they are legal.
Legality here is that of the problem's graph, less than a millisecond a move; nothing is compiled.
"""

import random
from dataclasses import replace

from ckmlir.dialect.schedule import Schedule
from ckmlir.scheduling.moves import Legality, apply, knobs
from ckmlir.scheduling.problem import Problem
from ckmlir.scheduling.steps import Entry, Place, entries_of, step_of

SLIDES = 6
"""Of seven steps of a walk so many slide a fragment; the others change how far it runs ahead, or the schedule's fences,
buffers, groups and barriers."""
FARTHEST = 24
"""Items of the step that a slide passes at most."""
MOST_STEPS = 6
TRIES = 20
"""Moves that may turn out illegal before a walk stands still."""


def walk(problem: Problem, schedule: Schedule, seed: int) -> Schedule:
    """The schedule after one to `MOST_STEPS` steps taken at random: legal if it is, the same for the same seed. It may
    be the schedule itself, where nothing legal is found.
    """
    chance = random.Random(seed)
    rules = Legality.of(problem, schedule)
    for _ in range(chance.randint(1, MOST_STEPS)):
        slides = chance.randrange(SLIDES + 1) < SLIDES
        schedule = _slide(rules, schedule, chance) if slides else _turned(problem, rules, schedule, chance)
        rules = rules.under(schedule)
    return schedule


def _slide(rules: Legality, schedule: Schedule, chance: random.Random) -> Schedule:
    """One item of the step some places earlier or later."""
    count = len(entries_of(schedule))
    if count < 2:
        return schedule
    for _ in range(TRIES):
        entries = entries_of(schedule)
        at, way, left = chance.randrange(count), chance.choice((-1, 1)), chance.randint(1, FARTHEST)
        begin = at
        while left and 0 <= at + way < count and _may_swap(rules, entries[min(at, at + way) :][:2]):
            entries[at], entries[at + way] = entries[at + way], entries[at]
            at, left = at + way, left - 1
        if at != begin:
            changed = replace(schedule, step=step_of(entries))
            if not rules.objection(changed):
                return changed
    return schedule


def _may_swap(rules: Legality, neighbours: list[Entry]) -> bool:
    """Whether neighbours may change places as far as they know: what concerns a whole step is asked of its end."""
    first, second = neighbours
    return not (isinstance(first, Place) and isinstance(second, Place) and rules.in_order(first, second))


def _turned(problem: Problem, rules: Legality, schedule: Schedule, chance: random.Random) -> Schedule:
    """A move of another kind."""
    moves = knobs(problem, schedule)
    for _ in range(TRIES):
        changed = apply(schedule, chance.choice(moves))
        if not rules.under(changed).objection(changed):
            return changed
    return schedule
