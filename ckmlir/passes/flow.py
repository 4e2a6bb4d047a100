"""The blocks of a kernel as a graph: which of them every way to another passes, and loops."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from msgspec import Struct

from ckmlir.dialect.control import end_of
from ckmlir.mlir import ir


class Loop(Struct, frozen=True):
    """Blocks that lead back to the first of them, by their places.

    Attributes:
        begin: the first; ends: those that go back to it; places: all.
    """

    begin: int
    ends: frozenset[int]
    places: frozenset[int]


class Flow:
    """Blocks by their places in a function, the first of which is where it begins.

    Attributes:
        following: the places that each block may go on to.
    """

    def __init__(self, blocks: list[ir.Block]) -> None:
        self.blocks = blocks
        places = {block: place for place, block in enumerate(blocks)}
        self.following = [[places[to] for to in end_of(block).successors] for block in blocks]
        self._before: list[list[int]] = [[] for _ in blocks]
        for place, following in enumerate(self.following):
            for to in following:
                self._before[to].append(place)

    @cached_property
    def dominators(self) -> list[frozenset[int]]:
        """For each block those that every way to it passes, itself among them."""
        everything = frozenset(range(len(self.blocks)))
        found = [frozenset({0}), *[everything] * (len(self.blocks) - 1)]
        changed = True
        while changed:
            changed = False
            for place in range(1, len(found)):
                ways = [found[one] for one in self._before[place]]
                passed = frozenset.intersection(everything, *ways) | {place}
                changed |= passed != found[place]
                found[place] = passed
        return found

    def depth(self, place: int) -> int:
        """How many blocks every way to one passes: of two that one way passes, the later has more."""
        return len(self.dominators[place])

    def last_before(self, places: Collection[int]) -> int:
        """The last block that every way to any of some blocks passes, which may be one of them."""
        return max(frozenset.intersection(*(self.dominators[place] for place in places)), key=self.depth)

    @cached_property
    def loops(self) -> list[Loop]:
        """All of them, in the order of their first blocks."""
        back: dict[int, set[int]] = {}
        for place, following in enumerate(self.following):
            for to in following:
                if to in self.dominators[place]:
                    back.setdefault(to, set()).add(place)
        return [Loop(to, frozenset(ends), self.reaching(ends, to)) for to, ends in sorted(back.items())]

    def reaching(self, ends: Collection[int], begin: int) -> frozenset[int]:
        """The blocks that lead to some without passing another, and that other one."""
        waiting, seen = [end for end in ends if end != begin], {begin, *ends}
        while waiting:
            new = set(self._before[waiting.pop()]) - seen
            seen |= new
            waiting += new
        return frozenset(seen)

    @property
    def innermost(self) -> list[Loop]:
        """Loops without loops in them."""
        return [one for one in self.loops if not any(other.places < one.places for other in self.loops)]

    @property
    def outermost(self) -> list[Loop]:
        """Loops that are in no other one."""
        return [one for one in self.loops if not any(one.places < other.places for other in self.loops)]

    def inside(self, outer: Loop) -> frozenset[int]:
        """The blocks of the loops in a loop."""
        return frozenset[int]().union(*(one.places for one in self.loops if one.places < outer.places))

    def entry(self, outer: Loop) -> int:
        """Where a turn begins: behind the block that decides whether there is one, if the loop begins with that."""
        on = [to for to in self.following[outer.begin] if to in outer.places]
        alone = len(on) == 1 < len(self.following[outer.begin]) and on[0] not in self.inside(outer)
        return on[0] if alone else outer.begin

    def way_to(self, loop: Loop) -> int:
        """The last block that every way to a loop passes before it."""
        return max(self.dominators[loop.begin] - loop.places, key=self.depth, default=0)

    def around(self, way: int) -> Loop:
        """The blocks from the branch on that decides on the `way` to one, as a single turn."""
        begin = max(self.dominators[way] - {way}, key=self.depth, default=way)
        places = frozenset(place for place, passed in enumerate(self.dominators) if begin in passed)
        ends = frozenset(place for place in places if not places.issuperset(self.following[place]))
        return Loop(begin, ends or frozenset(place for place in places if not self.following[place]), places)

    def behind(self, inner: Loop, outer: Loop) -> int | None:
        """The first block behind a loop that every turn of an outer one passes, outside of other loops; None where a
        turn ends with the loop."""
        after, waiting = set(inner.places), list(inner.places)
        while waiting:
            new = {to for to in self.following[waiting.pop()] if to in outer.places and to != outer.begin} - after
            after |= new
            waiting += new
        always = frozenset.intersection(*(self.dominators[end] for end in outer.ends))
        places = (after & always) - self.inside(outer)
        return min(places, key=self.depth, default=None)
