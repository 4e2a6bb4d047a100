"""Dependences between fragments alone, and whether an order of them keeps these."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from ckmlir.dialect.schedule import Schedule
from ckmlir.scheduling.problem import Node, Problem
from ckmlir.scheduling.steps import places_of


@dataclass(frozen=True)
class Link:
    """Fragment `target` of iteration i + `distance` comes after fragment `source` of iteration i.

    `through` says whether there are other nodes between them.
    """

    source: int
    target: int
    distance: int
    through: bool


@dataclass(frozen=True)
class Broken:
    """A dependence that an order does not keep."""

    source: Node
    target: Node
    link: Link

    def __str__(self) -> str:
        later = f" of {self.link.distance} iterations later" if self.link.distance else ""
        return (
            f"{self.target.stage}.{self.target.index}{later} ({self.target.line}) would run before "
            f"{self.source.stage}.{self.source.index} ({self.source.line}), on which it depends"
        )


def links_between_fragments(problem: Problem) -> list[Link]:
    """The dependences between fragments, those through other nodes with the least distance of any way."""
    after: dict[int, list[tuple[int, int]]] = {}
    for edge in problem.edges:
        after.setdefault(edge.source, []).append((edge.target, edge.distance))
    found = []
    for fragment in problem.fragments:
        least: dict[int, tuple[int, bool]] = {}
        passed: dict[int, int] = {}
        queue = [(distance, target, False) for target, distance in after.get(fragment.number, ())]
        heapq.heapify(queue)
        while queue:
            distance, number, through = heapq.heappop(queue)
            if problem.nodes[number].is_fragment:
                least.setdefault(number, (distance, through))
            elif number not in passed:
                passed[number] = distance
                for target, more in after.get(number, ()):
                    heapq.heappush(queue, (distance + more, target, True))
        found += [Link(fragment.number, target, *one) for target, one in least.items()]
    return found


def broken_links(problem: Problem, links: Sequence[Link], schedule: Schedule) -> list[Broken]:
    """The dependences that the fragments of a schedule do not keep; ValueError if it does not list them all."""
    numbers = {(node.stage, node.index): node.number for node in problem.fragments}
    places: dict[int, tuple[int, int]] = {}
    for place, (stage, index, ahead) in enumerate(places_of(schedule)):
        if (stage, index) not in numbers:
            raise ValueError(f"schedule '{schedule.name}' lists {stage}.{index}, which the loop does not have")
        places[numbers[stage, index]] = place, ahead
    missing = [node for node in problem.fragments if node.number not in places]
    if missing:
        one = missing[0]
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        raise ValueError(f"schedule '{schedule.name}' does not list {one.stage}.{one.index}{more}")
    found = []
    for link in links:
        (place, ahead), (other, others_ahead) = places[link.source], places[link.target]
        early = link.distance + ahead - others_ahead
        if early < 0 or (early == 0 and place >= other):
            found.append(Broken(problem.nodes[link.source], problem.nodes[link.target], link))
    found += [
        Broken(problem.nodes[number], problem.nodes[number], Link(number, number, 0, False))
        for number in problem.effects
        if number in places and places[number][1]
    ]
    return found
