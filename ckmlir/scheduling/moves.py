"""Small changes of a schedule that keep all dependences: the steps of a search.

Moves are about schedules that list every fragment by itself (`Workbench.listed`, or any scheduler's).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ckmlir.dialect.schedule import Schedule
from ckmlir.passes.pipeline_loops import MOST_STEPS
from ckmlir.scheduling.graph import Link, broken_links, links_between_fragments
from ckmlir.scheduling.problem import Problem
from ckmlir.scheduling.steps import Place, places_of, schedule_of_places
from ckmlir.scheduling.turns import steps_of

MOST_BUFFERS = 4
MOST_AHEAD = 8


@dataclass(frozen=True)
class Move:
    """A change: `kind` is "swap" (fragments at `place` and the next), "ahead" (that at `place` runs `amount` iterations
    ahead instead), "buffers" (`amount` of them) or "fences" (1 with, 0 without).
    """

    kind: str
    place: int = 0
    amount: int = 0

    def __str__(self) -> str:
        detail = {"swap": f" {self.place}", "ahead": f" {self.place} to {self.amount}"}.get(
            self.kind, f" {self.amount}"
        )
        return self.kind + detail


def apply(schedule: Schedule, move: Move) -> Schedule:
    """The schedule after a move, legal or not. ValueError for a place that there is not."""
    places = places_of(schedule)
    if move.kind == "buffers":
        return replace(schedule, buffers=move.amount)
    if move.kind == "fences":
        return replace(schedule, fences="memory" if move.amount else "none")
    if not 0 <= move.place < len(places) - (move.kind == "swap"):
        raise ValueError(f"move '{move}': the schedule has {len(places)} fragments")
    if move.kind == "swap":
        places[move.place : move.place + 2] = reversed(places[move.place : move.place + 2])
    elif move.kind == "ahead":
        places[move.place] = places[move.place]._replace(ahead=move.amount)
    else:
        raise ValueError(f"there is no move '{move.kind}'")
    changed = schedule_of_places(schedule.name, schedule.buffers, places)
    return replace(schedule, step=changed.step)


def legal_moves(problem: Problem, schedule: Schedule) -> list[Move]:
    """The moves after which all dependences still hold, in a fixed order; ValueError where some are not listed, and for
    groups of waves out of phase."""
    if schedule.groups > 1:
        raise ValueError(f"schedule '{schedule.name}' has groups of waves out of phase, whose phases no move keeps")
    problem = problem.with_buffers(schedule.buffers)
    links = links_between_fragments(problem)
    broken = broken_links(problem, links, schedule)
    if broken:
        raise ValueError(f"schedule '{schedule.name}' is not legal itself: {broken[0]}")
    places = places_of(schedule)
    slack = _slack(problem, schedule)
    found = [Move("swap", at) for at in range(len(places) - 1) if slack.may_swap(at)]
    for at, place in enumerate(places):
        for ahead in (place.ahead - 1, place.ahead + 1):
            if 0 <= ahead <= MOST_AHEAD and slack.may_run(at, ahead):
                found.append(Move("ahead", at, ahead))
    for buffers in (schedule.buffers - 1, schedule.buffers + 1):
        if 1 <= buffers <= MOST_BUFFERS and _fits(problem, schedule, buffers):
            found.append(Move("buffers", amount=buffers))
    found.append(Move("fences", amount=int(schedule.fences == "none")))
    return [move for move in found if _unrolls(problem, links, schedule, move)]


def _unrolls(problem: Problem, links: list[Link], schedule: Schedule, move: Move) -> bool:
    """Whether the steady loop after a move is one that the pass makes."""
    changed = apply(schedule, move)
    return steps_of(problem, links, places_of(changed), changed.buffers) <= MOST_STEPS


def _fits(problem: Problem, schedule: Schedule, buffers: int) -> bool:
    tensors = {node.tensor: node.lds_bytes for node in problem.nodes if node.tensor}
    if buffers > schedule.buffers and sum(tensors.values()) * buffers > problem.limits.lds_bytes:
        return False
    changed = problem.with_buffers(buffers)
    return not broken_links(changed, links_between_fragments(changed), schedule)


@dataclass(frozen=True)
class _Slack:
    places: list[Place]
    may_swap: Callable[[int], bool]
    may_run: Callable[[int, int], bool]


def _slack(problem: Problem, schedule: Schedule) -> _Slack:
    """What moves the dependences of single fragments leave."""
    places = places_of(schedule)
    numbers = {(node.stage, node.index): node.number for node in problem.fragments}
    at = {numbers[place[:2]]: number for number, place in enumerate(places)}
    before: dict[int, list[tuple[int, int]]] = {number: [] for number in range(len(places))}
    after: dict[int, list[tuple[int, int]]] = {number: [] for number in range(len(places))}
    for link in links_between_fragments(problem):
        after[at[link.source]].append((at[link.target], link.distance))
        before[at[link.target]].append((at[link.source], link.distance))
    effects = {at[number] for number in problem.effects if number in at}

    def kept(source: int, source_ahead: int, target: int, target_ahead: int, distance: int) -> bool:
        early = distance + source_ahead - target_ahead
        return early > 0 or (early == 0 and source < target)

    def may_swap(place: int) -> bool:
        first, second = places[place], places[place + 1]
        tight = (link for link in after[place] if link[0] == place + 1)
        return all(distance + first.ahead - second.ahead > 0 for _, distance in tight)

    def may_run(place: int, ahead: int) -> bool:
        if ahead and place in effects:
            return False
        back = all(kept(one, places[one].ahead, place, ahead, d) for one, d in before[place] if one != place)
        forth = all(kept(place, ahead, one, places[one].ahead, d) for one, d in after[place] if one != place)
        return back and forth

    return _Slack(places, may_swap, may_run)
