"""The step of a schedule item by item, as schedulers and moves see it: fragments, and what stands between them."""

from collections.abc import Iterable
from typing import NamedTuple

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Fragments, Item, Marker
from ckmlir.errors import CkmlirError

WHOLE = -1
"""The number of a place that is all of a stage that is not listed by number."""


class ScheduleMisfit(CkmlirError, ValueError):
    """A schedule, or a move of one, that names what its loop does not have, or leaves out what it has."""


class Place(NamedTuple):
    """A fragment in its place of the step: of a stage, by number, so many iterations ahead.

    `number` WHOLE: what the step does not list by number of the stage. Stages without memory accesses and matrix
    instructions, such as a softmax, have a place only so.
    """

    stage: str
    number: int
    ahead: int = 0

    def __str__(self) -> str:
        return str(_item(self, self))


Entry = Place | Marker
"""What has a place of its own in a step."""


def entries_of(schedule: Schedule) -> list[Entry]:
    """The items of a schedule's step in their order, fragments one by one.

    Raises:
        ScheduleMisfit: the step names a stage that the schedule runs ahead by LDS tensor, each so far.
    """
    global _last
    known, entries = _last
    if known is not schedule:  # each move is looked at from several sides, and to hash a step takes as long as this
        entries = tuple(_listed(schedule))
        _last = schedule, entries
    return list(entries)


_last: tuple[Schedule | None, tuple[Entry, ...]] = (None, ())
"""The schedule whose entries were asked for last, and these."""


def _listed(schedule: Schedule) -> list[Entry]:
    found: list[Entry] = []
    of_stages: dict[str, int] = {}
    for item in schedule.step:
        if not isinstance(item, Fragments):
            found.append(item)
            continue
        ahead = item.ahead
        if ahead is None:
            if item.stage not in of_stages:
                of_stages[item.stage] = _ahead_of(schedule, item.stage)
            ahead = of_stages[item.stage]
        numbers = [WHOLE] if item.first is None or item.last is None else range(item.first, item.last + 1)
        found += [Place(item.stage, number, ahead) for number in numbers]
    return found


def _ahead_of(schedule: Schedule, stage: str) -> int:
    by_tensor = next((name for name, _ in schedule.ahead if name.startswith(f"{stage}.")), None)
    if by_tensor:
        raise ScheduleMisfit(
            f"schedule '{schedule.name}' runs '{by_tensor}' ahead; which fragments of '{stage}' these are depends on "
            "the loop: Workbench.listed writes the schedule out, fragment by fragment"
        )
    return schedule.ahead_of(stage)


def places_of(schedule: Schedule) -> list[Place]:
    """The fragments and stages that a schedule's step lists, in their order."""
    return [entry for entry in entries_of(schedule) if isinstance(entry, Place)]


def schedule_of_places(name: str, buffers: int, entries: Iterable[Entry], *, fenced: bool = True) -> Schedule:
    """A schedule that lists these; `fenced` pins memory fragments with sched_barriers."""
    return Schedule(name, buffers=buffers, fences="memory" if fenced else "none", step=step_of(entries))


def step_of(entries: Iterable[Entry]) -> tuple[Item, ...]:
    """The `step` statement that lists these, neighbouring fragments of a stage as one item."""
    runs: list[tuple[Entry, Entry]] = []
    """The first and the last of what is one item."""
    for entry in entries:
        first, last = runs[-1] if runs else (entry, entry)
        if (
            isinstance(entry, Place) and isinstance(last, Place) and entry.number == last.number + 1
            and last.number != WHOLE and (entry.stage, entry.ahead) == (last.stage, last.ahead)
        ):  # fmt: skip
            runs[-1] = first, entry
        else:
            runs.append((entry, entry))
    return tuple(_item(*run) for run in runs)


def _item(first: Entry, last: Entry) -> Item:
    """The item that lists fragments of a stage from the first to the last, or something between fragments."""
    if not isinstance(first, Place):
        return first
    assert isinstance(last, Place)
    if first.number == WHOLE:
        return Fragments(first.stage, None, None, first.ahead or None)
    return Fragments(first.stage, first.number, last.number, first.ahead or None)
