"""Dependences between what a schedule lists, and whether its order keeps them."""

import heapq
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Barrier
from ckmlir.scheduling.problem import Node, Problem
from ckmlir.scheduling.steps import WHOLE, Place, ScheduleMisfit, entries_of, places_of


class Link(Struct, frozen=True):
    """Node `target` of iteration i + `distance` comes after node `source` of iteration i.

    A node stands for what has a place in the step: itself, or as the first of its stage all of that which is no
    fragment. `through` says whether there are other nodes between the two, `lds` whether both access the same LDS
    tensor: then waves meet between them.
    """

    source: int
    target: int
    distance: int
    through: bool
    lds: bool = False


class Broken(Struct, frozen=True):
    """A dependence that an order does not keep.

    Attributes:
        barriers: in the step between the two, where they do come in order but too few for groups of waves out of phase.
        groups: of waves, which need as many.
    """

    source: Node
    target: Node
    link: Link
    barriers: int | None = None
    groups: int = 1

    def __str__(self) -> str:
        source, target = _name(self.source), _name(self.target)
        later = f" of {self.link.distance} iterations later" if self.link.distance else ""
        if self.barriers is not None:
            return (
                f"{self.barriers or 'no'} barrier{'s' if self.barriers != 1 else ''} lie{'s' * (self.barriers == 1)} "
                f"between {source} ({self.source.line}) and {target}{later} ({self.target.line}), which meet in LDS "
                f"tensor '{self.source.tensor}'; {self.groups} groups of waves need {self.groups}"
            )
        if self.source == self.target and not self.link.distance:
            return f"{source} ({self.source.line}) would run ahead, and its effect happen twice"
        return (
            f"{target}{later} ({self.target.line}) would run before {source} ({self.source.line}), on which it depends"
        )


def _name(node: Node) -> str:
    return f"{node.stage}.{node.index}" if node.is_fragment else node.stage


def links_between_fragments(problem: Problem, schedule: Schedule | None = None) -> list[Link]:
    """The dependences between fragments, and stages that `schedule` lists as a whole; those through other nodes with
    the least distance of any way.
    """
    whole = {place.stage for place in places_of(schedule) if place.number == WHOLE} if schedule else set()
    numbers = problem.numbers
    home = {
        node.number: node.number if node.is_fragment else numbers[node.stage, WHOLE]
        for node in problem.nodes
        if node.is_fragment or node.stage in whole
    }
    after: dict[int, list[tuple[int, int]]] = {}
    for edge in problem.edges:
        after.setdefault(edge.source, []).append((edge.target, edge.distance))
    least: dict[tuple[int, int], tuple[int, bool]] = {}
    for number, source in home.items():
        for target, distance, through in _reached(number, after, home):
            way = (source, home[target])
            if source != home[target] or problem.nodes[source].is_fragment:
                least[way] = min(least.get(way, (distance, through)), (distance, through))
    return [Link(*way, *one, lds=_meet(problem, *way)) for way, one in least.items()]


def _reached(number: int, after: dict[int, list[tuple[int, int]]], home: dict[int, int]) -> list[tuple[int, int, bool]]:
    """The nodes with places that one leads to without another between: each with its least distance."""
    found: dict[int, tuple[int, bool]] = {}
    passed: set[int] = set()
    queue = [(distance, target, False) for target, distance in after.get(number, ())]
    heapq.heapify(queue)
    while queue:
        distance, current, through = heapq.heappop(queue)
        if current in home:
            found.setdefault(current, (distance, through))
        elif current not in passed:
            passed.add(current)
            for target, more in after.get(current, ()):
                heapq.heappush(queue, (distance + more, target, True))
    return [(target, *one) for target, one in found.items()]


def _meet(problem: Problem, source: int, target: int) -> bool:
    tensor = problem.nodes[source].tensor
    return bool(tensor) and source != target and tensor == problem.nodes[target].tensor


def broken_links(problem: Problem, links: Sequence[Link], schedule: Schedule) -> list[Broken]:
    """The dependences that the step of a schedule does not keep, for its groups of waves if it has several.

    Raises:
        ScheduleMisfit: it does not list all fragments, or what the loop does not have.
    """
    places, nodes = _numbered(problem, schedule), problem.nodes
    found = []
    for link in links:
        (place, ahead), (other, others_ahead) = places[link.source], places[link.target]
        early = link.distance + ahead - others_ahead
        if early < 0 or (early == 0 and place >= other):
            found.append(Broken(nodes[link.source], nodes[link.target], link))
    if schedule.groups > 1:
        found += _unmet(problem, links, schedule, places)
    found += [
        Broken(problem.nodes[number], problem.nodes[number], Link(number, number, 0, False))
        for number in problem.effects
        if number in places and places[number][1]
    ]
    return found


def _unmet(
    problem: Problem, links: Sequence[Link], schedule: Schedule, places: Mapping[int, tuple[int, int]]
) -> list[Broken]:
    """What comes in order, but with too few barriers between for groups of waves that run out of phase."""
    phases, count = _phases(schedule)
    found = []
    for link in links:
        (place, ahead), (other, others_ahead) = places[link.source], places[link.target]
        early = link.distance + ahead - others_ahead
        if link.lds and (early, other) > (0, place):
            barriers = early * count + phases[other] - phases[place]
            if barriers < schedule.groups:
                ends = problem.nodes[link.source], problem.nodes[link.target]
                found.append(Broken(*ends, link, barriers, schedule.groups))
    return found


def _numbered(problem: Problem, schedule: Schedule) -> dict[int, tuple[int, int]]:
    """For every node that stands for a place of the step the place, and the iterations it runs ahead."""
    numbers = problem.numbers
    places: dict[int, tuple[int, int]] = {}
    for place, one in enumerate(places_of(schedule)):
        if one.number != WHOLE and one[:2] not in numbers:
            raise ScheduleMisfit(f"schedule '{schedule.name}' lists {one}, which the loop does not have")
        if one[:2] in numbers:
            places[numbers[one[:2]]] = place, one.ahead
    missing = [node for node in problem.fragments if node.number not in places]
    if missing:
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        raise ScheduleMisfit(
            f"schedule '{schedule.name}' does not list {_name(missing[0])}{more}; Workbench.listed does"
        )
    return places


def _phases(schedule: Schedule) -> tuple[list[int], int]:
    """The barriers of the step before each place, and in all of it."""
    phases, count = [], 0
    for entry in entries_of(schedule):
        if isinstance(entry, Place):
            phases.append(count)
        count += isinstance(entry, Barrier)
    return phases, count
