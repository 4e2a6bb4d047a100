"""Functions of problems that are recorded (`ckmlir.ops.symbolic`), way by way, as one tree of decisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ckmlir.ops.symbolic import NAME, Hashed, Recorder, Recording

MOST_TREES, MOST_WAYS = 6, 8
"""Trees, which are tried one after the other, and ways of each: it is compiled again with every way that is added."""
MOST_FIXED = 16
"""How often a recording begins again, since a number turned out to decide by its value."""


class Recorded:
    """What a function gives of problems, as numbers follow from numbers. Any thread may use it.

    Calling it with a problem gives (number of the way, outputs), or None for a problem that takes no way that was
    recorded. It raises what arithmetic of the problem's numbers raises.
    """

    def __init__(self) -> None:
        self._fixed: frozenset[str] = frozenset()
        self._ways: list[_Way] = []
        self._trees: tuple[Callable[[Any], Any], ...] = ()
        self._latest: Callable[[Any], Any] = _nothing

    def __call__(self, problem: Any) -> Any:
        latest = self._latest  # sizes that come behind each other mostly take ways of one tree
        found = latest(problem)
        if found is not None:
            return found
        for tree in self._trees:
            if tree is not latest and (found := tree(problem)) is not None:
                self._latest = tree
                return found
        return None

    def add(self, function: Callable[[Any], Any], problem: Any, outputs: Callable[[Any], Any]) -> int | None:
        """Record the way that a problem takes.

        Args:
            function: without side effects; it has to accept the problem.
            outputs: makes tuples of numbers of what it returns.

        Returns:
            The number of the way. None where nothing is recorded: there are too many ways, the problem holds something
            else than numbers, text and tuples of them, or the function does something that symbols do not stand.
        """
        for _ in range(MOST_FIXED):
            recorder = Recorder(self._fixed)
            try:
                way = recorder.recorded(outputs(function(recorder.shadow(problem, "problem"))))
            except Hashed as found:
                self._fixed |= recorder.numbers_below(found.symbol)
            except Exception:  # of whatever code the symbols came to: nothing is lost but the recording
                return None
            else:
                return self._added(way)
            finally:
                recorder.is_open = False
        return None

    def _added(self, recording: Recording) -> int | None:
        number = len(self._ways)
        if number >= MOST_TREES * MOST_WAYS or any(one.lines == recording.lines for one in self._ways):
            return None
        self._ways.append(_Way(number, recording))
        first = number // MOST_WAYS
        self._trees = (*self._trees[:first], _compiled(self._ways[first * MOST_WAYS :]))
        return number


def _nothing(problem: Any) -> None:
    """No tree has been found right yet."""


class _Way:
    """A recording with its number."""

    def __init__(self, number: int, recording: Recording) -> None:
        self.number, self.lines, self.result, self.constants = number, *recording
        self.needed = set(NAME.findall(recording.result))
        """The names that what comes out or a condition depends on."""
        for name, text in reversed(recording.lines):
            if not name or name in self.needed:
                self.needed.update(NAME.findall(text))


def _compiled(ways: Sequence[_Way]) -> Callable[[Any], Any]:
    scope: dict[str, Any] = {"copysign": math.copysign}
    for way in ways:
        scope.update(way.constants)
    exec("\n".join(["def function(problem):", *_code(ways, 0, " ")]), scope)  # all of it was written in `symbolic`
    function: Callable[[Any], Any] = scope["function"]
    return function


def _code(ways: Sequence[_Way], place: int, indent: str) -> Iterator[str]:
    """The lines of ways that are the same before a place: what they have in common from there, then a decision."""
    needed, lines = set().union(*(way.needed for way in ways)), ways[0].lines
    while place < len(lines) and all(way.lines[place] == lines[place] for way in ways[1:]):
        name, text = lines[place]
        if not name:
            yield f"{indent}if not ({text}): return None"
        elif name in needed:
            yield f"{indent}{name} = {text}"
        place += 1
    if place == len(lines):
        yield f"{indent}return {ways[0].number}, {ways[0].result}"
        return
    word = "if"
    for text in dict.fromkeys(way.lines[place].text for way in ways):
        yield f"{indent}{word} {text}:"
        yield from _code([way for way in ways if way.lines[place].text == text], place + 1, indent + " ")
        word = "elif"
