"""Small changes of a schedule that keep all dependences: the steps of a search.

Moves are about schedules that list every fragment by itself (`Workbench.listed`, or any scheduler's). What stands
between fragments moves like them: in a schedule for groups of waves out of phase its barriers, which make the phases.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from msgspec import Struct

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import MOST_AHEAD, Barrier
from ckmlir.dialect.schedule_problems import MOST_GROUPS
from ckmlir.passes.steady_turn import MOST_STEPS
from ckmlir.scheduling.graph import Link, broken_links, links_between_fragments
from ckmlir.scheduling.problem import Problem
from ckmlir.scheduling.steps import WHOLE, Place, ScheduleMisfit, entries_of, places_of, step_of
from ckmlir.scheduling.turns import steps_of

MOST_BUFFERS = 4


class Move(Struct, frozen=True):
    """A change of one of these kinds.

    | kind | does |
    |---|---|
    | swap | the item at `place` of the step and the next change places |
    | ahead | the fragment at `place` runs `amount` iterations ahead instead |
    | barrier | `amount` 1: a barrier more before the item at `place`; 0: that at `place` is taken out |
    | buffers | `amount` of them |
    | groups | of waves out of phase, `amount` |
    | fences | 1 with, 0 without |
    """

    kind: str
    place: int = 0
    amount: int = 0

    def __str__(self) -> str:
        detail = {
            "swap": f" {self.place}",
            "ahead": f" {self.place} to {self.amount}",
            "barrier": f" {'before' if self.amount else 'removed at'} {self.place}",
        }.get(self.kind, f" {self.amount}")
        return self.kind + detail


def apply(schedule: Schedule, move: Move) -> Schedule:
    """The schedule after a move, legal or not. ScheduleMisfit where it has no place or no meaning."""
    if move.kind == "buffers":
        return replace(schedule, buffers=move.amount)
    if move.kind == "groups":
        return replace(schedule, groups=move.amount)
    if move.kind == "fences":
        return replace(schedule, fences="memory" if move.amount else "none")
    if move.kind not in ("swap", "ahead", "barrier"):
        kinds = "swap, ahead, barrier, buffers, groups or fences"
        raise ScheduleMisfit(f"'{move.kind}' is not a kind of move; expected {kinds}")
    entries = entries_of(schedule)
    inserts = move.kind == "barrier" and move.amount == 1
    if not 0 <= move.place < len(entries) + inserts - (move.kind == "swap"):
        raise ScheduleMisfit(f"move '{move}': the step has {len(entries)} items")
    entry = entries[move.place] if move.place < len(entries) else None
    if move.kind == "swap":
        entries[move.place : move.place + 2] = reversed(entries[move.place : move.place + 2])
    elif inserts:
        entries.insert(move.place, Barrier())
    elif move.kind == "barrier" and isinstance(entry, Barrier):
        del entries[move.place]
    elif move.kind == "ahead" and isinstance(entry, Place):
        entries[move.place] = entry._replace(ahead=move.amount)
    else:
        raise ScheduleMisfit(f"move '{move}': at this place stands {entry}")
    return replace(schedule, step=step_of(entries))


def legal_moves(problem: Problem, schedule: Schedule) -> list[Move]:
    """The moves after which all dependences still hold, in a fixed order; ScheduleMisfit where `objection` has one to
    the schedule itself.
    """
    rules = Legality.of(problem, schedule)
    reason = rules.objection(schedule)
    if reason:
        raise ScheduleMisfit(f"schedule '{schedule.name}' is not legal itself: {reason}")
    legal = []
    for move in _candidates(problem, schedule):
        changed = apply(schedule, move)
        if not (Legality.of(problem, changed) if move.kind == "buffers" else rules).objection(changed):
            legal.append(move)
    return legal


def objection(problem: Problem, schedule: Schedule) -> str:
    """Why a schedule keeps not all dependences, or has no steady loop, in words; empty where it does and has.

    Raises:
        ScheduleMisfit: it does not list all fragments, or what the loop does not have.
    """
    return Legality.of(problem, schedule).objection(schedule)


def knobs(problem: Problem, schedule: Schedule) -> list[Move]:
    """Moves other than swaps, legal or not, in a fixed order."""
    return [move for move in _candidates(problem, schedule) if move.kind != "swap"]


def _candidates(problem: Problem, schedule: Schedule) -> Iterator[Move]:
    entries = entries_of(schedule)
    for at, (one, two) in enumerate(pairwise(entries)):
        if one != two:
            yield Move("swap", at)
    for at, entry in enumerate(entries):
        if isinstance(entry, Place) and entry.number != WHOLE:  # what is not a fragment follows its users
            near = (entry.ahead - 1, entry.ahead + 1)
            yield from (Move("ahead", at, ahead) for ahead in near if 0 <= ahead <= MOST_AHEAD)
    for at, entry in enumerate(entries):
        if isinstance(entry, Barrier):
            yield Move("barrier", at, 0)
        elif schedule.groups > 1:
            yield Move("barrier", at, 1)
    yield from _settings(problem, schedule)


def _settings(problem: Problem, schedule: Schedule) -> Iterator[Move]:
    """Moves that leave the step's order."""
    for amount in (schedule.buffers - 1, schedule.buffers + 1):
        if 1 <= amount <= MOST_BUFFERS and (amount < schedule.buffers or _fits(problem, schedule, amount)):
            yield Move("buffers", amount=amount)
    for amount in range(1, MOST_GROUPS + 1):
        if amount != schedule.groups:
            yield Move("groups", amount=amount)
    yield Move("fences", amount=int(schedule.fences == "none"))


