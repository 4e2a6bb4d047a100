"""Functions of problems that are recorded (`ckmlir.ops.symbolic`), way by way, as one tree of decisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ckmlir.ops.symbolic import NAME, Hashed, Recorder, Recording, numbers_of, reader_of

MOST_TREES, MOST_WAYS = 8, 8
"""Trees, which are tried one after the other, and ways of each: it is compiled again with every way that is added."""
MOST_FIXED = 16
"""How often a recording begins again, since a number turned out to decide by its value."""


class Recorded:
    """What a function gives of problems, as numbers follow from numbers. Any thread may use it.

    Calling it with a problem gives (number of the way, outputs), or None for a problem that takes no way that was
    recorded. It raises what arithmetic of the problem's numbers raises.
    """

    def __init__(self, first: Any = None) -> None:
        """Numbers in which problems agree with the `first` become conditions: most of a problem never changes, and
        what follows from that alone need not be computed again. None: all numbers may be others."""
        self._agreed = {} if first is None else numbers_of(first)
        self._varying: Callable[[Any], Any] = _nothing
        self._hashed: frozenset[str] = frozenset()
        self._count = 0
        self._ways: list[list[_Way]] = []
        """Of each tree."""
        self._narrow = 0
        """Trees from before it was learned that some numbers differ; they stay while there is room."""
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

    def learn(self, problem: Any) -> bool:
        """Whether a number of the problem is another where all agreed until now: ways do not rely on it from now on."""
        numbers = numbers_of(problem)
        agreed = {text: value for text, value in self._agreed.items() if numbers.get(text) == value}
        if len(agreed) == len(self._agreed):
            return False
        self._agreed, self._narrow = agreed, len(self._trees)
        self._varying = reader_of(problem, numbers.keys() - agreed)
        return True

    def hash(self, problem: Any) -> int:
        """That of the numbers in which problems differ, of equal problems the same: most of a problem never changes."""
        try:
            return hash(self._varying(problem))
        except (AttributeError, LookupError, TypeError):
            return hash(problem)

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
            recorder = Recorder(self._hashed.union(self._agreed))
            try:
                way = recorder.recorded(outputs(function(recorder.shadow(problem, "problem"))))
            except Hashed as found:
                self._hashed |= recorder.numbers_below(found.symbol)
            except Exception:  # of whatever code the symbols came to: nothing is lost but the recording
                return None
            else:
                return self._added(way)
            finally:
                recorder.is_open = False
        return None

    def _added(self, recording: Recording) -> int | None:
        if any(one.lines == recording.lines for ways in self._ways for one in ways):
            return None
        if len(self._ways) == self._narrow or len(self._ways[-1]) == MOST_WAYS:
            if len(self._ways) == MOST_TREES:
                if not self._narrow:
                    return None
                self._ways, self._trees = self._ways[self._narrow :], self._trees[self._narrow :]
                self._narrow = 0
            self._ways, self._trees = [*self._ways, []], (*self._trees, _nothing)
        self._ways[-1].append(_Way(self._count, recording))
        self._trees = (*self._trees[:-1], _compiled(self._ways[-1]))
        self._count += 1
        return self._count - 1


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
