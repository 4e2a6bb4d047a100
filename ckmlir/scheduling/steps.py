"""Fragments of a schedule one by one, as schedulers and moves see them."""

from collections.abc import Iterable
from typing import NamedTuple

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Fragments


class Place(NamedTuple):
    """A fragment in its place of the step: of a stage, by number, so many iterations ahead."""

    stage: str
    number: int
    ahead: int = 0


def places_of(schedule: Schedule) -> list[Place]:
    """The fragments that a schedule lists, in their order; stages that it names as a whole are not among them."""
    return [
        Place(item.stage, number, schedule.ahead_of(item.stage) if item.ahead is None else item.ahead)
        for item in schedule.step
        if isinstance(item, Fragments) and item.first is not None and item.last is not None
        for number in range(item.first, item.last + 1)
    ]


def schedule_of_places(name: str, buffers: int, places: Iterable[Place], *, fenced: bool = True) -> Schedule:
    """A schedule that lists fragments; `fenced` pins them with sched_barriers."""
    step: list[Fragments] = []
    for place in places:
        ahead = place.ahead or None
        before = step[-1] if step else None
        if before is not None and (before.stage, before.ahead, before.last) == (place.stage, ahead, place.number - 1):
            step[-1] = Fragments(place.stage, before.first, place.number, ahead)
        else:
            step.append(Fragments(place.stage, place.number, place.number, ahead))
    return Schedule(name, buffers=buffers, fences="memory" if fenced else "none", step=tuple(step))
