"""Workgroups that wait for each other: all of a launch are under way at a time, and take turns where one pauses.

A wave that looks for a flag of another workgroup pauses between two looks (`s_sleep`, or where it should be:
`spinning.py`). There the scheduler gives up the workgroup, whose state is put aside, and goes on with another: with one
that has not begun, as long as there are any, in an order that varies with the simulator's seed, then with the one that
has waited longest. A workgroup whose waves wait for ever is given up like one that does not end: when none has begun or
ended for as long as the patience lasts.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ckmlir.sim import state
from ckmlir.sim.errors import SimulationError

TURNS = 1 << 30
"""Numbers of turns that the workgroups of a launch share: each has a range of its own, so that the race check can tell
whose turn one is."""
MOST_UNDER_WAY = 4096
"""Workgroups that have begun and not ended; the largest chip holds hardly more. Of launches of more the race check does
not know what flags order."""
MOST_LOOKS = 1000
"""Pauses of a workgroup while no other runs, behind which what it waits for will not come."""
KEPT = (state.TURN, state.ROUND_START, state.GROUP_START, state.CURRENT_GROUP, state.KNOWN_FLAGS, state.PAUSED)
"""Fields of the context that are a workgroup's own."""


class Advancing(Protocol):
    """A runner, for what follows."""

    context: npt.NDArray[np.uint64]

    def advance(self, group: int, *, resumed: bool) -> bool:
        """Run a workgroup, from its beginning or on from where it paused; whether it has ended."""

    def own_memory(self) -> list[npt.NDArray[np.uint8]]:
        """All that a workgroup has of its own."""


class _Aside(Struct):
    """A workgroup that waits: its number, its fields of the context, and the contents of its memory."""

    group: int
    fields: list[int]
    contents: list[npt.NDArray[np.uint8]]


class Interleaving:
    """Has workgroups take turns, since they may wait for each other.

    Attributes:
        progress: a number that changes when a workgroup begins or ends.
    """

    def __init__(self, runner: Advancing, groups: int, random: np.random.Generator, *, pauses: bool = True) -> None:
        """For so many workgroups of a launch, which begin in a `random` order. Where none `pauses`, one ends before the
        next begins, in the order of their numbers."""
        self._runner, self._random, self._pauses = runner, random, pauses
        self.progress = 0
        span = max(TURNS // max(groups, 1), 1)
        # Row by row for a workgroup, in the order in which they begin: of the others the last turns that it knows of.
        known = groups if groups <= MOST_UNDER_WAY else 0
        self._known = np.zeros((known, known), np.uint32)
        self._set(state.TURN_SPAN, span)
        self._set(state.FLAG_GROUPS, groups)
        self._span, self._begun = span, 0

    def run(self, first: int, end: int) -> None:
        """Run the workgroups from `first` to before `end`. Raises as `Runner.run`."""
        order = self._random.permutation(np.arange(first, end)) if self._pauses else np.arange(first, end)[::-1]
        groups = order.tolist()
        waiting: deque[_Aside] = deque()
        self._set(state.PAUSES, int(self._pauses))
        while groups or waiting:
            if groups and len(waiting) < MOST_UNDER_WAY:
                self._begin()
                self._go_on(groups.pop(), waiting, resumed=False)
            if waiting:
                aside = waiting.popleft()
                self._restore(aside)
                self._go_on(aside.group, waiting, resumed=True)
            stop = int(self._runner.context[state.STOP // 8])
            if stop == state.Stop.INTERRUPTED:
                return
            if stop:  # those that wait find that at their next branch
                groups.clear()

    def _go_on(self, group: int, waiting: deque[_Aside], *, resumed: bool) -> None:
        if self._runner.advance(group, resumed=resumed):
            self.progress += 1
        else:
            waiting.append(self._aside(group))

    def _begin(self) -> None:
        self._set(state.TURN, self._begun * self._span)
        self._set(state.KNOWN_FLAGS, int(self._known[self._begun].ctypes.data) if self._known.size else 0)
        self._begun += 1
        self.progress += 1

    def _set(self, field: int, value: int) -> None:
        self._runner.context[field // 8] = value

    def _aside(self, group: int) -> _Aside:
        fields = [int(self._runner.context[field // 8]) for field in KEPT]
        return _Aside(group, fields, [memory.copy() for memory in self._runner.own_memory()])

    def _restore(self, aside: _Aside) -> None:
        for field, value in zip(KEPT, aside.fields, strict=True):
            self._set(field, value)
        memories: list[npt.NDArray[Any]] = self._runner.own_memory()
        for memory, contents in zip(memories, aside.contents, strict=True):
            memory[...] = contents


class InOrder:
    """Has workgroups run one after the other, in their order, as those of a timing do that may wait for others."""

    def __init__(self, runner: Advancing) -> None:
        self._runner = runner
        runner.context[state.PAUSES // 8] = 1
        self.progress = 0

    def run(self, first: int, end: int) -> None:
        """Run the workgroups from `first` to before `end`.

        Raises:
            SimulationError: One waits for what none before it writes; else as `Runner.run`.
        """
        for group in range(first, end):
            if int(self._runner.context[state.STOP // 8]) == state.Stop.INTERRUPTED:
                return
            looks = 0
            while not self._runner.advance(group, resumed=looks > 0):
                looks += 1
                if looks > MOST_LOOKS:  # waves of one workgroup may wait for each other too
                    raise SimulationError(
                        f"workgroup {group} waits for what no workgroup before it writes; a timing runs them one after "
                        "the other, in the order of the launch"
                    )
            self.progress += 1