def _fits(problem: Problem, schedule: Schedule, buffers: int) -> bool:
    """Whether so many buffers fit in LDS side by side."""
    more = replace(schedule, buffers=buffers)
    tensors = {node.tensor: node.lds_bytes for node in problem.nodes if node.tensor}
    return sum(size * more.buffers_of(one) for one, size in tensors.items()) <= problem.limits.lds_bytes


class Legality(Struct, frozen=True, dict=True):
    """What a schedule has to keep, for all schedules with the same buffers and the same stages listed as a whole.

    This is what a search relies on: the graph of dependences, orders, iterations ahead, groups of waves and the length
    of the loop. It knows nothing of registers, LDS addresses, waits and barriers, which passes make of a schedule; what
    they made is proved before a kernel is handed out (`Workbench.compile`).
    """

    problem: Problem
    links: list[Link]

    @staticmethod
    def of(problem: Problem, schedule: Schedule) -> "Legality":
        """The rules of a problem for schedules like this one."""
        global _last
        whole = {place.stage for place in places_of(schedule) if place.number == WHOLE}
        like = (schedule.buffers, schedule.tensor_buffers, whole)
        known, known_like, rules = _last
        if rules is None or known is not problem or known_like != like:  # a walk asks for each of its schedules
            own = problem.with_buffers(schedule.buffers, dict(schedule.tensor_buffers))
            rules = Legality(own, links_between_fragments(own, schedule))
            _last = problem, like, rules
        return rules

    def under(self, schedule: Schedule) -> "Legality":
        """The rules for another schedule: the same unless its buffers are others."""
        own = self.problem.with_buffers(schedule.buffers, dict(schedule.tensor_buffers))
        return self if own.edges == self.problem.edges else Legality.of(self.problem, schedule)

    def objection(self, schedule: Schedule) -> str:
        """See `objection`."""
        of_groups = self._of_groups(schedule)
        if of_groups:
            return of_groups
        broken = broken_links(self.problem, self.links, schedule)
        if broken:
            return str(broken[0])
        steps = steps_of(self.problem, self.links, schedule)
        return (
            f"its steady loop would hold {steps} steps; at most {MOST_STEPS} make sense" if steps > MOST_STEPS else ""
        )

    def in_order(self, first: Place, second: Place) -> bool:
        """Whether of two neighbours in a step the first has to come first."""
        numbers = self.problem.numbers
        source, target = numbers.get(first[:2]), numbers.get(second[:2])
        distances = self._distances.get((source, target), ()) if source is not None and target is not None else ()
        return any(distance + first.ahead == second.ahead for distance in distances)

    @cached_property
    def _distances(self) -> dict[tuple[int, int], list[int]]:
        """Of the links from one node to another."""
        found: dict[tuple[int, int], list[int]] = {}
        for link in self.links:
            found.setdefault((link.source, link.target), []).append(link.distance)
        return found

    def _of_groups(self, schedule: Schedule) -> str:
        waves, groups = self.problem.limits.waves, schedule.groups
        barriers = sum(isinstance(entry, Barrier) for entry in entries_of(schedule))
        if waves % groups:
            return f"{waves} waves do not form {groups} groups of equal size"
        if groups > 1 and barriers < groups:
            return f"too few barriers cut its step into phases for {groups} groups of waves: {barriers}"
        fixed = next((edge for edge in self.problem.edges if edge.kind == "anti" and not edge.rotating), None)
        if groups > 1 and fixed and self.problem.nodes[fixed.target].tensor:
            tensor = self.problem.nodes[fixed.target].tensor
            return f"LDS tensor '{tensor}' is from outside the loop, and written while other groups of waves read it"
        return ""


_last: tuple[Problem | None, object, Legality | None] = (None, None, None)
"""The problem whose rules were asked for last, for schedules with these buffers and whole stages, and the rules."""
