"""The step of a schedule item by item, as schedulers and moves see it: fragments, and what stands between them."""

from collections.abc import Iterable
from typing import NamedTuple

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Fragments, Item, Marker

WHOLE = -1
"""The number of a place that is all of a stage that is not listed by number."""


class Place(NamedTuple):
    """A fragment in its place of the step: of a stage, by number, so many iterations ahead.

    `number` WHOLE: what the step does not list by number of the stage. Stages without memory accesses and matrix
    instructions, such as a softmax, have a place only so.
    """

    stage: str
    number: int
    ahead: int = 0

    def __str__(self) -> str:
        return str(_item(self))


Entry = Place | Marker
"""What has a place of its own in a step."""


def entries_of(schedule: Schedule) -> list[Entry]:
    """The items of a schedule's step in their order, fragments one by one.

    Raises:
        ValueError: the step names a stage that the schedule runs ahead by LDS tensor, each so far.
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
    for item in schedule.step:
        if not isinstance(item, Fragments):
            found.append(item)
            continue
        ahead = _ahead_of(schedule, item.stage) if item.ahead is None else item.ahead
        numbers = [WHOLE] if item.first is None or item.last is None else range(item.first, item.last + 1)
        found += [Place(item.stage, number, ahead) for number in numbers]
    return found


def _ahead_of(schedule: Schedule, stage: str) -> int:
    by_tensor = next((name for name, _ in schedule.ahead if name.startswith(f"{stage}.")), None)
    if by_tensor:
        raise ValueError(
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
    step: list[Item] = []
    for entry in entries:
        before = step[-1] if step else None
        item = _item(entry)
        if (
            isinstance(before, Fragments) and isinstance(item, Fragments)
            and before.last is not None and item.first == before.last + 1
            and (before.stage, before.ahead) == (item.stage, item.ahead)
        ):  # fmt: skip
            item = Fragments(item.stage, before.first, item.last, item.ahead)
            step.pop()
        step.append(item)
    return tuple(step)


def _item(entry: Entry) -> Item:
    if not isinstance(entry, Place):
        return entry
    number = None if entry.number == WHOLE else entry.number
    return Fragments(entry.stage, number, number, entry.ahead or None)
